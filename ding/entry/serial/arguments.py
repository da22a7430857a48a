"""What a serial pipeline is called with.

Inside, a pipeline is a function of :class:`RunArguments`. Outside, it has one of the signatures below, each of which is
written once: the decorator :func:`called_as` gives it to the function, for callers, ``help`` and type checkers.
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
"""The default limits, with which a run ends in other ways."""

P = ParamSpec("P")
Returned = TypeVar("Returned")


@dataclass(frozen=True)
class RunArguments:
    """The arguments of a ``serial_pipeline*`` function, which makes them once and hands them on whole.

    Their names and meanings are those of :func:`ding.entry.serial_pipeline`; what a pipeline does not take has its
    default.

    Args:
        expert_cfg: config of the expert of a pipeline that has one, like ``input_cfg``.
        expert_model: the expert's network; ``None``: the default of its policy.
        kept: policy and buffer of the agent that trains.
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
    """Return a decorator that gives a function of :class:`RunArguments` the signature of ``make``, which makes them."""
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
    """Make the arguments of a pipeline that collects and learns."""
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
    """Make the arguments of a pipeline with an expert."""
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
    """Make the arguments of a pipeline that learns from a data set."""
    return RunArguments(
        input_cfg, seed, env_setting, model, max_train_iter, view=view, strict=strict, callbacks=callbacks
    )
