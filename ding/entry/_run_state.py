"""What a checkpoint of the learner does not hold: the replay buffer and the random generators.

They lie beside a checkpoint that an interrupted run left, and a run that goes on from it takes them up. The envs
begin new episodes: their state cannot be saved in general.
"""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ding.utils.file_helper import read_file, save_file

logger = logging.getLogger("ding.entry")

_CHECKPOINT_SUFFIX = ".pth.tar"


def save_run_state(checkpoint: str | Path, buffer: Any) -> None:
    """Write the buffer and the states of python's, numpy's and torch's generators beside ``checkpoint``.

    A buffer that cannot be saved is left out: a run that goes on without it collects until it can train again.
    """
    state = {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    save_file(str(_beside(checkpoint, "_random.pth")), state)
    try:
        buffer.save_data(str(_beside(checkpoint, "_buffer")))
    except NotImplementedError:
        logger.info("a %s cannot be saved; the run will go on with an empty one", type(buffer).__name__)


def load_run_state(checkpoint: str | Path, buffer: Any) -> bool:
    """Take up what `save_run_state` wrote for ``checkpoint``; returns whether the buffer was among it."""
    random_file, buffer_file = _beside(checkpoint, "_random.pth"), _beside(checkpoint, "_buffer")
    with_buffer = buffer_file.exists()
    if with_buffer:
        buffer.load_data(str(buffer_file))
    if random_file.is_file():
        _set_random_state(read_file(str(random_file)))
    return with_buffer


def _set_random_state(state: dict[str, Any]) -> None:
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    np.random.set_state(tuple(state["numpy"]))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])


def _beside(checkpoint: str | Path, ending: str) -> Path:
    path = Path(checkpoint)
    return path.with_name(path.name.removesuffix(_CHECKPOINT_SUFFIX) + ending)
