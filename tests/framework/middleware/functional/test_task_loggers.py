"""What the loggers of a task draw, and on which axes."""

from types import SimpleNamespace

import numpy as np
import pytest
from easydict import EasyDict

from ding.framework import OfflineRLContext, OnlineRLContext, ding_init, task
from ding.framework.middleware import offline_logger, online_logger
from ding.utils import DistributedWriter


@pytest.fixture
def drawn(monkeypatch):
    """The points that are drawn, in place of an event file."""
    points: list[tuple] = []
    calls = {
        name: lambda tag, value, step, name=name: points.append((name[4:], tag, value, step))
        for name in ("add_scalar", "add_scalars", "add_histogram")
    }
    writer = SimpleNamespace(**calls, close=lambda: points.append(("close",)))
    monkeypatch.setattr(DistributedWriter, "root", writer)
    with task.start():
        yield points


def test_curves_by_env_step(drawn) -> None:
    draw = online_logger(train_show_freq=10)
    draw(OnlineRLContext(env_step=8, train_iter=0, eval_value=9.5))
    draw(OnlineRLContext(env_step=16, train_iter=9, train_output={"loss": 0.5, "priority": [1.0]}))
    draw(OnlineRLContext(env_step=24, train_iter=10, train_output=[{"loss": 0.4}, {"loss": 0.3}]))
    outputs = [{"loss": 0.2}]
    draw(OnlineRLContext(env_step=32, train_iter=19, train_output=outputs))
    draw(OnlineRLContext(env_step=40, train_iter=40, train_output=[]))
    assert drawn == [
        ("scalar", "basic/eval_episode_return_mean", 9.5, 8),
        ("scalar", "basic/train_loss", 0.5, 16),
        ("scalar", "basic/train_loss", 0.2, 32),
    ]
    assert outputs == [{"loss": 0.2}]


def test_curves_by_both_axes(drawn) -> None:
    online_logger(record_train_iter=True, train_show_freq=1)(
        OnlineRLContext(env_step=8, train_iter=3, eval_value=9.5, train_output={"loss": 0.5})
    )
    assert drawn == [
        ("scalar", "basic/eval_episode_return_mean-env_step", 9.5, 8),
        ("scalar", "basic/eval_episode_return_mean-train_iter", 9.5, 3),
        ("scalar", "basic/train_loss-env_step", 0.5, 8),
        ("scalar", "basic/train_loss-train_iter", 0.5, 3),
    ]


def test_other_kinds_of_curves(drawn) -> None:
    output = {"[histogram]weights": [1.0, 2.0], "[scalars]losses": {"actor": 1.0, "critic": 2.0}}
    offline_logger(train_show_freq=1)(OfflineRLContext(train_iter=3, train_output=output))
    (kind, tag, values, step), scalars = drawn
    assert (kind, tag, np.asarray(values).tolist(), step) == ("histogram", "weights", [1, 2], 3)
    assert scalars == ("scalars", "basic/train_losses-train_iter", {"actor": 1.0, "critic": 2.0}, 3)


def test_the_last_point_is_drawn_before_the_file_is_closed(drawn) -> None:
    draw = offline_logger()
    task.finish = True
    draw(OfflineRLContext(train_iter=3, eval_value=1.0))
    assert drawn == [("scalar", "basic/eval_episode_return_mean-train_iter", 1.0, 3), ("close",)]


def test_without_a_writer() -> None:
    DistributedWriter.reset_root()
    with pytest.raises(RuntimeError, match="ding_init"):
        online_logger()


def test_points_are_in_the_event_file(tmp_path) -> None:
    ding_init(EasyDict(exp_name=str(tmp_path / "exp")))
    with task.start():
        draw = online_logger()
        task.finish = True
        draw(OnlineRLContext(env_step=8, eval_value=9.5))
    DistributedWriter.reset_root()
    (path,) = (tmp_path / "exp").iterdir()
    assert b"basic/eval_episode_return_mean" in path.read_bytes()
