"""Videos of episodes."""

import importlib.util
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np

from ding.envs.gymnasium_types import AnyEnv, AnyWrapper, Reset, Step
from ding.utils import install_line, require_extra

logger = logging.getLogger(__name__)
DEFAULT_FPS = 30


def require_video_writer() -> bool:
    """Return True if imageio with ffmpeg writes the videos, False if OpenCV does.

    Raises:
        MissingExtraError: Neither is installed.
    """
    if importlib.util.find_spec("imageio_ffmpeg") is not None:
        return True
    if importlib.util.find_spec("cv2") is None:
        require_extra("imageio_ffmpeg", "video")
    return False


def _partial_path(path: Path) -> Path:
    return path.with_name(f".{path.stem}.partial{path.suffix}")


class VideoWriter:
    """Write RGB frames to an mp4 file incrementally; the file gets its name once it is complete.

    Args:
        path: Path of the file; its folder is created.
        fps: Frames per second.

    Raises:
        MissingExtraError: Neither imageio with ffmpeg nor OpenCV is installed.
    """

    def __init__(self, path: Path, fps: float) -> None:
        self.path = path
        self.fps = fps
        self._partial = _partial_path(path)
        self._sink: Any = None
        self._use_imageio = require_video_writer()
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, frame: np.ndarray) -> None:
        """Append a frame, uint8 ``[H, W, 3]``."""
        if self._sink is None:
            self._open(frame)
        if self._use_imageio:
            self._sink.append_data(frame)
        else:
            self._sink.write(np.ascontiguousarray(frame[..., ::-1]))

    def close(self) -> None:
        """Finish the file; without frames no file is written."""
        if self._sink is None:
            return
        if self._use_imageio:
            self._sink.close()
        else:
            self._sink.release()
        self._sink = None
        os.replace(self._partial, self.path)

    def _open(self, frame: np.ndarray) -> None:
        if self._use_imageio:
            imageio = require_extra("imageio", "video")
            self._sink = imageio.get_writer(str(self._partial), fps=self.fps, macro_block_size=1)
            return
        cv2 = require_extra("cv2", "atari")
        code = cv2.VideoWriter_fourcc(*"mp4v")
        height, width = frame.shape[:2]
        self._sink = cv2.VideoWriter(str(self._partial), code, self.fps, (width, height))
        if not self._sink.isOpened():
            raise OSError(f"OpenCV cannot write {self.path}; install imageio with: {install_line('video')}")


class FramesOnDemand(AnyWrapper):
    """Hide the render mode from an env until a frame is requested, so that it steps like an env that never renders.

    From the first frame of an episode until the next reset the env has its render mode, so graphics it draws during
    steps appear in videos.
    """

    def __init__(self, env: AnyEnv) -> None:
        super().__init__(env)
        self._mode = env.render_mode
        env.unwrapped.render_mode = None

    @property
    def render_mode(self) -> str | None:  # type: ignore[override]
        """Render mode that the env was created with."""
        return self._mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Reset the env without a render mode."""
        self.env.unwrapped.render_mode = None
        return self.env.reset(seed=seed, options=options)

    def render(self) -> Any:
        """Return the current frame."""
        self.env.unwrapped.render_mode = self._mode
        return self.env.render()


class RecordEpisodes(AnyWrapper):
    """Write one video per episode: ``<folder>/<prefix>-episode-<k>.mp4``.

    An env that was created without a render mode renders to arrays from then on, if it can.

    Raises:
        ValueError: The env does not render to arrays.
    """

    def __init__(self, env: AnyEnv, folder: "str | Path", prefix: str = "rl-video") -> None:
        super().__init__(env)
        if env.render_mode is None and "rgb_array" in env.metadata.get("render_modes", ()):
            env.unwrapped.render_mode = "rgb_array"
        if env.render_mode != "rgb_array":
            raise ValueError(
                f"saving replays needs an env with render_mode 'rgb_array', this one has {env.render_mode!r}"
            )
        self.folder = Path(folder)
        self.prefix = prefix
        self.paths: list[Path] = []
        self._writer: VideoWriter | None = None
        self._opening: np.ndarray | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        """Finish the last video; the next one starts with the first step, so an episode without steps has none."""
        self._finish()
        result = self.env.reset(seed=seed, options=options)
        self._opening = self._frame()
        return result

    def step(self, action: object) -> Step:
        """Step the env and record a frame."""
        result = self.env.step(action)
        if self._opening is not None:
            fps = float((self.env.metadata or {}).get("render_fps", DEFAULT_FPS))
            self._writer = VideoWriter(self._next_path(), fps)
            self._writer.add(self._opening)
            self._opening = None
        if self._writer is not None:
            self._writer.add(self._frame())
        if result[2] or result[3]:
            self._finish()
        return result

    def close(self) -> None:
        """Finish the video and close the env."""
        self._finish()
        self.env.close()

    def _next_path(self) -> Path:
        """Return a name that no other env uses, reserved by its unfinished file: several envs may share a folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number = len(self.paths)
        while True:
            path = self.folder / f"{self.prefix}-episode-{number}.mp4"
            try:
                _partial_path(path).touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                # Check only now: another env may have finished the file a moment ago.
                if not path.exists():
                    return path
                _partial_path(path).unlink()
            number += 1

    def _frame(self) -> np.ndarray:
        # A copy: some envs draw every frame into the same array.
        return np.array(self.env.render(), dtype=np.uint8)

    def _finish(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self.paths.append(self._writer.path)
            logger.info("saved replay %s", self._writer.path)
            self._writer = None
