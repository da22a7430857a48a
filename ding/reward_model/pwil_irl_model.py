"""PWIL: primal Wasserstein imitation learning (Dadashi et al. 2020, arXiv:2006.04678)."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from ding.data.roles import Samples, StateDict, Writer
from ding.reward_model._experts import read_demonstrations
from ding.reward_model._samples import Pool, field, with_rewards
from ding.reward_model.base_reward_model import BaseRewardModel
from ding.utils import REWARD_MODEL_REGISTRY


@REWARD_MODEL_REGISTRY.register("pwil")
class PwilRewardModel(BaseRewardModel):
    """Reward steps by a greedy, in-order estimate of the Wasserstein distance to an expert's steps.

    The rewards are stored in a table keyed by observation and action; other steps get a reward of zero.

    Args:
        config: see ``config``; ``expert_data_path``, ``s_size`` and ``a_size`` (features of observation and action) are
            required.
    """

    config = {
        "type": "pwil",
        # (int) Maximum number of expert steps.
        "sample_size": 1000,
        # (float) Reward of an expert's step, and its decay with the distance.
        "alpha": 5,
        "beta": 5,
        "clear_buffer_per_iters": 1,
    }

    def __init__(self, config: Mapping[str, Any], device: str = "cpu", tb_logger: Writer | None = None) -> None:
        super().__init__(config, device, tb_logger)
        self.reward_table: dict[bytes, float] = {}
        self._steps, self._expert = Pool(), Pool()
        self.load_expert_data()

    def load_expert_data(self, data: Samples | None = None) -> None:
        """Load the expert's steps; by default from the expert's file."""
        if data is None:
            data = read_demonstrations(self.cfg.expert_data_path, self.cfg.sample_size)
        self._expert.clear()
        self._expert.add(*_step(data))

    def collect_data(self, data: Samples) -> None:
        """Store observations and actions."""
        self._steps.add(*_step(data))

    def clear_data(self) -> None:
        """Remove the collected steps; the table is kept."""
        self._steps.clear()

    def train(self) -> None:
        """Compute the rewards of the collected steps and store them in the table."""
        if not len(self._steps):
            return
        obs, action = self._steps.rows()
        expert_obs, expert_action = self._expert.rows()
        count, cfg = len(obs), self.cfg
        factor = -cfg.beta * count / math.sqrt(cfg.s_size + cfg.a_size)
        # Remaining mass of each expert step.
        room = torch.full((len(expert_obs),), 1.0 / len(expert_obs), dtype=torch.float64)
        for row in range(count):
            distance = (expert_obs - obs[row]).square().mean(1) + (expert_action - action[row]).square().mean(1)
            order = distance.argsort()
            near = room[order]
            moved = (1.0 / count - (near.cumsum(0) - near)).clamp(min=0.0).minimum(near)
            room[order] = near - moved
            cost = float((moved * distance[order]).sum())
            self.reward_table[_key(obs[row], action[row])] = cfg.alpha * math.exp(factor * cost)

    def estimate(self, data: Samples) -> Samples:
        """Return the samples with the rewards in the table, zero for missing ones."""
        found = [self.reward_table.get(_key(obs, action), 0.0) for obs, action in zip(*_step(data))]
        reward = torch.tensor(found, dtype=torch.float32).unsqueeze(1)
        return with_rewards(data, lambda old: reward.expand_as(old).clone())

    def state_dict(self) -> StateDict:
        """Return the table, as one tensor of keys and one of rewards."""
        keys = [torch.frombuffer(bytearray(key), dtype=torch.uint8) for key in self.reward_table]
        rewards = torch.tensor(list(self.reward_table.values()), dtype=torch.float64)
        return {"keys": torch.stack(keys) if keys else torch.empty(0, 0, dtype=torch.uint8), "rewards": rewards}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load what :meth:`state_dict` returned."""
        rows = zip(state_dict["keys"], state_dict["rewards"].tolist())
        self.reward_table = {key.numpy().tobytes(): reward for key, reward in rows}

    def collected_state(self) -> StateDict:
        """Return the collected steps and the expert's steps, which were drawn from a file."""
        return {"steps": self._steps.state_dict(), "expert": self._expert.state_dict()}

    def load_collected_state(self, state_dict: StateDict) -> None:
        """Restore what :meth:`collected_state` returned."""
        self._steps.load_state_dict(state_dict["steps"])
        self._expert.load_state_dict(state_dict["expert"])


def _step(data: Samples) -> tuple[torch.Tensor, torch.Tensor]:
    """Return observations and actions, float32 ``[N, features]``."""
    obs, action = (field(data, name).float() for name in ("obs", "action"))
    return obs.flatten(1), action.reshape(len(action), -1)


def _key(obs: torch.Tensor, action: torch.Tensor) -> bytes:
    return obs.numpy().tobytes() + action.numpy().tobytes()
