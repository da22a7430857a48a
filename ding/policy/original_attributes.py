"""Private attributes of DI-engine's policies, for subclasses that were written for it.

A subclass with a ``_forward_learn`` or ``_get_train_sample`` of its own reads such attributes of the policy in addition
to the config: ``self._clip_ratio``, ``self._log_alpha``. The policies here do not keep them: they read the config, and
call some parts by other names. ``original_attributes.json`` lists where each value is, as :data:`ATTRIBUTES`;
:func:`original_attribute` looks it up when a policy lacks an attribute.

* A value is looked up at each access. Optimisers, parameters and timers are the objects themselves and not copies.
* An attribute that a subclass sets is an ordinary one from then on. The methods here continue to read the config:
  :func:`warn_of_unread` names what such a subclass sets in vain.
* Nothing in this package reads an attribute in this way.

An entry of a class in the file is one of:

=============== =====================================================================================
``config``      path of a key in the ``policy`` section of the config
``attribute``   another attribute of the policy, where dots lead to attributes of its value
``constant``    the value itself
``updates_of``  attribute of an optimizer; the value is the number of its updates, across checkpoints
``computed``    name of a function in :data:`COMPUTED`
=============== =====================================================================================
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from easydict import EasyDict

from ding.policy._learning.optimization import ReadOnlySchedule
from ding.policy._learning.target_update import num_steps
from ding.policy.errors import PolicyMemberError
from ding.torch_utils.loss import LabelSmoothCELoss
from ding.utils.time_helper import EasyTimer

logger = logging.getLogger(__name__)


class Parts(Protocol):
    """What the functions below read of the policies that have them."""

    _cfg: EasyDict
    _cuda: bool
    _model: torch.nn.Module
    _optimizer: torch.optim.Optimizer
    _temperature: Any

    def _steps_of_sample(self) -> int:
        """The length of a sample that is a sequence."""


class Learning(Protocol):
    """What :func:`warn_of_unread` looks at."""

    def _init_learn(self) -> None:
        """The parts of learning."""

    def _forward_learn(self, data: Any) -> object:
        """One call of learning."""


def _alpha(policy: Parts) -> torch.Tensor:
    """The temperature: the parameter itself where that is what is learned, else its value without gradients."""
    learn = policy._cfg.learn
    is_learned = learn.auto_alpha and not learn.log_space
    alpha: torch.Tensor = policy._temperature.alpha if is_learned else policy._temperature.value
    return alpha


def _twin_critic(policy: Parts) -> bool:
    return bool(policy._cfg.model.get("twin_critic", getattr(policy._model, "twin_critic", False)))


def _with_lagrange(policy: Parts) -> bool:
    learn = policy._cfg.learn
    return bool(learn.with_lagrange and learn.lagrange_thresh > 0)


def _lr_scheduler(policy: Parts) -> ReadOnlySchedule:
    if policy._cfg.learn.lr_scheduler is None:
        raise AttributeError("policy.learn.lr_scheduler is None")
    return ReadOnlySchedule(policy._optimizer)


def _cloning_loss(policy: Parts) -> torch.nn.Module:
    if policy._cfg.continuous:
        return torch.nn.L1Loss() if policy._cfg.loss_type == "l1_loss" else torch.nn.MSELoss()
    return LabelSmoothCELoss(0.1) if policy._cfg.learn.ce_label_smooth else torch.nn.CrossEntropyLoss()


def _timer(name: str, policy: Parts) -> EasyTimer:
    """A timer that is kept: it is read after it has run."""
    timer: EasyTimer = policy.__dict__.setdefault(name, EasyTimer(cuda=policy._cuda))
    return timer


COMPUTED: Mapping[str, Callable[[Any], Any]] = {
    "alpha": _alpha,
    "cloning_loss": _cloning_loss,
    "lr_scheduler": _lr_scheduler,
    "steps_of_sample": lambda policy: policy._steps_of_sample(),
    "sync_timer": partial(_timer, "_sync_timer"),
    "timer": partial(_timer, "_timer"),
    "twin_critic": _twin_critic,
    "with_lagrange": _with_lagrange,
}
"""Name in ``original_attributes.json`` -> function of the policy."""


class Source(NamedTuple):
    """Where the value of an attribute is: the kind of an entry, and its text or constant."""

    kind: str
    entry: Any

    def value_in(self, policy: object) -> Any:
        """Return the value in a policy.

        Raises:
            AttributeError, KeyError: a policy of this config has none.
        """
        return _KINDS[self.kind](policy, self.entry)


_KINDS: Mapping[str, Callable[[Any, Any], Any]] = {
    "config": lambda policy, path: _from_config(policy._cfg, path),
    "attribute": lambda policy, path: attrgetter(path)(policy),
    "constant": lambda policy, value: value,
    "updates_of": lambda policy, optimizer: num_steps(getattr(policy, optimizer)),
    "computed": lambda policy, name: COMPUTED[name](policy),
}


def _read() -> dict[str, dict[str, Source]]:
    """Return the table of ``original_attributes.json``. (JSON, because Python 3.10 cannot read TOML.)"""
    classes = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return {
        name: {attribute: Source(kind, entry) for kind in kinds for attribute, entry in kinds[kind].items()}
        for name, kinds in classes.items()
    }


ATTRIBUTES: Mapping[str, Mapping[str, Source]] = _read()
"""Class -> attribute -> where its value is; a class has those of its parents, too."""


def attribute_sources(cls: type) -> Iterator[tuple[str, Source]]:
    """Yield the attributes that the instances of a class have, those of the nearest class first."""
    for parent in cls.__mro__:
        yield from ATTRIBUTES.get(parent.__name__, {}).items()


def original_attribute(policy: object, name: str) -> Any:
    """Return the value of an attribute that a policy lacks, by :data:`ATTRIBUTES`.

    Raises:
        PolicyMemberError: there is none of that name, or none in a policy of this config (an ``AttributeError``).
    """
    if hasattr(type(policy), name):  # a property whose own error led here
        return object.__getattribute__(policy, name)
    own = vars(policy)
    if not name.startswith("__") and "_cfg" in own:  # a policy that is being copied has no config yet
        for parent in type(policy).__mro__:
            source = ATTRIBUTES.get(parent.__name__, {}).get(name)
            if source is not None:
                try:
                    return source.value_in(policy)
                except (AttributeError, KeyError) as error:
                    raise PolicyMemberError(type(policy).__name__, name, reason=str(error)) from error
    known = {*own, *(key for key, _ in attribute_sources(type(policy)))}
    raise PolicyMemberError(type(policy).__name__, name, known=tuple(known))


def warn_of_unread(policy: Learning) -> None:
    """Log which attributes a subclass has set to other values than those of the config, although ``_forward_learn`` is
    one of this package, which reads the config.
    """
    if not _is_ours(type(policy)._forward_learn) or _is_ours(type(policy)._init_learn):
        return
    own = vars(policy)
    for name, source in dict(attribute_sources(type(policy))).items():
        if name in own and source.kind == "config" and own[name] != source.value_in(policy):
            logger.warning(
                "%s sets %s=%r, but its _forward_learn is that of ding and reads policy.%s: set that key, or override "
                "_forward_learn, too",
                type(policy).__name__, name, own[name], source.entry,
            )  # fmt: skip


def _is_ours(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("ding.policy.")


def _from_config(cfg: Mapping[str, Any], path: str) -> Any:
    value = cfg
    for key in path.split("."):
        if key not in value:
            raise KeyError(f"the config has no policy.{path}")
        value = value[key]
    return value
