"""GAIL: generative adversarial imitation learning (Ho and Ermon 2016, arXiv:1606.03476)."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ding.data.roles import Samples, StateDict, Writer
from ding.reward_model._experts import read_demonstrations
from ding.reward_model._learned import LearnedRewardModel
from ding.reward_model._samples import Pool, field, obs_action, with_rewards
from ding.torch_utils import Adam
from ding.utils import REWARD_MODEL_REGISTRY

_EPS = 1e-8


def concat_state_action_pairs(iterator: Samples) -> list[torch.Tensor]:
    """Concatenate observation and action of each sample."""
    return list(obs_action(iterator))


def concat_state_action_pairs_one_hot(iterator: Samples, action_size: int) -> list[torch.Tensor]:
    """Concatenate observation and one-hot discrete action of each sample."""
    obs, action = field(iterator, "obs").float(), field(iterator, "action").long().reshape(-1)
    return list(torch.cat([obs.flatten(1), F.one_hot(action, action_size).float()], dim=1))


class RewardModelNetwork(nn.Module):
    """Map a pair of observation and action to the probability that it is the agent's."""

    def __init__(self, input_size: int, hidden_size: int, output_size: int) -> None:
        super().__init__()
        self.l1 = nn.Linear(input_size, hidden_size)
        self.l2 = nn.Linear(hidden_size, output_size)
        self.a1, self.a2 = nn.Tanh(), nn.Sigmoid()

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        """Map ``[B, input_size]`` to ``[B, output_size]``, values in 0..1."""
        output: torch.Tensor = self.a2(self.l2(self.a1(self.l1(pairs))))
        return output


# Kernel size and stride of each convolution.
_CONVOLUTIONS = ((7, 3), (5, 2), (3, 1), (3, 1))
_CHANNELS, _FEATURES = 16, 64


