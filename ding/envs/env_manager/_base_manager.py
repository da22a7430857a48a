"""``BaseEnvManager``: envs in the own process, stepped one after the other."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch
from ding.data.columns import row_at
from ding.envs.env_manager._alarm import can_limit, time_limit
from ding.envs.env_manager._columns_step import action_rows, array_row, flags_at, reward_array, timesteps_of
from ding.envs.env_manager._errors import (
    EnvDataError,
    EnvTimeoutError,
    describe,
    reset_failed,
    step_failed,
    traceback_text,
)
from ding.envs.env_manager._lifecycle import EnvState, ResetParam
from ding.envs.env_manager._manager_base import EnvManagerBase
from ding.envs.env_manager._obs_board import ObsBoard
from ding.envs.env_manager._obs_check import ObsStacker
from ding.utils import ENV_MANAGER_REGISTRY

logger = logging.getLogger(__name__)


@ENV_MANAGER_REGISTRY.register("base")
class BaseEnvManager(EnvManagerBase):
    """Envs in the own process, stepped one after the other.

    ``ready_obs`` is an :class:`~ding.data.EnvBatch`, ``step`` takes one (or a dict env id -> action) and returns a
    :class:`~ding.data.TimestepBatch`. The timestep of a finished episode holds its final observation; the env is reset
    at once and its first observation is in ``ready_obs``.

    Faults:

    * A failing ``reset`` is tried ``max_retry`` more times (with ``retry_type='renew'`` on a new env), then the manager
      closes and raises :class:`EnvResetError`.
    * A failing ``step`` is never done twice. With ``max_retry`` 1 or less the manager closes and raises
      :class:`EnvStepError`. Above, the env goes to state ERROR and its timestep has ``info['abnormal']=True`` and
      ``info['error']``; the next ``reset({env_id: None})`` brings it back. More than ``max_retry`` failures without a
      finished episode in between raise.
    * A call that takes longer than ``step_timeout`` or ``reset_timeout`` counts as failed (main thread only).
    * A timestep with ``info['abnormal']`` puts its env into state ERROR until it is reset by the caller.
    * Data of a wrong shape or dtype, or NaN, raises :class:`EnvDataError` (``check_data=False`` skips the search for
      NaN).

    Args:
        env_fn: one callable without arguments per env.
        cfg: manager config.
    """

    config: dict[str, Any] = {**EnvManagerBase.config, "check_data": True}

    def __init__(self, env_fn: Sequence[Callable[[], Any]], cfg: Any = None) -> None:
        super().__init__(env_fn, cfg)
        self._envs: list[Any] = []
        self._steps: list[Any] = []
        self._all_fast = False
        self._sums_return = [False] * self._env_num
        self._returns = np.zeros(self._env_num, dtype=np.float64)
        self._step_failures = [0] * self._env_num
        self._broken: set[int] = set()
        self._board = ObsBoard()
        self._discrete = isinstance(self._action_space, gymnasium.spaces.Discrete)
        self._check_data = bool(self._cfg.get("check_data", True))
        self._make_stackers()

    def _make_stackers(self) -> None:
        space = self._observation_space
        self._stacker = ObsStacker(space, True, self._check_data, self._bad_data)
        self._free_stacker = ObsStacker(space, False, self._check_data, self._bad_data)

    def _bad_data(self, env_id: int, what: str) -> EnvDataError:
        return EnvDataError(f"Env {env_id} returned bad data: {what}", env_id, self._life.last_seeds[env_id])

    # life

    def launch(self, reset_param: ResetParam = None) -> None:
        """Create the envs and reset them.

        Args:
            reset_param: keyword arguments of the reset per env id; ``None`` for none.

        Raises:
            AssertionError: the manager is open, or ``reset_param`` does not have one entry per env.
            EnvResetError: an env cannot be reset.
        """
        self._check_reset_param(reset_param)
        self._life.mark_all(EnvState.INIT)
        self._envs = [fn() for fn in self._env_fn]
        self._steps = [None] * self._env_num
        self._all_fast = False
        self._step_failures = [0] * self._env_num
        self._broken = set()
        self._board.clear()
        self._closed = False
        if (self._step_timeout or self._reset_timeout) and not can_limit():
            logger.warning("step_timeout and reset_timeout have no effect outside of the main thread")
        self.reset(reset_param)

    def reset(self, reset_param: ResetParam = None) -> None:
        """Reset all envs, or those that ``reset_param`` names.

        Args:
            reset_param: env id -> keyword arguments of ``env.reset``, which later automatic resets use too; ``None`` as
                value keeps the arguments that the env had.

        Raises:
            AssertionError: the manager is closed, or an id is unknown.
            EnvResetError: an env cannot be reset.
        """
        self._check_open()
        self._apply_replay_paths()
        for env_id in self._life.remember_reset(reset_param):
            self._life.mark(env_id, EnvState.RESET)
            self._board.write_row(env_id, self._reset_env(env_id))
            self._life.mark(env_id, EnvState.RUN)

    def _apply_replay_paths(self) -> None:
        for env_id, path in enumerate(self._replay_paths):
            if path is not None:
                self._envs[env_id].enable_save_replay(path)
                self._replay_paths[env_id] = None

    def _reset_env(self, env_id: int) -> Any:
        for attempt in range(self._max_retry + 1):
            try:
                if attempt:
                    time.sleep(self._retry_waiting_time)
                if self._retry_type == "renew" and (attempt or env_id in self._broken):
                    self._renew(env_id)
                obs = self._try_reset(env_id)
            except Exception as error:
                if attempt == self._max_retry:
                    self.close()
                    seed = self._life.last_seeds[env_id]
                    text = traceback_text(error)
                    raise reset_failed(env_id, attempt + 1, describe(error), seed, text) from error
                logger.warning("env %d: reset failed (%r), trying again", env_id, error)
            else:
                break
        self._broken.discard(env_id)
        self._returns[env_id] = 0.0
        return obs

    def _try_reset(self, env_id: int) -> Any:
        env = self._envs[env_id]
        seed = self._life.take_seed(env_id)
        if seed is not None:
            env.seed(*seed)
        kwargs = self._life.reset_kwargs(env_id)
        if self._reset_timeout is None:
            obs = env.reset(**kwargs)
        else:
            with time_limit(self._reset_timeout, lambda: self._timeout(env_id, "reset", self._reset_timeout)):
                obs = env.reset(**kwargs)
        fast = env.fast_step() if hasattr(env, "fast_step") else None
        self._steps[env_id] = None if fast is None else fast.step
        self._all_fast = None not in self._steps
        self._sums_return[env_id] = fast is not None and fast.sums_return
        stacker = self._free_stacker if fast is None else self._stacker
        return row_at(stacker.stack([obs], [env_id]), 0)

    def _renew(self, env_id: int) -> None:
        old = self._envs[env_id]
        try:
            old.close()
        except Exception as error:  # noqa: BLE001 - an env may raise anything
            logger.warning("env %d: closing the broken env failed: %r", env_id, error)
        self._envs[env_id] = env = self._env_fn[env_id]()
        seed = self._life.renewal_seed(env_id)
        if seed is not None:
            env.seed(*seed)

    def _timeout(self, env_id: int, call: str, seconds: float) -> EnvTimeoutError:
        return EnvTimeoutError(
            f"Env {env_id} {call} took longer than {call}_timeout={seconds} s", env_id, self._life.last_seeds[env_id]
        )

    def close(self) -> None:
        """Close all envs. May be called more than once."""
        if self._closed:
            return
        self._closed = True
        for env_id, env in enumerate([*self._envs, self._env_ref]):
            try:
                env.close()
            except Exception as error:  # noqa: BLE001 - an env may raise anything
                # One env that cannot close must not leave the others open.
                logger.warning("env %d: close failed: %r", env_id, error)
        self._life.mark_all(EnvState.VOID)
        self._board.clear()

    # steps

    @property
    def ready_obs(self) -> Any:
        """Observations of the envs that wait for an action: an ``EnvBatch`` env id -> observation."""
        return self.ready_batch

    @property
    def ready_batch(self) -> EnvBatch:
        """The same as columns, whatever form :attr:`ready_obs` has."""
        return self._board.batch(self._life.ready_ids, self._life.ready_array)

    @property
    def ready_imgs(self) -> dict[int, Any]:
        """Rendered frames of the envs that wait for an action: env id -> uint8 ``[H, W, 3]``."""
        return {env_id: self._envs[env_id].render() for env_id in self._life.ready_ids}

    def step(self, actions: "EnvBatch | Mapping[int, Any]") -> Any:
        """Do one step in each of the given envs.

        Args:
            actions: env id -> action, for envs in ``ready_obs``.

        Returns:
            ``TimestepBatch``, env id -> timestep.

        Raises:
            AssertionError: the manager is closed, or an env is not in state RUN.
            EnvManagerError: an env failed; the manager is closed then.
        """
        return self.step_batch(actions)

    def step_batch(self, actions: "EnvBatch | Mapping[int, Any]") -> TimestepBatch:
        """The same, whatever form :meth:`step` has."""
        self._check_open()
        batch = actions if isinstance(actions, EnvBatch) else EnvBatch.from_dict(actions)
        ids_array = batch.env_ids
        if ids_array is self._life.ready_array:
            env_ids = self._life.ready_ids
        else:
            env_ids = ids_array.tolist()
            self._life.check_running(env_ids)
        if not env_ids:
            raise ValueError("step() needs the action of at least one env")
        try:
            if self._all_fast:
                return self._step_fast(env_ids, ids_array, batch)
            return self._step_classic(env_ids, batch)
        except EnvDataError:
            self.close()
            raise

    def _step_fast(self, env_ids: list[int], ids_array: np.ndarray, batch: EnvBatch) -> TimestepBatch:
        obs_list: list[Any] = []
        rewards: list[Any] = []
        ends: list[int] = []
        cuts: list[int] = []
        infos: dict[int, dict[str, Any]] = {}
        steps = self._steps if self._step_timeout is None else self._limited(self._steps)
        actions = action_rows(batch.columns, len(env_ids), self._discrete)
        for position, (env_id, action) in enumerate(zip(env_ids, actions)):
            try:
                obs, reward, terminated, truncated, info = steps[env_id](action)
            except Exception as error:  # noqa: BLE001 - an env may raise anything
                obs, reward, terminated, truncated, info = self._failed_step(env_id, error)
            rewards.append(reward)
            obs_list.append(obs)
            if terminated or truncated:
                ends.append(position)
                if not terminated:
                    cuts.append(position)
                infos[position] = info
            elif info:
                infos[position] = info
        obs_columns = self._stacker.stack(obs_list, env_ids)
        reward64 = reward_array(rewards, env_ids, self._check_data, self._bad_data)
        if env_ids is self._life.ready_ids and len(env_ids) == self._env_num:
            self._returns += reward64
        else:
            self._returns[ids_array] += reward64
        self._board.write(env_ids, obs_columns)
        for position in cuts:
            infos[position]["TimeLimit.truncated"] = True
        if infos:
            self._end_episodes(env_ids, ends, infos)
        return TimestepBatch.unchecked_timesteps(
            ids_array,
            obs_columns,
            reward64.astype(np.float32).reshape(-1, 1),
            flags_at(ends, len(env_ids)),
            flags_at(cuts, len(env_ids)),
            infos,
        )

    def _limited(self, steps: list[Callable[[Any], Any]]) -> list[Callable[[Any], Any]]:
        def limited(env_id: int, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def call(action: Any) -> Any:
                with time_limit(self._step_timeout, lambda: self._timeout(env_id, "step", self._step_timeout)):
                    return step(action)

            return call

        return [limited(env_id, step) for env_id, step in enumerate(steps)]

    def _step_classic(self, env_ids: list[int], batch: EnvBatch) -> TimestepBatch:
        steps: dict[int, Any] = {}
        step_calls = [env.step for env in self._envs]
        if self._step_timeout is not None:
            step_calls = self._limited(step_calls)
        for env_id, action in batch.to_dict().items():
            try:
                steps[env_id] = step_calls[env_id](array_row(action))
            except Exception as error:  # noqa: BLE001 - an env may raise anything
                obs, reward, _, _, info = self._failed_step(env_id, error)
                steps[env_id] = BaseEnvTimestep(obs, np.array([reward], dtype=np.float32), False, info)
        timesteps = timesteps_of(steps, self._free_stacker, self._check_data, self._bad_data)
        self._board.write(env_ids, timesteps.obs)
        self._end_episodes(env_ids, np.flatnonzero(timesteps.done).tolist(), timesteps.infos)
        return timesteps

    def _failed_step(self, env_id: int, error: Exception) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step_failures[env_id] += 1
        if self._max_retry <= 1 or self._step_failures[env_id] > self._max_retry:
            self.close()
            raise step_failed(env_id, error, self._life.last_seeds[env_id]) from error
        logger.warning("env %d: step failed (%r); it waits for a reset", env_id, error)
        self._broken.add(env_id)
        info = {"abnormal": True, "error": traceback_text(error)}
        return self._board.row(env_id), 0.0, False, False, info

    def _end_episodes(self, env_ids: list[int], ends: list[int], infos: dict[int, Any]) -> None:
        for position, info in infos.items():
            if isinstance(info, dict) and info.get("abnormal", False):
                self._life.mark(env_ids[position], EnvState.ERROR)
        for position in ends:
            env_id = env_ids[position]
            if self._life.states[env_id] is EnvState.ERROR:
                continue
            if self._sums_return[env_id]:
                infos[position]["eval_episode_return"] = np.array([self._returns[env_id]], dtype=np.float32)
            self._step_failures[env_id] = 0
            if not self._life.count_episode(env_id):
                self._life.mark(env_id, EnvState.DONE)
            elif not self._auto_reset:
                self._life.mark(env_id, EnvState.NEED_RESET)
            else:
                # The state stays RUN: nobody can look at it before the reset is over.
                self._board.write_row(env_id, self._reset_env(env_id))

    # the rest

    def reward_shaping(self, env_id: int, transitions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """``env.reward_shaping(transitions)`` of one env."""
        return self._envs[env_id].reward_shaping(transitions)

    def enable_save_figure(self, env_id: int, figure_path: str) -> None:
        """``env.enable_save_figure(figure_path)`` of one env."""
        self._envs[env_id].enable_save_figure(figure_path)

    def _collect_attribute(self, name: str) -> list[Any]:
        return [getattr(env, name, None) for env in self._envs]
