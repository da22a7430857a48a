"""Wrappers that modify steps, episodes or rewards."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from ding.envs.contract import copied, own_info
from ding.envs.env_wrappers._either_api import EitherApi, PlainWrapper
from ding.envs.gymnasium_types import AnyEnv, Reset, Step, scalar
from ding.utils import ENV_WRAPPER_REGISTRY


def step_after_reset(env: AnyEnv, action: object) -> Reset:
    """Make a step that belongs to the reset; if it ends the episode, reset again."""
    obs, _, terminated, truncated, info = env.step(action)
    return env.reset() if terminated or truncated else (obs, info)


def repeat_action(env: AnyEnv, action: object, times: int, keep_obs: bool = False) -> tuple[Any, Step]:
    """Repeat an action up to ``times`` times, until the end of the episode.

    Returns:
        The observation before the last one (a copy; ``None`` after a single step, or without ``keep_obs``), and one
        step with the sum of the rewards.
    """
    total, previous, obs = 0.0, None, None
    for _ in range(times):
        # The env may overwrite the same array.
        previous = copied(obs) if keep_obs else None
        obs, reward, terminated, truncated, info = env.step(action)
        total += scalar(reward)
        if terminated or truncated:
            break
    return previous, (obs, total, terminated, truncated, info)


@ENV_WRAPPER_REGISTRY.register("noop_reset")
class NoopResetWrapper(PlainWrapper):
    """Start an episode with 1 to ``noop_max`` no-ops (action 0); the number is drawn from the env's generator."""

    def __init__(self, env: AnyEnv, noop_max: int = 30) -> None:
        super().__init__(env)
        self.noop_max = noop_max
        self.noop_action = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the env and make the no-ops."""
        obs, info = self.env.reset(seed=seed, options=options)
        for _ in range(int(self.np_random.integers(1, self.noop_max + 1))):
            obs, info = step_after_reset(self.env, self.noop_action)
        return obs, info


@ENV_WRAPPER_REGISTRY.register("max_and_skip")
class MaxAndSkipWrapper(PlainWrapper):
    """Repeat each action ``skip`` times; return the elementwise maximum of the last two frames and the sum of the
    rewards.
    """

    def __init__(self, env: AnyEnv, skip: int = 4) -> None:
        super().__init__(env)
        self.skip = skip

    def step(self, action: object) -> Step:
        """Step up to ``skip`` times, until the end of the episode."""
        previous, (obs, *rest) = repeat_action(self.env, action, self.skip, keep_obs=True)
        return (obs if previous is None else np.maximum(obs, previous), *rest)


@ENV_WRAPPER_REGISTRY.register("action_repeat")
class ActionRepeatWrapper(PlainWrapper):
    """Repeat each action ``action_repeat`` times until the end of the episode, and sum the rewards."""

    def __init__(self, env: AnyEnv, action_repeat: int = 1) -> None:
        super().__init__(env)
        self.action_repeat = action_repeat

    def step(self, action: object) -> Step:
        """Step up to ``action_repeat`` times."""
        return repeat_action(self.env, action, self.action_repeat)[1]


@ENV_WRAPPER_REGISTRY.register("delay_reward")
class DelayRewardWrapper(EitherApi):
    """Accumulate rewards and pay their sum every ``delay_reward_step`` steps and at the end of the episode; 0: no
    delay.
    """

    def __init__(self, env: AnyEnv, delay_reward_step: int = 0) -> None:
        super().__init__(env)
        self._delay_reward_step = delay_reward_step
        self._held = 0.0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the env and the sum."""
        self._held = 0.0
        self._steps = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: object) -> Step:
        """Step the env; the reward is 0 unless the sum is due."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        if self._delay_reward_step < 1:
            return obs, reward, terminated, truncated, info
        self._held += scalar(reward)
        self._steps += 1
        paid = 0.0
        if terminated or truncated or self._steps % self._delay_reward_step == 0:
            paid, self._held = self._held, 0.0
        return obs, paid, terminated, truncated, info


@ENV_WRAPPER_REGISTRY.register("eval_episode_return")
class EvalEpisodeReturnWrapper(EitherApi):
    """Add ``info['eval_episode_return']`` at the end of an episode: the sum of its rewards, float32 ``(1,)``.

    ``as_number`` returns the sum as a ``numpy.float64`` instead.
    """

    def __init__(self, env: AnyEnv, as_number: bool = False) -> None:
        super().__init__(env)
        self._as_number = as_number
        self._return = 0.0

    def form(self, episode_return: float) -> np.ndarray | np.float64:
        """Return the sum in the form of the info."""
        return np.float64(episode_return) if self._as_number else np.array([episode_return], dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the env and the sum."""
        self._return = 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: object) -> Step:
        """Step the env and update the sum."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._return += scalar(reward)
        if terminated or truncated:
            info = {**own_info(info), "eval_episode_return": self.form(self._return)}
        return obs, reward, terminated, truncated, info


@ENV_WRAPPER_REGISTRY.register("clip_reward")
class ClipRewardWrapper(PlainWrapper):
    """Replace each reward by its sign: -1, 0 or 1."""

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        self.reward_range = (-1, 1)

    def step(self, action: object) -> Step:
        """Step the env and clip the reward."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, float(np.sign(scalar(reward))), terminated, truncated, info


