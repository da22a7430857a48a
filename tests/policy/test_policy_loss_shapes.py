"""Shapes that broadcast to something else than what is meant, where there are as many samples as agents or steps."""

import pytest
import torch

from ding.policy import DQNPolicy, MDQNPolicy, PolicyDataError, SACPolicy, SQLPolicy
from ding.rl_utils import q_nstep_td_data, q_nstep_td_error
from ding.utils import deep_merge_dicts


class TwoAgents(torch.nn.Module):
    """Observations ``[B, 2, 3]`` to values ``[B, 2, 4]``."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 4)

    def forward(self, obs):
        return {"logit": self.layer(obs)}


def test_the_values_of_agents_meet_the_reward_of_their_sample():
    torch.manual_seed(0)
    cfg = deep_merge_dicts(DQNPolicy.default_config(), {"model": {"obs_shape": [2, 3], "action_shape": 4}})
    policy = DQNPolicy(cfg, model=TwoAgents(), enable_field=["learn"])
    obs, next_obs, action = torch.randn(2, 2, 3), torch.randn(2, 2, 3), torch.tensor([[0, 1], [3, 2]])
    reward, done = torch.tensor([1.0, -2.0]), torch.tensor([0.0, 1.0])
    with torch.no_grad():
        network = policy.learn_mode.get_attribute("model")
        q, next_q = network(obs)["logit"], network(next_obs)["logit"]
    data = q_nstep_td_data(q, next_q, action, next_q.argmax(-1), reward.unsqueeze(0), done, None)
    loss, _ = q_nstep_td_error(data, 0.97)
    fields = {"obs": obs, "next_obs": next_obs, "action": action, "reward": reward.unsqueeze(1), "done": done > 0}
    rows = [{key: value[row] for key, value in fields.items()} for row in range(2)]
    assert policy.learn_mode.forward(rows)["total_loss"] == pytest.approx(float(loss), rel=1e-6)


@pytest.mark.parametrize("cls", [MDQNPolicy, SQLPolicy])
def test_the_values_of_agents_are_refused_where_a_loss_takes_one_action(cls):
    cfg = deep_merge_dicts(cls.default_config(), {"model": {"obs_shape": [2, 3], "action_shape": 4}})
    policy = cls(cfg, model=TwoAgents(), enable_field=["learn"])
    row = {"obs": torch.zeros(2, 3), "next_obs": torch.zeros(2, 3), "reward": torch.ones(1), "done": False}
    with pytest.raises(PolicyDataError, match=r"found \(2, 2, 4\)"):
        policy.learn_mode.forward([{**row, "action": torch.tensor([0, 1])}] * 2)


@pytest.mark.parametrize("cls", [DQNPolicy, SACPolicy])
def test_several_rewards_of_a_sample_are_refused_where_there_is_one_step(cls):
    cfg = deep_merge_dicts(cls.default_config(), {"model": {"obs_shape": 3, "action_shape": 2}})
    policy = cls(cfg, enable_field=["learn"])
    action = torch.zeros(2) if cls is SACPolicy else torch.tensor(1)
    row = {"obs": torch.zeros(3), "next_obs": torch.zeros(3), "action": action, "reward": torch.ones(2), "done": False}
    with pytest.raises(PolicyDataError, match=r"reward of shape \(2, 2\).*policy.nstep"):
        policy.learn_mode.forward([row, row])
