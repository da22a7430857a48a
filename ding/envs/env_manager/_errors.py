"""Errors of the env managers.

Exceptions::

    EnvManagerError (RuntimeError)
    ├── EnvResetError      all attempts to reset an env failed
    ├── EnvStepError       an env raised while stepping
    ├── EnvTimeoutError    an env exceeded ``step_timeout`` or ``reset_timeout``
    ├── EnvCrashedError    the process of an env died
    └── EnvDataError       an env returned a wrong shape or dtype, or NaN

    Every message names the env and its last seed; if there is one, it contains the traceback of the env's own
    exception.
"""

import signal
import traceback

from ding.envs.contract import DataProblem

# Exceptions of a call that count as a fault of the env: `sys.exit()` in an env would end the run without a reason.
# KeyboardInterrupt and other requests to end the run propagate; see also :func:`raise_wish`.
ENV_FAULTS = (Exception, SystemExit)


class EnvManagerError(RuntimeError):
    """Base class of errors of one environment of a manager.

    Attributes:
        env_id: Position of the env in the manager.
        seed: Last seed that the env got from the manager; ``None`` if it got none.
        original: Text of the env's own traceback; ``""`` if there is none.
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
    """All attempts to reset an env failed."""


class EnvStepError(EnvManagerError):
    """An env raised an exception while stepping."""


class EnvTimeoutError(EnvManagerError):
    """An env exceeded its ``step_timeout`` or ``reset_timeout``."""


class EnvCrashedError(EnvManagerError):
    """The process of an env died."""


class EnvDataError(EnvManagerError):
    """An env returned a wrong shape or dtype, or NaN."""


def traceback_text(error: BaseException) -> str:
    """The formatted traceback of ``error``."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def reset_failed(env_id: int, attempts: int, cause: str, seed: int | None, original: str) -> EnvResetError:
    """Return the error for an env with ``attempts`` consecutive failed resets, the last one because of ``cause``."""
    times = "its only attempt" if attempts == 1 else f"all {attempts} attempts"
    return EnvResetError(
        f"Env {env_id} could not be reset: {times} failed, the last with {cause}", env_id, seed, original
    )


def build_failed(env_id: int, cause: str, original: str) -> EnvManagerError:
    """Return the error for an env that could not be built."""
    return EnvManagerError(f"Env {env_id} could not be built: {cause}", env_id, None, original)


def bad_data(env_id: int, what: str, seed: int | None) -> EnvDataError:
    """Return the error for an env that returned a value outside of the contract."""
    return EnvDataError(f"Env {env_id} returned bad data: {what}", env_id, seed)


def step_failed(env_id: int, error: BaseException, seed: int | None) -> EnvManagerError:
    """Return the error for an env that raised while stepping; more specific manager errors keep their class."""
    if isinstance(error, EnvManagerError):
        return error
    if isinstance(error, DataProblem):
        return bad_data(env_id, str(error), seed)
    return EnvStepError(f"Env {env_id} step raised: {describe(error)}", env_id, seed, traceback_text(error))


# Message of NumPy for `int(x)` and `float(x)` of an array with an axis; up to 2.3 only a warning for one entry.
_NO_SCALAR = "only 0-dimensional arrays can be converted to Python scalars"


def describe(error: BaseException) -> str:
    """Return ``Type: message`` of an exception, with advice for one that older versions of NumPy do not raise."""
    if isinstance(error, DataProblem):
        return f"bad data: {error}"
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, TypeError) and _NO_SCALAR in str(error):
        text += " (actions and rewards are arrays (1,): write action.item() instead of int(action) or float(action))"
    return f"{text} (it called sys.exit({error.code!r}))" if isinstance(error, SystemExit) else text


def raise_wish(error: BaseException) -> None:
    """Re-raise a ``SystemExit`` that a signal handler raised while an env ran: it is not a fault of the env."""
    if isinstance(error, SystemExit):
        handlers = [getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()]
        if any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__)):
            raise error


def describe_exit(code: int | None) -> str:
    """Describe the exit code of a process."""
    if code is not None and code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"exit code {code}"
