"""Normalising wrappers in a run: the run takes over their work, with one set of statistics for all envs."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import gymnasium
from gymnasium import wrappers
from gymnasium.vector import VectorEnv

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

E = TypeVar("E")

logger = logging.getLogger(__name__)

_WRAPPERS = (gymnasium.Wrapper, GymToGymnasiumWrapper)
_NAMES = {ObsNormWrapper: "obs_norm", RewardNormWrapper: "reward_norm"}
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
    """Disable ``obs_norm`` and ``reward_norm`` of an env, and return their settings.

    Returns:
        ``None`` for an env without them, or with ``env.shared_norm=False``.

    Raises:
        EnvConfigError: A wrapper around them may change their output.
    """
    own = getattr(type(env), "defer_norms", None)
    if own is not None:
        norms: Norms | None = own(env)
        return norms
    inner = _inner(env)
    return None if inner is None else deferred_norms(inner)


def _inner(env: object) -> object:
    """Return the Gymnasium env of an env with its wrappers; ``None`` if it has none, or not yet."""
    if isinstance(env, _WRAPPERS):
        return env
    held = getattr(env, "__dict__", {})
    return next((one for one in (held.get("_env"), *held.values()) if isinstance(one, _WRAPPERS)), None)


def deferred_norms(env: object) -> Norms | None:
    """Apply :func:`defer_norms` to a Gymnasium env with its wrappers."""
    outside: list[Any] = []
    shape, clip, discount = None, (-3.0, 3.0), None
    while isinstance(env, _WRAPPERS):
        if isinstance(env, ObsNormWrapper):
            # The run normalises each frame of a stack by the statistics of single frames.
            _check_outside(outside, (*_KEEP_OBS, FrameStackWrapper), "obs_norm", "observations")
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
    """Return whether a Gymnasium env has the wrapper ``obs_norm``, or the static one."""
    while isinstance(env, _WRAPPERS):
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
    """Return whether a wrapper, as used by a run, returns the observations of the inner env unchanged."""
    deferred = isinstance(wrapper, (ObsNormWrapper, RewardNormWrapper)) and wrapper.deferred
    return deferred or _passes(wrapper, _KEEP_OBS)


def watched_norms(env_fn: Callable[[], Any]) -> Any:
    """Return the env of ``env_fn``; after its first reset, warn of norms that were created only then.

    The run cannot take over these, because it must know them beforehand. ``shared_norm=False`` in the env config
    disables the warning.
    """
    env = env_fn()
    if isinstance(env, VectorEnv) or hasattr(type(env), "defer_norms") or _inner(env) is not None:
        return env
    reset = env.reset

    def first_reset(*args: Any, **kwargs: Any) -> object:
        env.reset = reset
        result = reset(*args, **kwargs)
        inner, found = _inner(env), []
        while isinstance(inner, _WRAPPERS):
            found += [name for cls, name in _NAMES.items() if isinstance(inner, cls)]
            inner = inner.env
        cfg = getattr(env, "_cfg", None) or getattr(env, "cfg", None)
        if found and (not isinstance(cfg, Mapping) or cfg.get("shared_norm", True)):
            logger.warning(
                "%s makes its %s at the first reset: each env has statistics of its own, which no checkpoint holds; "
                "make the wrappers in the constructor to share those of the run, or set env.shared_norm=False",
                type(env).__name__, " and ".join(found),
            )  # fmt: skip
        return result

    env.reset = first_reset
    return env


def without_norms(env_fn: Callable[[], E]) -> E:
    """Return the env of ``env_fn`` with deferred norms."""
    env = env_fn()
    defer_norms(env)
    return env
