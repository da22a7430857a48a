"""Env managers that run each env in a separate process.

Observations, rewards, flags and actions of fixed shape are transferred through anonymous shared memory; a step costs
one small message to each worker and one back. The managers here define results and waiting; processes, memory,
time-outs and retries belong to the ``EnvFleet`` that each of them owns while it is open (``_workers``).
"""

import logging
import math
import os
import sys
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from ding.data import EnvBatch, TimestepBatch
from ding.data.shm_buffer import ShmBuffer as ShmBuffer
from ding.data.shm_buffer import ShmBufferContainer as ShmBufferContainer
from ding.envs.env.state import check_all_wait
from ding.envs.env_manager._abstract import AbstractEnvManager
from ding.envs.env_manager._errors import ENV_FAULTS, EnvManagerError
from ding.envs.env_manager._lifecycle import EnvState, ResetParam
from ding.envs.env_manager._v2 import V2Interface
from ding.envs.env_manager._workers.fleet import EnvFleet
from ding.envs.env_manager._workers.protocol import MAX_ENVS_PER_WORKER
from ding.utils import ENV_MANAGER_REGISTRY, did_you_mean

logger = logging.getLogger(__name__)

# Seconds that envs have to close before their process is killed: normally, and if the manager gives up.
CLOSE_GRACE_S = 5.0
FAULT_GRACE_S = 1.0
START_METHODS = ("fork", "spawn", "forkserver")


