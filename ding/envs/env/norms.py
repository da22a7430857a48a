"""Wrappers that normalise, in a run: the run does their work, with one set of statistics for all envs."""

import logging
from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium import wrappers

from ding.envs.env.base_env import EnvConfigError
from ding.envs.env_wrappers import (
    ActionRepeatWrapper,
    ClipRewardWrapper,
    DelayRewardWrapper,
    EpisodicLifeWrapper,
    EvalEpisodeReturnWrapper,
    FireResetWrapper,
    FrameStackWrapper,
    GymHybridDictActionWrapper,
    GymToGymnasiumWrapper,
    NoopResetWrapper,
    ObsNormWrapper,
    RewardNormWrapper,
    StaticObsNormWrapper,
    TimeLimitWrapper,
)
from ding.envs.env_wrappers._episode import TimeLimitIsEndWrapper
from ding.envs.env_wrappers.video import FramesOnDemand, RecordEpisodes
from ding.rl_utils.normalization import Norms

logger = logging.getLogger(__name__)

_KEEP_BOTH = (
    *(gymnasium.ActionWrapper, wrappers.TimeLimit, wrappers.OrderEnforcing, wrappers.PassiveEnvChecker),
    *(wrappers.RecordEpisodeStatistics, EvalEpisodeReturnWrapper, EpisodicLifeWrapper, FireResetWrapper),
    *(NoopResetWrapper, TimeLimitWrapper, TimeLimitIsEndWrapper, GymHybridDictActionWrapper, RecordEpisodes),
    FramesOnDemand,
)
_KEEP_OBS = (
    *(*_KEEP_BOTH, gymnasium.RewardWrapper, RewardNormWrapper, ClipRewardWrapper, DelayRewardWrapper),
    ActionRepeatWrapper,
)
_KEEP_REWARD = (*_KEEP_BOTH, gymnasium.ObservationWrapper, FrameStackWrapper)


def defer_norms(env: object) -> Norms | None:
    """Have ``obs_norm`` and ``reward_norm`` of an env pass everything on, and return what they are to do.

    Returns:
        ``None`` for an env without them, or with ``env.shared_norm=False``.

    Raises:
        EnvConfigError: A wrapper around them may change what they return.
    """
    own = getattr(type(env), "defer_norms", None)
    if own is not None:
        return own(env)
    inner = env if isinstance(env, gymnasium.Wrapper) else getattr(env, "__dict__", {}).get("_env")
    return None if inner is None else deferred_norms(inner)


def deferred_norms(env: object) -> Norms | None:
    """:func:`defer_norms` of a gymnasium env in its wrappers."""
    outside: list[Any] = []
    shape, clip, discount = None, (-3.0, 3.0), None
    while isinstance(env, (gymnasium.Wrapper, GymToGymnasiumWrapper)):
        if isinstance(env, ObsNormWrapper):
            _check_outside(outside, _KEEP_OBS, "obs_norm", "observations")
            env.deferred, shape, clip = True, env.rms.moments()[0].shape, env.clip_range
        elif isinstance(env, RewardNormWrapper):
            _check_outside(outside, _KEEP_REWARD, "reward_norm", "rewards")
            env.deferred, discount = True, env.reward_discount
        elif isinstance(env, (wrappers.NormalizeObservation, wrappers.NormalizeReward)):
            instead = "obs_norm" if isinstance(env, wrappers.NormalizeObservation) else "reward_norm"
            logger.warning(
                "no checkpoint holds the statistics of gymnasium's %s, which each env has for itself; env.env_wrapper "
                "%r has them for the run",
                type(env).__name__, instead,
            )  # fmt: skip
        outside.append(env)
        env = env.env
    return None if shape is None and discount is None else Norms(shape, clip, discount)


def has_obs_norm(env: object) -> bool:
    """Return whether a gymnasium env has the wrapper ``obs_norm``, or the static one."""
    while isinstance(env, (gymnasium.Wrapper, GymToGymnasiumWrapper)):
        if isinstance(env, (ObsNormWrapper, StaticObsNormWrapper)):
            return True
        env = env.env
    return False


def _check_outside(outside: list[Any], harmless: tuple[type, ...], name: str, what: str) -> None:
    for wrapper in outside:
        if not _passes(wrapper, harmless):
            raise EnvConfigError(
                f"env.env_wrapper: {type(wrapper).__name__} comes after {name} and may use its {what}; list {name} "
                "after it, or set env.shared_norm=False for statistics per env, which no checkpoint holds"
            )


def _passes(wrapper: object, harmless: tuple[type, ...]) -> bool:
    cls = type(wrapper)
    plain = all(getattr(cls, name) is getattr(gymnasium.Wrapper, name) for name in ("step", "reset"))
    return plain or isinstance(wrapper, (*harmless, GymToGymnasiumWrapper))


def passes_observations(wrapper: object) -> bool:
    """Return whether a wrapper of an env, as a run uses it, returns the observations of the env inside as they are."""
    deferred = isinstance(wrapper, (ObsNormWrapper, RewardNormWrapper)) and wrapper.deferred
    return deferred or _passes(wrapper, _KEEP_OBS)


def without_norms(env_fn: Callable[[], Any]) -> Any:
    """Return what ``env_fn`` makes, its norms deferred."""
    env = env_fn()
    defer_norms(env)
    return env
