"""Memory of image observations, by the resident set of a fresh process."""

import os
import subprocess
import sys

import pytest

_SCRIPT = """
import json
import sys
import numpy as np, torch
from ding.data import TransitionBatch
from ding.worker import NaiveReplayBuffer

ROWS, PUSH = 4000, 50

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def rows(seed):
    # Episodes of 100 steps, two pushes each; every frame is new.
    rng = np.random.default_rng(seed // 2)
    frames = rng.integers(0, 255, (104, 84, 84), dtype=np.uint8)
    begin = seed % 2 * PUSH
    stacks = np.lib.stride_tricks.sliding_window_view(frames, 4, axis=0).transpose(0, 3, 1, 2)
    obs, next_obs = (np.ascontiguousarray(stacks[begin + shift : begin + shift + PUSH]) for shift in (0, 1))
    return TransitionBatch({
        "obs": torch.from_numpy(obs), "next_obs": torch.from_numpy(next_obs), "action": torch.zeros(PUSH, 1).long(),
        "reward": torch.ones(PUSH, 1), "done": np.zeros(PUSH, bool),
    })

buffer = NaiveReplayBuffer({"replay_buffer_size": ROWS, "storage": json.loads(sys.argv[1])})
for seed in range(2):
    buffer.push(rows(seed), 0)
before, held = resident(), buffer.count()
for seed in range(2, ROWS // PUSH):
    buffer.push(rows(seed), 0)
print((resident() - before) / ((buffer.count() - held) * 2 * 4 * 84 * 84))
buffer.close()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(("storage", "limit"), [('{"frame_stack": 4}', 0.14), ("{}", 0.51)])
def test_bytes_per_transition(storage, limit, tmp_path):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_MMAP_THRESHOLD_": "65536"}
    run = subprocess.run(
        [sys.executable, "-c", _SCRIPT, storage], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=110
    )
    assert run.returncode == 0, run.stderr
    assert 0.9 * limit < float(run.stdout) <= limit
