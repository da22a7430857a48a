"""One run at a time in an experiment folder."""

import errno
import json
import os
import socket
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
from easydict import EasyDict

from ding.config import ConfigError, experiment_dir
from ding.config.experiment_dir import LOCK_FILE, ExperimentLock
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.entry import RunCallback, eval, parallel_pipeline, serial_pipeline
from ding.entry.view import read_status
from ding.entry.view.failure import is_mistake

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")

DING = [sys.executable, "-m", "ding.entry"]
CONFIG = {
    "exp_name": "exp",
    "env": {"env_id": "CartPole-v1", "collector_env_num": 2, "evaluator_env_num": 1, "n_evaluator_episode": 1},
    "policy": {
        "model": {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [8]},
        "learn": {"batch_size": 8, "update_per_collect": 2, "run_state_freq": 4},
        "collect": {"n_sample": 8},
        "eval": {"evaluator": {"eval_freq": 1000}},
        "other": {"replay_buffer": {"replay_buffer_size": 100}},
    },
}
CREATE = {
    "env": {"type": "gymnasium", "import_names": ["ding.envs"]},
    "env_manager": {"type": "base"},
    "policy": {"type": "dqn"},
}
# Holds the lock, and has a child that a fork made and that outlives it.
WITH_A_CHILD = """
import os, signal, sys
from ding.config.experiment_dir import ExperimentLock
lock = ExperimentLock()
lock.take("exp")
if os.fork() == 0:
    lock.release()
    print(os.path.exists("exp/alive.lock"), flush=True)
    sys.stdin.read()
    os._exit(0)
signal.pause()
"""


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def exp():
    Path("exp").mkdir()
    return Path("exp")


def is_free(folder) -> bool:
    with ExperimentLock() as lock:
        try:
            lock.take(folder)
        except ConfigError:
            return False
    return True


