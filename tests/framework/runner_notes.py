"""Reads what the processes of ``runner_toys`` left, and whether they have ended."""

import json
import os
from pathlib import Path


def notes(folder: Path, what: str) -> dict[int, object]:
    """Node -> what it noted."""
    return {int(path.name.split(".")[1]): json.loads(path.read_text()) for path in folder.glob(f"{what}.*.json")}


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that its new parent has not looked at yet has, too."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True
