"""NaN in a task: training ends with a report, and such weights are not saved."""

import math

import pytest
import torch
from easydict import EasyDict

from ding.data import TransitionBatch
from ding.framework import OnlineRLContext, task
from ding.framework.middleware import CkptSaver, multistep_trainer, trainer
from ding.policy import DQNPolicy
from ding.torch_utils.weight_checks import NonFiniteError


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class BadPolicy:
    """Reports a loss that is not finite at its third update."""

    def __init__(self, several: bool) -> None:
        self.calls, self.several = 0, several

    def forward(self, data):
        self.calls += 1
        logged = {"total_loss": math.inf if self.calls == 3 else 1.0}
        return [logged] if self.several else logged

    def get_attribute(self, name):
        return {"cfg": {"learn": {}}, "device": "cpu"}.get(name)


@pytest.mark.parametrize("several", [False, True])
def test_training_ends_with_iteration_term_and_batch(several, tmp_path) -> None:
    policy = BadPolicy(several)
    train = multistep_trainer(policy) if several else trainer(EasyDict(exp_name="run"), policy)
    ctx = OnlineRLContext()
    ctx.train_data = TransitionBatch({"obs": torch.ones(4, 2)})
    with task.start():
        train(ctx)
        train(ctx)
        with pytest.raises(NonFiniteError, match="train iteration 2: total_loss is inf"):
            train(ctx)
    folder = tmp_path if several else tmp_path / "run"
    assert (folder / "nonfinite" / "iteration_2.safetensors").is_file()


def test_such_weights_are_not_saved(tmp_path) -> None:
    cfg = DQNPolicy.default_config()
    cfg.model = {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [8]}
    policy = DQNPolicy(cfg, enable_field=["learn"])
    ctx = OnlineRLContext()
    with task.start():
        saver = CkptSaver(policy, "run", train_freq=1, save_finish=False)
        saver(ctx)
        with torch.no_grad():
            next(policy.learn_mode.get_attribute("model").parameters()).fill_(math.nan)
        ctx.train_iter = 5
        with pytest.raises(NonFiniteError, match=r"iteration_5\.pth\.tar is refused"):
            saver(ctx)
    assert [path.name for path in (tmp_path / "run" / "ckpt").glob("*.tar")] == ["iteration_0.pth.tar"]
