"""Your own policy in one file: DQN that explores with a softmax over its Q values.

A method that you override without ``@batched`` is called the classic way, once per environment and step with plain
dicts. With ``@batched`` it gets columns and stays on the fast path; both forms are shown.

    python examples/own_policy.py
"""

from typing import Any

import torch
from easydict import EasyDict

from ding.data import EnvBatch, batched
from ding.entry import serial_pipeline
from ding.policy import DQNPolicy, EpsCommandModePolicy
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("softmax_dqn")
class SoftmaxDQNPolicy(DQNPolicy):
    """DQN with Boltzmann exploration: the temperature is ``eps``, so that it is annealed like an epsilon."""

    config = dict(type="softmax_dqn")

    @batched
    def _forward_collect(self, data: EnvBatch, eps: float) -> EnvBatch:
        output = super()._forward_collect(data, eps=0.0)
        logit = output.columns["logit"]
        action = torch.multinomial(torch.softmax(logit / max(eps, 1e-3), dim=-1), 1)
        return EnvBatch(data.env_ids, {"logit": logit, "action": action})

    # The classic form: one transition of one environment, any extra keys you like.
    def _process_transition(self, obs: Any, policy_output: Any, timestep: Any) -> dict[str, Any]:
        transition = super()._process_transition(obs, policy_output, timestep)
        transition["max_q"] = float(policy_output["logit"].max())
        return transition


@POLICY_REGISTRY.register("softmax_dqn_command")
class SoftmaxDQNCommandPolicy(SoftmaxDQNPolicy, EpsCommandModePolicy):
    """The twin with a command mode, which the pipelines use."""


main_config = EasyDict(
    exp_name="cartpole_softmax_dqn",
    env=dict(env_id="CartPole-v1", collector_env_num=8, evaluator_env_num=5, n_evaluator_episode=5, stop_value=195),
    policy=dict(
        model=dict(obs_shape=4, action_shape=2, encoder_hidden_size_list=[128, 128, 64]),
        learn=dict(update_per_collect=5, batch_size=64, learning_rate=0.001),
        collect=dict(n_sample=8),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(eps=dict(start=1.0, end=0.05, decay=3000), replay_buffer=dict(replay_buffer_size=20000)),
    ),
)
create_config = EasyDict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="softmax_dqn"),
)

if __name__ == "__main__":
    serial_pipeline((main_config, create_config), seed=0, max_env_step=20_000)
