"""Phasic policy gradient: its network, what its phases change, and its samples."""

from typing import Any

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.model import PPG
from ding.policy import PPGOffPolicy, PPGPolicy
from ding.utils import deep_merge_dicts

SIZES = {"encoder_hidden_size_list": [32, 32], "actor_head_hidden_size": 32, "critic_head_hidden_size": 32}


def make(cls: type, **overrides: Any) -> Any:
    torch.manual_seed(0)
    base = {"model": {"obs_shape": 4, "action_shape": 3, **SIZES}, "learn": {"batch_size": 4, "aux_freq": 2}}
    return cls(deep_merge_dicts(deep_merge_dicts(cls.default_config(), base), overrides))


def samples(policy: Any, count: int = 6, mask: bool = False) -> TransitionBatch:
    generator = torch.Generator().manual_seed(0)
    obs: Any = torch.randn(count, 4, generator=generator)
    if mask:
        obs = {"observation": obs, "action_mask": torch.tensor([[1, 1, 0]] * count)}
    model = policy.learn_mode.get_attribute("model")
    with torch.no_grad():
        output = model(obs, mode="compute_actor_critic")
    columns = {
        "obs": obs,
        "next_obs": obs,
        "action": torch.arange(count).remainder(2).unsqueeze(1),
        "logit": output["logit"],
        "value": output["value"].unsqueeze(1),
        "adv": torch.randn(count, 1, generator=generator),
        "reward": torch.ones(count, 1),
        "done": np.zeros(count, dtype=bool),
    }
    return TransitionBatch(columns)


def parameters(policy: Any, part: str) -> torch.Tensor:
    module = policy.learn_mode.get_attribute("model").get_submodule(part)
    return torch.cat([p.detach().flatten() for p in module.parameters()]).clone()


def test_the_state_of_the_network() -> None:
    state = PPG(4, 2).state_dict()
    assert len(state) == 48
    assert state["actor_critic.actor_head.Q.0.2.weight"].shape == (64, 64)
    assert state["aux_critic.0.main.2.weight"].shape == (64, 128)
    assert state["aux_critic.1.last.weight"].shape == (1, 64)
    assert state["actor_critic.critic.1.last.weight"].shape == (1, 64)


def test_the_auxiliary_phase_comes_every_second_step() -> None:
    policy = make(PPGPolicy)
    batch = samples(policy)
    numbers = [policy.learn_mode.forward(batch) for _ in range(4)]
    assert ["auxiliary_loss" in one for one in numbers] == [False, True, False, True]
    assert all(type(value) is float for one in numbers for value in one.values())


@pytest.mark.parametrize("mask", [False, True])
def test_the_auxiliary_phase_learns_values_and_keeps_the_policy(mask) -> None:
    changes = {}
    for weight in (0, 100):
        # Advantages of zero: what changes the policy is the auxiliary phase alone. One minibatch holds all samples.
        learn = {"entropy_weight": 0.0, "batch_size": 6, "aux_freq": 1, "aux_train_epoch": 40, "aux_bc_weight": weight}
        policy = make(PPGPolicy, learn=learn)
        batch = samples(policy, mask=mask)
        batch = batch.with_columns(adv=torch.zeros(len(batch), 1), value=torch.full((len(batch), 1), 2.0))
        first = policy.learn_mode.forward(batch)
        last = policy.learn_mode.forward(batch)
        assert last["auxiliary_loss"] < 0.3 * first["auxiliary_loss"]
        assert last["aux_value_loss"] < first["aux_value_loss"]
        model = policy.learn_mode.get_attribute("model")
        with torch.no_grad():
            logit = model(batch.columns["obs"], mode="compute_actor")["logit"]
        allowed = 2 if mask else 3
        old = batch.columns["logit"][:, :allowed].softmax(-1)
        changes[weight] = float((logit[:, :allowed].softmax(-1) - old).abs().mean())
    assert changes[100] < 0.3 * changes[0]


def test_each_phase_has_its_own_network() -> None:
    policy = make(PPGOffPolicy, learn={"value_weight": 0.0})
    batch = samples(policy)
    actor, critic = parameters(policy, "actor_critic"), parameters(policy, "aux_critic")
    policy.learn_mode.forward({"policy": batch, "value": batch})
    assert not torch.equal(actor, parameters(policy, "actor_critic"))
    # Adam makes no step on gradients of zero.
    assert torch.equal(critic, parameters(policy, "aux_critic"))


def test_samples_hold_the_values_of_the_separate_critic() -> None:
    policy, reference = make(PPGPolicy), make(PPGPolicy, reference_numerics=True)
    batch = samples(policy)
    model = policy.learn_mode.get_attribute("model")
    found = policy.collect_mode.get_train_sample(batch).columns
    with torch.no_grad():
        value = model(batch.columns["obs"], mode="compute_critic")["value"].unsqueeze(1)
    assert torch.allclose(found["value"], value)
    assert torch.equal(reference.collect_mode.get_train_sample(batch).columns["value"], batch.columns["value"])
    assert {"next_obs", "traj_flag"}.isdisjoint(found)


def test_the_learn_state() -> None:
    policy, other = make(PPGPolicy), make(PPGPolicy)
    policy.learn_mode.forward(samples(policy))
    state = policy.learn_mode.state_dict()
    assert list(state) == ["model", "optimizer_ac", "optimizer_aux_critic"]
    other.learn_mode.load_state_dict(state)
    assert torch.equal(parameters(policy, "actor_critic"), parameters(other, "actor_critic"))


def test_the_batch_size_is_that_of_each_buffer() -> None:
    assert make(PPGOffPolicy).learn_mode.get_attribute("batch_size") == {"policy": 4, "value": 4}
