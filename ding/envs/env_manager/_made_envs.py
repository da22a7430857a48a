"""Settings of a manager that wrap the created envs: a step limit and retries."""

import logging
import time
from collections.abc import Callable
from typing import Any

from gymnasium.vector import VectorEnv

from ding.data import BaseEnvTimestep
from ding.envs.env.base_env import BaseEnv
from ding.envs.env.ding_env_wrapper import DingEnvWrapper
from ding.envs.env.norms import defer_norms
from ding.envs.env_manager._errors import ENV_FAULTS, raise_wish
from ding.rl_utils.normalization import Norms

logger = logging.getLogger(__name__)


class StepRetryEnv:
    """Env that repeats a failed ``step`` with the same action, as in DI-engine.

    Args:
        env_fn: Creates the env.
        max_tries: Maximum number of attempts; the last error is raised.
        waiting_time: Seconds between two attempts.
    """

    has_fast_step = False

    def __init__(self, env_fn: Callable[[], Any], max_tries: int, waiting_time: float) -> None:
        self.env = env_fn()
        self._max_tries, self._waiting_time = max_tries, waiting_time

    def step(self, action: object) -> object:
        """Step the env, with retries."""
        for attempt in range(1, self._max_tries):
            try:
                return self.env.step(action)
            except ENV_FAULTS as error:
                raise_wish(error)
                logger.warning("%s: try %d of %d of a step failed: %r", self.env, attempt, self._max_tries, error)
                time.sleep(self._waiting_time)
        return self.env.step(action)

    def defer_norms(self) -> Norms | None:
        """See :func:`ding.envs.env.norms.defer_norms`."""
        return defer_norms(self.env)

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # not created yet
            raise AttributeError(name)
        return getattr(self.env, name)


def limited_env(env_fn: Callable[[], Any], max_episode_steps: int) -> Any:
    """Create the env of ``env_fn`` with a limit on the steps of an episode.

    An env that ends its episodes earlier, or whose config has a limit, is unaffected. Vector envs have their own
    limits.
    """
    env = env_fn()
    if isinstance(env, DingEnvWrapper):
        env.limit_episodes(max_episode_steps)
    elif not isinstance(env, VectorEnv):
        _limit_steps(env, max_episode_steps)
    return env


def _limit_steps(env: BaseEnv, max_episode_steps: int) -> None:
    step, reset = env.step, env.reset
    num_steps, episode_return = 0, 0.0

    def limited_reset(*args: Any, **kwargs: Any) -> object:
        nonlocal num_steps, episode_return
        num_steps, episode_return = 0, 0.0
        return reset(*args, **kwargs)

    def limited_step(action: object) -> object:
        nonlocal num_steps, episode_return
        timestep = step(action)
        num_steps += 1
        obs, reward, done, info = timestep
        episode_return = episode_return + reward
        if done or num_steps < max_episode_steps:
            return timestep
        per_player = isinstance(info, (list, tuple))
        infos: Any = [dict(one or {}) for one in (info if per_player else [info])]
        for one in infos:
            one["TimeLimit.truncated"] = True
            one.setdefault("eval_episode_return", episode_return)
        return BaseEnvTimestep(obs, reward, True, infos if per_player else infos[0])

    env.step, env.reset = limited_step, limited_reset  # type: ignore[method-assign]
