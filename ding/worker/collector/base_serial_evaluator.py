"""The evaluator interface, its factories and the bookkeeping of episodes."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from easydict import EasyDict

from ding.utils import SERIAL_EVALUATOR_REGISTRY
from ding.worker._component import Configurable, build_by_type, class_by_type
from ding.worker.collector._eval_monitor import VectorEvalMonitor

__all__ = ["ISerialEvaluator", "VectorEvalMonitor", "create_serial_evaluator", "get_serial_evaluator_cls"]


class ISerialEvaluator(Configurable, ABC):
    """What a serial evaluator offers: it measures a policy now and then."""

    @abstractmethod
    def reset_env(self, _env: Any = None) -> None:
        """Reset the env manager, or replace and launch it."""

    @abstractmethod
    def reset_policy(self, _policy: Any = None) -> None:
        """Reset the policy, or replace it."""

    @abstractmethod
    def reset(self, _policy: Any = None, _env: Any = None) -> None:
        """Replace policy and env where given, and forget the best result."""

    @abstractmethod
    def close(self) -> None:
        """Release what the evaluator holds."""

    @abstractmethod
    def should_eval(self, train_iter: int) -> bool:
        """Whether it is time to evaluate. An answer of True is remembered as an evaluation at ``train_iter``."""

    @abstractmethod
    def eval(
        self,
        save_ckpt_fn: Callable[[str], Any] | None = None,
        train_iter: int = -1,
        envstep: int = -1,
        n_episode: int | None = None,
    ) -> tuple[bool, Any]:
        """Measure the policy: ``(whether training may stop, what was measured)``."""


def create_serial_evaluator(cfg: EasyDict, **kwargs: Any) -> ISerialEvaluator:
    """Build the evaluator registered under ``cfg.type`` after importing ``cfg.import_names``.

    A missing type is set to ``'interaction'``.

    Raises:
        KeyError: ``cfg.type`` is not registered; the message names the nearest type.
    """
    cfg.setdefault("type", "interaction")
    return build_by_type(SERIAL_EVALUATOR_REGISTRY, cfg, **kwargs)


def get_serial_evaluator_cls(cfg: EasyDict) -> type:
    """The class of the evaluator registered under ``cfg.type``.

    Raises:
        KeyError: the type is missing or not registered.
    """
    return class_by_type(SERIAL_EVALUATOR_REGISTRY, cfg)
