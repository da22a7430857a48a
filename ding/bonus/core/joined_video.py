"""Videos of an agent, joined to one."""

import subprocess
import tempfile
from pathlib import Path

from ding.utils import require_extra

_TIMEOUT_S = 600.0


def join_videos(folder: Path, name: str = "deploy.mp4") -> Path:
    """Write all videos below ``folder``, by their names, one after the other into one; return its path.

    Raises:
        MissingExtraError: imageio-ffmpeg is not installed.
        FileNotFoundError: there are no videos.
        subprocess.CalledProcessError: ffmpeg failed; its ``stderr`` says why.
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
        # The parts have one form, so their frames are copied as they are.
        words = ["-y", "-f", "concat", "-safe", "0", "-i", str(listed), "-c", "copy", str(target)]
        subprocess.run(
            [imageio_ffmpeg.get_ffmpeg_exe(), *words], capture_output=True, check=True, timeout=_TIMEOUT_S, text=True
        )
    return target
