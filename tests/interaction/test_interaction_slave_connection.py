"""A connection with a master of its own: tasks, hooks, a slave that is not there."""

import socket

import pytest
from ding.interaction.master.task import TaskResultType

from ding.interaction import Slave, TaskStatus
from ding.interaction.errors import UnreachableError
from ding.interaction.master.connection import SlaveConnection, SlaveConnectionProxy

WAIT_S = 30


class Echo(Slave):
    def _process_task(self, task):
        return task


class Noted(SlaveConnection):
    def _before_new_task(self, data=None):
        return {**data, "more": 1}

    def _after_connect(self, status_code, success, code, message, data):
        return (status_code, success)


def test_a_task_and_its_result(services):
    seen = []
    slave = services(Echo(port=0))
    connection = Noted("127.0.0.1", slave.port)
    proxy = SlaveConnectionProxy(connection, lambda connection: seen.append(connection.is_connected))
    assert proxy.connect() == (200, True)
    with pytest.raises(ValueError, match="connected already"):
        connection.connect()
    task = proxy.new_task({"echo": 2}).start().join(WAIT_S)
    assert task.status == TaskStatus.COMPLETED
    assert task.result == {"echo": 2, "more": 1}
    proxy.close()
    assert seen == [True]
    with pytest.raises(ValueError, match="not connected"):
        proxy.new_task()
    with connection:
        assert connection.is_connected
    assert not connection.is_connected
    assert [kind.value for kind in TaskResultType] == [1, 2]


def test_nobody_answers():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(UnreachableError):
            SlaveConnection("127.0.0.1", taken.getsockname()[1], request_retries=0).connect()
