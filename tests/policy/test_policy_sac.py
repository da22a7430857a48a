"""SAC, DDPG and their relatives beyond their first numbers: state, temperature, what gradients reach, settings."""

import copy
import math

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.policy import (
    D4PGPolicy,
    DDPGCommandModePolicy,
    DDPGPolicy,
    DiscreteSACPolicy,
    PDQNPolicy,
    PolicyConfigError,
    SACPolicy,
    SQILSACPolicy,
    TD3Policy,
)
from ding.utils import deep_merge_dicts

SMALL = {"obs_shape": 3, "action_shape": 2, "actor_head_hidden_size": 8, "critic_head_hidden_size": 8}


def make(cls, fields=("learn",), **overrides):
    torch.manual_seed(0)
    cfg = deep_merge_dicts(cls.default_config(), {"model": SMALL, "learn": {"batch_size": 4}})
    return cls(deep_merge_dicts(cfg, overrides), enable_field=list(fields))


def batch(rows=4, discrete=False):
    draws = np.random.default_rng(0)
    action = draws.integers(0, 2, (rows, 1)) if discrete else draws.uniform(-1, 1, (rows, 2)).astype(np.float32)
    columns = {
        "obs": torch.from_numpy(draws.normal(size=(rows, 3)).astype(np.float32)),
        "next_obs": torch.from_numpy(draws.normal(size=(rows, 3)).astype(np.float32)),
        "action": torch.from_numpy(action),
        "reward": torch.from_numpy(draws.normal(size=(rows, 1)).astype(np.float32)),
        "done": np.arange(rows) == rows - 1,
    }
    return TransitionBatch(columns)


def learn(policy, times=1, **kwargs):
    for _ in range(times):
        result = policy.learn_mode.forward(batch(**kwargs))
    return result


def test_a_checkpoint_holds_the_temperature():
    policy = make(SACPolicy, learn={"learning_rate_alpha": 0.1})
    alpha = learn(policy, 3)["alpha"]
    assert alpha != pytest.approx(0.2, rel=1e-2)
    state = copy.deepcopy(policy.learn_mode.state_dict())
    other = make(SACPolicy, learn={"learning_rate_alpha": 0.1})
    other.learn_mode.load_state_dict(state)
    torch.manual_seed(1)
    expected = learn(policy)
    torch.manual_seed(1)
    assert learn(other) == expected


def test_a_checkpoint_of_the_original_api_has_no_temperature():
    policy = make(SACPolicy)
    state = policy.learn_mode.state_dict()
    assert state.pop("alpha").keys() == {"log_alpha"}
    assert list(state) == ["model", "target_model", "optimizer_q", "optimizer_policy", "optimizer_alpha"]
    policy.learn_mode.load_state_dict(state)
    assert "optimizer_alpha" not in make(SACPolicy, learn={"auto_alpha": False}).learn_mode.state_dict()


def test_a_temperature_outside_of_log_space_stays_above_zero():
    policy = make(SACPolicy, learn={"log_space": False, "learning_rate_alpha": 10.0, "target_entropy": -50})
    assert learn(policy, 2)["alpha"] == 0.0
    assert math.isfinite(learn(policy)["total_loss"])


@pytest.mark.parametrize("cls", [SACPolicy, DDPGPolicy])
def test_the_actor_leaves_no_gradients_in_the_critics(cls):
    policy = make(cls, learn={"learning_rate_q": 0.0, "learning_rate_critic": 0.0})
    critic = policy.learn_mode.get_attribute("model").critic
    before = [parameter.clone() for parameter in critic.parameters()]
    learn(policy, 2)
    assert all(torch.equal(old, new) for old, new in zip(before, critic.parameters()))
    assert all(parameter.requires_grad for parameter in critic.parameters())


def test_priorities_are_absolute_errors():
    squares = learn(make(SACPolicy, reference_numerics=True))["priority"]
    assert learn(make(SACPolicy))["priority"] == pytest.approx([math.sqrt(square) for square in squares], rel=1e-3)


def test_the_entropy_of_discrete_actions_is_one_that_they_can_have():
    model = {**SMALL, "action_shape": 3}
    policy = make(DiscreteSACPolicy, model=model)
    assert policy.learn_mode.get_attribute("target_entropy") == pytest.approx(0.98 * math.log(3))
    reference = make(DiscreteSACPolicy, model=model, reference_numerics=True)
    assert reference.learn_mode.get_attribute("target_entropy") == -3


def test_td3_moves_its_actor_every_second_time_also_after_a_resume():
    policy = make(TD3Policy)
    assert "actor_loss" not in learn(policy)
    other = make(TD3Policy)
    other.learn_mode.load_state_dict(policy.learn_mode.state_dict())
    assert "actor_loss" in learn(other)


