"""What the loggers for Weights & Biases send, to a stand-in for the package."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.framework import OfflineRLContext, OnlineRLContext, task
from ding.framework.middleware import wandb_offline_logger, wandb_online_logger
from ding.utils import MissingExtraError, save_file


@pytest.fixture
def wandb(monkeypatch):
    """A module that notes the calls."""
    module = ModuleType("wandb")
    module.calls = []
    module.run = SimpleNamespace(url="https://wandb/run")
    module.init = lambda *args, **kwargs: module.calls.append(("init", args, kwargs))
    module.watch = lambda *args, **kwargs: module.calls.append(("watch", args, kwargs))
    module.log = lambda data, step=None: module.calls.append(("log", data, step))
    module.Video = lambda source, **kwargs: ("video", source, kwargs)
    module.Image = lambda source: ("image", source)
    monkeypatch.setitem(sys.modules, "wandb", module)
    with task.start():
        yield module


def sent(wandb) -> list[tuple]:
    return [call[1:] for call in wandb.calls if call[0] == "log"]


def test_a_run_begins_with_what_is_given(wandb) -> None:
    wandb_online_logger(exp_config={"a": 1}, anonymous=True, project_name="project", run_name="run")
    wandb_offline_logger(wandb_sweep=True)
    model = torch.nn.Linear(1, 1)
    wandb_online_logger(cfg={"gradient_logger": True}, model=model)
    assert wandb.calls == [
        ("init", (), {"project": "project", "config": {"a": 1}, "name": "run", "reinit": True, "anonymous": "must"}),
        ("init", (), {"project": "default-project"}),
        ("init", (), {"project": "default-project", "reinit": True}),
        ("watch", (model,), {"log": "all", "log_freq": 100, "log_graph": True}),
    ]


def test_numbers_by_env_step(wandb) -> None:
    log = wandb_online_logger(metric_list=["loss", "q_value"])
    ctx = OnlineRLContext(env_step=8, train_iter=3, train_output=[{"loss": 1.0}, {"loss": 3.0, "q_value": 5.0}])
    log(ctx)
    assert ctx.wandb_url == "https://wandb/run"
    ctx = OnlineRLContext(env_step=16, train_iter=4, eval_value=9.0, train_output={"loss": torch.tensor(2.0)})
    ctx.eval_value_max = 10.0
    log(ctx)
    log(OnlineRLContext(env_step=24))
    assert sent(wandb) == [
        ({"loss": 2.0, "q_value": 5.0}, 8),
        (
            {"loss": 2.0, "episode return mean": 9.0, "episode return max": 10.0, "train iter": 4, "env step": 16},
            16,
        ),
    ]


def test_numbers_of_training_with_a_data_set(wandb) -> None:
    ctx = OfflineRLContext(trained_env_step=64, train_epoch=2, eval_value=9.0, info_for_logging={"t(1)/x": 5.0})
    wandb_offline_logger()(ctx)
    expected = {"episode return mean": 9.0, "train iter": 0, "train_epoch": 2, "t(1)/x": 5.0}
    assert sent(wandb) == [(expected, 64)]


def test_a_given_config_switches_off_what_it_lacks(wandb) -> None:
    wandb_online_logger(cfg={})(OnlineRLContext(eval_value=9.0, train_output={"loss": 1.0}))
    assert sent(wandb) == []


def test_pictures_of_an_evaluation(wandb, tmp_path) -> None:
    pytest.importorskip("matplotlib")
    cfg = EasyDict(video_logger=True, action_logger=True, return_logger=True)
    video = np.zeros((1, 2, 3, 4, 4))
    output = {
        "episode_return": [1.0, 2.0],
        "replay_video": video,
        "output": [{"logit": torch.tensor([0.0, 1.0])}, {"logit": torch.tensor([1.0, 0.0])}],
    }
    ctx = OnlineRLContext(env_step=8, eval_value=1.5, eval_output=output)
    wandb_online_logger(record_path=str(tmp_path), cfg=cfg)(ctx)
    ((data, step),) = sent(wandb)
    assert step == 8
    assert set(data) == {"replay_video", "action", "return distribution"}
    assert data["replay_video"][1].dtype == np.uint8
    assert {path.name for path in tmp_path.iterdir()} == {"8_action.gif", "8_return.gif"}


def test_the_newest_whole_video_of_a_folder(wandb, tmp_path) -> None:
    log = wandb_online_logger(record_path=str(tmp_path), cfg={"video_logger": True})
    ctx = OnlineRLContext(eval_value=1.5)
    log(ctx)
    (tmp_path / "a.mp4").touch()
    log(ctx)
    (tmp_path / "b.mp4").touch()
    log(ctx)
    ((data, _),) = sent(wandb)
    assert data["video"][1] in (str(tmp_path / "a.mp4"), str(tmp_path / "b.mp4"))


def test_a_picture_of_the_data_set(wandb, tmp_path) -> None:
    pytest.importorskip("matplotlib")
    path = str(tmp_path / "data.pkl")
    save_file(path, [{"obs": torch.rand(3), "reward": torch.tensor([float(i)])} for i in range(5)])
    wandb_offline_logger(record_path=str(tmp_path), exp_config={"dataset_path": path})
    assert sent(wandb) == [({"dataset": ("image", str(tmp_path / "dataset.png"))}, None)]
    assert (tmp_path / "dataset.png").exists()


def test_without_the_package(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with task.start(), pytest.raises(MissingExtraError, match=r"\[wandb\]"):
        wandb_online_logger()
