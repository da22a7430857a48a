"""Decision transformer: actions that lead to a wanted return (Chen et al. 2021, arXiv:2106.01345)."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ding.data import EnvBatch, batched
from ding.data.columns import row_list, stack_rows
from ding.data.roles import StateDict
from ding.model.template.decision_transformer import decay_groups
from ding.policy._acting.offline import OfflinePolicy
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.update import Logs
from ding.policy.errors import PolicyConfigError, PolicyDataError, PolicyUsageError
from ding.utils import POLICY_REGISTRY
from ding.utils.nested import map_nested

# The betas of AdamW where states are encoded.
_IMAGE_BETAS = (0.9, 0.95)
_WINDOW = ("timesteps", "states", "actions", "returns_to_go", "mask")


@POLICY_REGISTRY.register("dt")
class DTPolicy(OfflinePolicy):
    """A sequence model of trajectories that acts for the return ``rtg_target``; it learns from data sets only.

    A sample is a window of a trajectory, as the data set ``d4rl_trajectory`` gives it. An evaluator's env must give
    observations ``{'obs', 'reward'}`` (wrapper ``reward_in_obs``); states that are vectors are standardised by
    ``state_mean`` and ``state_std``, which ``serial_pipeline_offline`` takes from the data set. States that are images
    or dicts (``model.state_dim``) go through an encoder, and actions over them are drawn.
    """

    optional_keys = {"": "evaluator_env_num"}

    config = {
        "type": "dt",
        "cuda": False,
        "on_policy": False,
        "priority": False,
        "obs_shape": 4,
        "action_shape": 2,
        # (float) The return-to-go is divided by it.
        "rtg_scale": 1000,
        # (float) The return that is aimed at; must be given.
        "rtg_target": None,
        # (int) Kept for configs of DI-engine; the env ends episodes.
        "max_eval_ep_len": 1000,
        "batch_size": 64,
        # (float) Weight decay, and number of updates over which the learning rate grows to its value.
        "wt_decay": 1e-4,
        "warmup_steps": 10000,
        # (int) Steps of a window.
        "context_len": 20,
        "learning_rate": 1e-4,
        # (float) Limit of the 2-norm of all gradients together, unless learn.grad_clip_type names another way.
        "clip_grad_norm_p": 0.25,
        # (sequence of float) Of the states of the data set.
        "state_mean": 0.0,
        "state_std": 1.0,
        "learn": {"batch_size": 64},
        "collect": {},
        "eval": {},
        "other": {"replay_buffer": {}},
    }

    learn_state = {"model": "_model", "optimizer": "_optimizer", "scheduler": "_scheduler"}
    learn_fields = ()

    def default_model(self) -> tuple[str, list[str]]:
        """``dt`` of :mod:`ding.model.template.decision_transformer`."""
        return "dt", ["ding.model.template.decision_transformer"]

    def _init_learn(self) -> None:
        cfg = self._cfg
        self._continuous = bool(cfg.model.get("continuous", False))
        self._learn_model = self._model
        self._optimizer = self._make_optimizer()
        self._max_norm = None if cfg.learn.get("grad_clip_type") else float(cfg.clip_grad_norm_p)
        warmup, decay = max(1, int(cfg.warmup_steps)), self._optimizer.schedule
        # One schedule for both.
        self._optimizer.schedule = None

        def share(updates: int) -> float:
            return min((updates + 1) / warmup, 1.0) * (1.0 if decay is None else decay.share(updates))

        self._scheduler = torch.optim.lr_scheduler.LambdaLR(self._optimizer, share)

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        """A file of DI-engine holds no warm-up, which then stays as it is."""
        super()._load_state_dict_learn({"scheduler": self._scheduler.state_dict(), **state_dict})

    def _make_optimizer(self) -> torch.optim.Optimizer:
        cfg, model = self._cfg, self._model
        options: dict[str, Any] = {"lr": cfg.learning_rate, "optim_type": "adamw"}
        if not self._encodes():
            return clipping_adam(model.parameters(), cfg.learn, weight_decay=cfg.wt_decay, **options)
        groups = decay_groups(model, cfg.wt_decay)
        return clipping_adam(groups, cfg.learn, betas=_IMAGE_BETAS, weight_decay=0.0, **options)

    def data_statistics(self) -> StateDict:
        """Return mean and deviation of the states of the data set."""
        return {"state_mean": self._mean, "state_std": self._std} if hasattr(self, "_mean") else {}

    def load_data_statistics(self, state: StateDict) -> None:
        """Standardise states by these from now on."""
        self._mean, self._std = (
            torch.as_tensor(state[key], dtype=torch.float32) for key in ("state_mean", "state_std")
        )

    def _encodes(self) -> bool:
        """Whether states go through an encoder: images and dicts."""
        return getattr(self._model, "state_encoder", None) is not None

    def _forward_learn(self, data: Sequence[Any]) -> Logs:
        """One update on B windows: a list of B tuples ``(timesteps, states, actions, returns_to_go, mask)``, or the
        list of the five tensors with a leading B.

        Returns:
            ``cur_lr, action_loss, total_loss``, floats.

        Raises:
            PolicyDataError: the samples are no such windows.
        """
        result = self._learn(data)
        self._scheduler.step()
        return result

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One step on the squared error (continuous) or the cross entropy of the actions that the network predicts from
        the states, actions and returns-to-go until then, over the steps that there are.
        """
        actions, there = batch["actions"], batch["mask"] > 0
        _, predicted, _ = self._model(batch["timesteps"], batch["states"], actions, batch["returns_to_go"])
        if self._continuous:
            loss = F.mse_loss(predicted[there], actions[there])
        else:
            loss = F.cross_entropy(predicted[there], actions.reshape(there.shape)[there].long())
        self._optimize(loss, self._optimizer, self._model, self._max_norm)
        return {"action_loss": loss, "total_loss": loss}

    def _learn_batch(self, data: Sequence[Any], weighted: bool | None = None) -> dict[str, Any]:
        """Return B windows of T steps as tensors on the device: ``timesteps`` int64 ``[B, T]``, ``states`` ``[B, T,
        S]``, ``actions`` ``[B, T, 1]`` or ``[B, T, A]``, ``returns_to_go`` ``[B, T]`` or ``[B, T, 1]`` and ``mask``
        ``[B, T]`` (1: a step, 0: padding).
        """
        stacked = len(data) == len(_WINDOW) and isinstance(data[0], torch.Tensor)
        if not stacked and not all(isinstance(one, (tuple, list)) and len(one) == len(_WINDOW) for one in data):
            raise PolicyDataError(f"dt learns from windows ({', '.join(_WINDOW)})")
        fields = data if stacked else [stack_rows(map_nested(torch.as_tensor, list(field))) for field in zip(*data)]
        return dict(zip(_WINDOW, self._placed(fields), strict=True))

    def _placed(self, fields: Sequence[Any]) -> list[Any]:
        rows: list[Any] = map_nested(lambda x: x.to(self._device), list(fields))
        return rows

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "action_loss", "total_loss"]

    def _init_eval(self) -> None:
        cfg = self._cfg
        if cfg.rtg_target is None:
            raise PolicyConfigError("policy.rtg_target is missing: the return that the policy is to reach")
        self._eval_model = self._model
        self._continuous = bool(cfg.model.get("continuous", False))
        self.load_data_statistics({"state_mean": cfg.state_mean, "state_std": cfg.state_std})
        self._context = int(cfg.model.context_len)
        self._last_timestep = int(cfg.model.get("max_timestep", 4096)) - 1
        self._episodes: dict[int, _Episode] = {}

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """The action of the newest step of each env, ``[N, 1]`` or ``[N, A]``.

        Args:
            data: ``{'obs': [N, S], 'reward': [N, 1]}``; the reward is that of the step that led to ``obs``.
        """
        columns = data.columns
        if not isinstance(columns, dict) or not {"obs", "reward"} <= columns.keys():
            raise PolicyUsageError("dt needs observations {'obs', 'reward'}: give the env the wrapper 'reward_in_obs'")
        # Copies: an env manager may write the next observations into the same arrays.
        states = map_nested(lambda x: torch.as_tensor(x).clone(), columns["obs"])
        if not self._encodes():
            states = (states.float() - self._mean) / self._std
        rewards = np.asarray(columns["reward"], np.float32).reshape(-1)
        scale = float(self._cfg.rtg_scale)
        ids = [int(env_id) for env_id in data.env_ids]
        none = torch.zeros(int(self._cfg.model.act_dim)) if self._continuous else torch.zeros(1, dtype=torch.int64)
        for env_id, state, reward in zip(ids, row_list(states, len(ids)), rewards):
            episode = self._episodes.setdefault(env_id, _Episode(self._context))
            togo = episode.returns_to_go
            before = togo[-1] - float(reward) / scale if togo else float(self._cfg.rtg_target) / scale
            episode.add(state, none, torch.as_tensor(before, dtype=torch.float32))
        actions = self._predict(ids)
        for env_id, action in zip(ids, actions):
            self._episodes[env_id].actions[-1] = action
        return EnvBatch(data.env_ids, {"action": actions})

    def _predict(self, ids: list[int]) -> torch.Tensor:
        """The predictions for the newest steps; contexts of different lengths are filled up behind, where the causal
        network does not look.
        """
        episodes = [self._episodes[env_id] for env_id in ids]
        longest = max(len(episode.states) for episode in episodes)
        rows = []
        for episode in episodes:
            kept: list[Any] = [stack_rows(list(one)) for one in episode.fields()]
            first = max(0, episode.num_steps - longest)
            times = torch.arange(first, first + longest).clamp(max=self._last_timestep)
            rows.append([times, *(map_nested(lambda x: _filled_up(x, longest), one) for one in kept)])
        fields = self._placed([stack_rows(field) for field in zip(*rows)])
        self._model.eval()
        with torch.no_grad():
            predicted = self._model(*fields)[1].cpu()
        newest = torch.tensor([len(episode.states) - 1 for episode in episodes])
        found = predicted[torch.arange(len(ids)), newest]
        if self._encodes():
            return torch.multinomial(found.softmax(-1), 1)
        output: torch.Tensor = found if self._continuous else found.argmax(-1, keepdim=True)
        return output

    def _reset_eval(self, data_id: list[int] | None = None) -> None:
        for env_id in [*self._episodes] if data_id is None else data_id:
            self._episodes.pop(env_id, None)

    def _state_dict_eval(self) -> StateDict:
        return {"model": self._model.state_dict()}


class _Episode:
    """The newest steps of an episode that is played, as many as the network sees.

    Args:
        context: their number.
    """

    def __init__(self, context: int) -> None:
        self.num_steps = 0
        self.states: deque[Any] = deque(maxlen=context)
        self.actions: deque[torch.Tensor] = deque(maxlen=context)
        self.returns_to_go: deque[torch.Tensor] = deque(maxlen=context)

    def fields(self) -> tuple[deque[Any], ...]:
        """States, actions and returns-to-go, with as many entries each."""
        return self.states, self.actions, self.returns_to_go

    def add(self, *step: Any) -> None:
        """Append a value of each field."""
        for kept, value in zip(self.fields(), step):
            kept.append(value)
        self.num_steps += 1


def _filled_up(steps: torch.Tensor, count: int) -> torch.Tensor:
    """``[T, ...]`` with zeros behind, ``[count, ...]``."""
    return F.pad(steps, (0, 0) * (steps.ndim - 1) + (0, count - len(steps)))
