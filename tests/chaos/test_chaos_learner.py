"""R2: a learner that is killed goes on exactly from its checkpoint.

The short form runs always; the full one is marked slow.
"""

import re
import sys

import pytest
import torch
from chaos_parts import ChaosRun, is_gone

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

FREQ = 200
CONFIG = {
    "main.env.stop_value": 10**9,
    "main.env.collector_env_num": 4,
    "main.env.evaluator_env_num": 1,
    "main.policy.other.commander.eval_interval": 3600,
    # Adam has a state of its own; the target network lags behind.
    "main.policy.learn.learning_rate": 0.01,
    "create.policy": {"type": "recovering_dqn_command", "import_names": ["chaos_learner"]},
    "create.comm_learner.resume_ckpt_freq": FREQ,
}


@pytest.fixture
def run(tmp_path):
    started = ChaosRun(tmp_path, config=CONFIG)
    yield started
    started.close()


def newest_checkpoint(folder):
    found = list(folder.glob("*/ckpt/resume_*.pth.tar"))
    return found[0] if found else None


def load(path):
    return torch.load(path, weights_only=True)


def flat(tree, path=""):
    """``(path, leaf)`` of all leaves."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else None
    if items is None:
        yield path, tree
        return
    for key, value in items:
        yield from flat(value, f"{path}.{key}")


def same(one, other):
    one, other = dict(flat(one)), dict(flat(other))
    assert one.keys() == other.keys()
    for path, leaf in one.items():
        equal = torch.equal(leaf, other[path]) if isinstance(leaf, torch.Tensor) else leaf == other[path]
        assert equal, path


def kill_and_compare(run, folder):
    checkpoint = run.wait_for(lambda: newest_checkpoint(folder), "checkpoint")
    begun = load(checkpoint)["last_iter"]
    run.wait_for(lambda: run.status("train_iter") > begun + FREQ, "training")
    reported = run.status("train_iter")
    pid = run.kill("learner0")
    run.wait_for(lambda: is_gone(pid), "end of the learner")
    # The next process needs seconds to get as far as to write another one.
    saved = load(checkpoint)
    # A checkpoint is due before the iteration after FREQ more.
    assert saved["last_iter"] >= reported - FREQ - 1
    run.wait_for(lambda: run.pid("learner0") not in (None, pid), "new learner")
    path = folder / "loaded" / f"{run.pid('learner0')}.pth"
    run.wait_for(path.exists, "loaded checkpoint")
    loaded = load(path)
    for key in ("model", "target_model", "optimizer"):
        same(loaded[key], saved[key])
    assert len(saved["optimizer"]["state"]) > 0
    steps = {int(state["step"]) for state in saved["optimizer"]["state"].values()}
    assert steps == {saved["last_iter"]}
    run.wait_for(lambda: run.status("train_iter") > saved["last_iter"] + FREQ, "training after the kill")
    return saved["last_iter"]


def check(run, folder, kills):
    went_on_at = [kill_and_compare(run, folder) for _ in range(kills)]
    assert went_on_at == sorted(went_on_at)
    log = "".join(path.read_text() for path in folder.glob("*/log/learner*.txt"))
    assert [int(number) for number in re.findall(r"goes on at train iteration (\d+)", log)] == went_on_at
    assert run.status("tasks")["failed"] == 0


def test_a_killed_learner_goes_on_exactly_from_its_checkpoint(run, tmp_path):
    check(run, tmp_path, 1)


@pytest.mark.slow
def test_five_kills_of_the_learner(run, tmp_path):
    check(run, tmp_path, 5)
