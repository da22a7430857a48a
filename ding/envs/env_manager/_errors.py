"""Errors of the env managers.

Exceptions::

    EnvManagerError (RuntimeError)
    ├── EnvResetError      an env could not be reset within its retries
    ├── EnvStepError       an env raised while stepping
    ├── EnvTimeoutError    an env needed longer than ``step_timeout`` or ``reset_timeout``
    ├── EnvCrashedError    the process of an env died
    └── EnvDataError       an env returned a wrong shape or dtype, or NaN

Every message names the env and the seed it last got; where there is one, it carries the traceback of the env's own
exception.
"""

import signal
import traceback

from ding.envs.contract import DataProblem

# What a call of an env may raise as a fault of that env: `sys.exit()` in an env would end the run without a reason.
# KeyboardInterrupt and other wishes to end the run pass; see also :func:`raise_wish`.
ENV_FAULTS = (Exception, SystemExit)


class EnvManagerError(RuntimeError):
    """Base class: what went wrong in one environment of a manager.

    Attributes:
        env_id: position of the env in the manager.
        seed: the seed that the env last got from the manager, ``None`` when it never got one.
        original: text of the env's own traceback, ``""`` when there is none.
    """

    def __init__(self, message: str, env_id: int | None = None, seed: int | None = None, original: str = "") -> None:
        self.env_id = env_id
        self.seed = seed
        self.original = original
        text = message
        if env_id is not None:
            text += f" [env {env_id}, seed {seed}]"
        if original:
            text += f"\nTraceback of the env:\n{original.rstrip()}"
        super().__init__(text)


class EnvResetError(EnvManagerError):
    """An env could not be reset within its retries."""


class EnvStepError(EnvManagerError):
    """An env raised while stepping."""


class EnvTimeoutError(EnvManagerError):
    """An env needed longer than its ``step_timeout`` or ``reset_timeout``."""


class EnvCrashedError(EnvManagerError):
    """The process of an env died."""


class EnvDataError(EnvManagerError):
    """An env returned a wrong shape or dtype, or NaN."""


def traceback_text(error: BaseException) -> str:
    """The formatted traceback of ``error``."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def reset_failed(env_id: int, attempts: int, cause: str, seed: int | None, original: str) -> EnvResetError:
    """The error for an env of which ``attempts`` resets in a row failed, the last one with ``cause``."""
    times = "its only attempt" if attempts == 1 else f"all {attempts} attempts"
    return EnvResetError(
        f"Env {env_id} could not be reset: {times} failed, the last with {cause}", env_id, seed, original
    )


def build_failed(env_id: int, cause: str, original: str) -> EnvManagerError:
    """The error for an env that could not be built."""
    return EnvManagerError(f"Env {env_id} could not be built: {cause}", env_id, None, original)


def bad_data(env_id: int, what: str, seed: int | None) -> EnvDataError:
    """The error for an env that returned what is outside of the contract."""
    return EnvDataError(f"Env {env_id} returned bad data: {what}", env_id, seed)


def step_failed(env_id: int, error: BaseException, seed: int | None) -> EnvManagerError:
    """The error for an env that raised while stepping; manager errors of a more special kind keep their class."""
    if isinstance(error, EnvManagerError):
        return error
    if isinstance(error, DataProblem):
        return bad_data(env_id, str(error), seed)
    return EnvStepError(f"Env {env_id} step raised: {describe(error)}", env_id, seed, traceback_text(error))


# What numpy raises for `int(x)` and `float(x)` of an array with an axis; up to 2.3 it warned where x has one entry.
_NO_SCALAR = "only 0-dimensional arrays can be converted to Python scalars"


def describe(error: BaseException) -> str:
    """``Type: message`` of an exception, with what to do about one that older versions of numpy do not raise."""
    if isinstance(error, DataProblem):
        return f"bad data: {error}"
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, TypeError) and _NO_SCALAR in str(error):
        text += " (actions and rewards are arrays (1,): write action.item() instead of int(action) or float(action))"
    return f"{text} (it called sys.exit({error.code!r}))" if isinstance(error, SystemExit) else text


def raise_wish(error: BaseException) -> None:
    """Raise a ``SystemExit`` again that a handler of a signal raised while an env ran: that is no fault of the env."""
    if isinstance(error, SystemExit):
        handlers = [getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()]
        if any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__)):
            raise error


def describe_exit(code: int | None) -> str:
    """The exit code of a process in words."""
    if code is not None and code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"exit code {code}"
