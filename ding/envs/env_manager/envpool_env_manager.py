"""``PoolEnvManager``: the envs of EnvPool (extra ``envpool``; Weng et al. 2022, arXiv:2206.10558)."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from ding.envs.env.ding_env_wrapper import DingEnvWrapper
from ding.envs.env_manager._abstract import EnvFn
from ding.envs.env_manager.gym_vector_env_manager import GymVectorEnvManager
from ding.utils import ENV_MANAGER_REGISTRY, require_extra

# Keys of a config that are arguments of the task.
_TASK_KEYS = (
    "num_threads", "max_episode_steps", "episodic_life", "reward_clip", "stack_num", "gray_scale", "frame_skip"
)  # fmt: skip


class PoolTask(NamedTuple):
    """What a pool is made from: the task, its arguments, and what observations are divided by."""

    name: str
    arguments: dict[str, Any]
    obs_scale: float = 1.0


@runtime_checkable
class HasPoolForm(Protocol):
    """An env class whose wrappers a pool brings itself."""

    def pool_task(self) -> PoolTask:
        """The task with the same observations and rewards."""


@ENV_MANAGER_REGISTRY.register("env_pool")
@ENV_MANAGER_REGISTRY.register("envpool")
class PoolEnvManager(GymVectorEnvManager):
    """All envs in one pool; each step is one call, and what it returns is handed on without a copy per env.

    ``env_pool`` in a config takes the envs of the config: ``atari``, or any without wrappers around single envs whose
    id EnvPool knows (MuJoCo, Box2D, classic control). A seed per env makes the pool anew.

    Built from a config alone, ``PoolEnvManager(cfg)`` has the env of EnvPool as it is, its observations as float32:
    ``env_id`` (the task, as ``Pong-v5``), ``env_num``, and ``episodic_life``, ``reward_clip``, ``stack_num``,
    ``gray_scale``, ``frame_skip``, ``num_threads`` and ``max_episode_steps`` where they are given.

    Args:
        env_fn: one function per env that makes a :class:`DingEnvWrapper`, or the config.
        cfg: config of the manager, see :class:`GymVectorEnvManager`.

    Raises:
        ValueError: a ``batch_size`` below the number of envs, envs with wrappers, or an id that EnvPool does not know.
        MissingExtraError: envpool is not installed.
    """

    config: ClassVar[dict[str, Any]] = {
        **GymVectorEnvManager.config,
        # Threads of the pool; as many as cores when None.
        "num_threads": None,
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
        if batch_size != num_envs:
            raise ValueError(f"env.manager.batch_size must be the number of envs, {num_envs}, found {batch_size}")
        super().__init__([partial(_Pool, task, num_envs)], cfg)
        if not isinstance(env_fn, Mapping):
            self._rew_clip = ref.rew_clip
            if ref.act_scale:
                self.action_space, self._scaled_to = ref.action_space, ref.inner_action_space
            ref.close()


def _task_of(env: object) -> PoolTask:
    if isinstance(env, HasPoolForm):
        return env.pool_task()
    if not isinstance(env, DingEnvWrapper) or env.env_id is None:
        raise ValueError(f"env manager 'env_pool' needs envs that are made from env.env_id, not {env!r}")
    if not env.wraps_plainly:
        raise ValueError("env manager 'env_pool' has no wrappers around single envs; remove env.env_wrapper")
    return PoolTask(env.env_id, env.env_kwargs)


def pool_id(env_id: str) -> str:
    """EnvPool's name of an Atari id: ``PongNoFrameskip-v4`` and ``ALE/Pong-v5`` are ``Pong-v5``."""
    return re.sub(r"^(?:ALE/)?(\w+?)(?:NoFrameskip)?-v\d$", r"\1-v5", env_id)


class _Pool(VectorWrapper):
    """A pool with a seed per env, resets of single envs, and scaled observations.

    With ``episodic_life`` an episode ends with each lost life, and only a new game begins with a reset: the pool itself
    would begin a new game where it is asked for the reset of an env that lost a life.
    """

    def __init__(self, task: PoolTask, num_envs: int) -> None:
        self._task = task
        self._num_envs = num_envs
        self._episodic_life = bool(task.arguments.get("episodic_life"))
        self._lives = np.zeros(num_envs, dtype=np.int32)
        self._game_over = np.zeros(num_envs, dtype=np.bool_)
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
        envpool: Any = require_extra("envpool", "envpool")
        known = envpool.list_all_envs()
        if self._task.name not in known:
            raise ValueError(f"env.env_id: EnvPool has no task {self._task.name!r}")
        arguments = {**self._task.arguments, **seeds}
        if self._episodic_life:
            arguments["episodic_life"] = False
        return envpool.make(self._task.name, env_type="gymnasium", num_envs=self._num_envs, **arguments)

    def reset(  # type: ignore[override]
        self, *, seed: Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Reset all envs; a seed per env makes them anew, as a pool takes seeds only then."""
        if seed is not None:
            self.env.close()
            self.env = self._made(env_seed=[abs(value or 0) for value in seed])
        obs, infos = self.env.reset()
        self._lives = infos.get("lives", self._lives)
        return self._scaled(obs), infos

    def step(self, actions: Any) -> tuple[np.ndarray, Any, Any, Any, dict[str, Any]]:
        """Step all envs."""
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        self._game_over = terminated | truncated
        if self._episodic_life:
            terminated = terminated | (infos["lives"] < self._lives)
            self._lives = infos["lives"]
        return self._scaled(obs), rewards, terminated, truncated, infos

    def reset_rows(self, mask: np.ndarray) -> np.ndarray:
        """Reset the envs of a mask whose game is over, instead of with the next step; returns all observations."""
        obs, rows = self._obs, np.flatnonzero(mask & self._game_over)
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
