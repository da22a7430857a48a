"""How a policy's networks are optimised: optimisers by the keys of the config, and one call of learning.

The keys stand in ``policy.learn``:

* ``learning_rate``, ``weight_decay``;
* ``betas``, ``optim_type`` (``'adam'``, or ``'adamw'`` with decoupled weight decay), of DDPG, SAC and their relatives;
* ``grad_clip_type``, ``grad_clip_value`` (or ``clip_value``): see :class:`ding.torch_utils.Adam`;
* ``lr_scheduler``: ``{epoch_num, min_lr_lambda}``, or a pair of them: the learning rate falls linearly over that many
  calls of ``learn.forward`` to that share;
* ``amp``: ``'bfloat16'`` computes what autocast of torch finds fit for it in that precision.
"""

import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import torch

from ding.policy.compiled_updates import CompiledUpdates
from ding.policy.errors import PolicyConfigError
from ding.torch_utils import SGD, Adam, RMSprop
from ding.torch_utils.lr_scheduler import LinearDecay
from ding.torch_utils.threads import apply_fitted_num_threads
from ding.utils.names import check_choice, did_you_mean

log = logging.getLogger(__name__)

_CLONING_OPTIMIZERS = ("SGD", "Adam")
_OPTIM_TYPES = ("adam", "adamw")
_AMP_TYPES = {"bfloat16": torch.bfloat16}
_Optimizer = TypeVar("_Optimizer", Adam, RMSprop, SGD)
_Parameters = Iterable[torch.nn.Parameter] | Iterable[dict[str, Any]]


def clipping_adam(params: _Parameters, learn_cfg: Mapping[str, Any], **options: Any) -> Adam:
    """Adam by the keys of a ``learn`` section; ``options`` come first.

    Raises:
        PolicyConfigError: an unknown type or way of clipping, one without a limit, a wrong schedule (a
            ``RuntimeError``).
    """
    given = {key: learn_cfg[key] for key in ("betas", "optim_type") if learn_cfg.get(key) is not None}
    check_choice("policy.learn.optim_type", given.get("optim_type", "adam"), _OPTIM_TYPES, PolicyConfigError)
    if "betas" in given:
        given["betas"] = tuple(given["betas"])
    return _clipping(Adam, params, learn_cfg, given | options)


def clipping_rmsprop(params: _Parameters, learn_cfg: Mapping[str, Any], **options: Any) -> RMSprop:
    """RMSprop by the keys of a ``learn`` section, as :func:`clipping_adam`."""
    return _clipping(RMSprop, params, learn_cfg, options)


def clipping_sgd(params: _Parameters, learn_cfg: Mapping[str, Any], **options: Any) -> SGD:
    """Gradient descent by the keys of a ``learn`` section, ``momentum`` too, as :func:`clipping_adam`."""
    return _clipping(SGD, params, learn_cfg, {"momentum": learn_cfg.get("momentum", 0.0), **options})


def sgd_or_adamw(params: _Parameters, learn_cfg: Mapping[str, Any]) -> Adam | SGD:
    """The optimiser that ``learn.optimizer`` names: ``'SGD'``, or ``'Adam'`` with decoupled weight decay.

    Raises:
        PolicyConfigError: another name, or as :func:`clipping_adam`.
    """
    if learn_cfg["optimizer"] not in _CLONING_OPTIMIZERS:
        hint = did_you_mean(str(learn_cfg["optimizer"]), _CLONING_OPTIMIZERS)
        raise PolicyConfigError(f"policy.learn.optimizer: {learn_cfg['optimizer']!r} is unknown.{hint}")
    if learn_cfg["optimizer"] == "SGD":
        return clipping_sgd(params, learn_cfg)
    return clipping_adam(params, learn_cfg, optim_type="adamw")


def _clipping(
    cls: Callable[..., _Optimizer], params: _Parameters, learn_cfg: Mapping[str, Any], options: Mapping[str, Any]
) -> _Optimizer:
    kind, limit = learn_cfg.get("grad_clip_type"), learn_cfg.get("grad_clip_value", learn_cfg.get("clip_value"))
    decay = learn_cfg.get("weight_decay") or 0.0
    given = {"weight_decay": decay, "grad_clip_type": kind, "clip_value": limit, **options}
    given.setdefault("lr", learn_cfg.get("learning_rate"))
    try:
        optimizer = cls(params, **given)
    except ValueError as error:
        raise PolicyConfigError(f"policy.learn.grad_clip_type={kind!r}, grad_clip_value={limit!r}: {error}") from error
    optimizer.schedule = _schedule(optimizer, learn_cfg.get("lr_scheduler"))
    return optimizer


def _schedule(optimizer: torch.optim.Optimizer, setting: Any) -> LinearDecay | None:
    if setting is None:
        return None
    try:
        pair = (setting["epoch_num"], setting["min_lr_lambda"]) if isinstance(setting, Mapping) else setting
        epochs, lowest = (float(number) for number in pair)
    except (KeyError, TypeError, ValueError) as error:
        raise PolicyConfigError(
            f"policy.learn.lr_scheduler must be None or have epoch_num and min_lr_lambda, found {setting!r}"
        ) from error
    return LinearDecay(tuple(group["lr"] for group in optimizer.param_groups), epochs, lowest)


