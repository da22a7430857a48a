"""The loop, with workers that only write down what they are asked."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from easydict import EasyDict

from ding.config import ConfigValueError
from ding.entry.serial.loop import ReplayPath, SerialLoop, StopSignals
from ding.entry.serial.parts import SerialParts
from ding.entry.utils import mark_not_expert, mark_warm_up, random_collect
from ding.policy import PolicyFactory


class View:
    """Writes down the start and each evaluation."""

    def __init__(self, log):
        self.log, self.evaluations = log, 0

    def start(self, status):
        self.log.append("start")

    def update(self, status):
        if status.evaluations > self.evaluations:
            self.evaluations = status.evaluations
            self.log.append(f"evaluated {status.last_return}")


class Recorder:
    """All workers in one: every call is a line of `log`."""

    def __init__(self, returns=(), batches=None, on_collect=None, on_train=None, update_per_collect=2, **policy):
        self.log = []
        self.returns = list(returns)
        self.batches = batches
        self.on_collect, self.on_train = on_collect, on_train
        self.train_iter = 0
        self.envstep = 0
        self.collector_envstep = 0
        self.priority_info = {"priority": [1.0]}
        self.replay_buffer_size = 100
        self.rows, self.updates_per_call = 0, 1
        self.policy = self
        # What saves checkpoints; nothing is saved here.
        self.saver = SimpleNamespace(stop_waiting=lambda: None)
        self.collect_mode = "collect_mode"
        base = {"learn": {"update_per_collect": update_per_collect}, "collect": {"collector": {"type": "sample"}}}
        env = {"stop_value": 10, "n_evaluator_episode": 2 if returns else 0}
        base["learn"]["run_state_every_s"] = 0  # tests/entry/serial/test_serial_snapshots.py
        self.cfg = EasyDict(exp_name="e", env=env, policy={**base, **policy})

    def parts(self):
        return SerialParts(self.cfg, *[self] * 8)

    def run(self, max_train_iter=10**10, max_env_step=10**10):
        with StopSignals() as signals:
            parts = self.parts()
            data = ReplayPath(parts, signals.interruptible)
            return SerialLoop(parts, data, max_train_iter, max_env_step, View(self.log), signals).run()

    # learner
    def call_hook(self, name):
        self.log.append(name)

    def get_attribute(self, name):
        priority = self.cfg.policy.get("priority", False)
        return {"batch_size": 4, "priority": priority, "updates_per_call": self.updates_per_call}[name]

    def train(self, batch, envstep, policy_kwargs=None):
        self.log.append(f"train {batch} at {envstep}")
        self.train_iter += 1
        if self.on_train:
            self.on_train(self)

    def save_checkpoint(self, name=None):
        self.log.append(f"save {name}")

    # commander, collector
    def step(self):
        return {"eps": self.envstep}

    def collect(self, **kwargs):
        self.log.append(f"collect {kwargs}")
        if self.on_collect:
            self.on_collect(self)
        self.envstep += 8
        return ["s"] * 8

    def reset_policy(self, policy):
        self.log.append(f"policy {policy}")

    # evaluator
    def should_eval(self, train_iter):
        return bool(self.returns)

    def eval(self, save_ckpt_fn, train_iter, envstep):
        self.log.append(f"eval {train_iter} {envstep}")
        value = self.returns.pop(0)
        return value >= 10, {"eval_episode_return": [value - 1, value + 1]}

    # buffer
    def push(self, data, cur_collector_envstep):
        self.log.append(f"push {len(data)} at {cur_collector_envstep}")

    def sample(self, size, train_iter):
        return f"b{size}" if self.batches is None or self.batches.pop(0) else None

    def update(self, info):
        if isinstance(info, dict):
            self.log.append(f"priorities {info}")

    def count(self):
        return self.rows

    def save_data(self, path):
        Path(path).write_text("the buffer")

    def load_data(self, path):
        self.log.append(Path(path).read_text())


def test_a_pass_in_order_until_solved():
    world = Recorder(returns=[3.0, 10.0])
    result = world.run()
    assert world.log == [
        "before_run",
        "start",
        "eval 0 0",
        "evaluated 3.0",
        "collect {'train_iter': 0, 'policy_kwargs': {'eps': 0}}",
        "push 8 at 8",
        "train b4 at 8",
        "train b4 at 8",
        "eval 2 8",
        "evaluated 10.0",
        "after_run",
    ]
    assert (result.solved, result.env_step, result.train_iter) == (True, 8, 2)
    assert (result.last_return, result.returns, result.best_return) == (10.0, (9.0, 11.0), 10.0)
    assert world.collector_envstep == 8


def test_a_run_that_ends_at_a_limit_evaluates_its_last_weights_once():
    world = Recorder(returns=[3.0, 4.0])
    world.should_eval = lambda train_iter: train_iter == 0
    result = world.run(max_env_step=8)
    assert [line for line in world.log if line.startswith("eval ")] == ["eval 0 0", "eval 2 8"]
    assert world.log[-3:] == ["eval 2 8", "evaluated 4.0", "after_run"]
    assert (result.last_return, result.best_evaluation.train_iter) == (4.0, 2)


def test_limits_end_the_run_without_an_evaluation():
    result = Recorder().run(max_env_step=20)
    assert (result.solved, result.env_step, result.last_return, result.returns) == (False, 24, None, ())
    assert Recorder().run(max_train_iter=3).train_iter == 4
    assert Recorder().run(max_train_iter=0).env_step == 0


def test_without_a_batch_the_pass_goes_on_to_collect(caplog):
    world = Recorder(batches=[False, True, True, True, False], update_per_collect=2)
    assert world.run(max_env_step=24).train_iter == 3
    assert [r.getMessage() for r in caplog.records] == [
        "the buffer gave no batch of 4 after 1 of 2 updates of this pass; collecting on"
    ]


@pytest.mark.parametrize(("rows", "sizes"), [(8, [8]), (7, [4, 4])])
def test_joined_updates_begin_as_soon_as_the_buffer_has_one_batch(rows, sizes):
    world, drawn = Recorder(), []
    world.rows, world.updates_per_call = rows, 10
    world.sample = lambda size, train_iter: drawn.append(size) or ["s"] * size
    world.run(max_env_step=8)
    assert drawn == sizes
    assert world.log[-2] == f"train {['s'] * 8} at 8"


def test_updates_are_not_joined_under_a_rate_limit():
    limit = {"replay_buffer": {"rate_limit": {"samples_per_insert": 4.0}}}
    world = Recorder(other=limit)
    world.rows, world.updates_per_call = 100, 10
    world.run(max_env_step=8)
    assert world.log[-3:-1] == ["train b4 at 8"] * 2


def test_priorities_go_back_when_the_policy_has_them():
    world = Recorder(update_per_collect=1, priority=True)
    world.run(max_env_step=8)
    assert world.log[-3:-1] == ["train b4 at 8", "priorities {'priority': [1.0]}"]


def test_a_resumed_run_goes_on_counting():
    world = Recorder()
    world.cfg.policy.learn.resume_training = True
    world.cfg.policy.learn.learner = {}
    world.collector_envstep, world.train_iter = 80, 7
    result = world.run(max_env_step=88)
    assert (result.env_step, result.train_iter) == (88, 9)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_training_finishes_the_update(signum):
    world = Recorder(on_train=lambda self: os.kill(os.getpid(), signum), update_per_collect=5)
    result = world.run()
    assert result.train_iter == 1
    assert world.log[-1] == "train b4 at 8"


def test_a_signal_while_collecting_leaves_at_once():
    world = Recorder(on_collect=lambda self: os.kill(os.getpid(), signal.SIGINT))
    result = world.run()
    assert (result.env_step, result.train_iter) == (0, 0)
    assert world.log[-1].startswith("collect")


class RandomEnv:
    action_space = None


def test_random_collect_swaps_the_policy_in_and_back(monkeypatch):
    monkeypatch.setattr(PolicyFactory, "get_random_policy", staticmethod(lambda mode, action_space: f"random {mode}"))
    world = Recorder(random_collect_size=16)
    random_collect(world.cfg.policy, world, world, RandomEnv, world, world, postprocess_data_fn=lambda d: d[:3])
    assert world.log == [
        "policy random collect_mode",
        "collect {'n_sample': 16, 'random_collect': True, 'record_random_collect': False, 'policy_kwargs': {'eps': 0}}",
        "policy collect_mode",
        "push 3 at 0",
    ]
    world = Recorder(random_collect_size=2, transition_with_policy_data=True)
    world.cfg.policy.collect.collector.type = "episode"
    random_collect(world.cfg.policy, world, world, RandomEnv, world, world)
    assert world.log[:2] == ["policy collect_mode", "collect {'n_episode': 2, 'policy_kwargs': {'eps': 0}}"]
    with pytest.raises(ConfigValueError, match="random_collect_size must be positive, got 0"):
        random_collect(Recorder(random_collect_size=0).cfg.policy, world, world, RandomEnv, world, world)


def test_marks():
    assert mark_not_expert([{"a": 1}]) == [{"a": 1, "is_expert": 0}]
    assert mark_warm_up([{"a": 1}]) == [{"a": 1, "warm_up": True}]