@ENV_WRAPPER_REGISTRY.register("episodic_life")
class EpisodicLifeWrapper(EitherApi):
    """End the episode with each lost life of an ALE game; the game itself is reset only when it is over."""

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        self.lives = 0
        self.was_real_done = True

    def step(self, action: object) -> Step:
        """Step the env; ``terminated`` is also True if a life was lost."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.was_real_done = terminated or truncated
        lives = self._lives()
        # Some games show zero lives for a few frames before they report their end; that is not an additional loss.
        if 0 < lives < self.lives:
            terminated = True
        self.lives = lives
        return obs, reward, terminated, truncated, info

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the game if it is over or gets a seed, otherwise continue with the next life through a no-op."""
        if self.was_real_done or seed is not None or options is not None:
            obs, info = self.env.reset(seed=seed, options=options)
        else:
            obs, info = step_after_reset(self.env, 0)
        self.was_real_done = False
        self.lives = self._lives()
        return obs, info

    def _lives(self) -> int:
        return int(self.env.unwrapped.ale.lives())  # type: ignore[attr-defined]


@ENV_WRAPPER_REGISTRY.register("fire_reset")
class FireResetWrapper(PlainWrapper):
    """Press FIRE (action 1) after a reset, for games that wait for it."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the env and press FIRE."""
        self.env.reset(seed=seed, options=options)
        return step_after_reset(self.env, 1)


class TimeLimitWrapper(EitherApi):
    """Truncate an episode after ``max_limit`` steps; infos contain ``time_limit`` (whether it is reached) and
    ``time_count``.
    """

    def __init__(self, env: AnyEnv, max_limit: int) -> None:
        super().__init__(env)
        self.max_limit = max_limit
        self.time_count = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the env and the counter."""
        self.time_count = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: object) -> Step:
        """Step the env and count."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.time_count += 1
        reached = self.time_count >= self.max_limit
        info = {**own_info(info), "time_limit": reached, "time_count": self.time_count}
        return obs, reward, terminated, truncated or reached, info


@ENV_WRAPPER_REGISTRY.register("time_limit_is_end")
class TimeLimitIsEndWrapper(PlainWrapper):
    """Report an episode cut by a time limit as terminated, for tasks whose return ends there.

    Values beyond the limit then count as zero instead of being bootstrapped. If each step has a cost, states that are
    reached late get higher values than those near the start, which is the only learning signal before the first
    success.
    """

    def step(self, action: object) -> Step:
        """Step the env; never ``truncated``."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated or truncated, False, info


@ENV_WRAPPER_REGISTRY.register("gym_hybrid_dict_action")
class GymHybridDictActionWrapper(PlainWrapper):
    """Take actions ``{'type': 0..2, 'mask': (2,), 'args': (2,)}`` for gym-hybrid envs, which take ``(type, args)``."""

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        self.action_space = gymnasium.spaces.Dict(
            {
                "type": gymnasium.spaces.Discrete(3),
                "mask": gymnasium.spaces.Box(0, 1, (2,), np.int64),
                "args": gymnasium.spaces.Box(
                    np.array([0.0, -1.0], dtype=np.float32), np.array([1.0, 1.0], dtype=np.float32), dtype=np.float32
                ),
            }
        )

    def step(self, action: Mapping[str, Any]) -> Step:
        """Step with type and arguments; the mask is only for the learner."""
        return self.env.step((action["type"], action["args"]))
