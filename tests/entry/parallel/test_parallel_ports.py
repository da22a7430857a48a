"""A process in the place of another one, which may still hold the port of both."""

import socket
import threading

import pytest

from ding.entry.parallel.workers import wait_for_port
from ding.parallel.launch import Role, RoleContext
from ding.utils.system_helper import is_port_free


@pytest.fixture
def context(tmp_path):
    return RoleContext(Role("learner0", wait_for_port), str(tmp_path), "t" * 32, {}, lambda message, droppable: None)


@pytest.fixture
def owner():
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening


def test_a_port_is_waited_for_until_its_owner_has_ended(context, owner):
    port = owner.getsockname()[1]
    assert not is_port_free("127.0.0.1", port)
    end = threading.Timer(0.2, owner.close)
    end.start()
    wait_for_port(context, "127.0.0.1", port)
    assert is_port_free("127.0.0.1", port)
    end.join()


def test_a_process_that_is_asked_to_stop_waits_for_no_port(context, owner):
    context.stop.set("test")
    wait_for_port(context, None, owner.getsockname()[1])
    assert not is_port_free("127.0.0.1", owner.getsockname()[1])


def test_any_free_port_is_not_waited_for(context):
    wait_for_port(context, "127.0.0.1", 0)
    wait_for_port(context, "127.0.0.1", "auto")
