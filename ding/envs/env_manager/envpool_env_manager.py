"""``PoolEnvManager``: the envs of EnvPool (extra ``envpool``; Weng et al. 2022, arXiv:2206.10558)."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from ding.data import EnvBatch, TimestepBatch
from ding.data.columns import Columns
from ding.envs.env.ding_env_wrapper import REWARD_FLOOR, DingEnvWrapper
from ding.envs.env_manager._abstract import EnvFn
from ding.envs.env_manager._lifecycle import EnvState, ResetParam
from ding.envs.env_manager._vector.columns import row_info
from ding.envs.env_manager._vector.pool_batches import Answers, PoolBatches
from ding.envs.env_manager.gym_vector_env_manager import GymVectorEnvManager
from ding.utils import ENV_MANAGER_REGISTRY, require_extra
from ding.utils.rows import take

# Keys of a config that are arguments of the task.
_TASK_KEYS = (
    "num_threads", "max_episode_steps", "episodic_life", "reward_clip", "stack_num", "gray_scale", "frame_skip"
)  # fmt: skip


class PoolTask(NamedTuple):
    """Settings of a pool: the task, its arguments, and the divisor of observations."""

    name: str
    arguments: dict[str, Any]
    obs_scale: float = 1.0


@runtime_checkable
class HasPoolForm(Protocol):
    """Env class that EnvPool provides including its wrappers."""

    def pool_task(self) -> PoolTask:
        """Return the task with the same observations and rewards."""


@ENV_MANAGER_REGISTRY.register("env_pool")
@ENV_MANAGER_REGISTRY.register("envpool")
class PoolEnvManager(GymVectorEnvManager):
    """Runs all envs in one pool; a step is a single call whose result is returned without a copy per env.

    ``env_pool`` in a config supports its envs if they are ``atari``, or have no wrappers around single envs and an id
    that EnvPool knows (MuJoCo, Box2D, classic control). New seeds per env recreate the pool.

    With a ``batch_size`` below the number of envs, a step returns as soon as that many envs have answered (EnvPool's
    asynchronous mode): its timesteps may belong to earlier calls, and envs that are still stepping or resetting are
    missing from ``ready_obs``. A step may return no timestep if only first observations arrived. Each call needs an
    action for each env in ``ready_obs``.

    Created from a config alone, ``PoolEnvManager(cfg)`` runs the plain env of EnvPool, with float32 observations:
    ``env_id`` (the task, e.g. ``Pong-v5``), ``env_num``, and optionally ``episodic_life``, ``reward_clip``,
    ``stack_num``, ``gray_scale``, ``frame_skip``, ``num_threads`` and ``max_episode_steps``.

    Args:
        env_fn: One function per env that creates a :class:`DingEnvWrapper`, or the config.
        cfg: Config of the manager, see :class:`GymVectorEnvManager`.

    Raises:
        ValueError: ``batch_size`` exceeds the number of envs, the envs have wrappers, or EnvPool does not know the id.
        MissingExtraError: envpool is not installed.
    """

    config: ClassVar[dict[str, Any]] = {
        **GymVectorEnvManager.config,
        # Number of threads of the pool; None: number of cores.
        "num_threads": None,
        # Number of envs that a step waits for; None: all.
        "batch_size": None,
    }

    def __init__(self, env_fn: Sequence[EnvFn] | Mapping[str, Any], cfg: Mapping[str, Any] | None = None) -> None:
        if isinstance(env_fn, Mapping):
            cfg = env_fn
            num_envs = int(cfg.get("env_num", 8))
            task = PoolTask(cfg["env_id"], {key: cfg[key] for key in _TASK_KEYS if cfg.get(key) is not None})
        else:
            num_envs = len(env_fn)
            ref = env_fn[0]()
            task = _task_of(ref)
            if (cfg or {}).get("num_threads") is not None:
                task.arguments["num_threads"] = cfg["num_threads"]  # type: ignore[index]
        batch_size = (cfg or {}).get("batch_size") or num_envs
        if not 1 <= batch_size <= num_envs:
            raise ValueError(
                f"env.manager.batch_size must be from 1 to the number of envs, {num_envs}, found {batch_size}"
            )
        super().__init__([partial(_Pool, task, num_envs, batch_size)], cfg)
        if not isinstance(env_fn, Mapping):
            self._rew_clip = ref.rew_clip
            self._actions = self.action_mapping = ref.action_mapping
            self._steps_to_check = ref.steps_to_check
            self.action_space = self._actions.given_space
            ref.close()

    def reset(self, reset_param: ResetParam = None) -> None:
        """Reset envs, see :meth:`GymVectorEnvManager.reset`; with ``batch_size`` only all envs can be reset.

        Raises:
            ValueError: Reset arguments for single envs, or only some of the envs.
        """
        super().reset(reset_param)
        if self._batches is not None:
            self._find_ready_obs()

    @property
    def _batches(self) -> PoolBatches | None:
        batches: PoolBatches | None = self._venv.batches
        return batches

    def _masked_reset(self, mask: np.ndarray) -> Columns:
        if self._batches is not None:
            raise ValueError(
                "env manager 'env_pool' with a batch_size below the number of envs resets all of them only"
            )
        return super()._masked_reset(mask)

    def _find_ready_obs(self) -> None:
        # A copy: the rows of `_obs` change with the next answers.
        assert self._obs is not None
        self._ready = EnvBatch.unchecked(self._life.ready_array, take(self._obs, self._life.ready_array))

    def _stepped(self, everyone: bool) -> TimestepBatch:
        batches = self._batches
        if batches is None:
            return super()._stepped(everyone)
        ready = self._life.ready_ids
        self._life.mark_some(ready, EnvState.RESET)  # busy; `batches` knows with what
        batches.send(np.array(ready), self._last_actions)
        parts = []
        while True:
            idle = [env_id for env_id, state in enumerate(self._life.states) if state is EnvState.DONE]
            part = self._noted(self._timed_step(partial(self._venv.receive, idle)))
            if len(part):
                parts.append(part)
            if self._life.ready_ids or not batches.is_busy:
                break
        self._find_ready_obs()
        return _joined(parts, self.observation_space.shape)

    def _venv_actions(self, columns: Columns, ready: np.ndarray, everyone: bool) -> object:
        return super()._venv_actions(columns, ready, everyone or self._batches is not None)

    def _noted(self, answers: "PoolAnswers") -> TimestepBatch:
        """Return the steps among the answers; record observations, returns and ends, and order resets."""
        came, life, kept = answers.answers, self._life, self._obs
        came = came._replace(obs=np.asarray(self._cast(came.obs)))
        life.mark_some(came.env_ids.tolist(), EnvState.RUN)
        assert isinstance(kept, np.ndarray)
        kept[came.env_ids] = came.obs
        rows = np.flatnonzero(~came.was_reset)
        game_over, steps = answers.game_over[rows], came.take(rows)
        self._check(steps.obs if self._may_give_nan else [], steps.reward, steps.env_ids)
        reward = np.maximum(steps.reward, REWARD_FLOOR) if self._rew_clip else steps.reward
        self._returns[steps.env_ids] += reward
        done, cut = steps.terminated | steps.truncated, steps.truncated & ~steps.terminated
        infos: dict[int, dict[str, Any]] = {}
        resets = []
        for position in np.flatnonzero(done).tolist():
            env_id = int(steps.env_ids[position])
            infos[position] = self._end_info(env_id, row_info(came.infos, rows[position]), cut[position])
            if not life.count_episode(env_id):
                life.mark(env_id, EnvState.DONE)
            elif game_over[position]:
                resets.append(env_id)
        if resets:
            life.mark_some(resets, EnvState.RESET)
            self._venv.batches.send_resets(resets)
        column = np.asarray(reward, dtype=np.float32).reshape(-1, 1)
        return TimestepBatch.unchecked_timesteps(steps.env_ids, steps.obs, column, done, cut, infos)


def _joined(parts: list[TimestepBatch], obs_shape: tuple[int, ...] | None) -> TimestepBatch:
    """Concatenate the timesteps of several receptions, of different envs."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        none = np.zeros(0, dtype=np.bool_)
        obs, reward = np.zeros((0, *(obs_shape or ())), np.float32), np.zeros((0, 1), np.float32)
        return TimestepBatch.unchecked_timesteps(np.zeros(0, np.int64), obs, reward, none, none, {})
    starts = np.cumsum([0, *map(len, parts)]).tolist()
    infos = {start + row: info for start, part in zip(starts, parts) for row, info in part.infos.items()}
    columns = zip(*((part.env_ids, part.obs, part.reward, part.done, part.truncated) for part in parts))
    env_ids, obs, reward, done, truncated = map(np.concatenate, columns)
    return TimestepBatch.unchecked_timesteps(env_ids, obs, reward, done, truncated, infos)


