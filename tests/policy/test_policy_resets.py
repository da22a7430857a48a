"""``policy.learn.reset`` of DQN: annealing, shrink and perturb, returns of windows, resume, compiled updates."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.policy import (
    C51Policy,
    DQNPolicy,
    FQFPolicy,
    MDQNPolicy,
    PolicyConfigError,
    PolicyDataError,
    PolicyUsageError,
    RainbowDQNPolicy,
)
from ding.policy._learning.resets import ResetSchedule, returns_of_windows, shrink_and_perturb, step_windows
from ding.rl_utils import get_nstep_return_data
from ding.utils import deep_merge_dicts, set_pkg_seed

BBF = {"every": 4, "nstep": 10, "discount_factor": 0.97, "anneal_updates": 2}
LENGTHS = np.array([1, 5, 3])
FORMS = ("vector", "dict")


def make(cls: Any = DQNPolicy, reset: Any = BBF, learn: Any = None, **overrides: Any) -> Any:
    set_pkg_seed(0, use_cuda=False)
    model = {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [16, 8]}
    given = {"nstep": 3, "discount_factor": 0.997, "model": model, "learn": {"reset": reset, **(learn or {})}}
    return cls(deep_merge_dicts(cls.default_config(), given | overrides))


def collected(form: str = "vector", seed: int = 0) -> TransitionBatch:
    """Segments of 1, 5 and 3 steps, the second of which ends its episode."""
    rng = np.random.default_rng(seed)
    count = int(LENGTHS.sum())
    obs = rng.normal(size=(count, 4)).astype(np.float32)
    # The observation after the last step of each segment is no row of the batch.
    after = np.roll(obs, -1, axis=0)
    after[np.cumsum(LENGTHS) - 1] = rng.normal(size=(len(LENGTHS), 4))
    done = np.zeros(count, dtype=bool)
    done[5] = True
    columns = {"obs": obs, "next_obs": after} if form == "vector" else {"obs": {"a": obs}, "next_obs": {"a": after}}
    rest = {"action": rng.integers(2, size=count), "reward": rng.normal(size=count).astype(np.float32), "done": done}
    return TransitionBatch({**columns, **rest}, lengths=LENGTHS)


def weights(policy: Any) -> dict[str, torch.Tensor]:
    state = policy.learn_mode.state_dict()
    return {f"{part}.{name}": v.clone() for part in ("model", "target_model") for name, v in state[part].items()}


def learn(policy: Any, updates: int, first: int = 0) -> list[Any]:
    logs = []
    for update in range(first, first + updates):
        torch.manual_seed(update)
        samples = policy.collect_mode.get_train_sample(collected(seed=update))
        samples = samples.with_columns(IS=np.ones(len(samples), dtype=np.float32))
        logs.append(policy.learn_mode.forward(samples))
    return logs


def schedule(**reset: Any) -> ResetSchedule:
    learn = {"reset": {"every": 400, "nstep": 10, "discount_factor": 0.97, "anneal_updates": 100, **reset}}
    return ResetSchedule({"nstep": 3, "discount_factor": 0.997, "learn": learn})


def at(one: ResetSchedule, num_updates: int) -> tuple[int, float]:
    one.num_updates = num_updates
    return one.nstep, pytest.approx(one.discount, abs=1e-12)


def test_the_length_and_the_discount_anneal_by_equal_factors_after_each_reset():
    # 10 (3/10)^(1/4) = 7.4008, 10 (3/10)^(1/2) = 5.4772, 10 (3/10)^(3/4) = 4.0536;
    # 1 - 0.03 (0.1)^(1/2) = 0.990513, 1 - 0.03 (0.1)^(1/4) = 0.983130, 1 - 0.03 (0.1)^(3/4) = 0.994665.
    found = [at(schedule(), update) for update in (0, 25, 50, 75, 100, 399, 400, 425, 500)]
    quarter, half, last = 1 - 0.03 * 0.1**0.25, 1 - 0.03 * 0.1**0.5, 1 - 0.03 * 0.1**0.75
    assert half == pytest.approx(0.990513, abs=1e-6)
    rise = [(10, 0.97), (7, quarter), (5, half), (4, last), (3, 0.997)]
    assert found == [*rise, (3, 0.997), (10, 0.97), (7, quarter), (3, 0.997)]


def test_resets_end_at_their_last_update_and_annealing_with_them():
    one = schedule(until=900)
    due = [update for update in range(1, 1601) if one.count_update()]
    assert due == [400, 800]
    assert at(one, 850) == (5, 1 - 0.03 * 0.1**0.5)
    assert at(one, 1200) == (3, 0.997)


def test_without_resets_the_length_and_the_discount_anneal_once():
    one = schedule(every=None)
    assert not any(one.count_update() for _ in range(1000))
    assert at(one, 50)[0] == 5
    assert at(one, 400) == (3, 0.997)


def test_shrink_and_perturb_mixes_the_encoder_and_renews_the_rest_in_place():
    class Net(torch.nn.Module):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.encoder, self.head = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
            self.register_buffer("statistics", torch.tensor(value))
            for parameter in self.parameters():
                torch.nn.init.constant_(parameter, value)

    net = Net(4.0)
    places = [parameter.data_ptr() for parameter in net.parameters()]
    shrink_and_perturb(net, Net(1.0), shrink=0.25)
    # 0.25 * 4 + 0.75 * 1
    assert {parameter.unique().item() for parameter in net.encoder.parameters()} == {1.75}
    assert {parameter.unique().item() for parameter in net.head.parameters()} == {1.0}
    assert net.statistics == 4.0
    assert [parameter.data_ptr() for parameter in net.parameters()] == places


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("nstep", [1, 2, 3, 4])
def test_returns_of_windows_are_those_of_whole_segments(form, nstep):
    expected = get_nstep_return_data(collected(form), nstep, gamma=0.9).columns
    found = returns_of_windows(step_windows(collected(form), 4), nstep, 0.9).columns
    assert found.keys() == expected.keys()
    for key, column in expected.items():
        for mine, theirs in (
            zip(found[key].values(), column.values()) if form == "dict" and "obs" in key else [(found[key], column)]
        ):
            assert np.array_equal(mine, theirs), key


def test_windows_survive_a_buffer_of_rows_and_any_order():
    windows, order = step_windows(collected(), 4), [8, 0, 5, 2, 2]
    expected = get_nstep_return_data(collected(), 3, gamma=0.9)[order].columns
    found = returns_of_windows([windows[row] for row in order], 3, 0.9).columns
    assert all(np.array_equal(found[key], expected[key]) for key in expected)


@pytest.mark.parametrize("cls", [DQNPolicy, C51Policy])
def test_an_update_is_that_of_plain_nstep_returns_with_the_present_length_and_discount(cls):
    # With 100 updates of annealing, the one after 50 has length 5 and discount 1 - 0.03 sqrt(0.1).
    annealing = make(cls, {**BBF, "every": 400, "anneal_updates": 100})
    annealing.learn_mode.get_attribute("resets").num_updates = 50
    plain = make(cls, {}, nstep=5, discount_factor=1 - 0.03 * 0.1**0.5)
    plain.learn_mode.get_attribute("model").load_state_dict(annealing.learn_mode.get_attribute("model").state_dict())
    plain.learn_mode.get_attribute("target_model").load_state_dict(
        annealing.learn_mode.get_attribute("target_model").state_dict()
    )
    (found,), (expected,) = learn(annealing, 1), learn(plain, 1)
    assert found["total_loss"] == pytest.approx(expected["total_loss"], rel=1e-6)


@pytest.mark.parametrize("cls", [DQNPolicy, RainbowDQNPolicy, FQFPolicy])
def test_a_reset_follows_its_update_and_the_optimiser_begins_anew(cls):
    policy = make(cls, learn={"target_theta": 0.005, "target_update_freq": None})
    learn(policy, 3)
    before = weights(policy)
    policy.learn_mode.get_attribute("resets").num_updates = 0
    fresh_after = copy.deepcopy(policy)
    learn(fresh_after, 1, first=3)  # the same update without a reset
    policy.learn_mode.get_attribute("resets").num_updates = 3
    learn(policy, 1, first=3)
    changed = weights(policy)
    optimizers = [v for v in vars(policy).values() if isinstance(v, torch.optim.Optimizer)]
    assert len(optimizers) == 1 + (cls is FQFPolicy)
    states = [tensor for optimizer in optimizers for state in optimizer.state.values() for tensor in state.values()]
    assert states
    assert not any(tensor.any() for tensor in states)
    moved = {name: (changed[name] - before[name]).abs().max() for name in before if before[name].numel()}
    usual = {name: (value - before[name]).abs().max() for name, value in weights(fresh_after).items() if value.numel()}
    grown = [name for name in moved if name.endswith("weight") and "encoder" in name]
    assert grown
    assert all(moved[name] > 5 * usual[name] for name in grown)
    # Heads of both networks are the same new ones; encoders keep half of their own.
    heads = [name.removeprefix("model.") for name in changed if name.startswith("model.head") and "eps" not in name]
    assert heads
    assert all(torch.equal(changed[f"model.{name}"], changed[f"target_model.{name}"]) for name in heads)
    assert not torch.equal(changed["model.encoder.init.weight"], changed["target_model.encoder.init.weight"])


@pytest.mark.parametrize("compiled", [False, "record"])
@pytest.mark.parametrize("cls", [DQNPolicy, C51Policy])
def test_a_run_that_resumes_before_a_reset_ends_with_the_same_bits(cls, compiled):
    options = {"compile": compiled, "target_update_freq": 3, "optim_type": "adamw", "weight_decay": 0.1}
    whole, first, second = (make(cls, learn=options) for _ in range(3))
    learn(whole, 11)
    learn(first, 6)
    state = copy.deepcopy(first.learn_mode.state_dict())
    assert state["resets"] == {"num_updates": 6}
    second.learn_mode.load_state_dict(state)
    learn(second, 5, first=6)
    assert all(torch.equal(value, weights(second)[name]) for name, value in weights(whole).items())
    if compiled:
        assert second.learn_mode.get_attribute("compiled_updates").graphs.num_runs == 5


def test_recorded_updates_go_on_across_resets():
    eager, recorded = make(), make(learn={"compile": "record"})
    learn(eager, 10)
    learn(recorded, 10)
    graphs = recorded.learn_mode.get_attribute("compiled_updates").graphs
    assert (graphs.enabled, graphs.num_compiled, graphs.num_runs) == (True, 1, 10)
    for name, value in weights(eager).items():
        torch.testing.assert_close(weights(recorded)[name], value, rtol=1e-4, atol=1e-5)


def test_decoupled_decay_shrinks_the_weights_apart_from_the_gradient():
    plain, decaying = (make(reset={}, learn={"optim_type": "adamw", "weight_decay": decay}) for decay in (0.0, 0.1))
    start = weights(plain)
    learn(plain, 1)
    learn(decaying, 1)
    for name, value in weights(plain).items():
        if name.startswith("model."):
            expected = value - 0.001 * 0.1 * start[name]
            torch.testing.assert_close(weights(decaying)[name], expected, rtol=0, atol=1e-7)


def test_the_target_network_acts():
    policy = make(act_with_target=True, learn={"target_theta": 0.005, "target_update_freq": None})
    obs = {0: torch.ones(4), 1: -torch.ones(4)}
    learn(policy, 3)
    target = policy.learn_mode.get_attribute("target_model").forward(torch.stack([obs[0], obs[1]]))["logit"]
    learner = policy.learn_mode.get_attribute("model")(torch.stack([obs[0], obs[1]]))["logit"]
    assert not torch.allclose(target, learner)
    collector = make(act_with_target=True)
    collector.collect_mode.load_state_dict(policy.learn_mode.state_dict())
    collector.eval_mode.load_state_dict(policy.learn_mode.state_dict())
    for acting in (policy, collector):
        for outputs in (acting.eval_mode.forward(obs), acting.collect_mode.forward(obs, eps=0.0)):
            found = torch.stack([torch.as_tensor(outputs[row]["logit"]) for row in (0, 1)])
            torch.testing.assert_close(found, target.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("reset", "text"),
    [
        ({"every": 0}, r"policy\.learn\.reset\.every must be an int of at least 1, found 0"),
        ({"every": 4, "shrink": 1.5}, r"policy\.learn\.reset\.shrink must be a number between 0 and 1, found 1\.5"),
        ({"nstep": 2.5}, r"policy\.learn\.reset\.nstep must be an int"),
        ({"discount_factor": 1.0}, r"policy\.learn\.reset\.discount_factor=1\.0 anneals to .*: both must be below 1"),
    ],
)
def test_a_value_that_cannot_be_is_named(reset, text):
    with pytest.raises(PolicyConfigError, match=text):
        make(reset=reset)


def test_what_annealing_cannot_do_is_named():
    with pytest.raises(PolicyConfigError, match=r"policy\.collect\.unroll_len=1, found 2"):
        make(collect={"unroll_len": 2})
    with pytest.raises(PolicyUsageError, match="one-step returns"):
        make(MDQNPolicy, nstep=1)
    with pytest.raises(PolicyDataError, match=r"policy\.learn\.reset .* windows"):
        make().learn_mode.forward(get_nstep_return_data(collected(), 3))


def test_a_network_that_the_config_does_not_describe_is_refused():
    model = make(reset={}).learn_mode.get_attribute("model")
    cfg = deep_merge_dicts(
        DQNPolicy.default_config(), {"model": {"obs_shape": 4, "action_shape": 2}, "learn": {"reset": BBF}}
    )
    with pytest.raises(PolicyConfigError, match=r"policy\.learn\.reset makes networks of policy\.model"):
        DQNPolicy(cfg, model=model)
