"""Env managers within the process, and the factories of all env managers."""

import logging
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np

from ding.data import EnvBatch, TimestepBatch
from ding.data.columns import Columns
from ding.data.env_batch import is_abnormal, mark_truncated
from ding.envs.contract import DataProblem, Obs, check_end, copied, own_info
from ding.envs.env.state import check_all_wait, env_state, set_env_state
from ding.envs.env.stepping import FastStep, RawStep, classic_step
from ding.envs.env_manager._abstract import AbstractEnvManager, EnvFn
from ding.envs.env_manager._columns import (
    NumberCheck,
    ObsStacker,
    action_rows,
    given_numbers,
    given_rewards,
    of_abnormal,
    reward_rows,
    reward_shape,
)
from ding.envs.env_manager._errors import (
    ENV_FAULTS,
    EnvManagerError,
    EnvTimeoutError,
    raise_wish,
    step_failed,
    traceback_text,
)
from ding.envs.env_manager._lifecycle import EnvState as EnvState
from ding.envs.env_manager._lifecycle import ResetParam
from ding.envs.env_manager._v2 import V2Interface
from ding.utils import ENV_MANAGER_REGISTRY, import_module
from ding.utils.time_helper import can_limit, time_limit

logger = logging.getLogger(__name__)


@ENV_MANAGER_REGISTRY.register("base")
class BaseEnvManager(AbstractEnvManager):
    """Runs envs in this process, one after the other.

    ``ready_obs`` is an :class:`~ding.data.EnvBatch`, ``step`` takes one (or a dict env id -> action) and returns a
    :class:`~ding.data.TimestepBatch`. The timestep of a finished episode holds its final observation; the env is reset
    at once and its first observation is in ``ready_obs``.

    Faults:

    * A failed ``reset`` is retried ``max_retry`` times (with ``retry_type='renew'`` on a new env), then the manager
      closes and raises :class:`EnvResetError`.
    * A failed ``step`` is not repeated, unless ``retry_step`` is set. With ``max_retry`` at most 1, or with
      ``retry_step``, the manager closes and raises :class:`EnvStepError`. Otherwise the env enters state ERROR and its
      timestep has ``info['abnormal']=True`` and ``info['error']``; the next ``reset({env_id: None})`` restores it. More
      than ``max_retry`` failures without a finished episode in between raise an error.
    * A call that exceeds ``step_timeout`` or ``reset_timeout`` counts as failed (main thread only).
    * An env that itself sets ``info['abnormal']`` is kept; collectors and evaluators reset it. At the end of an episode
      it enters state ERROR, waits for a reset, and the episode does not count. Missing or NaN values are replaced by
      the observation before the step and by reward 0.
    * Data with a wrong shape or dtype, or with NaN, raises :class:`EnvDataError` (``check_data=False`` disables the NaN
      check).

    Args:
        env_fn: One callable without arguments per env.
        cfg: Manager config.
    """

    config: ClassVar[dict[str, Any]] = {**AbstractEnvManager.config, "check_data": True}

    def __init__(self, env_fn: Sequence[EnvFn], cfg: Mapping[str, Any] | None = None) -> None:
        super().__init__(env_fn, cfg)
        self._check = NumberCheck(bool(self._cfg.check_data))
        self._forget_envs()

    def _forget_envs(self) -> None:
        self._envs: list[Any] = []
        self._fast = False
        self._discrete = False
        self._steps: list[FastStep] = [FastStep(_no_step)] * self.env_num
        self._returns = np.zeros(self.env_num, dtype=np.float64)
        # Latest observation of each env, and the last stacked observations of the ready envs.
        self._obs: list[Any] = [None] * self.env_num
        self._ready: EnvBatch | None = None
        self._broken: set[int] = set()

    # life cycle

    def launch(self, reset_param: ResetParam = None) -> None:
        """Create the envs and reset them.

        Args:
            reset_param: Keyword arguments of the reset per env id; ``None``: none.

        Raises:
            AssertionError: The manager is open, or ``reset_param`` does not have one entry per env.
            EnvResetError: An env cannot be reset.
        """
        self._check_reset_param(reset_param)
        self._life.mark_all(EnvState.INIT)
        self._forget_envs()
        self._envs = [self._built(env_id) for env_id in range(self.env_num)]
        self._fast = all(getattr(env, "has_fast_step", False) for env in self._envs)
        self._discrete = self._fast and isinstance(self.action_space, gymnasium.spaces.Discrete)
        self._stacker = ObsStacker(self.observation_space, self._fast, self._check)
        self._reward_shape = reward_shape(self.reward_space)
        self.closed = False
        if (self._step_timeout or self._reset_timeout) and not can_limit():
            logger.warning("step_timeout and reset_timeout have no effect outside of the main thread")
        self.reset(reset_param)

    def reset(self, reset_param: ResetParam = None) -> None:
        """Reset all envs, or the envs of ``reset_param``.

        Args:
            reset_param: Env id -> keyword arguments of ``env.reset``, which later automatic resets also use; ``None``
                keeps the previous arguments.

        Raises:
            AssertionError: The manager is closed, or an id is unknown.
            EnvResetError: An env cannot be reset.
        """
        self._check_open()
        for env_id, path in self._replay_paths.items():
            self._envs[env_id].enable_save_replay(path)
        self._replay_paths.clear()
        for env_id in self._life.remember_reset(reset_param):
            self._life.mark(env_id, EnvState.RESET)
            self._reset_env(env_id)
            self._life.mark(env_id, EnvState.RUN)

    def _reset_env(self, env_id: int) -> None:
        self._obs[env_id] = self._retried_reset(env_id, partial(self._try_reset, env_id))
        self._ready = None
        self._broken.discard(env_id)
        self._returns[env_id] = 0.0

    def _try_reset(self, env_id: int, attempt: int) -> Obs:
        if self._retry_type == "renew" and (attempt > 1 or env_id in self._broken):
            self._renew(env_id)
        env = self._envs[env_id]
        seed = self._life.take_seed(env_id)
        if seed is not None:
            env.seed(*seed)
        with time_limit(self._reset_timeout, partial(self._timeout, env_id, "reset", self._reset_timeout)):
            obs = env.reset(**self._life.reset_kwargs(env_id))
        self._steps[env_id] = self._stepper(env_id, env.fast_step() if self._fast else classic_step(env))
        return self._stacker.row(obs, env_id)

    def _stepper(self, env_id: int, stepper: FastStep) -> FastStep:
        if self._step_timeout is None:
            return stepper

        def limited(action: object) -> RawStep:
            with time_limit(self._step_timeout, partial(self._timeout, env_id, "step", self._step_timeout)):
                return stepper.step(action)

        return FastStep(limited, stepper.return_form)

    def _renew(self, env_id: int) -> None:
        try:
            self._envs[env_id].close()
        except ENV_FAULTS as error:
            raise_wish(error)
            logger.warning("env %d: closing the broken env failed: %r", env_id, error)
        self._envs[env_id] = env = self._built(env_id)
        seed = self._life.renewal_seed(env_id)
        if seed is not None:
            env.seed(*seed)

    def _timeout(self, env_id: int, call: str, seconds: float | None) -> Exception:
        return self._life.error(EnvTimeoutError, env_id, f"{call} took longer than {call}_timeout={seconds} s")

    def close(self) -> None:
        """Close all envs. Repeated calls have no effect."""
        if self.closed:
            return
        self.closed = True
        for env_id, env in enumerate([*self._envs, self.env_ref]):
            try:
                env.close()
            except ENV_FAULTS as error:
                raise_wish(error)
                # An env that fails to close must not leave the others open.
                logger.warning("env %d: close failed: %r", env_id, error)
        self._life.mark_all(EnvState.VOID)
        self._ready = None

    # steps

    @property
    def ready_obs(self) -> EnvBatch:
        """Observations of the envs that wait for an action: an ``EnvBatch`` env id -> observation."""
        ids = self._life.ready_array
        if self._ready is None or self._ready.env_ids is not ids:
            env_ids = self._life.ready_ids
            if not env_ids:
                return EnvBatch.from_dict({})
            obs = [self._obs[env_id] for env_id in env_ids]
            try:
                self._ready = EnvBatch.unchecked(ids, self._stacker.stack(obs, env_ids))
            except DataProblem as problem:
                raise self._bad_data(problem) from problem
            if not self._fast:
                self._ready.given = given_numbers(self._ready.columns, obs)
        return self._ready

    @property
    def ready_imgs(self) -> dict[int, Any]:
        """Rendered frames of the envs that wait for an action: env id -> uint8 ``[H, W, 3]``."""
        return {env_id: self._envs[env_id].render() for env_id in self._life.ready_ids}

    def step(self, actions: Mapping[int, Any]) -> Any:
        """Step each of the given envs once.

        Args:
            actions: Env id -> action, for envs in ``ready_obs``.

        Returns:
            ``TimestepBatch``: env id -> timestep.

        Raises:
            AssertionError: The manager is closed, or an env is not in state RUN.
            ValueError: There are no actions.
            EnvManagerError: An env failed; the manager is then closed.
        """
        batch, life = actions if isinstance(actions, EnvBatch) else EnvBatch.from_dict(actions), self._life
        is_ready = batch.env_ids is life.ready_array and life.ready_ids
        env_ids = life.ready_ids if is_ready else self._checked_ids(batch.env_ids)
        steps, newest, obs_rows, rewards, ends, cuts = self._steps, self._obs, [], [], [], []
        infos: dict[int, Any] = {}
        rows = action_rows(batch, self._discrete, as_given=batch is not actions)
        for position, (env_id, action) in enumerate(zip(env_ids, rows)):
            try:
                obs, reward, terminated, cut, info = steps[env_id].step(action)
                if info:
                    info = infos[position] = own_info(info)
                if terminated or cut:
                    check_end(terminated, cut)
            except ENV_FAULTS as error:
                obs, reward, terminated, cut, info = self._failed_step(env_id, error)
                infos[position] = info
            if info and is_abnormal(info):
                obs, reward = of_abnormal(obs, reward, newest[env_id])
            obs_rows.append(obs)
            rewards.append(reward)
            newest[env_id] = obs
            if terminated or cut:
                ends.append(position)
                info = infos[position] = info or {}
                if not terminated:
                    cuts.append(position)
                mark_truncated(info, not terminated)
            elif info:
                mark_truncated(info, False)
        columns, returns = self._as_columns(obs_rows, rewards, env_ids, infos)
        self._ready = EnvBatch.unchecked(batch.env_ids, columns)
        done, truncated = np.zeros((2, len(env_ids)), dtype=np.bool_)
        if ends:
            done[ends], truncated[cuts] = True, True
        column = returns.astype(np.float32)
        if returns.ndim == 1:
            self._returns[batch.env_ids] += returns
            column = column[:, None]
        timesteps = TimestepBatch.unchecked_timesteps(batch.env_ids, columns, column, done, truncated, infos)
        if not self._fast:
            # Before the reset of an env, which may overwrite its data.
            timesteps.given = self._ready.given = given_numbers(columns, obs_rows)
            timesteps.given_reward = given_rewards(rewards)
        if infos:
            self._end_episodes(env_ids, ends, infos)
        return timesteps

    def _checked_ids(self, ids: np.ndarray) -> list[int]:
        self._check_open()
        env_ids = self._life.check_running(ids)
        if not env_ids:
            raise ValueError("step() needs the action of at least one env")
        return env_ids

    def _as_columns(
        self, obs: list[Any], rewards: list[Any], env_ids: list[int], infos: dict[int, Any]
    ) -> tuple[Columns, np.ndarray]:
        # In a game, whose infos are a list with one per player, the space describes the reward of one player.
        shape = None if any(isinstance(info, list) for info in infos.values()) else self._reward_shape
        try:
            columns = self._stacker.stack(obs, env_ids)
            return columns, reward_rows(rewards, env_ids, self._check, shape, not self._fast)
        except DataProblem as problem:
            raise self._bad_data(problem) from problem

    def _bad_data(self, problem: DataProblem) -> EnvManagerError:
        """Close, and return the error for invalid data of an env."""
        self.close()
        assert problem.env_id is not None
        return self._life.bad_data(problem.env_id, str(problem))

    def _failed_step(self, env_id: int, error: BaseException) -> RawStep:
        raise_wish(error)
        recover = self._max_retry > 1 and not self._cfg.retry_step and not isinstance(error, DataProblem)
        if not recover or not self._life.count_step_failure(env_id, self._max_retry):
            self.close()
            raise step_failed(env_id, error, self._life.last_seeds[env_id]) from error
        logger.warning("env %d: step failed (%r); it waits for a reset", env_id, error)
        self._broken.add(env_id)
        self._life.mark(env_id, EnvState.ERROR)
        return (
            self._obs[env_id],
            np.zeros(1, np.float32),
            False,
            False,
            {"abnormal": True, "error": traceback_text(error)},
        )

    def _end_episodes(self, env_ids: list[int], ends: list[int], infos: dict[int, Any]) -> None:
        for position in ends:
            env_id = env_ids[position]
            form = self._steps[env_id].return_form
            if form is not None:
                infos[position]["eval_episode_return"] = form(self._returns[env_id])
            if is_abnormal(infos[position]):
                self._life.mark(env_id, EnvState.ERROR)
            elif not self._life.count_episode(env_id):
                self._life.mark(env_id, EnvState.DONE)
            elif not self._auto_reset:
                self._life.mark(env_id, EnvState.NEED_RESET)
            else:
                # The state stays RUN: it cannot be observed before the reset has ended.
                self._reset_env(env_id)

    # other methods

    def get_state(self) -> list[Any]:
        """See :meth:`ding.envs.env.state.HasEnvStates.get_state`."""
        check_all_wait(self.env_num, self.ready_obs_id)
        kept = zip(self._envs, self._obs, self._returns.tolist(), strict=True)
        return [{"env": env_state(env), "obs": copied(obs), "return": value} for env, obs, value in kept]

    def set_state(self, states: Sequence[Any]) -> None:
        """See :meth:`ding.envs.env.state.HasEnvStates.set_state`."""
        self.reset()
        check_all_wait(self.env_num, self.ready_obs_id, states)
        for env_id, state in enumerate(states):
            set_env_state(self._envs[env_id], state["env"])
            self._obs[env_id], self._returns[env_id] = state["obs"], state["return"]
        self._ready = None

    def reward_shaping(self, env_id: int, transitions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Call ``env.reward_shaping(transitions)`` of one env."""
        rows: list[dict[str, Any]] = self._envs[env_id].reward_shaping(transitions)
        return rows

    def enable_save_figure(self, env_id: int, figure_path: str) -> None:
        """Call ``env.enable_save_figure(figure_path)`` of one env."""
        self._envs[env_id].enable_save_figure(figure_path)

    def _collect_attribute(self, name: str) -> list[Any]:
        return [getattr(env, name, None) for env in self._envs]


def _no_step(action: object) -> RawStep:
    raise RuntimeError("step() before reset()")


@ENV_MANAGER_REGISTRY.register("base_v2")
class BaseEnvManagerV2(V2Interface, BaseEnvManager):
    """:class:`BaseEnvManager` with the v2 interface: stacked observations, lists of actions and of timestep trees."""


def create_env_manager(manager_cfg: Mapping[str, Any], env_fn: Sequence[EnvFn]) -> AbstractEnvManager:
    """Create the env manager of a config.

    Args:
        manager_cfg: ``type``, the registered name; ``import_names`` (optional); the other keys are the manager's
            config.
        env_fn: One callable without arguments per env.

    Raises:
        KeyError: ``type`` is missing or not registered.
    """
    cls = get_env_manager_cls(manager_cfg)
    cfg: Any = deepcopy(manager_cfg)
    del cfg["type"]
    cfg.pop("import_names", None)
    manager: AbstractEnvManager = cls(env_fn=env_fn, cfg=cfg)
    return manager


def get_env_manager_cls(cfg: Mapping[str, Any]) -> type:
    """Return the env manager class of a config.

    Raises:
        KeyError: ``type`` is missing or not registered.
    """
    import_module(list(cfg.get("import_names", [])))
    if "type" not in cfg:
        raise KeyError("env.manager needs 'type', the registered name of an env manager")
    cls: type = ENV_MANAGER_REGISTRY.get(cfg["type"])
    return cls