class EpochRates:
    """Learning rates of an optimiser by the number of the epoch.

    Args:
        share: The epoch, from 0, to the factor of the learning rate.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, share: Callable[[int], float]) -> None:
        self._optimizer, self._share = optimizer, share
        self._starts = [group["lr"] for group in optimizer.param_groups]
        self._epoch = -1
        self.step()

    def step(self) -> None:
        """Go to the next epoch."""
        self._epoch += 1
        for group, start in zip(self._optimizer.param_groups, self._starts):
            group["lr"] = start * self._share(self._epoch)


def warmed_up_share(learn_cfg: Mapping[str, Any], epoch: int) -> float:
    """The share of the learning rate in an epoch: ``warmup_lr`` up to ``warmup_epoch``, and then ``decay_rate`` to the
    number of times that ``decay_epoch`` epochs have passed.
    """
    if epoch <= learn_cfg["warmup_epoch"]:
        return float(learn_cfg["warmup_lr"] / learn_cfg["learning_rate"])
    return float(learn_cfg["decay_rate"] ** ((epoch - learn_cfg["warmup_epoch"]) // learn_cfg["decay_epoch"]))


class ReadOnlySchedule:
    """The learning rates of an optimiser in the form of a scheduler of torch.

    ``learn.forward`` makes the steps of ``learn.lr_scheduler``, so those of a ``_forward_learn`` change nothing.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer

    def step(self) -> None:
        """Nothing."""

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group of parameters."""
        return [group["lr"] for group in self._optimizer.param_groups]


def skip_nonfinite(parts: Iterable[object]) -> None:
    """Have the optimisers among ``parts`` leave out each step whose gradient is NaN or infinite.

    Raises:
        PolicyConfigError: one of them is none of ``ding.torch_utils``.
    """
    for part in parts:
        if isinstance(part, (Adam, RMSprop, SGD)):
            part.skips_nonfinite = True
        elif isinstance(part, torch.optim.Optimizer):
            raise PolicyConfigError(
                "policy.learn.on_nonfinite='skip' needs an optimiser of ding.torch_utils, found "
                f"{type(part).__module__}.{type(part).__name__}; use 'raise' or 'ignore'"
            )


class LearningPolicy(Protocol):
    """What :func:`learn_forward` needs of a policy."""

    learn_state: dict[str, str]
    _compiled_updates: CompiledUpdates
    _gives_priorities: bool | None

    def _forward_learn(self, data: Any) -> object:
        """One call of learning."""

    def _get_attribute(self, name: str) -> Any:
        """``cfg``, ``device``."""


def learn_forward(policy: LearningPolicy) -> Callable[..., Any]:
    """``_forward_learn`` in the precision ``learn.amp``, with a step of the schedules after each call.

    It carries the mark of :func:`ding.data.batched` where ``_forward_learn`` does.

    Raises:
        PolicyConfigError: an unknown ``learn.amp``.
    """
    forward = policy._compiled_updates.watched(policy._forward_learn)
    if policy._get_attribute("cfg").get("priority"):
        forward = _with_priorities(forward, policy)
    parts = [getattr(policy, attribute, None) for attribute in policy.learn_state.values()]
    scheduled: list[Any] = [part for part in parts if getattr(part, "schedule", None) is not None]
    amp = policy._get_attribute("cfg").get("learn", {}).get("amp")
    if not scheduled and not amp:
        return forward
    precision = _precision(amp, policy._get_attribute("device"))

    @functools.wraps(forward)
    def learn(*args: Any, **kwargs: Any) -> Any:
        with precision():
            result = forward(*args, **kwargs)
        for optimizer in scheduled:
            optimizer.schedule.step(optimizer)
        return result

    return learn


def _with_priorities(forward: Callable[..., Any], policy: LearningPolicy) -> Callable[..., Any]:
    """``forward``, with a warning after its first call if it returns no ``priority``, which a buffer draws by."""

    @functools.wraps(forward)
    def learn(*args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        if policy._gives_priorities is None:
            logs = result if isinstance(result, list) else [result]
            policy._gives_priorities = any("priority" in one for one in logs if isinstance(one, Mapping))
            if not policy._gives_priorities:
                log.warning(
                    "policy.priority=True has no effect: %s gives no priorities, so all samples are drawn alike",
                    type(policy).__name__,
                )
        return result

    return learn


def _precision(amp: Any, device: str) -> Callable[[], AbstractContextManager[Any]]:
    if amp and amp not in _AMP_TYPES:
        hint = did_you_mean(str(amp), _AMP_TYPES)
        raise PolicyConfigError(f"policy.learn.amp must be None or 'bfloat16', found {amp!r}.{hint}")
    kind = torch.device(device).type
    return lambda: torch.autocast(kind, dtype=_AMP_TYPES.get(amp), enabled=bool(amp))


def use_threads(setting: Any, model: torch.nn.Module, batch_size: int) -> None:
    """Set the threads of torch to ``policy.num_threads``, or for None to what fits ``model``.

    Raises:
        PolicyConfigError: the setting is no positive number (a ``RuntimeError``).
    """
    if setting is None:
        apply_fitted_num_threads(model, batch_size)
    elif isinstance(setting, int) and not isinstance(setting, bool) and setting >= 1:
        torch.set_num_threads(setting)
    else:
        raise PolicyConfigError(f"policy.num_threads must be a positive int or None, found {setting!r}")
