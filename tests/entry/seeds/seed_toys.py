"""An env that is deterministic but for its actions and writes down each of its episodes."""

import json
import os
import random
import time
import uuid
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

ACTIONS = 4
LENGTH = 12


class LoggedEnv(gymnasium.Env):
    """Writes a line of JSON per episode into a file of its own, from the first seeded reset on.

    Args:
        folder: where the file goes.
        draws: whether each reset draws from the global generators.
    """

    observation_space = spaces.Box(-100, 100, (2,), np.float32)
    action_space = spaces.Discrete(ACTIONS)

    def __init__(self, folder: str, draws: bool = False, render_mode: str | None = None) -> None:
        self._path = Path(folder) / f"{os.getpid()}_{uuid.uuid4().hex}.log"
        self._draws, self._seed, self._episode = draws, None, -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self._seed, self._episode = seed, -1
        self._episode += 1
        self._actions = ""
        self._drawn = [random.random(), float(np.random.rand()), float(torch.rand(()))] if self._draws else []
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self._actions += str(int(action))
        done = len(self._actions) == LENGTH
        if done:
            self._write()
        return np.array([len(self._actions), 0], np.float32), 1.0, done, False, {}

    def _write(self) -> None:
        line = {
            "pid": os.getpid(),
            "time": time.time(),
            "seed": self._seed,
            "episode": self._episode,
            "actions": self._actions,
            "drawn": self._drawn,
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


gymnasium.register("Logged-v0", entry_point=LoggedEnv)


def episodes(folder: Path) -> list[dict[str, Any]]:
    """Return all episodes that were written into a folder."""
    return [json.loads(line) for path in sorted(folder.glob("*.log")) for line in path.read_text().splitlines()]
