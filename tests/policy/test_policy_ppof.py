"""The compact PPO: numbers of the first learn steps, acting on trees, state."""

import copy
import math
from typing import Any

import pytest
import torch
from easydict import EasyDict

from ding.data import BaseEnvTimestep
from ding.model import PPOFModel
from ding.policy import PolicyConfigError, PPOFPolicy
from ding.utils import set_pkg_seed


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def make(continuous: bool = False, **overrides: Any) -> tuple[PPOFPolicy, PPOFModel]:
    space = "continuous" if continuous else "discrete"
    model = PPOFModel(4, 2, action_space=space, popart_head=overrides.get("value_norm") == "popart")
    cfg = PPOFPolicy.default_config()
    cfg.update(n_sample=4, batch_size=4, epoch_per_collect=3, action_space=space, cuda=False, **overrides)
    policy = PPOFPolicy(cfg, model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(-0.05, 0.05, parameter.numel()).reshape(parameter.shape))
    return policy, model


def batch(continuous: bool = False) -> EasyDict:
    def stack(one: Any) -> torch.Tensor:
        return torch.stack([one(i) for i in range(4)])

    logit: Any = stack(lambda i: wave((2,), 0.1 * i))
    if continuous:
        logit = {"mu": logit, "sigma": torch.full((4, 2), 0.6)}
    ends = torch.tensor([0.0, 0.0, 0.0, 1.0])
    return EasyDict(
        obs=stack(lambda i: wave((4,), 0.3 * i)),
        next_obs=stack(lambda i: wave((4,), 0.3 * i + 0.2)),
        action=stack(lambda i: 0.9 * wave((2,), 0.4 * i)) if continuous else torch.tensor([0, 1, 0, 1]),
        logit=logit,
        value=stack(lambda i: torch.tensor(math.sin(0.2 * i))),
        reward=stack(lambda i: torch.tensor(math.sin(0.5 + i))),
        done=ends,
        traj_flag=ends,
    )


CASES = [
    (False, "baseline", [0.198483, 0.329242, 0.243025], [0.439132, 0.700697, 0.528484], 853.803),
    (True, "baseline", [0.376927, 0.506883, 0.419989], [0.439132, 0.700155, 0.527528], 856.008),
    (False, "symlog", [0.0533173, 0.0501724, 0.0471704], [0.148885, 0.149392, 0.149909], 842.613),
    (False, "value_rescale", [0.00671285, 0.00332603, 8.20183e-05], [0.0560636, 0.0561362, 0.0562212], 842.6),
    (False, "popart", [0.25907, 0.137677, 0.105756], [0.560305, 0.314849, 0.249025], 854.584),
]


@pytest.mark.parametrize(("continuous", "value_norm", "total", "value", "after"), CASES)
def test_first_learn_steps(continuous, value_norm, total, value, after):
    policy, model = make(continuous, value_norm=value_norm, reference_numerics=True)
    results = policy.learn_mode.forward(batch(continuous))
    # A total near 0 is a difference of terms up to 0.05, which processors round differently.
    assert [result["total_loss"] for result in results] == pytest.approx(total, rel=2e-5, abs=1e-6)
    assert [result["value_loss"] for result in results] == pytest.approx(value, rel=2e-5)
    assert set(results[0]) >= set(policy.monitor_vars())
    assert sum(float(p.detach().abs().sum()) for p in model.parameters()) == pytest.approx(after, rel=1e-5)


@pytest.mark.parametrize("continuous", [False, True])
def test_acting_on_trees(continuous):
    policy, _ = make(continuous)
    obs = batch(continuous).obs
    collected, evaluated = policy.collect(obs), policy.eval(obs)
    assert collected.action.shape == ((4, 2) if continuous else (4,))
    assert collected.value.shape == (4,)
    expected = evaluated.logit.mu if continuous else evaluated.logit.argmax(-1)
    assert torch.equal(evaluated.action, expected)
    step = EasyDict(obs=obs[1], reward=torch.ones(1), done=False, info={})
    row = {"action": collected.action[0], "logit": collected.logit, "value": collected.value[0]}
    assert set(policy.process_transition(obs[0], row, step)) == {
        *("obs", "next_obs", "action", "logit", "value", "reward", "done")
    }


