"""Behaviour cloning (Pomerleau 1988, ALVINN): supervised learning of what an expert did."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch.nn import functional

from ding.data import EnvBatch, batched
from ding.data.roles import Samples
from ding.model import model_wrap
from ding.policy._learning.optimization import EpochRates, sgd_or_adamw, warmed_up_share
from ding.policy._learning.update import Logs
from ding.policy.base_policy import Policy
from ding.policy.common_utils import transition_of
from ding.policy.errors import PolicyConfigError
from ding.rl_utils import get_train_sample
from ding.torch_utils import SGD, Adam
from ding.torch_utils.loss import LabelSmoothCELoss
from ding.utils import POLICY_REGISTRY
from ding.utils.names import did_you_mean

_DISTANCES: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {"l1_loss": torch.abs, "mse_loss": torch.square}
# Predictions at or beyond it are those that a squashed action hardly reaches.
_TANH_LIMIT = torch.tanh(torch.tensor(1.0)).item()


@POLICY_REGISTRY.register("bc")
class BehaviourCloningPolicy(Policy):
    """A policy that is trained to choose the actions of a data set, discrete or continuous."""

    config = {
        "type": "bc",
        "cuda": False,
        "on_policy": False,
        # (bool) Whether actions are continuous.
        "continuous": False,
        # (str) 'l1_loss' or 'mse_loss': the distance of continuous actions.
        "loss_type": "l1_loss",
        # (int) Kept for configs of DI-engine: ``model.action_shape`` is what the network has.
        "action_shape": 19,
        "learn": {
            "update_per_collect": 1,
            "batch_size": 32,
            "learning_rate": 1e-5,
            # (bool) Whether the learning rate is ``warmup_lr`` for ``warmup_epoch`` epochs, and is multiplied with
            # ``decay_rate`` every ``decay_epoch`` epochs after them.
            "lr_decay": False,
            "decay_epoch": 30,
            "decay_rate": 0.1,
            "warmup_lr": 1e-4,
            "warmup_epoch": 3,
            # (str) 'SGD' or 'Adam' (with decoupled weight decay).
            "optimizer": "SGD",
            "momentum": 0.9,
            "weight_decay": 1e-4,
            # (bool) Whether a tenth of the target goes to all discrete actions alike.
            "ce_label_smooth": False,
            # (bool) Whether to log the share of discrete actions that are those of the data.
            "show_accuracy": False,
            # (bool) Whether to leave out continuous actions whose prediction lies near the border.
            "tanh_mask": False,
            "ignore_done": False,
        },
        "collect": {
            "unroll_len": 1,
            # (bool) Whether continuous actions get noise, of which deviation (or start, end, decay, type by train
            # iterations), within which range.
            "noise": False,
            "noise_sigma": 0.2,
            "noise_range": {"min": -0.5, "max": 0.5},
        },
        "eval": {},
        "other": {"replay_buffer": {"replay_buffer_size": 10000}},
    }

    #: The fields of a data set that are learned from.
    learn_fields: ClassVar[tuple[str, ...]] = ("obs", "action")

    optional_keys: ClassVar[dict[str, str]] = {
        "learn": "grad_clip_type grad_clip_value",
        "collect.noise_sigma": "start end decay type",
        "other": "eps",
        "other.eps": "type start end decay",
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``discrete_bc`` or ``continuous_bc`` of :mod:`ding.model.template.bc`."""
        return "continuous_bc" if self._cfg.continuous else "discrete_bc", ["ding.model.template.bc"]

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        if self._cfg.loss_type not in _DISTANCES:
            hint = did_you_mean(str(self._cfg.loss_type), _DISTANCES)
            raise PolicyConfigError(f"policy.loss_type: {self._cfg.loss_type!r} is unknown.{hint}")
        if self._cfg.continuous and getattr(self._model, "action_space", "regression") != "regression":
            raise PolicyConfigError("policy.model.action_space: behaviour cloning learns actions, use 'regression'")
        self._optimizer = self._make_optimizer()
        #: Moved on by the pipeline after each epoch.
        self._lr_scheduler = (
            EpochRates(self._optimizer, lambda epoch: warmed_up_share(learn, epoch)) if learn.lr_decay else None
        )
        self._learn_model = model_wrap(self._model, wrapper_name="base")

    def _make_optimizer(self) -> Adam | SGD:
        return sgd_or_adamw(self._model.parameters(), self._cfg.learn)

    @batched
    def _forward_learn(self, data: Samples) -> Logs:
        """One update on B samples with ``obs`` and ``action``.

        Returns:
            ``cur_lr, total_loss`` and with ``show_accuracy`` ``accuracy`` (floats).
        """
        return self._learn(data)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One step towards the demonstrated actions ``a``.

        Discrete: the cross entropy of ``a``, and with ``ce_label_smooth`` of targets of which a tenth goes to all
        actions alike. Continuous: ``mean |pi(s) - a|``, or of squares (``loss_type``); with ``tanh_mask`` over the
        entries with ``|pi(s)| < tanh(1)``, unless these are less than 20 %.
        """
        learn, action, output = self._cfg.learn, batch["action"], self._model(batch["obs"])
        numbers = {}
        if self._cfg.continuous:
            prediction = output["action"]
            error = _DISTANCES[self._cfg.loss_type](prediction - action.reshape(prediction.shape))
            kept = torch.ones_like(error)
            if learn.tanh_mask:
                inside = (prediction.detach().abs() < _TANH_LIMIT).float()
                kept = torch.where(inside.mean() < 0.2, kept, inside)
            loss = (error * kept).sum() / kept.sum()
        else:
            logit = output["logit"]
            loss = (LabelSmoothCELoss(0.1) if learn.ce_label_smooth else functional.cross_entropy)(logit, action)
            if learn.show_accuracy:
                numbers["accuracy"] = (logit.argmax(-1) == action).float().mean()
        self._optimize(loss, self._optimizer, self._model)
        return {"total_loss": loss, **numbers}

    def _monitor_vars_learn(self) -> list[str]:
        accuracy = ["accuracy"] if self._cfg.learn.show_accuracy and not self._cfg.continuous else []
        return ["cur_lr", "total_loss", *accuracy]

    def _init_collect(self) -> None:
        collect = self._cfg.collect
        self._unroll_len = collect.unroll_len
        if not self._cfg.continuous:
            self._collect_model = model_wrap(
                self._model, wrapper_name="eps_greedy_sample", reference_numerics=self._reference_numerics
            )
        elif collect.noise:
            sigma = collect.noise_sigma
            self._collect_model = model_wrap(
                self._model,
                wrapper_name="action_noise",
                noise_type="gauss",
                noise_kwargs={"mu": 0.0, "sigma": sigma["start"] if isinstance(sigma, Mapping) else sigma},
                noise_range=collect.noise_range,
            )
        else:
            self._collect_model = model_wrap(self._model, wrapper_name="base")

    @batched
    def _forward_collect(self, data: EnvBatch, **kwargs: Any) -> EnvBatch:  # type: ignore[override]
        """``action`` (int64 ``[N, 1]`` with ``logit``, or float32 ``[N, D]``).

        Args:
            kwargs: ``eps``, the chance of a random discrete action; ``sigma``, the deviation of the noise.
        """
        if self._cfg.continuous and not self._cfg.collect.noise:
            kwargs.pop("sigma", None)
        return self._act(self._collect_model, data, **kwargs)

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """``obs, next_obs, action, reward, done``, for one environment or for columns of N."""
        return transition_of(obs, policy_output, timestep, time_limit_is_end=self._reference_numerics)

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Sequences of ``collect.unroll_len``."""
        return get_train_sample(transitions, self._unroll_len)

    def _init_eval(self) -> None:
        self._eval_model = model_wrap(self._model, wrapper_name="base" if self._cfg.continuous else "argmax_sample")

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """``action``: the most likely one, int64 ``[N, 1]`` with ``logit``; or a continuous one, float32 ``[N, D]``."""
        return self._act(self._eval_model, data)
