"""An env whose every transition has a number of its own, and an audit of where these numbers ended up."""

import contextlib
import json
import os
import sqlite3
import time
from pathlib import Path
from typing import NamedTuple

import gymnasium
import numpy as np

from ding.envs.testing import CountingEnv
from ding.parallel.planes import FileDataPlane, writer_of
from ding.parallel.planes.seal import Seal
from ding.utils import ENV_REGISTRY
from ding.worker.coordinator.tasks.journal import Journal

LENGTH = 25
# Whole numbers below 2 ** 24 times this are exact in float32, and no larger than what a network is used to.
SCALE = 2.0**-24


@ENV_REGISTRY.register("ledger_env")
class LedgerEnv(CountingEnv):
    """A counting env; the observation is ``[id of the env (twice 24 bits), episode, step]``, scaled.

    A step takes ``step_s`` seconds more than it has to.
    """

    def __init__(self, cfg=None):
        super().__init__({"episode_length": LENGTH})
        self.observation_space = gymnasium.spaces.Box(0, 1, (4,), np.float32)
        self._step_s = (cfg or {}).get("step_s", 0.0)
        self._id = np.frombuffer(os.urandom(8), dtype=np.uint32) >> 8

    def reset(self, **kwargs):
        return self._numbered(super().reset(**kwargs))

    def step(self, action):
        if self._step_s:
            time.sleep(self._step_s)
        timestep = super().step(int(np.asarray(action).flat[0]))
        return timestep._replace(obs=self._numbered(timestep.obs))

    def _numbered(self, obs):
        return np.concatenate([self._id, obs]).astype(np.float32) * np.float32(SCALE)


class Audit(NamedTuple):
    """What lay in the buffers of a run that was stopped dead.

    Attributes:
        rows: transitions in the buffers.
        doubled: how many of them were there before.
        holes: envs of which a transition is missing before the last one that is there.
        complete, cut: rows of tasks that an env played to their end, and number of envs with a task that they did not.
        finished_steps: steps of the collector tasks that the coordinator knows to be finished.
        unread: chunks that the journal knows and the folder does not have.
        unknown: chunks of the folder that the journal does not know, by the name of their writer.
    """

    rows: int
    doubled: int
    holes: int
    complete: int
    cut: int
    finished_steps: int
    unread: list
    unknown: dict


def audit(journal_path, data_root, episodes, token):
    """Compare the journal of a coordinator with the data.

    Args:
        episodes: how many each env plays in a task.
        token: of the run, under which its chunks are sealed.
    """
    with contextlib.closing(Journal(str(journal_path))) as journal:
        state = journal.load()
    plane = FileDataPlane(data_root, seal=Seal(token))
    stored = set(plane.chunks())
    known = [chunk.ref["chunk"] for chunk in state.chunks]
    assert len(known) == len(set(known))
    numbers = [np.rint(np.asarray(plane.get(chunk).columns["obs"]) / SCALE).astype(np.int64) for chunk in known]
    rows = np.concatenate(numbers)
    unique = np.unique(rows, axis=0)
    envs, of_env, counts = np.unique(unique[:, 0] << 24 | unique[:, 1], return_inverse=True, return_counts=True)
    place = unique[:, 2] * LENGTH + unique[:, 3]
    last = np.zeros(len(envs), dtype=np.int64)
    np.maximum.at(last, of_env.reshape(-1), place)
    complete = counts // (episodes * LENGTH) * (episodes * LENGTH)  # a collector plays many tasks with its envs
    unknown = {}
    for chunk in stored - set(known):
        unknown[writer_of(chunk)] = unknown.get(writer_of(chunk), 0) + 1
    return Audit(
        rows=len(rows),
        doubled=len(rows) - len(unique),
        holes=int((last + 1 != counts).sum()),
        complete=int(complete.sum()),
        cut=int((complete < counts).sum()),
        finished_steps=int(state.values["commander"]["envstep"]),
        unread=sorted(set(known) - stored),
        unknown=unknown,
    )


def journal_of(pid):
    """The journal that a process has open."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            path = os.readlink(descriptor)
        except FileNotFoundError:
            continue
        if path.endswith(".sqlite"):
            return Path(path)
    return None


def unswept(journal_path, data_root):
    """Chunks that no buffer has, of processes that hold no task. The coordinator may be at work."""
    # Listed first, so that a chunk that is taken in between counts as taken.
    stored = FileDataPlane(data_root).chunks()
    with contextlib.closing(sqlite3.connect(journal_path)) as db:
        known = {json.loads(row[0])["chunk"] for row in db.execute("SELECT ref FROM chunk")}
    holders = incarnations(journal_path)
    return [chunk for chunk in stored if chunk not in known and writer_of(chunk) not in holders]


def incarnations(journal_path):
    """The processes that hold a task."""
    with sqlite3.connect(journal_path) as db:
        return {row[0].partition("+")[0] for row in db.execute("SELECT incarnation FROM task WHERE worker IS NOT NULL")}
