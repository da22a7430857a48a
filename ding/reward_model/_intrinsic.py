"""Intrinsic rewards for novelty, in addition to the rewards of the env."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ding.data.roles import Samples, StateDict, Writer
from ding.model.common.encoder import ConvEncoder, FCEncoder
from ding.reward_model._learned import LearnedRewardModel
from ding.reward_model._samples import Pool, with_rewards
from ding.utils import RunningMeanStd
from ding.utils.names import did_you_mean

_TYPES = ("add", "new", "assign")
_NORMS = ("batch", "running")


def encoder_of(obs_shape: Any, hidden_size_list: list[int]) -> nn.Module:
    """Return an encoder of vectors or images to ``hidden_size_list[-1]`` features.

    Raises:
        KeyError: The observations have an unsupported number of axes.
    """
    shape = [obs_shape] if isinstance(obs_shape, int) else list(obs_shape)
    if len(shape) == 1:
        return FCEncoder(shape[0], hidden_size_list)
    if len(shape) == 3:
        return ConvEncoder(shape, hidden_size_list)
    raise KeyError(f"reward_model.obs_shape: expected a number of features or [C, H, W], found {obs_shape!r}")


class PooledRewardModel(LearnedRewardModel):
    """A network trained on random rows of collected data, and running statistics of novelty."""

    _log_name: str
    """Prefix of the tensorboard tags."""
    reward_model: nn.Module
    opt: torch.optim.Optimizer

    def __init__(self, config: Mapping[str, Any], device: str = "cpu", tb_logger: Writer | None = None) -> None:
        super().__init__(config, device, tb_logger)
        self._pool = Pool()
        self._novelty_statistics = RunningMeanStd(epsilon=1e-4)

    @abstractmethod
    def _loss(self, *rows: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Return the loss on rows of the pool, 0-d, and the values to log."""

    def train(self) -> None:
        """Perform ``update_per_collect`` updates on random rows; none without rows."""
        if not len(self._pool):
            return
        for _ in range(self.cfg.update_per_collect):
            loss, values = self._loss(*self._pool.draw(self.cfg.batch_size, self.device))
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.log(f"{self._log_name}_reward", **{name: value.detach() for name, value in values.items()})

    def clear_data(self) -> None:
        """Remove the collected rows."""
        self._pool.clear()

    def _statistics(self) -> dict[str, RunningMeanStd]:
        return {"novelty": self._novelty_statistics}

    def state_dict(self) -> StateDict:
        """Return the states of network, optimiser and running statistics."""
        statistics = {key: value.state_dict() for key, value in self._statistics().items()}
        return {**super().state_dict(), "statistics": statistics}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load a :meth:`state_dict`, or parameters alone, as saved by DI-engine."""
        super().load_state_dict(state_dict)
        if "statistics" in state_dict:
            for key, value in self._statistics().items():
                value.load_state_dict(state_dict["statistics"][key])

    def collected_state(self) -> StateDict:
        """Return the rows of the pool."""
        return self._pool.state_dict()

    def load_collected_state(self, state_dict: StateDict) -> None:
        """Restore what :meth:`collected_state` returned."""
        self._pool.load_state_dict(state_dict)


class IntrinsicRewardModel(PooledRewardModel):
    """Base class of curiosity models: the conversion of novelty to reward.

    The novelty of a sample is scaled to 0..1 within its batch (``intrinsic_reward_norm='batch'``), or divided by its
    running standard deviation (``'running'``), which does not depend on the other samples of a batch. Then
    ``intrinsic_reward_type``: ``add`` adds ``intrinsic_reward_weight`` times it to the reward, which is divided by
    ``extrinsic_reward_norm_max`` when ``extrinsic_reward_norm`` is set; ``assign`` replaces the reward; ``new`` stores
    it in a separate field, ``intrinsic_reward``.

    Raises:
        AssertionError: ``intrinsic_reward_type`` or ``intrinsic_reward_norm`` is unknown, or the weight for ``add`` is
            missing.
    """

    def __init__(self, config: Mapping[str, Any], device: str = "cpu", tb_logger: Writer | None = None) -> None:
        super().__init__(config, device, tb_logger)
        for key, known in (("intrinsic_reward_type", _TYPES), ("intrinsic_reward_norm", _NORMS)):
            value = self.cfg.get(key, known[0])
            if value not in known:
                raise AssertionError(f"reward_model.{key}: {value!r} is unknown.{did_you_mean(str(value), known)}")
        if self.cfg.intrinsic_reward_type == "add" and self.cfg.intrinsic_reward_weight is None:
            raise AssertionError("reward_model.intrinsic_reward_weight: expected a number to add novelty by, got None")

    def _rewarded(self, data: Samples, novelty: torch.Tensor) -> Samples:
        """Return the samples with rewards for their novelty, ``[N]``."""
        cfg, novelty = self.cfg, novelty.detach().float()
        if cfg.get("intrinsic_reward_norm", "batch") == "running":
            self._novelty_statistics.update(novelty)
            intrinsic = novelty / (self._novelty_statistics.std + 1e-8)
        else:
            intrinsic = (novelty - novelty.min()) / (novelty.max() - novelty.min() + 1e-8)
        reward = intrinsic.cpu().unsqueeze(1)
        name = f"{self._log_name}_reward"
        numbers = {"max": reward.max(), "mean": reward.mean(), "min": reward.min(), "std": reward.std(correction=0)}
        self.log(name, **{f"{name}_{key}": value for key, value in numbers.items()})
        if cfg.intrinsic_reward_type == "assign":
            return with_rewards(data, lambda old: reward.expand_as(old).clone())
        divisor = cfg.extrinsic_reward_norm_max if cfg.extrinsic_reward_norm else 1
        if cfg.intrinsic_reward_type == "new":
            return with_rewards(data, lambda old: old / divisor, intrinsic_reward=reward)
        return with_rewards(data, lambda old: old / divisor + cfg.intrinsic_reward_weight * reward)