class _SubprocessEnvManager(AbstractEnvManager):
    """Base class of both managers; subclasses define what a step and ``ready_obs`` wait for."""

    config: ClassVar[dict[str, Any]] = {
        **AbstractEnvManager.config,
        # Time-out of one env in seconds; a process that hangs would silently stop the run.
        "step_timeout": 300.0,
        # Transfer arrays of fixed shape through shared memory; otherwise they are pickled.
        "shared_memory": True,
        # Return copies. Otherwise batches of all envs are views that change with the next step.
        "copy_on_get": True,
        # Start method of the processes: 'fork', 'spawn' or 'forkserver'.
        "context": "fork" if sys.platform != "win32" else "spawn",
        # Seconds that an env may take for its construction, for the first reset in its process (if reset_timeout is
        # None), and for attributes. After each such time, a warning names an env whose step or reset has no time-out.
        "connect_timeout": 60,
        # Check observations and rewards for NaN.
        "check_data": True,
        # Reset a finished env before its step is returned, whose obs is then the first one of the next episode.
        "reset_inplace": False,
        # Number of envs per process. More envs save wake-ups; but if one dies or hangs, the others are lost with it.
        "envs_per_worker": 1,
    }

    _fleet: EnvFleet

    def _read_config(self) -> None:
        super()._read_config()
        cfg = self._cfg
        if cfg.context not in START_METHODS:
            hint = did_you_mean(cfg.context, START_METHODS)
            raise ValueError(f"env.manager.context {cfg.context!r} is not a start method.{hint}")
        if not isinstance(cfg.envs_per_worker, int) or not 1 <= cfg.envs_per_worker <= MAX_ENVS_PER_WORKER:
            raise ValueError(
                f"env.manager.envs_per_worker must be an int from 1 to {MAX_ENVS_PER_WORKER}, "
                f"not {cfg.envs_per_worker!r}"
            )

    # life cycle

    def launch(self, reset_param: ResetParam = None) -> None:
        """Start the processes, create the envs and reset all of them.

        Raises:
            AssertionError: The manager is open, or ``reset_param`` does not contain every env.
            EnvManagerError: An env could not be created or reset.
        """
        self._check_reset_param(reset_param)
        keep_forms = not getattr(self.env_ref, "has_fast_step", False)
        self._fleet = EnvFleet(self._env_fn, self._cfg, self._life, self._replay_paths, keep_forms)
        self._owner_pid = os.getpid()
        self.closed = False
        self._life.mark_all(EnvState.INIT)
        try:
            self._fleet.start()
            self.reset(reset_param)
            if self._cfg.shared_memory:
                self._fleet.share_results(getattr(self.reward_space, "shape", None) or (1,))
        except BaseException:
            self._close(FAULT_GRACE_S)
            raise

    def reset(self, reset_param: ResetParam = None) -> None:
        """Reset all envs, or the envs of ``reset_param`` with the given keyword arguments, and wait for them.

        Pending steps of these envs are awaited and dropped.

        Raises:
            AssertionError: The manager is closed, or an env is unknown.
            EnvResetError: All attempts to reset an env failed. The manager is closed.
        """
        self._check_open()
        env_ids = self._life.remember_reset(reset_param)
        with self._closing_on_faults():
            self._fleet.wait_for_resets(env_ids, rewind=reset_param is None)

    @contextmanager
    def _closing_on_faults(self) -> Iterator[None]:
        """Close after an unrecovered fault, because the state of the env is unknown."""
        try:
            yield
        except EnvManagerError:
            self._close(FAULT_GRACE_S)
            raise

    def close(self) -> None:
        """Close all envs and end their processes. Repeated calls have no effect."""
        self._close(CLOSE_GRACE_S)

    def _close(self, grace_s: float) -> None:
        if self.closed:
            return
        self.closed = True
        if os.getpid() != self._owner_pid:
            return  # a forked copy: the workers belong to the original
        self._fleet.close(grace_s)
        # The memory is freed with the last array over it.
        del self._fleet
        self._life.mark_all(EnvState.VOID)
        try:
            self.env_ref.close()
        except ENV_FAULTS:
            # The processes have ended; only the reference env is left to close.
            logger.exception("closing the reference env failed")

    @property
    def worker_pids(self) -> list[int]:
        """Return the process ids of the workers; empty while the manager is closed."""
        return [] if self.closed else self._fleet.pids

    # steps

    @abstractmethod
    def _settle(self) -> None:
        """Process finished resets, as far as :attr:`ready_obs` waits for them."""

    def step(self, actions: Mapping[int, Any]) -> Any:
        """Send one action to each of the given envs and return timesteps; the subclass defines of which envs.

        Args:
            actions: Env id -> action, for envs of :attr:`ready_obs`.

        Raises:
            AssertionError: The manager is closed, or an env is not in state RUN.
            ValueError: There are no actions.
            EnvManagerError: An env failed. The manager is closed.
        """
        self._check_open()
        batch = EnvBatch.from_dict(actions)
        if not len(batch) and not self._fleet.busy:
            raise ValueError("step() needs the action of at least one env: no step is under way")
        try:
            env_ids = self._fleet.order_steps(batch, as_given=batch is not actions) if len(batch) else []
            return self._hand_out(env_ids, batch.env_ids)
        except EnvManagerError:
            self._close(FAULT_GRACE_S)
            raise

    @abstractmethod
    def _hand_out(self, env_ids: list[int], ids: np.ndarray) -> TimestepBatch:
        """Wait as the step requires, and return its timesteps; ``env_ids`` (``ids``: int64 ``[N]``) are stepping."""

    def _ready(self) -> list[int]:
        """Return the ids of the envs that wait for an action."""
        busy = self._fleet.busy
        ready = self._life.ready_ids
        return [env_id for env_id in ready if env_id not in busy] if busy else ready

    @property
    def ready_obs_id(self) -> list[int]:
        """Ids of the envs that wait for an action. Waits like :attr:`ready_obs`."""
        if self.closed:
            return []
        if self._fleet.resetting:
            with self._closing_on_faults():
                self._settle()
        return list(self._ready())

    @property
    def ready_obs(self) -> EnvBatch:
        """Observations of the envs that wait for an action: an ``EnvBatch`` env id -> observation."""
        self._check_open()
        if self._fleet.resetting:
            with self._closing_on_faults():
                self._settle()
        env_ids, ids = self._ready(), self._life.ready_array
        if len(ids) != len(env_ids):
            ids = np.array(env_ids, dtype=np.int64)
        return self._fleet.observations(env_ids, ids)

    # remote attributes

    def _ask(self, env_ids: Iterable[int], name: str, args: tuple[Any, ...] | None = None) -> list[Any]:
        self._check_open()
        with self._closing_on_faults():
            replies = self._fleet.ask(list(env_ids), name, args)
        for reply in replies:
            if isinstance(reply, EnvManagerError):
                raise reply
        return replies

    def _collect_attribute(self, name: str) -> list[Any]:
        return self._ask(range(self.env_num), name)

    def get_state(self) -> list[Any]:
        """See :meth:`ding.envs.env.state.HasEnvStates.get_state`."""
        check_all_wait(self.env_num, self.ready_obs_id)
        obs = self.ready_obs
        replies = self._ask(range(self.env_num), "get_state", ())
        return [{**reply, "obs": obs[env_id]} for env_id, reply in enumerate(replies)]

    def set_state(self, states: Sequence[Any]) -> None:
        """See :meth:`ding.envs.env.state.HasEnvStates.set_state`."""
        self.reset()
        check_all_wait(self.env_num, self.ready_obs_id, states)
        for env_id, state in enumerate(states):
            self._ask([env_id], "set_state", (state,))
            self._fleet.put_obs(env_id, state["obs"])

    def reward_shaping(self, env_id: int, transitions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Call ``env.reward_shaping(transitions)`` of one env."""
        rows: list[dict[str, Any]] = self._ask([env_id], "reward_shaping", (transitions,))[0]
        return rows

    def enable_save_figure(self, env_id: int, figure_path: str) -> None:
        """Make an env save figures below a path."""
        self._ask([env_id], "enable_save_figure", (figure_path,))

    @property
    def ready_imgs(self) -> dict[int, Any]:
        """Return a frame, uint8 ``[H, W, 3]``, of each env that waits for an action."""
        env_ids = self.ready_obs_id
        return dict(zip(env_ids, self._ask(env_ids, "render", ())))


@ENV_MANAGER_REGISTRY.register("async_subprocess")
class AsyncSubprocessEnvManager(_SubprocessEnvManager):
    """Runs one process per env; a step returns as soon as some of the envs have answered.

    A slow env does not delay the others: its timestep is returned by a later call. Thus a step may return timesteps of
    envs stepped by an earlier call, and may be called without actions while steps are pending. It returns the timesteps
    of at least ``wait_num`` envs, with ascending ids, and keeps waiting while all of them ended their episode and
    others have yet to answer. ``ready_obs`` excludes envs that are stepping or resetting, and blocks while every
    unfinished env is resetting.

    Args:
        env_fn: One callable without arguments per env.
        cfg: Manager config, see :attr:`config`.
    """

    config: ClassVar[dict[str, Any]] = {
        **_SubprocessEnvManager.config,
        # A step returns when this number of envs have answered ...
        "wait_num": 2,
        # ... and this number of seconds has passed; None waits for all.
        "step_wait_timeout": 0.01,
    }

    def _read_config(self) -> None:
        super()._read_config()
        if not self._cfg.wait_num >= 1:
            raise ValueError(f"env.manager.wait_num must be 1 or more, not {self._cfg.wait_num!r}")

    @property
    def ready_env(self) -> list[int]:
        """Ids of the envs that wait for an action."""
        return self.ready_obs_id

    def _settle(self) -> None:
        self._fleet.pump(0.0)
        while self._fleet.resetting and not any(s in (EnvState.RUN, EnvState.INIT) for s in self._life.states):
            self._fleet.pump(None)

    def _hand_out(self, env_ids: list[int], ids: np.ndarray) -> TimestepBatch:
        fleet, wait_s = self._fleet, self._cfg.step_wait_timeout
        start = time.monotonic()
        least = min(self._cfg.wait_num, len(fleet.busy))
        while fleet.unanswered:
            timeout = None
            if wait_s is not None and len(fleet.answered) >= least and fleet.any_goes_on:
                timeout = max(0.0, start + wait_s - time.monotonic())
            fleet.pump(timeout)
            if timeout == 0.0:
                break
        env_ids = sorted(fleet.answered)
        return fleet.timesteps(env_ids, np.array(env_ids, dtype=np.int64))


@ENV_MANAGER_REGISTRY.register("subprocess")
class SyncSubprocessEnvManager(_SubprocessEnvManager):
    """Runs one process per env; a step returns the timesteps of exactly the given envs, in the order of the actions.

    ``ready_obs`` waits for resetting envs, so that a run is reproducible.

    Args:
        env_fn: One callable without arguments per env.
        cfg: Manager config, see :attr:`config`.
    """

    config: ClassVar[dict[str, Any]] = {
        **_SubprocessEnvManager.config,
        # For configs that switch between the managers; a synchronous step waits for all.
        "wait_num": math.inf,
        "step_wait_timeout": None,
    }

    def _settle(self) -> None:
        while self._fleet.resetting:
            self._fleet.pump(None)

    def _hand_out(self, env_ids: list[int], ids: np.ndarray) -> TimestepBatch:
        while self._fleet.unanswered:
            self._fleet.pump(None)
        return self._fleet.timesteps(env_ids, ids)


@ENV_MANAGER_REGISTRY.register("subprocess_v2")
class SubprocessEnvManagerV2(V2Interface, SyncSubprocessEnvManager):
    """:class:`SyncSubprocessEnvManager` with the v2 interface: stacked observations, lists of actions and of trees."""
