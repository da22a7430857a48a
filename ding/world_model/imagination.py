"""Trajectories of a policy in a world model, all of them at once, in columns."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from ding.data import EnvBatch, TimestepBatch, TransitionBatch, is_batched
from ding.data.roles import CollectMode, Samples
from ding.rollout.players import VectorStep
from ding.rollout.record import Segments

Step = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
"""Observations and actions of N rows to rewards ``[N]``, next observations and dones ``[N]``."""


def imagined_samples(
    step: Step, policy: CollectMode, begin: Samples, num_steps: int, extra: Mapping[str, Any]
) -> Samples:
    """Return the training samples of N trajectories, one after the other.

    Args:
        step: makes one step of the model.
        policy: collect mode of the policy that acts.
        begin: N transitions; their observations are the first ones.
        num_steps: length of a trajectory; one whose step is done ends before.
        extra: fields that every transition gets.
    """
    obs = torch.as_tensor(TransitionBatch.of(begin).columns["obs"])
    env_ids = np.arange(len(obs))
    segments = Segments(len(obs), policy)
    with torch.no_grad():
        for _ in range(num_steps):
            seen = EnvBatch.unchecked(env_ids, obs)
            output = EnvBatch.from_dict(policy.forward(seen if is_batched(policy.forward) else seen.to_dict()))
            action = torch.as_tensor(output.columns["action"])  # type: ignore[call-overload, index]
            reward, next_obs, done = (one.cpu() for one in step(obs, action))
            ended = done.reshape(-1).numpy().astype(np.bool_)
            timesteps = TimestepBatch(env_ids, next_obs, reward.reshape(-1, 1), ended, np.zeros_like(ended))
            segments.record(VectorStep(seen, output, timesteps), dict(extra))
            env_ids, obs = env_ids[~ended], next_obs[torch.from_numpy(~ended)]
            if not len(env_ids):
                break
    segments.cut(0)
    return segments.take_samples().samples
