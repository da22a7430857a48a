import numpy as np
import pytest

from ding.worker import IMetric, MetricSerialEvaluator
from ding.worker.testing import ScriptedPolicy


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Accuracy(IMetric):
    def eval(self, inputs, label):
        return {"acc": 100 * (inputs == label).float().mean().item()}

    def reduce_mean(self, inputs):
        return {"acc": sum(item["acc"] for item in inputs) / len(inputs)}

    def gt(self, metric1, metric2):
        return metric2 is None or metric1["acc"] >= metric2["acc"]


class Doubler(ScriptedPolicy):
    """Answers twice its input; the batches from ``wrong_from`` on wrongly."""

    wrong_from = 99

    def _forward_eval(self, data, **kwargs):
        self.inputs.append(data)
        return 2 * data + (len(self.inputs) > self.wrong_from)


def make(policy, **changes):
    batches = [(np.full(4, i, dtype=np.float64), np.full(4, 2 * i, dtype=np.float64)) for i in range(4)]
    cfg = MetricSerialEvaluator.default_config()
    cfg.update({"stop_value": {"acc": 75}, "multi_gpu": False, **changes})
    return MetricSerialEvaluator(cfg, (batches, Accuracy()), policy.eval_mode)


def test_perfect_model_stops():
    evaluator = make(Doubler())
    assert evaluator.should_eval(0)
    saved = []
    assert evaluator.eval(saved.append, train_iter=1) == (True, {"acc": 100.0})
    assert saved == ["ckpt_best.pth.tar"]


def test_worse_metric_is_not_saved_and_does_not_stop():
    policy = Doubler()
    evaluator = make(policy)
    saved = []
    assert evaluator.eval(saved.append, train_iter=0) == (False, {"acc": 100.0})  # never at iteration 0
    policy.inputs.clear()
    policy.wrong_from = 2
    assert evaluator.eval(saved.append, train_iter=50) == (False, {"acc": 50.0})
    assert len(saved) == 1


def test_the_best_metric_is_part_of_the_state():
    first, policy = make(Doubler()), Doubler()
    first.eval(train_iter=50)
    second = make(policy)
    second.load_state_dict(first.state_dict())
    policy.wrong_from = 2
    saved = []
    second.eval(saved.append, train_iter=100)
    assert not saved
    second.forget_best()
    second.eval(saved.append, train_iter=150)
    assert saved == ["ckpt_best.pth.tar"]


def test_metric_of_one_process_is_its_own_average():
    policy = Doubler()
    assert make(policy, multi_gpu=True).eval(train_iter=1) == (True, {"acc": 100.0})


def test_missing_parts_are_told():
    cfg = MetricSerialEvaluator.default_config()
    cfg.stop_value = {"acc": 1}
    evaluator = MetricSerialEvaluator(cfg)
    with pytest.raises(RuntimeError, match=r"needs a \(dataloader, metric\) pair"):
        evaluator.eval()
    evaluator.reset(Doubler().eval_mode)
    evaluator.reset_env(None)
    evaluator.close()