def ding(*options: str) -> subprocess.CompletedProcess:
    """A process of its own."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([*DING, *options], capture_output=True, text=True, env=env, timeout=120, check=False)


def config(**learn) -> tuple[EasyDict, EasyDict]:
    main = EasyDict(deepcopy(CONFIG))
    main.policy.learn.update(learn)
    return main, EasyDict(deepcopy(CREATE))


def assert_refused(done: subprocess.CompletedProcess) -> None:
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.strip().splitlines()
    begun = f"ding: the experiment folder exp is in use: the run of process {os.getpid()} on {socket.gethostname()}, "
    assert line.startswith(begun)
    assert line.endswith(", lasts there; wait for its end, or stop it first")


def test_a_second_run_is_told_which_one_is_there(exp):
    with ExperimentLock() as first, ExperimentLock() as second:
        first.take(exp)
        first.take(exp)
        holder = json.loads((exp / LOCK_FILE).read_text())
        assert (holder["host"], holder["pid"]) == (socket.gethostname(), os.getpid())
        with pytest.raises(ConfigError, match=rf"folder exp is in use: the run of process {os.getpid()} on ") as error:
            second.take(exp)
        assert is_mistake(error.value)
        # What is written there by somebody else is no reason to fail in another way.
        (exp / LOCK_FILE).write_text("[1")
        with pytest.raises(ConfigError, match="is in use: another run lasts there"):
            second.take(exp)
        first.release()
        assert os.listdir(exp) == []
        second.take(exp)
    assert os.listdir(exp) == []


def test_the_lock_goes_with_the_run_also_from_another_working_directory(exp, tmp_path, monkeypatch):
    with ExperimentLock() as lock:
        lock.take("exp")
        monkeypatch.chdir("/")
    assert os.listdir(tmp_path / "exp") == []


def test_a_folder_that_is_not_there_is_locked_when_it_is_made(tmp_path):
    with ExperimentLock() as lock:
        lock.take("new")
        assert os.listdir(tmp_path) == []
        Path("new").mkdir()
        lock.take("new")
        assert not is_free("new")


@pytest.fixture
def holder(exp):
    command = [sys.executable, "-c", WITH_A_CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        # The end of the pipe ends the child, too.
        process.kill()


def test_the_lock_of_a_killed_process_is_nobodys_though_its_forked_child_lives(exp, holder):
    # The child gives up what is not its own, in vain.
    assert holder.stdout.readline() == "True\n"
    assert not is_free(exp)
    holder.kill()
    holder.wait()
    assert (exp / LOCK_FILE).exists()
    assert is_free(exp)
    # The child still lived.
    holder.stdin.close()
    assert holder.stdout.read() == ""
    assert os.listdir(exp) == []


def test_one_that_ends_while_another_one_begins(exp, monkeypatch):
    flock, tries = experiment_dir.fcntl.flock, []

    def late(descriptor, operation):
        if not tries:
            os.remove(exp / LOCK_FILE)
        tries.append(operation)
        flock(descriptor, operation)

    monkeypatch.setattr(experiment_dir.fcntl, "flock", late)
    with ExperimentLock() as lock:
        lock.take(exp)
        assert len(tries) == 2
        assert not is_free(exp)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP])
def test_without_locks_of_the_file_system_runs_go_on(exp, monkeypatch, caplog, number):
    def refuse(descriptor, operation):
        raise OSError(number, os.strerror(number))

    experiment_dir.one_time_warning.cache_clear()
    monkeypatch.setattr(experiment_dir.fcntl, "flock", refuse)
    with ExperimentLock() as first, ExperimentLock() as second:
        for lock in (first, second):
            lock.take(exp)
    (message,) = [record.getMessage() for record in caplog.records]
    assert message == f"exp is not locked, so mind that no second run goes on there: {os.strerror(number)}"


@pytest.mark.parametrize(("name", "value"), [("fcntl", None), ("get_rank", lambda: 1)])
def test_windows_and_the_other_ranks_lock_nothing(exp, monkeypatch, name, value):
    monkeypatch.setattr(experiment_dir, name, value)
    with ExperimentLock() as first, ExperimentLock() as second:
        first.take(exp)
        second.take(exp)
    assert os.listdir(exp) == []


class Meanwhile(RunCallback):
    """Starts other processes while the run lasts, once."""

    def __init__(self, *commands: tuple[str, ...]) -> None:
        self.commands, self.done = commands, []

    def on_iteration(self, status):
        if status.train_iter > 0 and not self.done:
            before = sorted(os.listdir("exp"))
            self.done = [ding(*command) for command in self.commands]
            self.left = sorted(set(os.listdir("exp")) - set(before))
            self.also(status)
            return False
        return None

    def also(self, status) -> None:
        """What this process does then."""


def test_a_serial_run_that_lasts_is_not_gone_on_with_but_evaluated():
    serial_pipeline(config(), seed=0, max_train_iter=8)
    (checkpoint,) = sorted(Path("exp/ckpt").glob("iteration_8.pth.tar"))
    resume = {"resume_training": True, "learner": {"hook": {"load_ckpt_before_run": str(checkpoint)}}}

    class Also(Meanwhile):
        def also(self, status):
            # A new run has a folder of its own.
            serial_pipeline(config(), seed=0, max_train_iter=2)
            assert eval(config(), load_path="exp") > 0

    meanwhile = Also(("-m", "serial", "--resume", "exp"), ("-m", "eval", "exp"))
    serial_pipeline(config(**resume), seed=0, max_train_iter=100, callbacks=[meanwhile])
    refused, evaluated = meanwhile.done
    assert_refused(refused)
    assert evaluated.returncode == 0, evaluated.stderr
    assert meanwhile.left == ["eval"]
    assert len(list(Path().glob("exp*"))) == 2
    assert not list(Path().glob(f"*/{LOCK_FILE}"))
    # The lock has ended with the run: the next one goes on in this process.
    serial_pipeline(config(**resume), seed=0, max_train_iter=12)


def test_a_mistake_found_late_leaves_no_folder_behind():
    main, create = config()
    main.reward_model = {"type": "rnd"}
    with pytest.raises(ConfigError, match="reward_model"):
        serial_pipeline((main, create), seed=0, strict=True)
    assert not Path("exp").exists()


def test_a_parallel_run_that_lasts_is_not_gone_on_with():
    main = EasyDict(parallel_test_main_config, exp_name="exp")
    main.env = EasyDict(main.env, stop_value=10**9, collector_env_num=2, evaluator_env_num=1)
    main.policy = EasyDict(main.policy, collect=dict(main.policy.collect, collector=dict(collector_num=1)))
    configs = main, EasyDict(parallel_test_create_config), EasyDict(parallel_test_system_config)

    class Also(Meanwhile):
        def also(self, status):
            assert read_status("exp")["train_iter"] > 0

    meanwhile = Also(("-m", "parallel", "--resume", "exp"))
    parallel_pipeline(configs, seed=0, callbacks=[meanwhile])
    (refused,) = meanwhile.done
    assert_refused(refused)
    assert meanwhile.left == []
    assert not Path("exp", LOCK_FILE).exists()
    assert not Path("exp/access.json").exists()
