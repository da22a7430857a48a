"""Save and load the state of a training run, even when interrupted."""

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar, overload

import torch
from torch import nn

from ding.utils.checkpoint import read_checkpoint
from ding.utils.file_helper import save_file
from ding.utils.names import check_choice

logger = logging.getLogger(__name__)

_SIGNALS = ("SIGINT", "SIGTERM", "SIGQUIT", "SIGUSR1")
_Method = TypeVar("_Method", bound=Callable[..., Any])


class CountVar:
    """A number shared between several objects: ``val``, ``update(val)``, ``add(n)``."""

    def __init__(self, init_val: int) -> None:
        self.val = init_val

    def update(self, val: int) -> None:
        """Replace the value."""
        self.val = val

    def add(self, add_num: int) -> None:
        """Add to the value."""
        self.val += add_num

    def __repr__(self) -> str:
        return f"CountVar({self.val})"


def _edit_prefix(state: Mapping[str, Any], op: str | None, prefix: str | None) -> dict[str, Any]:
    if op is None:
        return dict(state)
    check_choice("prefix_op", op, ("add", "remove"), KeyError)
    if prefix is None:
        raise ValueError(f"prefix_op={op!r} needs a prefix")
    if op == "add":
        return {prefix + key: value for key, value in state.items()}
    return {key.removeprefix(prefix): value for key, value in state.items()}


def _fitting(loaded: dict[str, Any], own: Mapping[str, Any], masked: tuple[str, ...]) -> dict[str, Any]:
    """Return the entries of ``loaded`` that are not masked and have the shape that they have in ``own``."""
    fits = {key: key in own and own[key].shape == value.shape for key, value in loaded.items()}
    left_out = [key for key, fitting in fits.items() if not fitting and not key.startswith(masked)]
    if left_out:
        logger.warning("not loaded, because the model has no parameter of this name and shape: %s", ", ".join(left_out))
    return {key: value for key, value in loaded.items() if fits[key] and not key.startswith(masked)}


class CheckpointHelper:
    """Save a model and related state to one file, and load it (tensors and plain containers only)."""

    def save(
        self,
        path: str,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        last_iter: CountVar | None = None,
        last_epoch: CountVar | None = None,
        last_frame: CountVar | None = None,
        dataset: Any = None,
        collector_info: Any = None,
        prefix_op: str | None = None,
        prefix: str | None = None,
    ) -> None:
        """Write ``model`` and the other given parts. ``prefix_op`` (``'add'`` / ``'remove'``) edits parameter names."""
        state: dict[str, Any] = {"model": _edit_prefix(model.state_dict(), prefix_op, prefix)}
        if optimizer is not None:
            state["optimizer"] = optimizer.state_dict()
        for name, counter in (("last_iter", last_iter), ("last_epoch", last_epoch), ("last_frame", last_frame)):
            if counter is not None:
                state[name] = counter.val
        for name, holder in (("dataset", dataset), ("collector_info", collector_info)):
            if holder is not None:
                state[name] = holder.state_dict()
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        save_file(path, state)
        logger.info("saved checkpoint %s", path)

    def load(
        self,
        load_path: str,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        last_iter: CountVar | None = None,
        last_epoch: CountVar | None = None,
        last_frame: CountVar | None = None,
        lr_schduler: Any = None,
        dataset: Any = None,
        collector_info: Any = None,
        prefix_op: str | None = None,
        prefix: str | None = None,
        strict: bool = True,
        logger_prefix: str = "",
        state_dict_mask: tuple[str, ...] | list[str] = (),
    ) -> None:
        """Load the requested parts into the given objects, in place; parts missing from the file are logged and
        unchanged.

        ``strict=False`` loads the parameters that both have with one shape. So does a ``state_dict_mask``, and those
        whose name starts with one of its entries stay as they are. ``lr_schduler`` (the public spelling) gets the
        last iteration.

        Raises:
            RuntimeError: ``strict``, no mask, and the parameters of the file and the model differ.
            FileRefusedError: The file is damaged.
        """
        state = read_checkpoint(load_path)
        loaded = _edit_prefix(state["model"], prefix_op, prefix)
        strict = strict and not state_dict_mask
        if not strict:
            loaded = _fitting(loaded, model.state_dict(), tuple(state_dict_mask))
        model.load_state_dict(loaded, strict=strict)
        asked = {
            "optimizer": optimizer,
            "last_iter": last_iter,
            "last_epoch": last_epoch,
            "last_frame": last_frame,
            "dataset": dataset,
            "collector_info": collector_info,
        }
        for name, target in asked.items():
            if target is None:
                continue
            if name not in state:
                logger.warning("%s holds no %r, only %s", load_path, name, ", ".join(map(repr, state)))
                continue
            target.update(state[name]) if isinstance(target, CountVar) else target.load_state_dict(state[name])
        if lr_schduler is not None:
            if last_iter is None:
                raise ValueError("lr_schduler needs last_iter")
            lr_schduler.last_epoch = last_iter.val
        logger.info("%sloaded checkpoint %s", logger_prefix, load_path)


def build_checkpoint_helper(cfg: Any = None) -> CheckpointHelper:
    """Return a :class:`CheckpointHelper`; ``cfg`` is accepted for compatibility and not read."""
    return CheckpointHelper()


@contextmanager
def _signals_to(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Install ``handler`` during the block. Has no effect outside the main thread."""
    previous: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for name in _SIGNALS:
            number = getattr(signal, name, None)
            if number is not None:
                previous[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in previous.items():
            # None: the handler was not installed from Python and cannot be put back.
            if old is not None:
                signal.signal(number, old)


@overload
def auto_checkpoint(func: _Method) -> _Method: ...
@overload
def auto_checkpoint(*, reraise: bool) -> Callable[[_Method], _Method]: ...
def auto_checkpoint(func: _Method | None = None, *, reraise: bool = False) -> object:
    """Decorate a method of an object with ``save_checkpoint(ckpt_name)`` so that it saves before it is interrupted.

    SIGINT, SIGTERM, SIGQUIT and SIGUSR1 save ``ckpt_interrupt.pth.tar`` and exit; an exception saves
    ``ckpt_exception.pth.tar`` and its traceback is logged. The previous signal handlers are restored at the end.

    Arguments:
        reraise: If False, as in DI-engine, the method returns None after an exception and a signal exits with 1; if
            True, the exception is raised again and a signal exits with 128 plus its number.
    """
    if func is None:
        return partial(auto_checkpoint, reraise=reraise)
    method = func

    @wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> object:
        def on_signal(number: int, frame: FrameType | None) -> None:
            logger.warning("signal %s: saving a checkpoint", signal.Signals(number).name)
            self.save_checkpoint("ckpt_interrupt.pth.tar")
            sys.exit(128 + number if reraise else 1)

        with _signals_to(on_signal):
            try:
                return method(self, *args, **kwargs)
            except Exception:
                logger.exception("saving a checkpoint because of an error")
                self.save_checkpoint("ckpt_exception.pth.tar")
                if reraise:
                    raise
                return None

    return wrapper