def test_rewards_standardised_per_batch():
    policy = make(DDPGPolicy, reward_batch_norm=True)
    data = batch()
    shifted = data.with_columns(reward=data.columns["reward"] * 3 + 7)
    expected = make(DDPGPolicy, reward_batch_norm=True).learn_mode.forward(data)["td_error"]
    assert policy.learn_mode.forward(shifted)["td_error"] == pytest.approx(expected, rel=1e-4)


def test_sqil_compares_the_gradients_of_agent_and_expert():
    policy = make(SQILSACPolicy)
    result = learn(policy)
    assert -1 <= result["cos_similarity"] <= 1
    mean = (result["agent_td_error"] + result["expert_td_error"]) / 2
    assert result["td_error"] == pytest.approx(mean, rel=1e-5)
    torch.manual_seed(0)
    same = TransitionBatch.concat([batch(2), batch(2)])
    twice = make(SQILSACPolicy, learn={"discount_factor": 0.0}).learn_mode.forward(same)
    assert twice["cos_similarity"] == pytest.approx(1.0, abs=1e-4)


def test_an_action_space_that_is_not_known():
    with pytest.raises(PolicyConfigError, match="Did you mean 'hybrid'"):
        make(DDPGPolicy, ("collect",), action_space="hybird", random_collect_size=0)


HYBRID = {**SMALL, "action_shape": {"action_type_shape": 2, "action_args_shape": 2}, "action_space": "hybrid"}


def hybrid_batch(types, logit):
    plain = batch()
    action = {"action_type": torch.tensor(types).unsqueeze(1), "action_args": plain.columns["action"]}
    return plain.with_columns(action=action, logit=torch.tensor(logit).expand(4, 2))


@pytest.mark.parametrize("reference_numerics", [False, True])
def test_the_critic_of_hybrid_actions_learns_from_the_types_that_were_taken(reference_numerics):
    def loss(types, logit):
        policy = make(DDPGPolicy, action_space="hybrid", model=HYBRID, reference_numerics=reference_numerics)
        return policy.learn_mode.forward(hybrid_batch(types, logit))["critic_loss"]

    likely, unlikely = [2.0, -1.0], [-3.0, 1.0]
    of_taken = loss([0, 1, 1, 0], likely)
    same_chances = loss([1, 0, 0, 1], likely) == pytest.approx(of_taken)
    same_types = loss([0, 1, 1, 0], unlikely) == pytest.approx(of_taken)
    assert (same_chances, same_types) == (reference_numerics, not reference_numerics)


def test_pdqn_collects_the_best_type_where_it_does_not_explore():
    model = {"obs_shape": 3, "action_shape": HYBRID["action_shape"], "encoder_hidden_size_list": [8]}
    policy = PDQNPolicy(deep_merge_dicts(PDQNPolicy.default_config(), {"model": model}), enable_field=["collect"])
    for _ in range(5):
        output = policy.collect_mode.forward({i: torch.full((3,), 0.1 * i) for i in range(4)}, eps=0.0)
        for row in output.values():
            assert row["action"]["action_type"].item() == row["logit"].argmax().item()


def test_only_hybrid_actions_have_an_epsilon():
    info = {"envstep": 0}
    plain = make(DDPGCommandModePolicy, ("command",))
    assert plain.command_mode.get_setting_collect(info) == {}
    eps = {"type": "linear", "start": 0.9, "end": 0.1, "decay": 10}
    hybrid = make(DDPGCommandModePolicy, ("command",), action_space="hybrid", other={"eps": eps})
    assert hybrid.command_mode.get_setting_collect(info) == {"eps": pytest.approx(0.9)}


def test_pdqn_trains_values_and_arguments_by_turns():
    model = {"obs_shape": 3, "action_shape": {"action_type_shape": 2, "action_args_shape": 2}}
    cfg = deep_merge_dicts(PDQNPolicy.default_config(), {"model": {**model, "encoder_hidden_size_list": [8]}})
    cfg = deep_merge_dicts(cfg, {"learn": {"update_circle": 2}, "priority": True})
    policy = PDQNPolicy(cfg, enable_field=["learn"])
    columns = batch(discrete=True).columns
    action = {"action_type": columns["action"], "action_args": torch.zeros(4, 2)}
    data = TransitionBatch({**columns, "action": action})
    turns = [set(policy.learn_mode.forward(data)) for _ in range(4)]
    assert [("q_loss" in turn, "continuous_loss" in turn) for turn in turns] == [
        (True, True), (True, False), (False, True), (True, False),
    ]  # fmt: skip
    assert all("priority" in turn for turn in turns)


def test_d4pg_discounts_the_value_after_n_steps():
    policy = make(
        D4PGPolicy, ("learn", "collect"), model={**SMALL, "n_atom": 5}, priority=False, priority_IS_weight=False
    )
    samples = policy.collect_mode.get_train_sample(batch(4))
    assert samples.columns["value_gamma"].flatten().tolist() == pytest.approx([0.99**3, 0.99**3, 0.99**2, 0.99])
