"""Concatenation of an agent's videos."""

import subprocess
import tempfile
from pathlib import Path

from ding.utils import require_extra

_TIMEOUT_S = 600.0


def join_videos(folder: Path, name: str = "deploy.mp4") -> Path:
    """Concatenate all videos below ``folder``, in the order of their names; return the path.

    Raises:
        MissingExtraError: imageio-ffmpeg is not installed.
        FileNotFoundError: There are no videos.
        subprocess.CalledProcessError: ffmpeg failed; its ``stderr`` contains the reason.
    """
    imageio_ffmpeg = require_extra("imageio_ffmpeg", "video")
    target = folder / name
    parts = sorted(path for path in folder.rglob("*.mp4") if path != target)
    if not parts:
        raise FileNotFoundError(f"{folder} holds no videos to join")
    with tempfile.TemporaryDirectory() as scratch:
        listed = Path(scratch) / "parts.txt"
        quoted = [str(path.resolve()).replace("'", r"'\''") for path in parts]
        listed.write_text("".join(f"file '{path}'\n" for path in quoted), encoding="utf-8")
        # The parts have the same format, so their frames are copied unchanged.
        words = ["-y", "-f", "concat", "-safe", "0", "-i", str(listed), "-c", "copy", str(target)]
        subprocess.run(
            [imageio_ffmpeg.get_ffmpeg_exe(), *words], capture_output=True, check=True, timeout=_TIMEOUT_S, text=True
        )
    return target
