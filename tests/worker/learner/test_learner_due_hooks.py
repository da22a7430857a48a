"""Which train iterations call the hooks of ``after_iter``, and that averages know the others, too."""

import numpy as np
import pytest
import torch

from ding.worker import BaseLearner, LearnerHook
from ding.worker.learner.learner_hook import LogShowHook
from ding.worker.testing import ScriptedPolicy


class Seen(LearnerHook):
    """Note what the log buffer holds when it is called."""

    def __init__(self):
        super().__init__("seen", 10, position="after_iter")
        self.values = []

    def __call__(self, engine):
        self.values.append(dict(engine.log_buffer["scalar"]))


class Shouting(LogShowHook):
    """A subclass with a call of its own, which is due whenever it likes."""

    def __call__(self, engine):
        self.calls = getattr(self, "calls", 0) + 1
        super().__call__(engine)


def learner(tmp_path, outputs, **hook):
    cfg = BaseLearner.default_config()
    cfg.hook.update(save_ckpt_after_run=False, save_ckpt_after_iter=None, **hook)
    left = iter(outputs)
    policy = ScriptedPolicy(learn_output=lambda data: next(left))
    return BaseLearner(cfg, policy.learn_mode, exp_name=str(tmp_path))


def outputs(count):
    rng = np.random.default_rng(0)
    for index in range(count):
        log = {"total_loss": torch.tensor(rng.normal()), "cur_lr": np.float32(rng.random())}
        yield {"cur_lr": 0.5} if index % 7 == 3 else log


@pytest.mark.parametrize("count", [1, 5, 11, 30, 201])
def test_averages_do_not_depend_on_how_often_they_are_shown(tmp_path, count):
    often = learner(tmp_path / "often", outputs(count), log_show_after_iter=1)
    rarely = learner(tmp_path / "rarely", outputs(count), log_show_after_iter=1000)
    for _ in range(count):
        often.train([{}])
        rarely.train([{}])
    shown, kept = often.monitor, rarely.monitor
    assert shown.time.time() == kept.time.time() == count
    for name in ("total_loss", "cur_lr"):
        assert shown.avg[name]() == pytest.approx(kept.avg[name](), rel=1e-12)
        assert shown.range_values[name]() == kept.range_values[name]()
    assert kept.avg["train_time"]() > 0


def test_a_hook_of_ones_own_is_called_in_each_iteration_with_its_values(tmp_path):
    hook = Seen()
    one = learner(tmp_path, ({"total_loss": float(index)} for index in range(5)), log_show_after_iter=100)
    one.register_hook(hook)
    for _ in range(5):
        one.train([{}])
    assert [values["total_loss"] for values in hook.values] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert one.log_buffer["scalar"] == {}


def test_a_subclass_of_a_hook_is_called_in_each_iteration(tmp_path):
    one = learner(tmp_path, ({"total_loss": 1.0} for _ in range(5)), log_show_after_iter=None)
    hook = Shouting("shout", 20, position="after_iter", ext_args={"freq": 100})
    one.register_hook(hook)
    for _ in range(5):
        one.train([{}])
    assert hook.calls == 5


def test_without_a_hook_that_shows_them_values_stay_in_the_buffer(tmp_path):
    one = learner(tmp_path, ({"total_loss": float(index)} for index in range(3)), log_show_after_iter=None)
    for _ in range(3):
        one.train([{}])
    assert one.log_buffer["scalar"]["total_loss"] == 2.0


def test_histograms_of_iterations_that_show_nothing_do_not_pile_up(tmp_path):
    one = learner(tmp_path, ({"total_loss": 1.0, "[histogram]x": [1.0]} for _ in range(3)), log_show_after_iter=100)
    for _ in range(3):
        assert one.train([{}]) == [{"total_loss": 1.0}]
    assert one.log_buffer["histogram"] == {}


class EveryOther(LearnerHook):
    """Count its calls, with an attribute of its own that is called ``every``."""

    def __init__(self, every):
        super().__init__("every_other", 10, position="after_iter")
        self.every, self.calls = every, 0

    def __call__(self, engine):
        self.calls += 1


class Bare:
    """A hook that derives from nothing."""

    name, priority, position = "bare", 10, "after_iter"
    calls = 0

    def __call__(self, engine):
        self.calls += 1


@pytest.mark.parametrize("make", [lambda: EveryOther(5), Bare])
def test_hooks_of_a_user_are_called_whatever_their_attributes(make, tmp_path):
    one = learner(tmp_path, ({"total_loss": 1.0} for _ in range(5)), log_show_after_iter=100)
    hook = make()
    one.register_hook(hook)
    for _ in range(5):
        one.train([{}])
    assert hook.calls == 5


@pytest.mark.parametrize("kept", [torch.zeros(()), np.zeros(1)], ids=["tensor", "array"])
def test_a_value_that_changes_in_place_is_averaged_as_it_was(kept, tmp_path):
    one = learner(tmp_path, ({"total_loss": kept} for _ in range(5)), log_show_after_iter=100)
    for value in range(5):
        kept.fill_(value) if isinstance(kept, torch.Tensor) else kept.fill(value)
        one.train([{}])
    assert one.monitor.avg["total_loss"]() == 2.0
