"""A rollout joins each timestep to the observation and the output that caused it, however late it comes."""

import numpy as np
import pytest
import torch

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch, batched
from ding.worker.collector._rollout import Rollout


class Echo:
    """Acts what it sees."""

    def forward(self, data):
        return {env_id: {"action": torch.as_tensor(obs)} for env_id, obs in data.items()}


class BatchedEcho(Echo):
    @batched
    def forward(self, data):
        return EnvBatch(data.env_ids, {"action": torch.from_numpy(data.columns)})


def sees(call, *env_ids):
    return EnvBatch(env_ids, np.array([[call, env_id] for env_id in env_ids]))


def answers(*env_ids):
    return TimestepBatch.from_dict({env_id: BaseEnvTimestep(np.zeros(1), 0.0, False, {}) for env_id in env_ids})


@pytest.mark.parametrize("policy", [Echo(), BatchedEcho()])
def test_answers_to_several_calls(policy) -> None:
    rollout = Rollout(None, policy)
    rollout.infer(sees(0, 0, 3, 4), {})
    rollout.join(answers(4))
    rollout.infer(sees(1, 1, 4), {})
    rollout.join(answers(4))
    rollout.infer(sees(2, 2, 4), {})
    step = rollout.join(answers(0, 1, 2, 3, 4))
    expected = [[0, 0], [1, 1], [2, 2], [0, 3], [2, 4]]
    assert [step.obs[env_id].tolist() for env_id in range(5)] == expected
    assert [step.output[env_id]["action"].tolist() for env_id in range(5)] == expected
    assert list(step.obs) == list(step.output) == list(range(5))
