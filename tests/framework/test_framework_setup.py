"""What ``ding.framework`` exports, and what ``ding_init`` does."""

import importlib

from easydict import EasyDict

import ding.framework
from ding.framework import Task, ding_init, task
from ding.utils import DistributedWriter


def test_the_name_task_is_the_task_and_the_module_stays_importable() -> None:
    assert isinstance(task, Task)
    assert importlib.import_module("ding.framework.task").task is task
    assert ding.framework.task is task


def test_ding_init_replaces_the_writer_of_an_earlier_experiment(tmp_path) -> None:
    for name in ("a", "b"):
        ding_init(EasyDict(exp_name=str(tmp_path / name)))
        DistributedWriter.get_instance().add_scalar("x", 1.0, 0)
    DistributedWriter.reset_root()
    assert [len(list((tmp_path / name).glob("events*"))) for name in ("a", "b")] == [1, 1]
