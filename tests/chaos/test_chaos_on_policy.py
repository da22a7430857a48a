"""PPO in real processes that are killed: each step is learned from once, by the version that made it."""

import sys
from pathlib import Path

import pytest
from chaos_parts import ChaosRun

sys.path.insert(0, str(Path(__file__).parent.parent / "worker" / "coordinator"))
from on_policy_parts import check, holes, learned

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")]

CONFIG = Path(__file__).parents[2] / "configs/cartpole/parallel/cartpole_ppo_parallel_config.py"
N_SAMPLE = 64
NUMBERED = {
    "create.env": {"type": "numbered_env", "import_names": ["on_policy_parts"]},
    "create.policy": {"type": "noted_ppo_command", "import_names": ["on_policy_parts"]},
    "main.env.stop_value": 10**9,
    "main.env.evaluator_env_num": 1,
    "main.policy.other.commander.eval_interval": 3600,
    "main.policy.collect.n_sample": N_SAMPLE,
    "main.policy.learn.learner.resume_ckpt_freq": 50,
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = ChaosRun(tmp_path, config_file=str(CONFIG), config=NUMBERED)
    yield run
    run.close()


def batches(run, more):
    there = len(list(Path("learned").glob("*.npy")))
    run.wait_for(lambda: len(list(Path("learned").glob("*.npy"))) >= there + more, "batches")


def test_killed_collectors_cost_no_step_that_was_acknowledged(run):
    batches(run, 5)
    for role in ("collector0", "collector1", "collector0"):
        run.kill_and_wait(role)
        batches(run, 10)
    run.close()
    assert not holes(check(learned(), N_SAMPLE))


def test_killed_learners_and_coordinators_double_nothing_and_learn_from_nothing_stale(run):
    batches(run, 5)
    for role in ("learner0", "coordinator", "collector0", "learner0"):
        run.kill_and_wait(role)
        batches(run, 10)
    run.close()
    check(learned(), N_SAMPLE)
