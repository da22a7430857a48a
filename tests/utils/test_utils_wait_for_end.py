"""Waiting for the end of a process that is no child of the one that waits."""

import subprocess
import sys
import threading

import pytest

from ding.utils.system_helper import wait_for_end

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for a descriptor of a process")


def test_the_end_of_a_process_is_waited_for():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        waiting = threading.Thread(target=wait_for_end, args=(process.pid, 60.0))
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
        process.kill()
        # Nobody has asked for its exit code yet.
        waiting.join(60)
        assert not waiting.is_alive()
    assert process.returncode < 0


def test_no_process_is_waited_for_longer_than_asked():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        wait_for_end(process.pid, 0.01)
        assert process.poll() is None
        process.kill()
    wait_for_end(process.pid, 60.0)
