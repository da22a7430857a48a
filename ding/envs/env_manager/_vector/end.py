"""Closing of a ``gymnasium.vector`` env after a failed call, and detection of its dead processes.

``AsyncVectorEnv`` waits for a pending call before it closes, even with ``terminate=True``: for its answer without
limit, or for processes that ignore SIGTERM (a forked one has the handlers of its parent), or it raises because one of
them is dead. Therefore its processes are killed first, through its public attributes.
"""

import contextlib
import logging
import multiprocessing.connection

from gymnasium.vector import AsyncVectorEnv, VectorEnv

from ding.envs.env_manager._errors import ENV_FAULTS, describe_exit, raise_wish

logger = logging.getLogger(__name__)

# A pipe breaks slightly before its process has ended.
END_GRACE_S = 1.0


def close_vector_env(venv: VectorEnv, failed: bool) -> None:
    """Close a vector env; errors are logged.

    Args:
        venv: Vector env, possibly wrapped.
        failed: Whether its last call did not return; then nothing is awaited.
    """
    if failed:
        _kill_workers(venv)
    try:
        venv.close()
    except ENV_FAULTS as error:
        raise_wish(error)
        logger.warning("closing the vector env failed: %r", error)
        _kill_workers(venv)


def _kill_workers(venv: VectorEnv) -> None:
    inner = venv.unwrapped
    if not isinstance(inner, AsyncVectorEnv) or inner.closed:
        return
    for process in inner.processes:
        process.kill()
    for process in inner.processes:
        process.join()
    for pipe in inner.parent_pipes:
        if pipe is not None:  # pipe of a worker that raised
            with contextlib.suppress(OSError):
                pipe.close()
    inner.closed = True


def dead_worker(venv: VectorEnv) -> tuple[int, str] | None:
    """Return the env id of a dead process and a description of its end; ``None`` if there is none."""
    inner = venv.unwrapped
    if not isinstance(inner, AsyncVectorEnv) or None in inner.parent_pipes:
        return None  # the pipe of an env that raised, perhaps its own ConnectionError, was removed
    env_ids = {process.sentinel: env_id for env_id, process in enumerate(inner.processes)}
    ended = multiprocessing.connection.wait(list(env_ids), END_GRACE_S)
    if not ended:
        return None
    env_id = min(env_ids[sentinel] for sentinel in ended)  # type: ignore[index]
    inner.processes[env_id].join(END_GRACE_S)
    return env_id, describe_exit(inner.processes[env_id].exitcode)