class AtariRewardModelNetwork(nn.Module):
    """As :class:`RewardModelNetwork`, for images such as ``[4, 84, 84]`` and one-hot actions.

    State: ``conv1`` to ``conv4``, ``fc1``, ``fc2``.
    """

    def __init__(self, input_size: Sequence[int], action_size: int) -> None:
        super().__init__()
        self.input_size, self.action_size = tuple(input_size), action_size
        channels, height, width = self.input_size
        for number, (kernel, stride) in enumerate(_CONVOLUTIONS, start=1):
            self.add_module(f"conv{number}", nn.Conv2d(channels, _CHANNELS, kernel, stride))
            channels = _CHANNELS
            height, width = ((pixels - kernel) // stride + 1 for pixels in (height, width))
        self.fc1 = nn.Linear(channels * height * width, _FEATURES)
        self.fc2 = nn.Linear(_FEATURES + action_size, 1)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        """Map ``[B, pixels + action_size]``, an image followed by its action, to ``[B, 1]``, values in 0..1."""
        pixels, action = pairs.tensor_split([-self.action_size], dim=1)
        image = pixels.unflatten(1, self.input_size)
        for layer in self.children():
            if isinstance(layer, nn.Conv2d):
                image = F.leaky_relu(layer(image))
        seen = F.leaky_relu(self.fc1(image.flatten(1)))
        return torch.sigmoid(self.fc2(torch.cat([seen, action], dim=1)))


@REWARD_MODEL_REGISTRY.register("gail")
class GailRewardModel(LearnedRewardModel):
    """Reward steps that a discriminator classifies as an expert's: ``-log D``, with ``D`` the probability that they are
    the agent's.

    Args:
        config: See ``config``; ``data_path``, the folder with ``expert_data.pkl``, is required; for images also
            ``action_size``.
    """

    config = {
        "type": "gail",
        "learning_rate": 1e-3,
        # (int) Updates per training.
        "update_per_collect": 100,
        "batch_size": 64,
        # (int or list) Number of features of observation and action (a discrete action is one number), or [4, 84, 84].
        "input_size": 4,
        # (int) Samples to collect before each training.
        "target_new_data_count": 64,
        "hidden_size": 128,
        # (int) Samples of the expert that the pipeline collects.
        "collect_count": 100000,
        "clear_buffer_per_iters": 1,
    }

    def __init__(self, config: Mapping[str, Any], device: str = "cpu", tb_logger: Writer | None = None) -> None:
        super().__init__(config, device, tb_logger)
        cfg = self.cfg
        size = cfg.input_size
        self._images = not isinstance(size, int) and len(size) > 1
        network: nn.Module
        if self._images:
            network = AtariRewardModelNetwork(size, cfg.action_size)
        else:
            network = RewardModelNetwork(size if isinstance(size, int) else size[0], cfg.hidden_size, 1)
        self.reward_model = network.to(device)
        self.opt = Adam(self.reward_model.parameters(), lr=cfg.learning_rate)
        self.train_iter = 0
        self._expert, self._own = Pool(), Pool()
        self.load_expert_data()

    def load_expert_data(self, data: Samples | None = None) -> None:
        """Load the expert's steps; by default from the expert's file."""
        if data is None:
            data = read_demonstrations(os.path.join(self.cfg.data_path, "expert_data.pkl"))
        #: Steps as they were given.
        self.expert_data_loader = data
        self._expert.clear()
        self._expert.add(self._pairs(data))

    def collect_data(self, data: Samples) -> None:
        """Store the agent's steps."""
        self._own.add(self._pairs(data))

    def clear_data(self) -> None:
        self._own.clear()

    def train(self) -> None:
        """Perform ``update_per_collect`` updates of the discriminator; none without steps of the agent."""
        if not len(self._own):
            return
        for _ in range(self.cfg.update_per_collect):
            (expert,) = self._expert.draw(self.cfg.batch_size, self.device)
            (own,) = self._own.draw(self.cfg.batch_size, self.device)
            self.log("reward_model", gail_loss=self._update(own, expert))

    def learn(self, train_data: Sequence[torch.Tensor], expert_data: Sequence[torch.Tensor]) -> float:
        """Perform one update on pairs such as ``train_data`` and ``expert_data``, and return the loss."""
        own, expert = (torch.stack(list(pairs)).to(self.device) for pairs in (train_data, expert_data))
        return float(self._update(own, expert))

    def _update(self, own: torch.Tensor, expert: torch.Tensor) -> torch.Tensor:
        own_chance, expert_chance = self.reward_model(own), self.reward_model(expert)
        loss = -((own_chance + _EPS).log().mean() + (1 - expert_chance + _EPS).log().mean())
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.train_iter += 1
        result: torch.Tensor = loss.detach()
        return result

    @property
    def expert_data(self) -> list[torch.Tensor]:
        """The expert's pairs of observation and action, one vector each."""
        return list(self._expert.rows()[0])

    @property
    def train_data(self) -> list[torch.Tensor]:
        """The agent's current pairs of observation and action, one vector each."""
        return list(self._own.rows()[0]) if len(self._own) else []

    def estimate(self, data: Samples) -> Samples:
        """Return the samples with ``-log D`` as reward."""
        with torch.no_grad():
            chance = self.reward_model(self._pairs(data).to(self.device))
        reward = -(chance + _EPS).log().cpu()
        return with_rewards(data, lambda old: reward.expand_as(old).clone())

    def _pairs(self, data: Samples) -> torch.Tensor:
        if self._images:
            return torch.stack(concat_state_action_pairs_one_hot(data, self.cfg.action_size))
        return obs_action(data)

    def collected_state(self) -> StateDict:
        """Return the agent's steps and the number of updates; the expert's steps are read from their file."""
        return {"own": self._own.state_dict(), "train_iter": self.train_iter}

    def load_collected_state(self, state_dict: StateDict) -> None:
        """Restore what :meth:`collected_state` returned."""
        self._own.load_state_dict(state_dict["own"])
        self.train_iter = int(state_dict["train_iter"])
