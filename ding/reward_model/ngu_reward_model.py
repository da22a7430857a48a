"""Life-long and episodic novelty of NGU (Badia et al. 2020, arXiv:2002.06038)."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ding.data import TransitionBatch
from ding.data.roles import Samples, StateDict, Writer
from ding.data.sequences import sequence_batch
from ding.reward_model._intrinsic import PooledRewardModel, encoder_of
from ding.reward_model.base_reward_model import BaseRewardModel
from ding.reward_model.rnd_reward_model import RndNetwork
from ding.rl_utils.policy_family import family_betas
from ding.torch_utils import Adam
from ding.utils import REWARD_MODEL_REGISTRY

# Kernel over the nearest neighbours: their number, the distance below which states count as equal, its width, the
# constant added to the similarity, and the similarity above which a state is not novel.
_NEIGHBOURS, _SAME, _WIDTH, _OFFSET, _FAMILIAR = 10, 0.008, 1e-4, 1e-3, 8.0
_LAST_FRAMES = 5


class _SequenceModel(PooledRewardModel):
    """A network trained on the real steps of sequences ``[B, T, ...]``, without padding.

    Args:
        config: See ``config``; ``obs_shape`` is required.
    """

    config = {
        # (str) Accepted for DI-engine configs: the intrinsic reward is always added.
        "intrinsic_reward_type": "add",
        "learning_rate": 1e-3,
        "batch_size": 64,
        # (list) Layer widths of the observation encoder.
        "hidden_size_list": [64, 64, 128],
        # (int) Updates per training.
        "update_per_collect": 100,
        # (bool) Whether to learn only from the last five steps of each sequence.
        "only_use_last_five_frames_for_icm_rnd": False,
        # (int) Number of trainings after which the collected data is dropped.
        "clear_buffer_per_iters": 1,
    }

    def _chosen(self, real: torch.Tensor) -> torch.Tensor:
        """Return the steps ``[B, T]`` to learn from: all real ones, or the last of them."""
        if not self.cfg.only_use_last_five_frames_for_icm_rnd:
            return real
        left = real.sum(1, keepdim=True) - real.long().cumsum(1)
        return real & (left < _LAST_FRAMES)


@REWARD_MODEL_REGISTRY.register("rnd-ngu")
class RndNGURewardModel(_SequenceModel):
    """Life-long novelty: the prediction error of random features of an observation."""

    config = {"type": "rnd-ngu", **_SequenceModel.config}
    _log_name = "rnd"

    def __init__(self, config: Mapping[str, Any], device: str = "cpu", tb_logger: Writer | None = None) -> None:
        super().__init__(config, device, tb_logger)
        self.reward_model: RndNetwork = RndNetwork(self.cfg.obs_shape, self.cfg.hidden_size_list).to(device)
        self.opt = Adam(self.reward_model.predictor.parameters(), lr=self.cfg.learning_rate)

    def collect_data(self, data: Samples) -> None:
        """Store the observations of real steps."""
        batch = sequence_batch(data)
        self._pool.add(_observations(batch)[self._chosen(_real(batch))])

    def _loss(self, *rows: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        loss = F.mse_loss(*self.reward_model(rows[0]))
        return loss, {"loss": loss}

    def estimate(self, data: Samples) -> torch.Tensor:
        """Return the novelty of each step of B sequences, flat: float32 ``[B * T]``.

        It is ``1 + (m - mean) / deviation`` of the error ``m``, with running statistics over the real steps.
        """
        batch = sequence_batch(data)
        with torch.no_grad():
            predicted, target = self.reward_model(_observations(batch).flatten(0, 1).to(self.device))
        error = (predicted - target).square().mean(1)
        self._novelty_statistics.update(error[_real(batch).flatten().to(error.device)])
        output: torch.Tensor = 1 + (error - self._novelty_statistics.mean) / (self._novelty_statistics.std + 1e-11)
        return output


class InverseNetwork(nn.Module):
    """Embed observations such that the action between two of them can be predicted."""

    def __init__(self, obs_shape: int | list[int], action_shape: int, hidden_size_list: list[int]) -> None:
        super().__init__()
        self.embedding_net = encoder_of(obs_shape, hidden_size_list)
        self.inverse_net = nn.Sequential(
            nn.Linear(2 * hidden_size_list[-1], 512), nn.ReLU(), nn.Linear(512, action_shape)
        )

    def forward(self, obs: torch.Tensor, next_obs: torch.Tensor) -> torch.Tensor:
        """Map two observations ``[B, *obs_shape]`` to the logits ``[B, actions]`` of the action between them."""
        output: torch.Tensor = self.inverse_net(
            torch.cat([self.embedding_net(obs), self.embedding_net(next_obs)], dim=-1)
        )
        return output


@REWARD_MODEL_REGISTRY.register("episodic")
class EpisodicNGURewardModel(_SequenceModel):
    """Episodic novelty: the distance of an observation to earlier ones of the sequence, in an embedding of controllable
    features.

    Args:
        config: See ``config``; ``obs_shape`` and ``action_shape`` are required.
    """

    config = {
        "type": "episodic",
        **_SequenceModel.config,
        # (bool) Whether to scale the last non-zero reward of an episode.
        "last_nonzero_reward_rescale": False,
        # (float or None) Scale factor; None: the length of the sequence.
        "last_nonzero_reward_weight": 1,
    }
    _log_name = "episodic"

    def __init__(self, config: Mapping[str, Any], device: str = "cpu", tb_logger: Writer | None = None) -> None:
        super().__init__(config, device, tb_logger)
        cfg = self.cfg
        self.reward_model: InverseNetwork = InverseNetwork(cfg.obs_shape, cfg.action_shape, cfg.hidden_size_list).to(
            device
        )
        self.opt = Adam(self.reward_model.parameters(), lr=cfg.learning_rate)

    def collect_data(self, data: Samples) -> None:
        """Store the pairs of consecutive real steps with the action between them."""
        batch = sequence_batch(data)
        obs, real = _observations(batch), _real(batch)
        pairs = self._chosen(real)[:, :-1] & real[:, 1:]
        action = torch.as_tensor(batch.columns["action"]).reshape(real.shape).long()
        self._pool.add(obs[:, :-1][pairs], obs[:, 1:][pairs], action[:, :-1][pairs])

    def _loss(self, *rows: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        obs, next_obs, action = rows
        loss = F.cross_entropy(self.reward_model(obs, next_obs), action)
        return loss, {"loss": loss}

    def estimate(self, data: Samples) -> torch.Tensor:
        """Return the novelty of each step of B sequences, flat, scaled to 0..1 within the batch: float32 ``[B * T]``.

        It is 0 for the first ten steps, for padding and for states that are too familiar, else the inverse of the
        similarity to the ten nearest earlier steps.
        """
        batch = sequence_batch(data)
        real = _real(batch).to(self.device)
        rows, steps = real.shape
        with torch.no_grad():
            features = self.reward_model.embedding_net(_observations(batch).flatten(0, 1).to(self.device))
        features = features.reshape(rows, steps, -1)
        novelty = torch.zeros(rows, steps, device=self.device)
        judged = real.clone()
        judged[:, :_NEIGHBOURS] = False
        if judged.any():
            before = torch.ones(steps, steps, dtype=torch.bool, device=self.device).tril(-1)
            distances = torch.cdist(features, features).masked_fill(~before, float("inf"))
            nearest = distances.topk(_NEIGHBOURS, dim=-1, largest=False).values[judged]
            self._novelty_statistics.update(nearest.flatten())
            novelty[judged] = _novelty(nearest / (self._novelty_statistics.mean + 1e-11))
        return ((novelty - novelty.min()) / (novelty.max() - novelty.min() + 1e-11)).flatten()

    def fusion_reward(
        self,
        train_data: Samples,
        inter_episodic_reward: torch.Tensor,
        episodic_reward: torch.Tensor,
        nstep: int,
        collector_env_num: int,
        tb_logger: Writer | None = None,
        estimate_cnt: int = 0,
    ) -> tuple[TransitionBatch, int]:
        """Return B sequences with combined extrinsic and intrinsic rewards, as new columns, and ``estimate_cnt + 1``.

        The intrinsic reward of a step is ``episodic * clamp(inter, 1, 5)``. Each of its n rewards, of the steps that
        are learned, gets that of its own step, times the weight of the member of the family (``beta``).

        Args:
            train_data: ``reward`` ``[B, T, nstep]``, ``beta``, ``done``, and ``null`` for padding.
            inter_episodic_reward, episodic_reward: ``[B * T]``, as the two models estimate them.
            nstep: Number of rewards before the bootstrap value.
            collector_env_num: Size of the policy family.
            tb_logger, estimate_cnt: Accepted for compatibility with DI-engine; the model uses its own writer and count.
        """
        batch = sequence_batch(train_data)
        real, columns = _real(batch), batch.columns
        reward = torch.as_tensor(columns["reward"]).float().reshape(*real.shape, nstep)
        intrinsic = (episodic_reward * inter_episodic_reward.clamp(1, 5)).cpu().reshape(real.shape)
        names = ("max", "mean", "min", "std")
        values = (intrinsic.max(), intrinsic.mean(), intrinsic.min(), intrinsic.std(correction=0))
        self.log("intrinsic_reward", **dict(zip(names, values)))
        beta = torch.as_tensor(columns["beta"]).reshape(real.shape)[:, 0].long()
        weighted = torch.tensor(family_betas(collector_env_num))[beta].unsqueeze(1) * intrinsic
        # Step j uses the intrinsic rewards of steps j to j + nstep - 1; learned steps end before the last nstep.
        bonus = F.pad(weighted, (0, nstep - 1)).unfold(1, nstep, 1)
        learned = real.clone()
        learned[:, -nstep:] = False
        mixed = torch.where(learned.unsqueeze(-1), reward + bonus, reward)
        if self.cfg.last_nonzero_reward_rescale:
            ended = learned & torch.as_tensor(columns["done"]).reshape(real.shape).bool()
            mixed[ended] = self._rescaled(reward[ended], bonus[ended], real.shape[1])
        return batch.with_columns(reward=mixed), estimate_cnt + 1

    def _rescaled(self, reward: torch.Tensor, bonus: torch.Tensor, num_steps: int) -> torch.Tensor:
        """Return the rewards ``[N, nstep]`` of steps whose episode ends, with the last non-zero one rescaled."""
        weight = self.cfg.last_nonzero_reward_weight
        nonzero = reward != 0
        last = nonzero & (nonzero.flip(1).cumsum(1).flip(1) == 1)
        return torch.where(last, (num_steps if weight is None else weight) * reward + bonus, reward)


class NGURewardModels(BaseRewardModel):
    """Combine both models: they learn from the same samples, and a sample's reward is their fusion.

    Args:
        rnd, episodic: The two models.
        nstep, collector_env_num: Settings of the policy, see :meth:`EpisodicNGURewardModel.fusion_reward`.
    """

    def __init__(
        self, rnd: RndNGURewardModel, episodic: EpisodicNGURewardModel, nstep: int, collector_env_num: int
    ) -> None:
        super().__init__({})
        self._episodic = episodic
        self.models: dict[str, _SequenceModel] = {"rnd": rnd, "episodic": episodic}
        self._nstep, self._collector_env_num = nstep, collector_env_num
        self._num_trainings = 0

    def collect_data(self, data: Samples) -> None:
        """Store the data of both models."""
        batch = sequence_batch(data)
        for model in self.models.values():
            model.collect_data(batch)

    def train(self) -> None:
        """Train both models."""
        for model in self.models.values():
            model.train()
        self._num_trainings += 1

    def clear_data(self) -> None:
        """Clear the collected data of each model after every ``clear_buffer_per_iters`` of its trainings."""
        for model in self.models.values():
            if self._num_trainings % model.cfg.clear_buffer_per_iters == 0:
                model.clear_data()

    def estimate(self, data: Samples) -> Samples:
        """Return B sequences with combined extrinsic and intrinsic rewards."""
        batch = sequence_batch(data)
        life, episode = (model.estimate(batch) for model in self.models.values())
        return self._episodic.fusion_reward(batch, life, episode, self._nstep, self._collector_env_num)[0]

    def state_dict(self) -> StateDict:
        """Return the states of both."""
        return {name: model.state_dict() for name, model in self.models.items()}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load what :meth:`state_dict` returned."""
        for name, model in self.models.items():
            model.load_state_dict(state_dict[name])

    def run_state(self) -> StateDict:
        """Return the run states of both, and the number of trainings."""
        models = {name: model.run_state() for name, model in self.models.items()}
        return {"models": models, "num_trainings": self._num_trainings}

    def load_run_state(self, state_dict: StateDict) -> None:
        """Restore what :meth:`run_state` returned."""
        for name, model in self.models.items():
            model.load_run_state(state_dict["models"][name])
        self._num_trainings = int(state_dict["num_trainings"])


def _novelty(distances: torch.Tensor) -> torch.Tensor:
    """Map distances ``[N, neighbours]``, in units of their mean, to novelties ``[N]``."""
    kernel = _WIDTH / ((distances - _SAME).clamp(min=0) + _WIDTH)
    similarity = kernel.sum(1).sqrt() + _OFFSET
    return torch.where(similarity > _FAMILIAR, 0.0, 1 / similarity)


def _observations(batch: TransitionBatch) -> torch.Tensor:
    """float32 ``[B, T, ...]``."""
    return torch.as_tensor(batch.columns["obs"]).float()


def _real(batch: TransitionBatch) -> torch.Tensor:
    """Return a mask of real (not padded) steps, bool ``[B, T]``."""
    shape = torch.as_tensor(batch.columns["done"]).shape[:2]
    null = batch.columns.get("null")
    return torch.ones(shape, dtype=torch.bool) if null is None else ~torch.as_tensor(null).reshape(shape).bool()
