"""A learner of two processes: in step, equal, and never waiting for one that is gone."""

import os
import subprocess
import sys
from pathlib import Path

import group_rank
import pytest
import torch

from ding.parallel.planes import InprocDataPlane
from ding.worker.learner.comm.batch_loader import BatchLoader
from ding.worker.learner.comm.in_step import GroupBroken, InStep, explain, group_backend


@pytest.fixture
def run(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}

    def both(how):
        script = str(Path(group_rank.__file__))
        # Files: a pipe that is full would stop one rank, and the other would wait for it.
        logs = [(tmp_path / f"out{rank}", tmp_path / f"err{rank}") for rank in range(2)]
        ranks = []
        for rank, (out, err) in enumerate(logs):
            command = [sys.executable, script, how, str(rank)]
            with out.open("w") as stdout, err.open("w") as stderr:
                ranks.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=stdout, stderr=stderr))
        try:
            for rank in ranks:
                rank.wait(timeout=300)
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
        return [(rank.returncode, out.read_text(), err.read_text()) for rank, (out, err) in zip(ranks, logs)]

    return both


pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="gloo over the interface lo")


def test_two_processes_learn_what_one_learns_from_the_whole_batch(run, tmp_path, monkeypatch):
    (code0, digest0, errors0), (code1, digest1, errors1) = run("all")
    assert (code0, code1) == (0, 0), errors0 + errors1
    assert digest0 == digest1
    saved = torch.load(tmp_path / "exp" / "ckpt" / "iteration_12.pth.tar", weights_only=True)["model"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exp").rename("two")
    # Rank 0 is where the parameters of both came from.
    learner, report = group_rank.train(0, 1, 12)
    alone = learner.learner.policy.state_dict()["model"]
    learner.close()
    assert report["final"]["learner_step"] == 12
    for name, value in alone.items():
        assert torch.allclose(value, saved[name], atol=1e-5), name


def test_both_end_with_the_same_batch(run, tmp_path):
    (code0, text0, errors0), (code1, text1, errors1) = run("close")
    assert (code0, code1) == (0, 0), errors0 + errors1
    assert text0 == text1 == "None [5]\n"
    # The checkpoint from which they go on.
    assert (tmp_path / "exp" / "ckpt" / "resume_t1.pth.tar").exists()


def test_who_loses_the_other_ends_with_a_message(run):
    (code0, text0, errors0), (code1, _, _) = run("die")
    assert code1 == -9
    assert code0 == 3, errors0
    assert text0.startswith("GroupBroken rank 0 of 2 lost the other processes of its learner"), text0


@pytest.mark.slow
def test_a_failure_of_one_ends_both(run):
    (code0, text0, _), (code1, text1, _) = run("fail")
    assert (code0, code1) == (3, 3)
    assert text1 == "ZeroDivisionError the policy fails here\n"
    assert text0.startswith("GroupBroken rank 0 of 2 lost"), text0


@pytest.mark.parametrize(
    ("gpus", "cuda", "processes", "backend"),
    [(2, True, 2, "nccl"), (1, True, 2, "gloo"), (2, False, 2, "gloo"), (0, True, 1, "gloo")],
)
def test_each_process_needs_a_gpu_of_its_own_for_nccl(monkeypatch, gpus, cuda, processes, backend):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert group_backend(cuda, processes) == backend


def test_only_the_talk_of_the_processes_is_explained():
    error = ValueError("gloo")
    assert explain(error, 0, 2) is error
    lost = explain(RuntimeError("[gloo/transport/tcp/pair.cc] Connection closed by peer"), 1, 2)
    assert isinstance(lost, GroupBroken)
    assert "rank 1 of 2" in str(lost)
    assert "Connection closed by peer" in str(lost)


@pytest.mark.parametrize(("repeat_last", "rewards"), [(True, [2, 2, 4, 4]), (False, [2, 4])])
def test_processes_in_step_get_a_batch_for_each_that_was_sent(repeat_last, rewards):
    plane = InprocDataPlane("torn")
    chunk = plane.put(group_rank.samples(), {})["chunk"]
    loader = BatchLoader(plane, 1, 8, repeat_last=repeat_last)
    gone = "gone-0.00000000"
    chunks = [gone, chunk, gone, chunk, gone]
    loader.offer([group_rank.batch(number, name, [number]) for number, name in enumerate(chunks, 1)])
    found = [next(loader) for _ in rewards]
    loader.close()
    assert [round(float(batch.columns["reward"][0]) * group_rank.ROWS) for batch in found] == rewards


def test_batches_of_a_single_process_are_those_of_its_loader():
    class Loader:
        def __init__(self):
            self.batches, self.closed = [1, 2], False

        def __next__(self):
            return self.batches.pop(0) if self.batches else None

        def close(self):
            self.closed = True

    loader = Loader()
    one = InStep(loader, 1, 0.01)
    assert [next(one), next(one), next(one)] == [1, 2, None]
    one.close()
    assert loader.closed
    # One that others closed, and that is not told so itself.
    loader.batches = [3]
    left_alone = InStep(loader, 2, 0.01)
    with pytest.raises(GroupBroken, match="another process"):
        next(left_alone)
