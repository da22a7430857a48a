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
    """Rewards steps by how cheaply their share of all mass is carried to steps of an expert, greedily and in order.

    The rewards are in a table by the contents of observation and action; steps that are not in it get none.

    Args:
        config: see ``config``; ``expert_data_path``, ``s_size`` and ``a_size`` (features of observation and action)
            have to be given.
    """

    config = {
        "type": "pwil",
        # (int) At most so many of the expert's steps are used.
        "sample_size": 1000,
        # (float) Reward of a step of the expert, and how fast it falls with the distance.
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
        """Compare with these steps; by default those of the expert's file."""
        if data is None:
            data = read_demonstrations(self.cfg.expert_data_path, self.cfg.sample_size)
        self._expert.clear()
        self._expert.add(*_step(data))

    def collect_data(self, data: Samples) -> None:
        """Keep observations and actions."""
        self._steps.add(*_step(data))

    def clear_data(self) -> None:
        """Forget what was collected; the table stays."""
        self._steps.clear()

    def train(self) -> None:
        """Put the rewards of what was collected into the table."""
        if not len(self._steps):
            return
        obs, action = self._steps.rows()
        expert_obs, expert_action = self._expert.rows()
        count, cfg = len(obs), self.cfg
        factor = -cfg.beta * count / math.sqrt(cfg.s_size + cfg.a_size)
        # What each of the expert's steps can still take.
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
        """Return the samples with the rewards of the table, zero for those that are not in it."""
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
        """What was collected, and the expert's steps, which were drawn from a file."""
        return {"steps": self._steps.state_dict(), "expert": self._expert.state_dict()}

    def load_collected_state(self, state_dict: StateDict) -> None:
        """Take up what :meth:`collected_state` returned."""
        self._steps.load_state_dict(state_dict["steps"])
        self._expert.load_state_dict(state_dict["expert"])


def _step(data: Samples) -> tuple[torch.Tensor, torch.Tensor]:
    """Observations and actions, float32 ``[N, features]``."""
    obs, action = (field(data, name).float() for name in ("obs", "action"))
    return obs.flatten(1), action.reshape(len(action), -1)


def _key(obs: torch.Tensor, action: torch.Tensor) -> bytes:
    return obs.numpy().tobytes() + action.numpy().tobytes()
