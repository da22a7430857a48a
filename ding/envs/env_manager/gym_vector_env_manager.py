"""``GymVectorEnvManager``: a ``gymnasium.vector`` env as an env manager."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from ding.data import EnvBatch, TimestepBatch
from ding.data.columns import Columns
from ding.data.env_batch import is_abnormal, mark_truncated
from ding.envs.contract import DataProblem
from ding.envs.env.actions import ActionMapping
from ding.envs.env.base_env import BaseEnv
from ding.envs.env.ding_env_wrapper import REWARD_FLOOR, DingEnvWrapper
from ding.envs.env.spaces import float32_space
from ding.envs.env_manager._abstract import AbstractEnvManager, EnvFn, Obs
from ding.envs.env_manager._columns import NumberCheck
from ding.envs.env_manager._errors import (
    ENV_FAULTS,
    EnvCrashedError,
    EnvDataError,
    EnvManagerError,
    EnvStepError,
    EnvTimeoutError,
    describe,
    raise_wish,
    traceback_text,
)
from ding.envs.env_manager._lifecycle import EnvLifecycle, EnvState, ResetParam
from ding.envs.env_manager._vector.build import build_vector_env, row_resetter, rows_take_seeds
from ding.envs.env_manager._vector.columns import VectorObs, cast_columns, replaced, row_info
from ding.envs.env_manager._vector.end import close_vector_env, dead_worker
from ding.utils import ENV_MANAGER_REGISTRY
from ding.utils.nested import iter_leaves
from ding.utils.rows import take
from ding.utils.time_helper import time_limit


class _Ends(NamedTuple):
    """Ended episodes of a vector step, bool ``[N]``, and the infos of the vector env."""

    terminated: np.ndarray
    truncated: np.ndarray
    infos: dict[str, Any]


@ENV_MANAGER_REGISTRY.register("gym_vector")
class GymVectorEnvManager(AbstractEnvManager):
    """Runs all envs in one ``gymnasium.vector`` env, without Python code per env except for finished episodes.

    A vector env steps all its envs together, so :meth:`step` needs an action for each env in ``ready_obs``. The
    autoreset mode of the vector env determines how finished envs are reset:

    * SAME_STEP: the vector env has reset them; the final observation is taken from its info.
    * DISABLED (mode of the vector envs built here): they are reset at once by ``reset(options={'reset_mask': ...})``.
    * NEXT_STEP: the vector env uses a step for the reset. If it has a method ``reset_rows(mask)`` or
      ``reset_rows(mask, seeds)`` (as has Gymnasium's CartPole here), envs are reset at once through it. Otherwise a
      finished env is missing from ``ready_obs`` for one step, whose result for it is its first observation and no
      transition.

    The infos of single envs are returned only for finished episodes. ``info['eval_episode_return']`` is that of the
    env, or the sum of the rewards, float32 ``(1,)``.

    Args:
        env_fn: See :func:`build_vector_env`; either one function per env, or one that creates a ``VectorEnv``.
        cfg: Manager config; ``vectorization_mode`` selects how the vector env is created.
    """

    steps_together = True

    config: ClassVar[dict[str, Any]] = {
        **AbstractEnvManager.config,
        # For 'async' vector envs: transfer observations through shared memory.
        "shared_memory": False,
        # See :func:`build_vector_env`.
        "vectorization_mode": None,
        # Check observations and rewards for NaN.
        "check_data": True,
    }

    def __init__(self, env_fn: Sequence[EnvFn], cfg: Mapping[str, Any] | None = None) -> None:
        super().__init__(env_fn, cfg)
        if not self._auto_reset:
            raise ValueError("env.manager.auto_reset must be True for 'gym_vector': a vector env resets by itself")
        if isinstance(self.env_ref, VectorEnv):
            self.env_num = self.env_ref.num_envs
            self._life = EnvLifecycle(self.env_num, self._episode_num)
        self._numbers = NumberCheck(bool(self._cfg.check_data))
        self._venv: Any = None
        # Whether a call of the vector env has not returned; the progress of its envs is then unknown.
        self._calling = False
        self._obs: Columns | None = None
        self._ready: EnvBatch | None = None
        self._last_actions: Any = None

    def _read_spaces(self) -> None:
        ref = self.env_ref
        if isinstance(ref, VectorEnv):
            self.observation_space = float32_space(ref.single_observation_space)
            self._actions = self.action_mapping = ActionMapping(ref.single_action_space)
        else:
            if getattr(ref, "observation_space", None) is None:
                ref.reset()  # a lazily built env knows its spaces only afterwards
            own = isinstance(ref, BaseEnv) and not isinstance(ref, DingEnvWrapper)
            self.observation_space = ref.observation_space if own else float32_space(ref.observation_space)
            self.action_mapping = getattr(ref, "action_mapping", None)
            if self.action_mapping is None and not isinstance(ref, BaseEnv):
                self.action_mapping = ActionMapping(ref.action_space)
            # A BaseEnv maps actions itself.
            self._actions = self.action_mapping or ActionMapping(ref.action_space, maps=False)
        self.action_space = self._actions.given_space
        self.reward_space = getattr(ref, "reward_space", gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32))
        settings = isinstance(ref, DingEnvWrapper)
        self._steps_to_check = ref.steps_to_check if settings else 0
        self._rew_clip = settings and ref.rew_clip

    @property
    def seeds_each_episode(self) -> bool:
        """See :attr:`AbstractEnvManager.seeds_each_episode`; False if the vector env resets its envs itself."""
        if self._venv is None or self._mode is AutoresetMode.DISABLED:
            return True
        return self._reset_rows is not None and rows_take_seeds(self._venv)

    # life cycle

    def launch(self, reset_param: ResetParam = None) -> None:
        """Create the vector env and reset it.

        Args:
            reset_param: Must be ``None``, or contain ``None`` for each env.

        Raises:
            AssertionError: The manager is open.
            ValueError: Reset arguments for single envs are not supported.
            EnvResetError: The vector env cannot be reset.
        """
        self._check_reset_param(reset_param)
        self._open()
        self.closed = False
        self._life.mark_all(EnvState.INIT)
        self.reset(reset_param)

    def _open(self) -> None:
        if isinstance(self.env_ref, VectorEnv) and self._venv is not None:
            # The vector env created before has been closed.
            self.env_ref = self._env_fn[0]()
        mode, shared_memory = self._cfg.vectorization_mode, self._cfg.shared_memory
        self._venv = build_vector_env(self._env_fn, self.env_ref, mode, shared_memory, self._life.last_seeds)
        self._mode = self._venv.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._reset_rows = row_resetter(self._venv) if self._mode is AutoresetMode.NEXT_STEP else None
        # Vector envs that always return the same array require copies.
        self._reuses_obs = getattr(self._venv, "copy", True) is False
        # Frames were bytes and cannot be NaN, and the check costs 1 % of the steps of Pong.
        self._may_give_nan = not getattr(self._venv, "obs_were_bytes", False)
        self._returns = np.zeros(self.env_num, dtype=np.float64)
        # Envs that ended with an abnormal step and were not reset.
        self._left = np.zeros(self.env_num, dtype=np.bool_)

    def reset(self, reset_param: ResetParam = None) -> None:
        """Reset all envs, or the envs of ``reset_param`` (if the vector env supports it).

        Raises:
            AssertionError: The manager is closed.
            ValueError: Reset arguments for single envs, or a vector env that can only be reset as a whole.
            EnvResetError: The vector env cannot be reset.
        """
        self._check_open()
        if reset_param is not None and any(reset_param.values()):
            raise ValueError("env manager 'gym_vector' takes no reset arguments for single envs")
        env_ids = self._life.remember_reset(reset_param)
        if len(env_ids) == self.env_num:
            seeds = [_seed_of(self._life.take_seed(env_id)) for env_id in range(self.env_num)]
            self._obs = self._retried_reset(0, partial(self._whole_reset, seeds))
            self._life.mark_all(EnvState.RUN)
            self._returns[:] = 0.0
            self._left[:] = False
        else:
            mask = np.zeros(self.env_num, dtype=np.bool_)
            mask[env_ids] = True
            self._obs = self._masked_reset(mask)
            for env_id in env_ids:
                self._life.mark(env_id, EnvState.RUN)
            self._returns[mask] = 0.0
            self._left[mask] = False
        self._ready = None

    def _whole_reset(self, seeds: list[int | None], attempt: int) -> Columns:
        # An async vector env has ended the process of an env that raised, so it cannot be reset again.
        if attempt > 1 and (self._retry_type == "renew" or isinstance(self._venv.unwrapped, AsyncVectorEnv)):
            close_vector_env(self._venv, self._calling)
            self._open()
            seeds = [
                _seed_of(self._life.renewal_seed(env_id)) if seed is None else seed for env_id, seed in enumerate(seeds)
            ]
        obs = self._cast(self._timed_reset(partial(self._seeded_reset, seeds)))
        varies = self._life.seeds_vary and None not in seeds
        if varies and self._reset_rows is not None and rows_take_seeds(self._venv):
            # The vector env may have one generator for all envs, but each episode needs its own.
            rows = partial(self._reset_rows, np.ones(self.env_num, dtype=np.bool_), seeds)
            obs = self._cast(self._timed_reset(rows))
        return obs

    def _timed_reset(self, reset: Callable[[], Obs]) -> Obs:
        self._calling = True
        try:
            with time_limit(self._reset_timeout, lambda: self._timeout("reset", self._reset_timeout)):
                result = reset()
        except (EOFError, ConnectionError) as error:
            crash = self._crash("reset")
            if crash is None:
                raise
            raise crash from error
        self._calling = False
        return result

    def _seeded_reset(self, seeds: list[int | None]) -> Any:
        if all(seed is None for seed in seeds):
            return self._venv.reset()[0]
        if isinstance(self._venv.unwrapped, (SyncVectorEnv, AsyncVectorEnv)):
            return self._venv.reset(seed=seeds)[0]
        try:
            return self._venv.reset(seed=seeds)[0]
        except (TypeError, ValueError, gymnasium.error.Error):
            # One generator for all envs: derive a seed from all of theirs.
            mixed = np.random.SeedSequence([abs(seed or 0) for seed in seeds]).generate_state(1)[0]
            return self._venv.reset(seed=int(mixed & 0x7FFFFFFF))[0]

    def _masked_reset(self, mask: np.ndarray) -> Columns:
        seeds = [self._life.fixed_seed(env_id) if resets else None for env_id, resets in enumerate(mask.tolist())]
        if self._reset_rows is not None:
            fixed = self._life.seeds_vary and seeds.count(None) == np.count_nonzero(~mask)
            return self._cast(self._timed_reset(partial(self._reset_rows, mask, seeds if fixed else None)))
        if self._mode is AutoresetMode.DISABLED:
            seed = None if all(value is None for value in seeds) else seeds
            reset = partial(self._venv.reset, seed=seed, options={"reset_mask": mask.copy()})
            return self._cast(self._timed_reset(reset)[0])
        raise ValueError(f"a vector env with autoreset mode {self._mode.name} can only be reset as a whole")

    def close(self) -> None:
        """Close the vector env, without waiting for a failed call. Repeated calls have no effect."""
        if self.closed:
            return
        self.closed = True
        close_vector_env(self._venv, self._calling)
        if self.env_ref is not self._venv:
            self.env_ref.close()
        self._life.mark_all(EnvState.VOID)
        self._obs = self._ready = None

    # steps

    @property
    def ready_obs(self) -> EnvBatch:
        """Observations of the envs that wait for an action: an ``EnvBatch`` env id -> observation."""
        if self._ready is None:
            ready = self._life.ready_array
            if self._obs is None or not len(ready):
                return EnvBatch.from_dict({})
            columns = self._obs if len(ready) == self.env_num else take(self._obs, ready)
            self._ready = EnvBatch.unchecked(ready, columns)
        return self._ready

    @property
    def ready_imgs(self) -> dict[int, Any]:
        """Rendered frames of the envs that wait for an action."""
        frames = self._venv.render()
        return {env_id: frames[env_id] for env_id in self._life.ready_ids}

    def step(self, actions: Mapping[int, Any]) -> TimestepBatch:
        """Step all envs of ``ready_obs``.

        Args:
            actions: Env id -> action, for each env in ``ready_obs``.

        Returns:
            ``TimestepBatch`` of these envs.

        Raises:
            AssertionError: The manager is closed, or the ids differ from those of ``ready_obs``.
            EnvManagerError: The vector env failed; the manager is then closed.
        """
        self._check_open()
        batch = self._in_ready_order(EnvBatch.from_dict(actions))
        everyone = len(batch) == self.env_num
        self._last_actions = self._venv_actions(_action_columns(batch), self._life.ready_array, everyone)
        try:
            return self._stepped(everyone)
        except EnvManagerError:
            self.close()
            raise
        except DataProblem as problem:
            self.close()
            raise self._life.bad_data(problem.env_id or 0, str(problem)) from problem
        except ENV_FAULTS as error:
            failure = self._step_failure(error)
            self.close()
            raise failure from error

    def _stepped(self, everyone: bool) -> TimestepBatch:
        """Step with ``_last_actions``; ``everyone``: all envs were ready."""
        ready = self._life.ready_array
        if not everyone and self._left.any():
            # The env was not reset, and a vector env does not step envs whose episode is over.
            left, self._left = self._left, np.zeros(self.env_num, dtype=np.bool_)
            self._masked_reset(left)
        obs, reward, terminated, truncated, infos = self._timed_step(partial(self._venv.step, self._last_actions))
        ends = _Ends(np.asarray(terminated), np.asarray(truncated), infos)
        reward = np.asarray(reward)
        columns = self._cast(obs)
        self._check(columns, reward)
        if everyone:
            return self._finish(ready, columns, reward, ends)
        return self._finish_some(ready, columns, reward, ends)

    def _timed_step(self, step: Callable[[], Obs]) -> Obs:
        self._calling = True
        with time_limit(self._step_timeout, lambda: self._timeout("step", self._step_timeout)):
            result = step()
        self._calling = False
        return result

    def _step_failure(self, error: BaseException) -> EnvManagerError:
        raise_wish(error)
        crash = self._crash("step") if isinstance(error, (EOFError, ConnectionError)) else None
        text = f"the vector env raised: {describe(error)}"
        return crash or EnvStepError(text, original=traceback_text(error))

    def _crash(self, call: str) -> EnvManagerError | None:
        """Return the error for an env whose process died; ``None`` if all are alive."""
        dead = dead_worker(self._venv)
        if dead is None:
            return None
        env_id, how = dead
        return self._life.error(EnvCrashedError, env_id, f"{call}: its process died ({how})")

    def _in_ready_order(self, batch: EnvBatch) -> EnvBatch:
        ready = self._life.ready_array
        if batch.env_ids is ready or np.array_equal(batch.env_ids, ready):
            return batch
        if sorted(batch.env_ids.tolist()) != self._life.ready_ids:
            missing = sorted(set(self._life.ready_ids) - set(batch.env_ids.tolist()))
            extra = sorted(set(batch.env_ids.tolist()) - set(self._life.ready_ids))
            raise AssertionError(
                f"a vector env steps all its ready envs together: actions missing for {missing}, not ready are {extra}"
            )
        return batch.take(np.argsort(batch.env_ids))

    def _venv_actions(self, columns: Columns, ready: np.ndarray, everyone: bool) -> object:
        if not everyone:
            # The others get the action of a ready env, which is at least valid; the result is ignored.
            rows = np.zeros(self.env_num, dtype=np.int64)
            rows[ready] = np.arange(len(ready))
            columns, ready = take(columns, rows), ready[rows]
        actions = self._actions.rows_to_env(columns, len(ready))
        if self._steps_to_check > 0:
            self._steps_to_check -= 1
            self._actions.check_rows(actions, ready, repr(self.env_ref))
        return actions

    def _finish(self, ready: np.ndarray, obs: Columns, reward: np.ndarray, ends: _Ends) -> TimestepBatch:
        done = ends.terminated | ends.truncated
        if self._rew_clip:
            reward = np.maximum(reward, REWARD_FLOOR)
        self._returns += reward
        self._ready = None
        self._obs = obs
        row_infos: dict[int, dict[str, Any]] = {}
        cut = ends.truncated
        if np.count_nonzero(done):
            cut = ends.truncated & ~ends.terminated
            if self._mode is AutoresetMode.SAME_STEP:
                obs = self._with_final_obs(obs, ends.infos, done)
            row_infos = self._end_episodes(np.flatnonzero(done).tolist(), cut, ends.infos)
            if self._mode is AutoresetMode.DISABLED or self._reset_rows is not None:
                self._reset_ended(done)
            self._wake_if_idle()
        if "abnormal" in ends.infos:
            for env_id in np.flatnonzero(ends.infos["abnormal"]).tolist():
                if env_id not in row_infos:
                    row_infos[env_id] = row_info(ends.infos, env_id)
                    mark_truncated(row_infos[env_id], False)
        column = np.asarray(reward, dtype=np.float32).reshape(-1, 1)
        return TimestepBatch.unchecked_timesteps(ready, obs, column, done, cut, row_infos)

    def _finish_some(self, ready: np.ndarray, obs: Columns, reward: np.ndarray, ends: _Ends) -> TimestepBatch:
        """Process a step in which some envs were DONE already or used it for their reset."""
        for env_id, state in enumerate(self._life.states):
            if state is EnvState.RESET:
                self._life.mark(env_id, EnvState.RUN)
                self._returns[env_id] = -float(reward[env_id])
        whole = self._finish(ready, obs, reward, ends)
        part = TimestepBatch.unchecked_timesteps(
            np.arange(self.env_num), whole.obs, whole.reward, whole.done, whole.truncated, whole.infos
        )
        return part.take(ready)

    def _end_episodes(self, env_ids: list[int], cut: np.ndarray, infos: dict[str, Any]) -> dict[int, dict[str, Any]]:
        resets_later = self._mode is AutoresetMode.NEXT_STEP and self._reset_rows is None
        source = infos.get("final_info", infos) if self._mode is AutoresetMode.SAME_STEP else infos
        row_infos = {}
        for env_id in env_ids:
            row_infos[env_id] = self._end_info(env_id, row_info(source, env_id), cut[env_id])
            if self._life.states[env_id] is EnvState.DONE:
                continue
            if is_abnormal(row_infos[env_id]) and self._mode is AutoresetMode.DISABLED:
                # It waits for an explicit reset, and the episode does not count.
                self._life.mark(env_id, EnvState.ERROR)
            elif not self._life.count_episode(env_id):
                self._life.mark(env_id, EnvState.DONE)
            elif resets_later:
                self._life.mark(env_id, EnvState.RESET)
        return row_infos

    def _end_info(self, env_id: int, info: dict[str, Any], is_cut: bool) -> dict[str, Any]:
        """Return the info at the end of an episode with the manager's additions; start the next sum."""
        if "eval_episode_return" not in info:
            info["eval_episode_return"] = np.array([self._returns[env_id]], dtype=np.float32)
        mark_truncated(info, bool(is_cut))
        self._returns[env_id] = 0.0
        return info

    def _reset_ended(self, done: np.ndarray) -> None:
        """Reset the envs whose episode ended, except those that wait for an explicit reset."""
        if EnvState.ERROR not in self._life.states:
            self._obs = self._masked_reset(done)
            return
        self._left = done & np.array([state is EnvState.ERROR for state in self._life.states])
        mask = done & ~self._left
        if mask.any():
            self._obs = self._masked_reset(mask)

    def _wake_if_idle(self) -> None:
        """If every unfinished env waits for the step that resets it, make that step."""
        life = self._life
        if life.ready_ids or EnvState.RESET not in life.states:
            return
        self._obs = self._cast(self._timed_reset(partial(self._venv.step, self._last_actions))[0])
        for env_id, state in enumerate(life.states):
            if state is EnvState.RESET:
                life.mark(env_id, EnvState.RUN)

    def _with_final_obs(self, obs: Columns, infos: dict[str, Any], done: np.ndarray) -> Columns:
        if "final_obs" not in infos:
            raise EnvDataError("a vector env with autoreset mode SAME_STEP must put 'final_obs' into its infos")
        final = infos["final_obs"]
        rows = np.flatnonzero(done)
        if isinstance(obs, dict):
            return {name: replaced(column, rows, [final[row][name] for row in rows]) for name, column in obs.items()}
        return replaced(np.asarray(obs), rows, [final[row] for row in rows])

    # data

    def _cast(self, obs: VectorObs) -> Columns:
        return cast_columns(obs, self.observation_space, self._reuses_obs)

    def _check(self, columns: Columns, reward: np.ndarray, env_ids: np.ndarray | None = None) -> None:
        ids = None if env_ids is None else env_ids.tolist()
        for name, values in (("the reward", reward), ("the observation", columns if self._may_give_nan else [])):
            nan = self._numbers.nan_in(name, values, ids)
            if nan is not None:
                raise self._life.bad_data(nan[0] if ids is None else ids[nan[0]], f"NaN in {nan[1]}")

    def _timeout(self, call: str, seconds: float | None) -> EnvTimeoutError:
        return EnvTimeoutError(f"the vector env's {call} took longer than {call}_timeout={seconds} s")

    # other methods

    def enable_save_replay(self, replay_path: "list[str] | str | None") -> None:
        """Raise an error: a vector env does not render single envs. Use the manager ``base`` for replays."""
        raise NotImplementedError("env manager 'gym_vector' cannot save replays; evaluate with the manager 'base'")

    def _collect_attribute(self, name: str) -> list[Any]:
        if hasattr(self._venv, "get_attr"):
            return list(self._venv.get_attr(name))
        return [getattr(self._venv, name)] * self.env_num


def _action_columns(batch: EnvBatch) -> Columns:
    """Return the actions as columns; parts without an array form one by one, as tuples in a dict."""
    columns = batch.columns
    if isinstance(columns, dict) and any(isinstance(leaf, list) for _, leaf in iter_leaves(columns)):
        return list(batch.values())
    return columns


def _seed_of(arguments: tuple[Any, ...] | None) -> int | None:
    """Return the seed among the arguments of ``env.seed``."""
    return None if arguments is None else arguments[0]
