"""R2D2: the numbers of its first learn steps, sequences of short and long episodes, recurrent states of episodes."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import EnvBatch, TransitionBatch
from ding.policy import R2D2CollectTrajPolicy, R2D2CommandModePolicy, R2D2Policy
from ding.policy.errors import PolicyConfigError
from ding.utils import deep_merge_dicts


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def make(cls: type = R2D2Policy, **overrides: Any) -> Any:
    torch.manual_seed(0)
    base = {
        "model": {"obs_shape": 4, "action_shape": 2},
        "nstep": 2,
        "burnin_step": 2,
        "learn_unroll_len": 6,
        "learn": {"batch_size": 2},
        "collect": {"env_num": 2},
        "eval": {"env_num": 2},
    }
    return cls(deep_merge_dicts(deep_merge_dicts(cls.default_config(), base), overrides))


def episode(length: int, b: int = 0, done: bool = True) -> list[dict[str, Any]]:
    return [
        {
            "obs": wave((4,), 0.3 * t + b),
            "action": torch.tensor((t + b) % 2),
            "prev_state": {"h": 0.1 * wave((1, 1, 64), 0.1 * t), "c": 0.1 * wave((1, 1, 64), 0.2 * t)},
            "reward": wave((1,), 0.5 * t + b),
            "done": done and t == length - 1,
        }
        for t in range(length)
    ]


def learn(policy: Any, *episodes: list[dict[str, Any]]) -> dict[str, Any]:
    samples = [sample for steps in episodes for sample in policy.collect_mode.get_train_sample(steps)]
    return policy.learn_mode.forward([{**sample, "IS": 1 / (1 + b)} for b, sample in enumerate(samples)])


STEPS: dict[str, Any] = {
    "default": (
        {},
        [
            (2.34642, [6.36362, 5.51231], 1.144, 2.42796, 1.14413),
            (2.30998, [6.29294, 5.44175], 1.17318, 2.42802, 1.17331),
            (2.28022, [6.23069, 5.37984], 1.19574, 2.42813, 1.19586),
        ],
        3402.88,
    ),
    "plain": (
        {"priority": False, "priority_IS_weight": False, "learn": {"value_rescale": False}},
        [
            (6.26837, [16.2976, 8.61807], 1.144, 2.42796, 1.14413),
            (6.17279, [16.18, 8.52845], 1.17323, 2.42802, 1.17336),
            (6.09745, [16.0768, 8.44989], 1.19589, 2.42813, 1.19601),
        ],
        3402.95,
    ),
}


@pytest.mark.parametrize("as_lists", [False, True], ids=["stacked", "lists"])
@pytest.mark.parametrize("case", [*STEPS, "collect_traj"])
def test_first_learn_steps(case, as_lists):
    overrides, steps, total = STEPS["default" if case == "collect_traj" else case]
    cls = R2D2CollectTrajPolicy if case == "collect_traj" else R2D2Policy
    policy = make(cls, reference_numerics=True, unroll_len=6, **overrides)
    for name in ("model", "target_model"):
        with torch.no_grad():
            for p in policy.learn_mode.get_attribute(name).parameters():
                p.copy_(torch.linspace(-0.1, 0.1, p.numel()).reshape(p.shape))
    samples = [sample for b in range(2) for sample in policy.collect_mode.get_train_sample(episode(8, b))]
    samples = [{**sample, "IS": 1 / (1 + b)} for b, sample in enumerate(samples)]
    if as_lists:
        samples = [{k: [*v] if k not in ("prev_state", "IS") else v for k, v in s.items()} for s in samples]
    keys = ("total_loss", "priority", "q_s_taken-a_t0", "target_q_s_max-a_t0", "q_s_a-mean_t0")
    for expected in steps:
        result = policy.learn_mode.forward(samples)
        for key, value in zip(keys, expected, strict=True):
            assert result[key] == pytest.approx(value, rel=1e-5), key
        assert set(result) >= set(policy.learn_mode.monitor_vars())
    model = policy.learn_mode.get_attribute("model")
    assert sum(float(p.detach().abs().sum()) for p in model.parameters()) == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize(("nstep", "burnin_step"), [(1, 0), (1, 2), (3, 0)])
def test_one_step_returns_and_no_burn_in(nstep, burnin_step):
    policy = make(nstep=nstep, burnin_step=burnin_step)
    result = learn(policy, episode(burnin_step + 6), episode(burnin_step + 6, 1), episode(burnin_step + 6, 2))
    assert len(result["priority"]) == 3
    assert math.isfinite(result["total_loss"])


def test_ignore_done_and_another_batch_size_than_configured():
    assert len(learn(make(learn={"ignore_done": True}), *(episode(8, b) for b in range(5)))["priority"]) == 5


def test_sequences_as_lists_of_transitions():
    policy, other = (make(priority=False, priority_IS_weight=False, nstep=1) for _ in range(2))
    episodes = [[{**step, "value_gamma": 0.997} for step in episode(8, b)] for b in range(2)]
    whole = [sample for steps in episodes for sample in policy.collect_mode.get_train_sample(steps)]
    left, right = policy.learn_mode.forward(whole), other.learn_mode.forward(episodes)
    assert left["total_loss"] == pytest.approx(right["total_loss"], rel=1e-5)


def test_a_collector_of_trajectories_acts_greedily_from_states_that_it_does_not_keep():
    policy = make(R2D2CollectTrajPolicy, unroll_len=6)
    obs = EnvBatch(np.arange(2), torch.stack([wave((4,), 0.0), wave((4,), 1.0)]))
    greedy = make(R2D2Policy)
    greedy.collect_mode.load_state_dict(policy.collect_mode.state_dict())
    for _ in range(5):
        left, right = policy.collect_mode.forward(obs), greedy.collect_mode.forward(obs, eps=0.0)
        assert torch.equal(left.columns["action"], right.columns["action"])
    (sample,) = policy.collect_mode.get_train_sample(episode(8))
    assert [bool(done) for done in sample["done_one_step"]] == [False] * 7 + [True]
    assert [bool(done) for done in sample["done"]] == [False] * 6 + [True] * 2


def test_a_long_episode_gives_sequences_that_end_with_it():
    samples = make().collect_mode.get_train_sample(episode(11))
    assert [len(sample["done"]) for sample in samples] == [8, 8]
    torch.testing.assert_close(samples[1]["obs"], torch.stack([step["obs"] for step in episode(11)[3:]]))
    torch.testing.assert_close(samples[1]["prev_state"]["h"], episode(11)[3]["prev_state"]["h"])
    assert not any(sample["null"].any() for sample in samples)


def test_the_filling_of_a_short_episode_is_not_learned():
    policy = make(priority=False, priority_IS_weight=False)
    (sample,) = policy.collect_mode.get_train_sample(episode(5))
    assert sample["null"].tolist() == [False] * 5 + [True] * 3
    sample = {**sample, "IS": 1.0}
    other = {**sample, "obs": sample["obs"].clone(), "reward": sample["reward"].clone()}
    other["obs"][5:], other["reward"][5:] = 7.0, 9.0
    results = [make(priority=False, priority_IS_weight=False).learn_mode.forward([s, s]) for s in (sample, other)]
    assert results[0]["total_loss"] == pytest.approx(results[1]["total_loss"], rel=1e-6)
    assert results[0]["priority"] == pytest.approx(results[1]["priority"], rel=1e-6)


def test_a_short_piece_that_did_not_end_bootstraps_from_real_steps_only():
    # Of the learned steps 2 to 5 only step 2 has a real step two steps later.
    (sample,) = make(nstep=2).collect_mode.get_train_sample(episode(5, done=False))
    other = {**sample, "reward": sample["reward"].clone()}
    other["reward"][3:] = 50.0
    results = [make().learn_mode.forward([{**s, "IS": 1.0}] * 2) for s in (sample, other)]
    assert results[0]["total_loss"] == pytest.approx(results[1]["total_loss"], rel=1e-6)


def test_a_sequence_of_filling_in_the_learned_part_gives_no_gradient():
    assert learn(make(), episode(1), episode(2))["total_loss"] == 0


def observations(t: int) -> torch.Tensor:
    return torch.stack([wave((4,), t), wave((4,), t + 0.5)])


@pytest.mark.parametrize("mode", ["collect", "eval"])
def test_each_environment_keeps_its_state_until_it_is_reset(mode):
    forward, reset = (lambda p: getattr(p, f"{mode}_mode").forward), (lambda p: getattr(p, f"{mode}_mode").reset)
    kwargs = {"eps": 0.0} if mode == "collect" else {}
    together, alone = make(), make()
    first = forward(together)(EnvBatch(np.arange(2), observations(0)), **kwargs)
    second = forward(together)(EnvBatch(np.arange(2), observations(1)), **kwargs)
    assert not torch.equal(
        second.columns["logit"], forward(alone)(EnvBatch(np.arange(2), observations(1)), **kwargs).columns["logit"]
    )
    # The episode of env 1 ends: its state starts anew, that of env 0 goes on.
    reset(together)([1])
    third = forward(together)(EnvBatch(np.arange(2), observations(0)), **kwargs)
    torch.testing.assert_close(third.columns["logit"][1], first.columns["logit"][1])
    assert not torch.equal(third.columns["logit"][0], first.columns["logit"][0])
    if mode == "collect":
        assert third.columns["prev_state"]["h"].shape == (2, 1, 1, 64)
        assert not third.columns["prev_state"]["h"][1].any()
        assert third.columns["prev_state"]["h"][0].any()


def test_environments_that_answer_late_keep_their_order():
    policy, other = make(), make()
    policy.collect_mode.forward(EnvBatch(np.arange(2), observations(0)), eps=0.0)
    other.collect_mode.forward(EnvBatch(np.arange(2), observations(0)), eps=0.0)
    together = policy.collect_mode.forward(EnvBatch(np.arange(2), observations(1)), eps=0.0)
    swapped = other.collect_mode.forward(EnvBatch(np.array([1, 0]), observations(1).flip(0)), eps=0.0)
    torch.testing.assert_close(swapped.columns["logit"].flip(0), together.columns["logit"])


def test_a_checkpoint_restores_the_learner():
    policy = make()
    learn(policy, episode(8), episode(8, 1))
    resumed = make()
    resumed.learn_mode.load_state_dict(policy.learn_mode.state_dict())
    results = [learn(p, episode(8), episode(8, 1)) for p in (policy, resumed)]
    for key, value in results[0].items():
        assert value == pytest.approx(results[1][key], rel=1e-6), key


def test_columns_give_the_sequences_of_each_segment():
    rows = [row for b, n in enumerate((8, 3)) for row in episode(n, b)]
    samples = make().collect_mode.get_train_sample(TransitionBatch(TransitionBatch.from_rows(rows).columns, [8, 3]))
    assert samples.columns["obs"].shape == (2, 8, 4)
    assert samples.columns["null"].sum(1).tolist() == [0, 5]


@pytest.mark.parametrize("overrides", [{"learn_unroll_len": 2}, {"collect": {"env_num": None}}])
def test_settings_that_cannot_work(overrides):
    with pytest.raises(PolicyConfigError, match=r"learn_unroll_len|collect\.env_num"):
        make(**overrides)


def test_the_command_twin_anneals_epsilon():
    command = make(R2D2CommandModePolicy).command_mode
    assert command.get_setting_collect({"envstep": 0}) == {"eps": 0.95}
