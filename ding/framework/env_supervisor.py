"""Envs as workers of a supervisor, each in its own process or thread: ``ding.envs.EnvSupervisor``.

The workers of this package use the env managers of ``create_env_manager``; this class is for scripts that send calls to
envs and receive the results one by one.
"""

import enum
import logging
import math
import queue
import time
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any, TypeVar

import numpy as np
from easydict import EasyDict
from gymnasium import spaces

from ding.data import BaseEnvTimestep, EnvBatch
from ding.data.shm_buffer import ShmBufferContainer
from ding.envs.env_manager.base_env_manager import EnvState
from ding.framework.supervisor import ChildType, RecvPayload, SendPayload, Supervisor
from ding.utils import make_key_as_identifier

logger = logging.getLogger(__name__)

SizedT = TypeVar("SizedT", bound=Sized)

_CLOSE_TIMEOUT_S = 5.0
_IN_MEMORY = "observation in shared memory"


class EnvRetryType(str, enum.Enum):
    """Action before a failed reset is retried: none, or a new env is created."""

    RESET = "reset"
    RENEW = "renew"


class EnvSupervisor(Supervisor):
    """Steps and resets several envs concurrently.

    ``step`` and ``reset`` wait for the results; with ``block=False`` they return immediately, and :meth:`recv` returns
    the results in order of arrival. Other attribute accesses return a list with the value of each env.

    Args:
        type_: Processes or threads.
        env_fn: One constructor per env. The first is also called once here, to get the spaces.
        retry_type: Action before a failed reset is retried.
        max_try: Maximum number of consecutive attempts to reset; 1 by default.
        max_retry: Older name of ``max_try``.
        auto_reset: Reset an env when its episode ends or its step fails.
        reset_timeout, step_timeout: Time-out of a call in seconds; None: no limit.
        retry_waiting_time: Seconds before a reset is retried.
        episode_num: Number of episodes that each env plays before it is DONE.
        shared_memory: Transfer observations from processes through shared memory.
        copy_on_get: Copy observations from shared memory; otherwise the env's next observation overwrites them.
        kwargs: Ignored with a warning.

    Raises:
        ValueError: ``env_fn`` is empty.
    """

    def __init__(
        self,
        type_: ChildType = ChildType.PROCESS,
        env_fn: Sequence[Callable[[], Any]] | None = None,
        retry_type: EnvRetryType = EnvRetryType.RESET,
        max_try: int | None = None,
        max_retry: int | None = None,
        auto_reset: bool = True,
        reset_timeout: float | None = None,
        step_timeout: float | None = None,
        retry_waiting_time: float | None = None,
        episode_num: float = math.inf,
        shared_memory: bool = True,
        copy_on_get: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(type_)
        if not env_fn:
            raise ValueError(f"env_fn must be functions that make envs, at least one, got {env_fn!r}")
        if kwargs:
            logger.warning("EnvSupervisor ignores the arguments %s", ", ".join(sorted(kwargs)))
        if max_retry is not None:
            logger.warning("max_retry of EnvSupervisor is called max_try now; it is the number of all tries")
        self._retry_type = EnvRetryType(retry_type)
        self._max_try = max_try or max_retry or 1
        self._auto_reset = auto_reset
        self._timeouts = {"reset": reset_timeout, "step": step_timeout}
        self._retry_waiting_time = retry_waiting_time or 0.0
        self._episode_num = episode_num
        self._env_num = len(env_fn)
        self._take_facts(env_fn[0])
        in_memory = shared_memory and self._type is ChildType.PROCESS
        self._buffers = [_buffer(self._observation_space, copy_on_get) if in_memory else None for _ in env_fn]
        for one, buffer in zip(env_fn, self._buffers):
            self.register(one, buffer, _move)
        self._seeds: list[int | None] = [None] * self._env_num
        self._dynamic_seed: bool | None = None
        self._replay_paths: list[str | None] = [None] * self._env_num
        self._reset_params: list[dict[str, Any]] = [{} for _ in env_fn]
        self._forget()

    def _take_facts(self, make: Callable[[], Any]) -> None:
        env = make()
        try:
            env.reset()
            self._observation_space: spaces.Space[Any] = env.observation_space
            self._action_space: spaces.Space[Any] = env.action_space
            self._reward_space: spaces.Space[Any] = env.reward_space
        finally:
            env.close()
        self._env_ref = env

    def _forget(self) -> None:
        self._env_states = [EnvState.VOID] * self._env_num
        self._episode_counts = [0] * self._env_num
        self._failures = [0] * self._env_num
        self._ready: dict[int, Any] = {}
        # Calls without a reply: env, method and deadline.
        self._open: dict[str | None, tuple[int, str, float | None]] = {}
        # Envs whose last call timed out: they answer no other call meanwhile.
        self._stuck: set[int] = set()

    # ------------------------------------------------------------------ properties

    @property
    def env_num(self) -> int:
        """Number of envs."""
        return self._env_num

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """Observation space of one env."""
        return self._observation_space

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Action space of one env."""
        return self._action_space

    @property
    def reward_space(self) -> spaces.Space[Any]:
        """Reward space of one env."""
        return self._reward_space

    @property
    def env_states(self) -> dict[int, EnvState]:
        """State of each env; VOID before :meth:`launch`."""
        return dict(enumerate(self._env_states))

    def env_state_done(self, env_id: int) -> bool:
        """Return whether an env has played all its episodes."""
        return self._env_states[env_id] is EnvState.DONE

    @property
    def done(self) -> bool:
        """Whether all envs have played all their episodes."""
        return all(state is EnvState.DONE for state in self._env_states)

    @property
    def closed(self) -> bool:
        """Whether the envs are closed or not launched yet."""
        return not self._running

    @property
    def ready_obs_id(self) -> list[int]:
        """Ids of the envs that wait for an action."""
        return [env_id for env_id, state in enumerate(self._env_states) if state is EnvState.RUN]

    @property
    def ready_obs(self) -> np.ndarray | EasyDict:
        """Observations of these envs, ``[N, ...]`` or a tree of such arrays; an empty array if there are none."""
        ready = {env_id: self._ready[env_id] for env_id in self.ready_obs_id}
        columns = EnvBatch.from_dict(ready).columns if ready else np.array([])
        return EasyDict(columns) if isinstance(columns, dict) else columns

    @property
    def method_name_list(self) -> list[str]:
        """Names of the env methods that may be called."""
        return ["reset", "step", "seed", "close", "enable_save_replay"]

    def __getattr__(self, key: str) -> list[Any]:
        """Return the attribute of every env."""
        if key.startswith("_") or not hasattr(self.__dict__.get("_env_ref"), key):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {key!r}, nor have its envs")
        return super().__getattr__(key)

    # ------------------------------------------------------------------ settings

    def seed(self, seed: int | Sequence[int] | Mapping[int, int], dynamic_seed: bool | None = None) -> None:
        """Set the seeds of the envs for the next :meth:`launch`.

        Args:
            seed: Seed of env 0, then ``seed + 1``, ...; or one per env; or a dict by env, which leaves the others
                unseeded.
            dynamic_seed: Second argument of ``env.seed``, unless it is None.

        Raises:
            AssertionError: The number of seeds differs from the number of envs.
            TypeError: ``seed`` has another type.
        """
        if isinstance(seed, (int, np.integer)):
            self._seeds = [int(seed) + env_id for env_id in range(self._env_num)]
        elif isinstance(seed, Mapping):
            self._seeds = [seed.get(env_id) for env_id in range(self._env_num)]
        elif isinstance(seed, Sequence) and not isinstance(seed, str):
            self._seeds = list(self._one_each(seed, "seeds"))
        else:
            raise TypeError(f"seed must be an int, a list or a dict by env, got {seed!r}")
        self._dynamic_seed = dynamic_seed

    def enable_save_replay(self, replay_path: str | Sequence[str]) -> None:
        """Make the envs save videos from the next :meth:`launch` on, in one folder or in one folder per env."""
        several = [replay_path] * self._env_num if isinstance(replay_path, str) else replay_path
        self._replay_paths = list(self._one_each(several, "replay paths"))

    # ------------------------------------------------------------------ calls

    def launch(
        self, reset_param: Mapping[int, Mapping[str, Any]] | Sequence[Mapping[str, Any]] | None = None,
        block: bool = True,
    ) -> None:  # fmt: skip
        """Start the envs, seed them, and reset them; see :meth:`reset`.

        Raises:
            AssertionError: The envs are running, or ``reset_param`` has a wrong number of entries.
        """
        if not self.closed:
            raise AssertionError("the envs run already; close them first")
        if reset_param is not None:
            self._one_each(reset_param, "reset_param")
        self.start_link()
        self._forget()
        self._env_states = [EnvState.INIT] * self._env_num
        for env_id in range(self._env_num):
            self._set_up(env_id)
        self.reset(reset_param, block)

    def _set_up(self, env_id: int) -> None:
        seed, path = self._seeds[env_id], self._replay_paths[env_id]
        if seed is not None:
            self._call(env_id, "seed", seed, *([] if self._dynamic_seed is None else [self._dynamic_seed]))
        if path is not None:
            self._call(env_id, "enable_save_replay", path)

    def reset(
        self, reset_param: Mapping[int, Mapping[str, Any]] | Sequence[Mapping[str, Any]] | None = None,
        block: bool = True,
    ) -> None:  # fmt: skip
        """Reset all envs, or the envs of a dict.

        An env that records a video of an unfinished episode is skipped with a warning.

        Args:
            reset_param: Keyword arguments of ``env.reset`` by env, also used for its later resets.
            block: Wait for the results.

        Raises:
            AssertionError: The envs are not running, or a list has a wrong number of entries.
            RuntimeError: A reset failed ``max_try`` times; all envs are closed.
        """
        self._assert_running()
        if isinstance(reset_param, Mapping):
            given: dict[int, Mapping[str, Any] | None] = dict(reset_param)
        else:
            none: Sequence[Mapping[str, Any] | None] = [None] * self._env_num
            given = dict(enumerate(none if reset_param is None else self._one_each(reset_param, "reset_param")))
        for env_id, param in given.items():
            if self._env_states[env_id] is EnvState.RUN and self._replay_paths[env_id] is not None:
                logger.warning("env %d saves a video of its episode, and is not reset", env_id)
                continue
            if param is not None:
                self._reset_params[env_id] = dict(param)
            self._failures[env_id] = 0
            self._send_reset(env_id)
        if block:
            self._wait_for_all()

    def step(self, actions: Mapping[int, Any] | Sequence[Any], block: bool = True) -> list[EasyDict] | None:
        """Step each env that has an action.

        Args:
            actions: Actions by env, or in the order of the envs.
            block: Wait for the results, and for the resets after finished episodes.

        Returns:
            Trees with ``obs``, ``reward``, ``done``, ``info`` and ``env_id``, in order of arrival; None without
            ``block``. After a finished episode ``obs`` is its last observation. A failed step has ``info.abnormal`` and
            ``info.err``, and None in the other fields; its env is reset.

        Raises:
            AssertionError: The envs are not running, or there are no actions.
            RuntimeError: See :meth:`reset`.
        """
        self._assert_running()
        by_env = actions if isinstance(actions, Mapping) else dict(enumerate(actions))
        if not by_env:
            raise AssertionError("step needs an action of at least one env, got none")
        for env_id, action in by_env.items():
            self._call(int(env_id), "step", action)
        return [reply.data for reply in self._wait_for_all() if reply.method == "step"] if block else None

    def recv(self, ignore_err: bool = False, timeout: float | None = None) -> RecvPayload:
        """Return the next result of a step or reset: ``proc_id`` (the env), ``method``, ``data`` and ``err``.

        Args:
            ignore_err: Return failed results, which are otherwise skipped. The env is reset in either case.
            timeout: Time-out of each reply, in seconds.

        Raises:
            RuntimeError: No result is pending; or see :meth:`reset`.
            queue.Empty: No result arrived within ``timeout`` seconds.
        """
        while True:
            reply = self._take(self._next_reply(timeout))
            if reply.method in self._timeouts and (ignore_err or reply.err is None):
                return reply

    def close(self, timeout: float | None = None) -> None:
        """Close the envs and end their processes or threads, within ``timeout`` seconds each.

        :meth:`launch` creates them again.
        """
        if self.closed:
            return
        payloads = [SendPayload(env_id, method="close") for env_id in range(self._env_num) if env_id not in self._stuck]
        for payload in payloads:
            self.send(payload)
        if payloads:
            self.recv_all(payloads, ignore_err=True, timeout=_CLOSE_TIMEOUT_S if timeout is None else timeout)
        super().shutdown(timeout)
        self._forget()

    def shutdown(self, timeout: float | None = None) -> None:
        """Alias of :meth:`close`."""
        self.close(timeout)

    # ------------------------------------------------------------------ replies

    def _assert_running(self) -> None:
        if self.closed:
            raise AssertionError("the envs do not run; launch them first")

    def _one_each(self, values: SizedT, what: str) -> SizedT:
        if len(values) != self._env_num:
            raise AssertionError(f"{what}: {len(values)} were given for {self._env_num} envs")
        return values

    def _call(self, env_id: int, method: str, *args: Any, **kwargs: Any) -> None:
        payload = SendPayload(env_id, method=method, args=list(args), kwargs=kwargs)
        limit = self._timeouts.get(method)
        self._open[payload.req_id] = (env_id, method, None if limit is None else time.monotonic() + limit)
        self.send(payload)

    def _send_reset(self, env_id: int) -> None:
        self._env_states[env_id] = EnvState.RESET
        self._ready.pop(env_id, None)
        self._call(env_id, "reset", **self._reset_params[env_id])

    def _wait_for_all(self) -> list[RecvPayload]:
        """Wait for the replies to the open calls, and to the calls that these cause."""
        replies = []
        while self._open:
            replies.append(self._take(self._next_reply(None)))
        return replies

    def _next_reply(self, timeout: float | None) -> RecvPayload:
        """Return the next reply to an open call; after its deadline a reply with a TimeoutError."""
        while self._open:
            ends = [end for *_, end in self._open.values() if end is not None]
            left = max(0.0, min(ends) - time.monotonic()) if ends else None
            waits = min((one for one in (left, timeout) if one is not None), default=None)
            try:
                reply = super().recv(ignore_err=True, timeout=waits)
            except queue.Empty:
                if waits == timeout and waits != left:
                    raise
                return self._expired(min(ends))
            self._stuck.discard(reply.proc_id)
            if reply.req_id in self._open:  # otherwise it arrived after its deadline
                del self._open[reply.req_id]
                return reply
        raise RuntimeError("no step or reset is under way whose result could be received")

    def _expired(self, end: float) -> RecvPayload:
        req_id = next(one for one, (*_, until) in self._open.items() if until == end)
        env_id, method, _ = self._open.pop(req_id)
        self._stuck.add(env_id)
        error = TimeoutError(f"{method} of env {env_id} took longer than {self._timeouts[method]} s")
        return RecvPayload(env_id, req_id, method, err=error)

    def _take(self, reply: RecvPayload) -> RecvPayload:
        """Update the state of the env, and send follow-up calls."""
        env_id = reply.proc_id
        if reply.extra == _IN_MEMORY:
            obs = self._buffers[env_id].get()  # type: ignore[union-attr]
            reply.data = obs if reply.method == "reset" else reply.data._replace(obs=obs)
        if reply.method == "step":
            reply.data = self._stepped(env_id, reply)
        elif reply.method != "reset":
            if reply.err is not None:
                self.close()
                raise reply.err
        elif reply.err is not None:
            self._retry(env_id, reply.err)
        else:
            self._failures[env_id] = 0
            self._env_states[env_id] = EnvState.RUN
            self._ready[env_id] = reply.data
        return reply

    def _stepped(self, env_id: int, reply: RecvPayload) -> EasyDict:
        if reply.err is not None:
            self._env_states[env_id] = EnvState.ERROR
            self._send_reset(env_id)
            failed = EasyDict(abnormal=True, err=reply.err)
            return EasyDict(obs=None, reward=None, done=None, info=failed, env_id=np.int64(env_id))
        obs, reward, done, info = reply.data
        self._ready[env_id] = obs
        if done:
            self._episode_counts[env_id] += 1
            if self._auto_reset and self._episode_counts[env_id] < self._episode_num:
                self._send_reset(env_id)
            else:
                self._env_states[env_id] = EnvState.DONE
        info = make_key_as_identifier(info) if isinstance(info, Mapping) else info
        return EasyDict(obs=obs, reward=reward, done=np.bool_(done), info=info, env_id=np.int64(env_id))

    def _retry(self, env_id: int, error: Exception) -> None:
        self._failures[env_id] += 1
        if self._failures[env_id] >= self._max_try:
            self.close(_CLOSE_TIMEOUT_S)
            text = f"env {env_id}: its reset failed, and max_try({self._max_try}) is reached; the last error: {error!r}"
            raise RuntimeError(text) from error
        time.sleep(self._retry_waiting_time)
        if self._retry_type is EnvRetryType.RENEW:
            self._children[env_id].restart()
            self._set_up(env_id)
        self._send_reset(env_id)


def _buffer(space: spaces.Space[Any], copy_on_get: bool) -> ShmBufferContainer | None:
    """Create shared memory for the observations of a space; None for a space without arrays."""
    form = _form(space)
    return None if form is None else ShmBufferContainer(*form, copy_on_get)


def _form(space: spaces.Space[Any]) -> tuple[Any, Any] | None:
    """Return the dtypes and shapes of a space."""
    if isinstance(space, spaces.Dict):
        parts = {key: _form(one) for key, one in space.spaces.items()}
        if any(part is None for part in parts.values()):
            return None
        return {key: part[0] for key, part in parts.items() if part}, {
            key: part[1] for key, part in parts.items() if part
        }
    if isinstance(space, (spaces.Box, spaces.MultiBinary, spaces.MultiDiscrete)):
        return space.dtype, space.shape
    return None


def _move(reply: RecvPayload, buffer: ShmBufferContainer) -> None:
    """Move the observation of a reply into shared memory if it fits exactly; runs in the env's process."""
    if reply.method not in ("reset", "step"):
        return
    timestep = None if reply.method == "reset" else BaseEnvTimestep(*reply.data)
    obs = reply.data if timestep is None else timestep.obs
    if buffer.fits(obs):
        buffer.fill(obs)
        reply.data, reply.extra = timestep and timestep._replace(obs=None), _IN_MEMORY
