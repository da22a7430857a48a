"""Frames of envs and their frame rate."""

from typing import Protocol

import numpy as np

_DEFAULT_FPS = 30


class Rendered(Protocol):
    """Role protocol of an env with frames: a gymnasium env, or a ding env around one."""

    def render(self) -> object:
        """Return the current frame."""


def _inner(env: Rendered) -> Rendered:
    """Return the gymnasium-like env inside a ding env."""
    inner = getattr(env, "_env", None)
    return env if inner is None else inner


def render_env(env: Rendered, render_mode: str = "rgb_array") -> np.ndarray:
    """Return the current frame of a gymnasium env, uint8 ``[H, W, 3]``.

    Raises:
        ValueError: The env was created without this render mode, or returned no frame.
    """
    made_with = getattr(env, "render_mode", None)
    if made_with != render_mode:
        raise ValueError(f"the env was made with render_mode={made_with!r}, expected {render_mode!r}")
    frame = env.render()
    if frame is None:
        raise ValueError(f"the env gave no frame for render_mode={render_mode!r}")
    return np.asarray(frame)


def render(env: Rendered, render_mode: str = "rgb_array") -> np.ndarray:
    """Return the current frame of a ding env (or a gymnasium env), uint8 ``[H, W, 3]``. Raises like ``render_env``."""
    return render_env(_inner(env), render_mode)


def get_env_fps(env: Rendered) -> int:
    """Return the frames per second in the env's metadata, else 30."""
    metadata = getattr(_inner(env), "metadata", None) or {}
    for key in ("render_fps", "video.frames_per_second"):
        if metadata.get(key) is not None:
            return int(metadata[key])
    return _DEFAULT_FPS


def fps(env_manager: object) -> int:
    """Return the frames per second of an env manager's reference env."""
    reference = getattr(env_manager, "env_ref", None)
    if reference is None:
        reference = getattr(env_manager, "_env_ref", None)
    if reference is None:
        raise AttributeError(f"{type(env_manager).__name__} has no reference env (env_ref)")
    return get_env_fps(reference)
