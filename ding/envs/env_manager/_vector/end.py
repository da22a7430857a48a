"""The end of a ``gymnasium.vector`` env: which of its processes died, and closing it when a call of it failed.

``AsyncVectorEnv`` waits for a call that is under way before it closes, also with ``terminate=True``: for its answer as
long as that takes, for the end of processes that SIGTERM does not end (a forked one has the handlers of its parent),
or it raises because one of them is dead. So its processes are killed first, by the attributes that it makes public.
"""

import contextlib
import logging
import multiprocessing.connection

from gymnasium.vector import AsyncVectorEnv, VectorEnv

from ding.envs.env_manager._errors import ENV_FAULTS, describe_exit, raise_wish

logger = logging.getLogger(__name__)

# A pipe breaks a moment before its process has ended.
END_GRACE_S = 1.0


def close_vector_env(venv: VectorEnv, failed: bool) -> None:
    """Close a vector env; what that raises is logged.

    Args:
        venv: the vector env, which may be wrapped.
        failed: whether the last call of it did not return: then nothing is waited for.
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
        if pipe is not None:  # that of a worker which raised
            with contextlib.suppress(OSError):
                pipe.close()
    inner.closed = True


def dead_worker(venv: VectorEnv) -> tuple[int, str] | None:
    """Env id of a process that ended and how it did, in words; ``None`` where there is none."""
    inner = venv.unwrapped
    if not isinstance(inner, AsyncVectorEnv) or None in inner.parent_pipes:
        return None  # of an env that raised, a ConnectionError of its own perhaps, the pipe was taken away
    env_ids = {process.sentinel: env_id for env_id, process in enumerate(inner.processes)}
    ended = multiprocessing.connection.wait(list(env_ids), END_GRACE_S)
    if not ended:
        return None
    env_id = min(env_ids[sentinel] for sentinel in ended)  # type: ignore[index]
    inner.processes[env_id].join(END_GRACE_S)
    return env_id, describe_exit(inner.processes[env_id].exitcode)
