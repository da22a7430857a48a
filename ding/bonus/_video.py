"""Videos of an agent, joined to one."""

from pathlib import Path
from typing import Any

from ding.utils import require_extra


def join_videos(folder: Path, name: str = "deploy.mp4") -> Path:
    """Write the frames of all videos below ``folder``, by their names, into one; return its path.

    Raises:
        MissingExtraError: imageio is not installed.
        FileNotFoundError: there are no videos.
    """
    imageio: Any = require_extra("imageio.v2", "video")
    target = folder / name
    parts = sorted(path for path in folder.rglob("*.mp4") if path != target)
    if not parts:
        raise FileNotFoundError(f"{folder} holds no videos to join")
    fps = imageio.get_reader(parts[0]).get_meta_data()["fps"]
    with imageio.get_writer(target, fps=fps) as writer:
        for part in parts:
            with imageio.get_reader(part) as reader:
                for frame in reader:
                    writer.append_data(frame)
    return target
