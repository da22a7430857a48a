"""A learner of two processes, with an aggregator before it, in a whole run: equal parameters, kills, and the end."""

import re
import signal
import sys
import time

import pytest
import torch
from chaos_parts import BACKENDS, WINNING, ChaosRun

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

GROUP = {
    "main.env.collector_env_num": 4,
    "main.env.evaluator_env_num": 2,
    "main.policy.collect.collector.collector_num": 1,
    "main.policy.other.commander.collector_task_space": 1,
    "system.learner_gpu_num": 2,
    "create.policy": {"type": "told_dqn_command", "import_names": ["chaos_envs"]},
}
ENDLESS = {"main.env.stop_value": 10**9, "main.policy.other.commander.eval_interval": 3600}
ROLES = ("learner0", "learner0_rank0", "learner0_rank1")


@pytest.fixture
def start(tmp_path):
    runs = []

    def begin(**changes):
        changes["config"] = {**GROUP, **changes.get("config", {})}
        runs.append(ChaosRun(tmp_path, **changes))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


def digests(folder):
    """The digests of each process, by rank, in the order of their lives."""
    files = sorted((folder / "params").iterdir(), key=lambda path: path.stat().st_ctime)
    return [[path.read_text().splitlines() for path in files if path.name.startswith(f"{rank}_")] for rank in range(2)]


def is_training(run, more=3):
    begun = run.status("train_iter")
    return lambda: run.status("train_iter") >= begun + more


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_killed_rank_takes_its_group_with_it_and_the_run_goes_on(start, tmp_path, backend):
    run = start(backend=backend, config={**ENDLESS, **WINNING})
    run.wait_for(is_training(run), "training")
    before = {role: run.pid(role) for role in ROLES}
    run.kill_and_wait("learner0_rank1")
    run.wait_for(lambda: all(run.pid(role) not in (None, before[role]) for role in ROLES), "a new group")
    run.wait_for(
        lambda: all(len(lives) == 2 and len(lives[1]) >= 3 for lives in digests(tmp_path)), "training of the new group"
    )
    run.let_win()
    assert run.wait_end() == 0, run.output
    # On Ray, the other rank may notice the loss before the launcher does.
    assert re.search(r"learner0(_rank\d)? works with learner0_rank\d only: it is ended and started", run.output)
    assert run.result()["solved"]
    assert run.left_behind() == []
    rank0, rank1 = digests(tmp_path)
    assert len(rank0) == len(rank1) == 2
    for life0, life1 in zip(rank0, rank1):
        # A kill may come between the two lines of an iteration.
        same = min(len(life0), len(life1))
        assert same >= 3
        assert abs(len(life0) - len(life1)) <= 1
        assert life0[:same] == life1[:same]
        assert len(set(life0)) == len(life0)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_ranks_are_killed_again_and_again_and_the_group_trains_on_from_its_checkpoint(start, tmp_path, backend):
    run = start(backend=backend, config=ENDLESS)
    run.wait_for(is_training(run, 30), "training")
    for kill in range(4):
        before, killed_s = [len(lives) for lives in digests(tmp_path)], time.monotonic()
        run.kill(f"learner0_rank{kill % 2}")
        # Half a minute for the new processes to find each other, to load the checkpoint, and to train.
        run.wait_for(
            lambda: all(len(now) > was and now[-1] for now, was in zip(digests(tmp_path), before)),  # noqa: B023
            "training of new processes",
            timeout_s=30.0,
        )
        print(f"{backend}: rank {kill % 2} killed, both trained again after {time.monotonic() - killed_s:.1f} s")
        run.wait_for(is_training(run, 30), "training")


@pytest.mark.slow
def test_a_group_with_a_process_that_stands_still_or_without_an_aggregator_begins_anew(start, tmp_path):
    run = start(config=ENDLESS)
    run.wait_for(is_training(run), "training")
    stopped = run.kill("learner0_rank1", signal.SIGSTOP)
    run.wait_for(lambda: run.pid("learner0_rank1") not in (None, stopped), "a new group")
    # The aggregator and the other rank notice it at about the same time, and whichever is first ends the group.
    reasons = ("learner0_rank0; the others do not answer any more", "rank 0 waits for others that do not come")
    assert any(reason in run.output for reason in reasons)
    run.wait_for(is_training(run), "training after a process stood still")
    before = {role: run.pid(role) for role in ROLES}
    run.kill_and_wait("learner0")
    run.wait_for(lambda: all(run.pid(role) not in (None, before[role]) for role in ROLES), "a new group")
    run.wait_for(is_training(run), "training after the aggregator was killed")
    run.process.send_signal(signal.SIGTERM)
    assert run.wait_end() == 128 + signal.SIGTERM, run.output
    assert "did not end by itself" not in run.output
    assert run.left_behind() == []
    (checkpoint,) = (tmp_path / "parallel_test" / "ckpt").glob("resume_*.pth.tar")
    assert torch.load(checkpoint, weights_only=True)["last_iter"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_run_with_two_learner_processes_solves_cartpole(start, tmp_path, backend):
    run = start(backend=backend, config={"main.env.stop_value": 195, "main.policy.learn.learner.send_policy_freq": 20,
                        "main.policy.model.encoder_hidden_size_list": [128, 128, 64],
                        "main.policy.other.eps.decay": 10000})  # fmt: skip
    assert run.wait_end(timeout_s=600) == 0, run.output
    result = run.result()
    assert result["solved"]
    assert result["return"] >= 195
    assert run.left_behind() == []
    (rank0,), (rank1,) = digests(tmp_path)
    assert rank0 == rank1