def _task_of(env: object) -> PoolTask:
    if isinstance(env, HasPoolForm):
        return env.pool_task()
    if not isinstance(env, DingEnvWrapper) or env.env_id is None:
        raise ValueError(f"env manager 'env_pool' needs envs that are made from env.env_id, not {env!r}")
    if not env.wraps_plainly:
        raise ValueError("env manager 'env_pool' has no wrappers around single envs; remove env.env_wrapper")
    return PoolTask(env.env_id, env.env_kwargs)


def pool_id(env_id: str) -> str:
    """Return EnvPool's name of an Atari id: ``PongNoFrameskip-v4`` and ``ALE/Pong-v5`` become ``Pong-v5``."""
    return re.sub(r"^(?:ALE/)?(\w+?)(?:NoFrameskip)?-v\d$", r"\1-v5", env_id)


class PoolAnswers(NamedTuple):
    """Answers, and whether the game of each env is over (bool ``[N]``), as an episode may be a single life."""

    answers: Answers
    game_over: np.ndarray


class _Pool(VectorWrapper):
    """Pool with a seed per env, resets of single envs, and scaled observations.

    With ``episodic_life`` an episode ends with each lost life, but only a new game requires a reset: the pool would
    start a new game if the reset of an env that lost a life were requested.
    """

    def __init__(self, task: PoolTask, num_envs: int, batch_size: int) -> None:
        self._task = task
        self._num_envs = num_envs
        self._batch_size = batch_size
        # Pending orders, if the pool answers for some envs at a time.
        self.batches: PoolBatches | None = None
        self._episodic_life = bool(task.arguments.get("episodic_life"))
        self._lives = np.zeros(num_envs, dtype=np.int32)
        self._game_over = np.zeros(num_envs, dtype=np.bool_)
        # Envs whose episode ended with a life, and whose next one started without a reset.
        self._plays_on = np.zeros(num_envs, dtype=np.bool_)
        super().__init__(self._made())
        self.obs_were_bytes = self.env.single_observation_space.dtype == np.uint8
        if task.obs_scale != 1.0:
            for name in ("single_observation_space", "observation_space"):
                space = getattr(self.env, name)
                low, high = space.low / np.float32(task.obs_scale), space.high / np.float32(task.obs_scale)
                setattr(self, name, gymnasium.spaces.Box(low, high, dtype=np.float32))
        elif self.single_observation_space.dtype == np.uint8:
            shape = self.single_observation_space.shape
            self.single_observation_space = gymnasium.spaces.Box(0.0, 255.0, shape, np.float32)
        self._obs = np.zeros(0)

    def _made(self, **seeds: Any) -> VectorEnv:
        envpool = require_extra("envpool", "envpool")
        known = envpool.list_all_envs()
        if self._task.name not in known:
            raise ValueError(f"env.env_id: EnvPool has no task {self._task.name!r}")
        arguments = {**self._task.arguments, **seeds}
        if self._episodic_life:
            arguments["episodic_life"] = False
        if self._batch_size < self._num_envs:
            arguments["batch_size"] = self._batch_size
        pool: VectorEnv = envpool.make(self._task.name, env_type="gymnasium", num_envs=self._num_envs, **arguments)
        if self._batch_size < self._num_envs:
            self.batches = PoolBatches(pool, self._num_envs, self._batch_size)
        return pool

    def reset(  # type: ignore[override]
        self, *, seed: Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Reset all envs; seeds per env recreate them, because a pool accepts seeds only on construction."""
        if seed is not None:
            self.env.close()
            self.env = self._made(env_seed=[abs(value or 0) for value in seed])
        obs, infos = self.env.reset() if self.batches is None else self.batches.reset_all()
        self._lives = infos.get("lives", self._lives)
        self._plays_on[:] = False
        return self._scaled(obs), infos

    def step(self, actions: Any) -> tuple[np.ndarray, Any, Any, Any, dict[str, Any]]:
        """Step all envs."""
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        self._game_over = terminated | truncated
        if self._episodic_life:
            terminated = terminated | (infos["lives"] < self._lives)
            self._lives = infos["lives"]
            self._plays_on = terminated & ~self._game_over
        return self._scaled(obs), rewards, terminated, truncated, infos

    def receive(self, idle: Sequence[int]) -> PoolAnswers:
        """Return the next answers of :attr:`batches`; see :meth:`PoolBatches.receive`."""
        assert self.batches is not None
        came = self.batches.receive(idle)
        game_over = came.terminated | came.truncated
        if self._episodic_life:
            lives = came.infos["lives"]
            came = came._replace(terminated=came.terminated | ((lives < self._lives[came.env_ids]) & ~came.was_reset))
            self._lives[came.env_ids] = lives
        return PoolAnswers(came._replace(obs=self._scaled(came.obs)), game_over)

    def reset_rows(self, mask: np.ndarray) -> np.ndarray:
        """Reset the envs of a mask, except those that continue after a lost life; return all observations."""
        obs, rows = self._obs, np.flatnonzero(mask & ~self._plays_on)
        if len(rows):
            pool: Any = self.env
            first, infos = pool.reset(rows.astype(np.int32))
            obs = obs.copy()
            obs[rows] = self._scaled(first)
            if self._episodic_life:
                self._lives[rows] = infos["lives"]
            self._obs = obs
        return obs

    def _scaled(self, obs: np.ndarray) -> np.ndarray:
        scale = np.float32(self._task.obs_scale)
        self._obs = np.divide(obs, scale, dtype=np.float32) if scale != 1.0 else obs.astype(np.float32, copy=False)
        return self._obs
