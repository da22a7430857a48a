"""Arguments of serial pipelines.

Internally a pipeline is a function of :class:`RunArguments`. Its public signature is one of those below, each defined
once: the decorator :func:`called_as` applies it to the function, for callers, ``help`` and type checkers.
"""

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ParamSpec, TypeVar

import torch

from ding.entry.serial.parts import EnvSetting, Kept
from ding.entry.view.callbacks import RunCallback
from ding.entry.view.status import UNBOUNDED
from ding.entry.view.views import RunView

InputConfig = str | os.PathLike[str] | Sequence[Mapping[str, Any]]
ENDLESS = int(1e10)
"""Default limits, so large that a run ends for other reasons."""

P = ParamSpec("P")
Returned = TypeVar("Returned")


@dataclass(frozen=True)
class RunArguments:
    """Arguments of a ``serial_pipeline*`` function, created once and passed on as one object.

    See :func:`ding.entry.serial_pipeline` for names and meanings; arguments that a pipeline lacks have their defaults.

    Args:
        expert_cfg: Config of the expert, if any, like ``input_cfg``.
        expert_model: Network of the expert; ``None``: its policy's own.
        kept: Policy and buffer of the training agent.
    """

    input_cfg: InputConfig
    seed: int = 0
    env_setting: EnvSetting | None = None
    model: torch.nn.Module | None = None
    max_train_iter: float = UNBOUNDED
    max_env_step: float = UNBOUNDED
    dynamic_seed: bool = True
    _: KW_ONLY
    view: RunView | None = None
    strict: bool = False
    callbacks: Sequence[RunCallback] = ()
    expert_cfg: InputConfig | None = None
    expert_model: torch.nn.Module | None = None
    kept: Kept | None = None


def called_as(
    make: Callable[P, RunArguments],
) -> Callable[[Callable[[RunArguments], Returned]], Callable[P, Returned]]:
    """Return a decorator that gives a function of :class:`RunArguments` the signature of their maker ``make``."""
    signature = inspect.signature(make)

    def decorate(run: Callable[[RunArguments], Returned]) -> Callable[P, Returned]:
        @functools.wraps(run)
        def pipeline(*args: P.args, **kwargs: P.kwargs) -> Returned:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{run.__name__}() {error}") from None
            return run(make(*args, **kwargs))

        returned = inspect.signature(run, eval_str=True).return_annotation
        pipeline.__annotations__ = {**make.__annotations__, "return": returned}
        vars(pipeline)["__signature__"] = signature.replace(return_annotation=returned)
        return pipeline

    return decorate


def learning(
    input_cfg: InputConfig,
    seed: int = 0,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    max_train_iter: int = ENDLESS,
    max_env_step: int = ENDLESS,
    *,
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
) -> RunArguments:
    """Create the arguments of a pipeline that collects and learns."""
    return RunArguments(
        input_cfg, seed, env_setting, model, max_train_iter, max_env_step, view=view, strict=strict, callbacks=callbacks
    )


def learning_beside_expert(
    input_cfg: InputConfig,
    expert_cfg: InputConfig,
    seed: int = 0,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    expert_model: torch.nn.Module | None = None,
    max_train_iter: int = ENDLESS,
    max_env_step: int = ENDLESS,
    *,
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
) -> RunArguments:
    """Create the arguments of a pipeline with an expert."""
    return RunArguments(
        input_cfg, seed, env_setting, model, max_train_iter, max_env_step, view=view, strict=strict,
        callbacks=callbacks, expert_cfg=expert_cfg, expert_model=expert_model,
    )  # fmt: skip


def learning_offline(
    input_cfg: InputConfig,
    seed: int = 0,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    max_train_iter: int = ENDLESS,
    *,
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
) -> RunArguments:
    """Create the arguments of a pipeline that learns from a data set."""
    return RunArguments(
        input_cfg, seed, env_setting, model, max_train_iter, view=view, strict=strict, callbacks=callbacks
    )
