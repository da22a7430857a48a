"""R11: a collector or a learner that is ten times slower than the other; the sample ratio and the folder stay bounded.

The short forms run always; the full ones are marked slow.
"""

import sys

import pytest
from chaos_parts import ChaosRun

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

RATIO, MIN_SIZE, ERROR, PENDING, CHUNK_ROWS, BUFFER_ROWS, COLLECTORS = 4.0, 50, 256, 8, 16, 500, 2
CONFIG = {
    "create.env": {"type": "ledger_env", "import_names": ["chaos_ledger"]},
    "create.comm_collector.max_pending_chunks": PENDING,
    "main.env.stop_value": 10**9,
    "main.env.collector_env_num": 4,
    "main.env.collector_episode_num": 5,
    "main.env.evaluator_env_num": 1,
    "main.policy.other.commander.eval_interval": 3600,
    "main.policy.other.replay_buffer": {
        "replay_buffer_size": BUFFER_ROWS,
        "rate_limit": {
            "samples_per_insert": RATIO,
            "min_size_to_sample": MIN_SIZE,
            "error_buffer": ERROR,
            "push_size": 64,
            "sample_size": 32,
        },
    },
    "main.policy.collect.collector": {"collector_num": COLLECTORS, "chunk_rows": CHUNK_ROWS},
}
SLOW = {
    "collector": {"main.env.step_s": 0.005},
    "learner": {"create.policy": {"type": "slow_dqn_command", "import_names": ["chaos_learner"]}},
}
# What the buffer holds, what collectors were not asked for yet, and what is on its way to the learner or to its end.
MOST_FILES = BUFFER_ROWS // CHUNK_ROWS + COLLECTORS * PENDING + 100


@pytest.fixture
def start(tmp_path):
    runs = []

    def begin(slow):
        runs.append(ChaosRun(tmp_path, config={**CONFIG, **SLOW[slow], "system.path_data": str(tmp_path / "data")}))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


def check(run, folder, rows):
    most, counts = 0, {}

    def there():
        nonlocal most, counts
        data = folder / "data"
        most = max(most, sum(path.suffix == ".chunk" for path in data.iterdir()) if data.exists() else 0)
        counts = run.status("buffers", {})
        return counts.get("rows", 0) >= rows

    run.wait_for(there, f"{rows} rows", 900)
    # So many rows that what the two sides may drift apart is less than 5 %.
    assert 0.05 * rows > MIN_SIZE + ERROR / RATIO
    assert counts["sampled_rows"] == pytest.approx(RATIO * counts["rows"], rel=0.05)
    assert most <= MOST_FILES
    assert counts["released_chunks"] > 0
    assert run.status("tasks")["failed"] == 0


@pytest.mark.parametrize("slow", ["learner", pytest.param("collector", marks=pytest.mark.slow)])
def test_the_slower_side_sets_the_pace(start, tmp_path, slow):
    check(start(slow), tmp_path, 2500)


@pytest.mark.slow
@pytest.mark.parametrize("slow", SLOW)
def test_the_slower_side_sets_the_pace_for_long(start, tmp_path, slow):
    check(start(slow), tmp_path, 60_000)
