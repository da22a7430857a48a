"""Plan diffuser: golden vectors, resume in the middle of a sum of gradients, evaluation with values and with goals."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import EnvBatch, TransitionBatch
from ding.policy import PDCommandModelPolicy, PDPolicy, PolicyDataError, PolicyUsageError
from ding.utils import deep_merge_dicts, set_pkg_seed
from ding.utils.normalizer_helper import DatasetNormalizer


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def fill(module: torch.nn.Module) -> None:
    with torch.no_grad():
        for number, (_, parameter) in enumerate(sorted(module.named_parameters())):
            parameter.copy_(0.3 * wave(tuple(parameter.shape), number))


SIZES = {"horizon": 4, "obs_dim": 4, "action_dim": 2, "n_timesteps": 5}
NETWORK = {"transition_dim": 6, "dim": 8, "kernel_size": 3}
DIFFUSER = {"model_cfg": {**NETWORK, "dim_mults": [1, 2]}, "predict_epsilon": False, **SIZES}
VALUE = {"model_cfg": {**NETWORK, "horizon": 4, "dim_mults": [1, 4], "kernel_size": 5}, **SIZES}


def make(goals: bool = False, cls: type[PDPolicy] = PDPolicy, fields: Any = None, **settings: Any) -> PDPolicy:
    model: dict[str, Any] = {"diffuser_model_cfg": DIFFUSER, "value_model_cfg": VALUE}
    if goals:
        model["value_model"] = None
    cfg = deep_merge_dicts(cls.default_config(), {"model": model})
    set_pkg_seed(0, use_cuda=False)
    policy = cls(deep_merge_dicts(cfg, settings), enable_field=fields)
    if fields is None:
        fill(policy.learn_mode.get_attribute("model"))
        fill(policy.learn_mode.get_attribute("planner"))
    return policy


def samples(given: tuple[int, ...] = (0,)) -> list[dict[str, Any]]:
    """As the data set gives them: there is no reward."""
    return [
        {
            "trajectories": wave((4, 6), 0.3 * i).numpy(),
            "action": wave((4, 2), 0.3 * i).numpy(),
            "done": np.zeros((4, 1), np.float32),
            "returns": np.array([0.5 * i], np.float32),
            "condition_id": list(given),
            "condition_val": [wave((4,), 0.3 * i + 0.1 + step).numpy() for step in given],
        }
        for i in range(3)
    ]


def learn(policy: PDPolicy, count: int, data: Any = None) -> list[dict[str, float]]:
    set_pkg_seed(0, use_cuda=False)
    return [policy.learn_mode.forward(samples() if data is None else data) for _ in range(count)]


def normalizer() -> DatasetNormalizer:
    rows = {"observations": 3 + 2 * wave((20, 4), 0.2).numpy(), "actions": 5 * wave((20, 2), 0.4).numpy()}
    return DatasetNormalizer(rows, "GaussianNormalizer")


@pytest.mark.parametrize("mode", [False, pytest.param("record", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("every", "losses", "firsts"),
    [
        (1, [1.09463, 1.08123, 1.09631], [0.0631933, 0.0606732, 0.0628571]),
        (2, [0.547317, 0.543762, 0.55056], [0.0631933, 0.0613984, 0.0634614]),
    ],
)
def test_the_first_learn_steps(every, losses, firsts, mode):
    policy = make(learn={"gradient_accumulate_every": every, "compile": mode})
    found = learn(policy, 3)
    np.testing.assert_allclose([one["diffuse_loss"] for one in found], losses, rtol=1e-4)
    np.testing.assert_allclose([one["a0_loss"] for one in found], firsts, rtol=1e-4)
    assert found[0]["mean_pred"] == pytest.approx(-0.206949, rel=1e-4)
    trajectories = [found[0][key] for key in ("max_traj", "min_traj", "mean_traj", "max_return", "mean_return")]
    assert trajectories == pytest.approx([0.991665, -0.996165, 0.0886108, 1.0, 0.5], rel=1e-5)
    assert policy.learn_mode.get_attribute("compiled_updates").graphs.num_runs == (3 if mode else 0)


@pytest.mark.parametrize(("every", "losses"), [(1, [0.66647, 0.655697, 0.664077]), (2, [0.333235, 0.33114, 0.335257])])
def test_values_learn_the_return_of_their_own_trajectory(every, losses):
    """DI-engine compares each value with the returns of the whole batch; ``reference_numerics`` does so, too."""
    setting = {"gradient_accumulate_every": every}
    found = [one["value_loss"] for one in learn(make(learn=setting, reference_numerics=True), 3)]
    np.testing.assert_allclose(found, losses, rtol=1e-4)
    assert learn(make(learn=setting), 1)[0]["value_loss"] == pytest.approx(0.670066 / every, rel=1e-4)


def test_columns_are_learned_from_like_rows():
    rows = samples((0, 3))
    names = ("trajectories", "returns", "condition_id", "condition_val")
    columns = TransitionBatch({name: np.stack([np.asarray(row[name]) for row in rows]) for name in names})
    assert learn(make(), 2, rows) == learn(make(), 2, columns)


@pytest.mark.parametrize("count", [1, 2])
def test_a_checkpoint_resumes_in_the_middle_of_a_sum(count):
    settings = {"update_target_freq": 1, "step_start_update_target": 2, "value_step": 4}
    policy, resumed = make(learn=settings), make(learn=settings)
    learn(policy, count)
    resumed.learn_mode.load_state_dict(copy.deepcopy(policy.learn_mode.state_dict()))
    assert learn(policy, 3) == learn(resumed, 3)
    one, other = policy.learn_mode.state_dict(), resumed.learn_mode.state_dict()
    assert all(torch.equal(value, other["target_model"][name]) for name, value in one["target_model"].items())
    # The values stop learning.
    assert "value_loss" not in learn(policy, 1)[0]


def test_a_checkpoint_of_the_original_has_no_sums_and_another_number_of_calls_begins_anew(caplog):
    policy, other = make(), make(learn={"gradient_accumulate_every": 1})
    learn(policy, 4)
    state = copy.deepcopy(policy.learn_mode.state_dict())
    other.learn_mode.load_state_dict(state)
    assert "begin anew" in caplog.text
    del state["gradient_sums"]
    resumed = make()
    resumed.learn_mode.load_state_dict(state)
    assert learn(resumed, 2) == learn(policy, 2)


def distance(policy: PDPolicy) -> float:
    state = policy.learn_mode.state_dict()
    return max(float((value - state["target_model"][name]).abs().max()) for name, value in state["model"].items())


def test_the_target_is_copied_and_then_moved():
    settings = {"update_target_freq": 2, "step_start_update_target": 3, "target_weight": 0.5, "learning_rate": 0.01}
    policy = make(learn={**settings, "gradient_accumulate_every": 1})
    learn(policy, 2)
    assert distance(policy) == 0
    learn(policy, 1)
    before = distance(policy)
    weights = policy.learn_mode.state_dict()["target_model"]["diffuser.model.time_mlp.1.weight"].clone()
    learn(policy, 1)
    state = policy.learn_mode.state_dict()
    now, own = (state[key]["diffuser.model.time_mlp.1.weight"] for key in ("target_model", "model"))
    assert before > 0
    torch.testing.assert_close(now, (weights + own) / 2)


def test_samples_that_do_not_fit_are_named():
    with pytest.raises(PolicyDataError, match="lack \\['returns'\\]"):
        learn(make(), 1, [{key: value for key, value in row.items() if key != "returns"} for row in samples()])
    with pytest.raises(PolicyDataError, match="one condition_id"):
        learn(make(), 1, [samples((0,))[0], samples((3,))[1]])


def test_actions_are_in_the_units_of_the_data_and_a_loaded_policy_gives_the_same():
    policy = make(learn={"plan_batch_size": 3})
    obs = EnvBatch(np.arange(2), 3 + wave((2, 4), 0.3).numpy())
    with pytest.raises(PolicyUsageError, match="init_data_normalizer"):
        policy.eval_mode.forward(obs)
    policy.init_data_normalizer(normalizer())
    set_pkg_seed(1, use_cuda=False)
    found = policy.eval_mode.forward(obs)
    assert found[1]["action"].shape == (2,)
    planned = policy.learn_mode.get_attribute("planner")
    set_pkg_seed(1, use_cuda=False)
    seen = torch.as_tensor(normalizer().normalize(obs.columns, "observations"), dtype=torch.float32)
    expected = normalizer().unnormalize(planned.get_eval({0: seen}, 3).numpy(), "actions")
    np.testing.assert_allclose(found.columns["action"], expected, rtol=1e-5)
    loaded = make(learn={"plan_batch_size": 3}, fields=["eval"])
    loaded.eval_mode.load_state_dict(policy.learn_mode.state_dict())
    set_pkg_seed(1, use_cuda=False)
    assert torch.equal(loaded.eval_mode.forward(obs).columns["action"], found.columns["action"])
    with pytest.raises(PolicyUsageError, match="observations of 4 numbers"):
        policy.eval_mode.forward(EnvBatch(np.arange(2), np.zeros((2, 8), np.float32)))


def test_plans_to_a_goal_are_followed_by_each_env_until_it_is_reset():
    policy = make(goals=True)
    learn(policy, 1, [{**row, "returns": np.zeros(1, np.float32)} for row in samples((0, 3))])
    policy.init_data_normalizer(normalizer())
    now, goal = wave((2, 4), 0.3).numpy(), wave((2, 4), 0.5).numpy()
    planner, rows = policy.learn_mode.get_attribute("planner"), np.concatenate([now, goal], axis=1)
    set_pkg_seed(1, use_cuda=False)
    given = {
        step: torch.as_tensor(normalizer().normalize(one, "observations"), dtype=torch.float32)
        for step, one in ((0, now), (3, goal))
    }
    plan = normalizer().unnormalize(planner.get_eval(given).numpy(), "observations")
    set_pkg_seed(1, use_cuda=False)
    for step in range(5):
        found = policy.eval_mode.forward(EnvBatch(np.array([0, 5]), rows)).columns["action"]
        target = plan[:, min(step + 1, 3)]
        velocity = target[:, 2:] * (step < 3)
        np.testing.assert_allclose(found, target[:, :2] - now[:, :2] + velocity - now[:, 2:], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(plan[:, 3], goal, rtol=1e-4, atol=1e-5)
    policy.eval_mode.reset([5])
    again = policy.eval_mode.forward(EnvBatch(np.array([0, 5]), rows)).columns["action"]
    assert torch.equal(again[0], found[0])
    assert not torch.equal(again[1], found[1])


def test_it_does_not_collect_and_its_twin_has_a_command_mode():
    policy = make(cls=PDCommandModelPolicy)
    assert policy.command_mode.get_setting_collect({}) == {}
    with pytest.raises(PolicyUsageError, match="does not collect"):
        policy.collect_mode.forward({})
