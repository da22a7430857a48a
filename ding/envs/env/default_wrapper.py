"""The wrapper lists behind the names that ``cfg.env_wrapper`` may have."""

from copy import deepcopy
from typing import Any

from ding.utils import did_you_mean

EVAL_RETURN = {"type": "eval_episode_return"}
# Games that show nothing until FIRE is pressed.
FIRE_GAMES = ("Pong", "Qbert", "SpaceInvader", "Montezuma")
CALLERS = ("collector", "evaluator")
NAMES = ("default", "mujoco_default", "atari_default", "gym_hybrid_default")


def get_default_wrappers(env_wrapper_name: str, env_id: str | None = None, caller: str = "collector") -> list[Any]:
    """The wrapper configs of a named list, innermost first.

    Args:
        env_wrapper_name: ``default`` or ``mujoco_default`` (only the evaluation return), ``gym_hybrid_default``, or
            ``atari_default``.
        env_id: needed by ``atari_default``, which presses FIRE in games that wait for it.
        caller: ``collector`` or ``evaluator``; an Atari evaluator plays whole games with unclipped rewards.

    Raises:
        NotImplementedError: no list of that name.
        ValueError: another caller, or ``atari_default`` without ``env_id``.
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
        return _atari_wrappers(env_id, caller)
    raise NotImplementedError(
        f"env.env_wrapper {env_wrapper_name!r} is not a known list of wrappers.{did_you_mean(env_wrapper_name, NAMES)}"
    )


def _atari_wrappers(env_id: str, caller: str) -> list[Any]:
    wrappers: list[Any] = [
        {"type": "noop_reset", "kwargs": {"noop_max": 30}},
        {"type": "max_and_skip", "kwargs": {"skip": 4}},
    ]
    if caller == "collector":
        wrappers.append({"type": "episodic_life"})
    if any(game in env_id for game in FIRE_GAMES):
        wrappers.append({"type": "fire_reset"})
    wrappers += [{"type": "warp_frame"}, {"type": "scaled_float_frame"}]
    if caller == "collector":
        wrappers.append({"type": "clip_reward"})
    wrappers += [{"type": "frame_stack", "kwargs": {"n_frames": 4}}, deepcopy(EVAL_RETURN)]
    return wrappers