def test_state():
    (policy, _), (other, _) = make(), make()
    policy.forward(batch())
    other.load_state_dict(copy.deepcopy(policy.state_dict()))
    obs = batch().obs
    assert torch.equal(policy.eval(obs).logit, other.eval(obs).logit)
    after = []
    for one in (policy, other):  # The unit of the returns is part of the state.
        set_pkg_seed(1, use_cuda=False)
        after.append(one.forward(batch())[-1])
    assert after[0] == after[1]


@pytest.mark.parametrize(("reference_numerics", "stored"), [(False, False), (True, True)])
def test_a_time_limit_is_no_end(reference_numerics, stored):
    policy, _ = make(reference_numerics=reference_numerics)
    output = {"action": torch.tensor(0), "logit": torch.zeros(2), "value": torch.zeros(1)}
    cut = BaseEnvTimestep(torch.zeros(4), torch.zeros(1), True, {"TimeLimit.truncated": True})
    assert policy.process_transition(torch.zeros(4), output, cut).done is stored
    ended = cut._replace(info={})
    assert policy.process_transition(torch.zeros(4), output, ended).done is True


def test_all_samples_are_learned():
    # Six samples in minibatches of four: the last two matter, too.
    changed = []
    for reference_numerics in (False, True):
        losses = []
        for reward in (0.0, 5.0):
            set_pkg_seed(0, use_cuda=False)
            policy, _ = make(reference_numerics=reference_numerics)
            policy.forward(EasyDict({key: doubled(value) for key, value in batch().items()}))
            data = EasyDict({key: doubled(value) for key, value in batch().items()})
            data.reward[4:] = reward
            losses.append(policy.forward(data)[0]["value_loss"])
        changed.append(losses[0] != losses[1])
    assert changed == [True, False]


def doubled(value: Any) -> torch.Tensor:
    return torch.cat([value, value[:2]])


def test_the_unit_of_values():
    # The deviation of returns, or its square root.
    units = {}
    for value_norm in ("deviation", "baseline"):
        policy, _ = make(value_norm=value_norm, learning_rate=0.0)
        data = batch()
        data.update(reward=torch.tensor([300.0, 0.0, 0.0, -300.0]), done=torch.ones(4), traj_flag=torch.ones(4))
        for _ in range(30):
            policy.forward(data)
        units[value_norm] = math.sqrt(float(policy.state_dict()["value_norm"]["var"]))
    assert units["deviation"] == pytest.approx(math.sqrt(45000), rel=0.01)
    # It comes down to 15 from the deviation, with which the average began.
    assert 14 < units["baseline"] < 30


def test_values_do_not_run_away_where_only_time_limits_end_episodes():
    # A reward of -1 for ever: the value is -20. Each collection bootstraps from the values before it.
    set_pkg_seed(0, use_cuda=False)
    model = PPOFModel(4, 2, encoder_hidden_size_list=[16], actor_head_hidden_size=16, critic_head_hidden_size=16)
    cfg = PPOFPolicy.default_config()
    cfg.update(n_sample=64, batch_size=32, discount_factor=0.95, learning_rate=1e-3, cuda=False)
    policy = PPOFPolicy(cfg, model)
    flags = torch.zeros(64)
    flags[15::16] = 1
    lowest = 0.0
    for _ in range(30):
        obs = torch.randn(64, 4)
        output = policy.collect(obs)
        policy.forward(EasyDict(
            obs=obs, next_obs=torch.randn(64, 4), action=output.action, logit=output.logit, value=output.value,
            reward=-torch.ones(64), done=torch.zeros(64), traj_flag=flags,
        ))  # fmt: skip
        unit = math.sqrt(float(policy.state_dict()["value_norm"]["var"]) + 1e-8)
        lowest = min(lowest, unit * float(policy.collect(obs).value.mean()))
    assert -30 < lowest < -15


def test_unknown_settings():
    with pytest.raises(PolicyConfigError, match=r"value_norm: 'popat' is unknown.*popart"):
        make(value_norm="popat")
