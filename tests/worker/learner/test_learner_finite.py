"""NaN and infinity: a run ends with a report, or leaves the update out; such weights go nowhere."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.data.safe_file import read_tree
from ding.entry import serial_pipeline
from ding.policy import DQNPolicy
from ding.policy.errors import PolicyConfigError
from ding.torch_utils.weight_checks import NonFiniteError, nonfinite_entry
from ding.utils import deep_merge_dicts
from ding.utils.checkpoint import read_checkpoint, save_checkpoint
from ding.worker.learner.base_learner import FiniteCheck
from tests.entry.serial.test_serial_exact_resume import config


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def poison(monkeypatch, what: str, calls: tuple[int, ...] = (7,)) -> None:
    """At these updates, a reward is NaN (so the loss is), or a gradient is infinite."""
    seen = []
    optimize, forward = DQNPolicy._optimize, DQNPolicy._forward_learn

    def bad_forward(self, data):
        seen.append(1)
        if what == "loss" and len(seen) in calls:
            data.columns["reward"][0] = math.nan
        return forward(self, data)

    def bad_optimize(self, loss, *args, **kwargs):
        if what == "gradient" and len(seen) in calls:
            loss.register_hook(lambda grad: grad * math.inf)
        return optimize(self, loss, *args, **kwargs)

    bad_forward.__dict__.update(forward.__dict__)
    monkeypatch.setattr(DQNPolicy, "_forward_learn", bad_forward)
    monkeypatch.setattr(DQNPolicy, "_optimize", bad_optimize)


@pytest.mark.parametrize(
    ("what", "said"), [("loss", "total_loss is nan"), ("gradient", "the weights are NaN or infin")]
)
def test_a_run_ends_with_iteration_term_and_batch(monkeypatch, what, said) -> None:
    poison(monkeypatch, what)
    main, create = config("run")
    main.policy.priority = main.policy.priority_IS_weight = False
    main.policy.learn.learner = {"hook": {"save_ckpt_after_iter": 2}}
    with pytest.raises(
        NonFiniteError, match=f"train iteration 6: .*{said}.* the batch is in run/nonfinite/iteration_6"
    ):
        serial_pipeline((main, create), max_train_iter=20)
    batch = read_tree("run/nonfinite/iteration_6.safetensors", "ding.batch")
    assert len(batch["obs"]) == 16
    assert bool(torch.isnan(batch["reward"]).any()) == (what == "loss")
    assert Path("run/nonfinite/iteration_6_before.safetensors").is_file()
    checkpoints = list(Path("run/ckpt").glob("*.pth.tar"))
    assert len(checkpoints) > 2
    for path in checkpoints:
        assert nonfinite_entry(read_checkpoint(path)) is None


@pytest.mark.parametrize("rows", [False, True])
def test_the_cause_is_named(rows) -> None:
    policy = DQNPolicy(
        deep_merge_dicts(DQNPolicy.default_config(), {"model": {"obs_shape": 2, "action_shape": 2}}),
        enable_field=["learn"],
    )
    obs = np.ones((4, 2), np.float64)
    obs[2, 1] = -1e300
    columns = {"logit": np.full(4, np.nan), "obs": {"a": obs}}
    data = TransitionBatch(columns)
    with pytest.raises(NonFiniteError, match=r"loss is nan; 'obs\.a' of the batch holds -1e\+300, and float32 ends at"):
        FiniteCheck(policy.learn_mode, "nonfinite").look(
            [{"total_loss": math.nan}], data.rows() if rows else data, train_iter=0
        )


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_an_update_can_be_left_out(monkeypatch, what, caplog) -> None:
    poison(monkeypatch, what, (7, 9))
    main, create = config("run", on_nonfinite="skip")
    policy = serial_pipeline((main, create), max_train_iter=20)
    assert nonfinite_entry(policy.learn_mode.state_dict()) is None
    if what == "loss":
        assert "train iteration 6: total_loss is nan; its update is left out (no. 1)" in caplog.text


def test_those_who_look_away_still_save_no_such_weights(monkeypatch) -> None:
    poison(monkeypatch, "loss")
    main, create = config("run", on_nonfinite="ignore")
    main.policy.priority = main.policy.priority_IS_weight = False
    with pytest.raises(NonFiniteError, match=r"checkpoint .* is refused: its weight .* is NaN or infinite"):
        serial_pipeline((main, create), max_train_iter=20)
    for path in Path("run/ckpt").glob("*.pth.tar"):
        assert nonfinite_entry(read_checkpoint(path)) is None


def test_such_a_checkpoint_is_not_accepted() -> None:
    main, create = config("run")
    state = serial_pipeline((main, create), max_train_iter=2).learn_mode.state_dict()
    next(iter(state["model"].values())).view(-1)[0] = math.inf
    save_checkpoint("bad.pth.tar", {**state, "last_iter": 1, "last_step": 1}, {})
    main, create = config("again")
    main.policy.learn.learner = {"hook": {"load_ckpt_before_run": "bad.pth.tar"}}
    with pytest.raises(NonFiniteError, match=r"bad\.pth\.tar is refused"):
        serial_pipeline((main, create), max_train_iter=4)


def test_an_optimiser_that_cannot_leave_out_steps_is_refused() -> None:
    main, create = config("run", on_nonfinite="skip")

    class Plain(DQNPolicy):
        def _init_learn(self):
            super()._init_learn()
            # Not initialised: that would import torch's compiler.
            self._optimizer = torch.optim.Adam.__new__(torch.optim.Adam)

    cfg = Plain.default_config()
    cfg.model = main.policy.model
    cfg.learn.on_nonfinite = "skip"
    with pytest.raises(PolicyConfigError, match=r"needs an optimiser of ding\.torch_utils, found torch"):
        Plain(cfg, enable_field=["learn"])


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValueError, match=r"on_nonfinite='rise' is unknown.*raise"):
        serial_pipeline(config("run", on_nonfinite="rise"), max_train_iter=2)
