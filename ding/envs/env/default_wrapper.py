"""Named wrapper lists for ``cfg.env_wrapper``."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from ding.utils import did_you_mean

EVAL_RETURN = {"type": "eval_episode_return"}
EVAL_RETURN_NUMBER = {**EVAL_RETURN, "kwargs": {"as_number": True}}
# Games that show nothing until FIRE is pressed.
FIRE_GAMES = ("Pong", "Qbert", "SpaceInvader", "Montezuma")
CALLERS = ("collector", "evaluator")
NAMES = ("default", "mujoco_default", "atari_default", "gym_hybrid_default")


def get_default_wrappers(env_wrapper_name: str, env_id: str | None = None, caller: str = "collector") -> list[Any]:
    """Return the wrapper configs of a named list, innermost first.

    Args:
        env_wrapper_name: ``default`` or ``mujoco_default`` (only the evaluation return), ``gym_hybrid_default``, or
            ``atari_default``.
        env_id: Required by ``atari_default``, which presses FIRE in games that wait for it.
        caller: ``collector`` or ``evaluator``; an Atari evaluator plays whole games with unclipped rewards.

    Raises:
        NotImplementedError: The name is unknown.
        ValueError: The caller is unknown, or ``atari_default`` has no ``env_id``.
    """
    if caller not in CALLERS:
        raise ValueError(f"caller must be one of {CALLERS}, not {caller!r}")
    if env_wrapper_name in ("default", "mujoco_default"):
        return [deepcopy(EVAL_RETURN)]
    if env_wrapper_name == "gym_hybrid_default":
        return [{"type": "gym_hybrid_dict_action"}, deepcopy(EVAL_RETURN)]
    if env_wrapper_name == "atari_default":
        if env_id is None:
            raise ValueError("env.env_wrapper 'atari_default' needs env.env_id")
        fire = [{"type": "fire_reset"}] if any(game in env_id for game in FIRE_GAMES) else []
        return [*atari_wrappers(caller == "collector", fire), deepcopy(EVAL_RETURN)]
    raise NotImplementedError(
        f"env.env_wrapper {env_wrapper_name!r} is not a known list of wrappers.{did_you_mean(env_wrapper_name, NAMES)}"
    )


def atari_wrappers(is_train: bool, fire: Sequence[Any], n_frames: int = 4, frame_size: int = 84) -> list[Any]:
    """Return the wrappers of an Atari game, innermost first.

    Args:
        is_train: End the episode with each lost life, and clip rewards.
        fire: Wrapper that presses FIRE after a reset, if the game waits for it.
        n_frames: Number of stacked frames, on a new first axis; 1 adds no axis.
        frame_size: Height and width of a frame in pixels.
    """
    wrappers: list[Any] = [
        {"type": "noop_reset", "kwargs": {"noop_max": 30}},
        {"type": "max_and_skip", "kwargs": {"skip": 4}},
        *([{"type": "episodic_life"}] if is_train else []),
        *fire,
        {"type": "warp_frame", "kwargs": {"size": frame_size}},
        {"type": "scaled_float_frame"},
        *([{"type": "clip_reward"}] if is_train else []),
    ]
    return wrappers + ([{"type": "frame_stack", "kwargs": {"n_frames": n_frames}}] if n_frames > 1 else [])
