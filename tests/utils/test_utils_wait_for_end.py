"""Waiting for the end of a process that is no child of the one that waits, and the memory that is left."""

import subprocess
import sys
import threading

import pytest

from ding.utils.system_helper import available_memory_bytes, wait_for_end

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


@pytest.mark.parametrize(
    ("limit", "used", "free"),
    [(None, None, 3_000_000 * 1024), ("max", "5", 3_000_000 * 1024), ("1000000", "400000", 600_000), ("10", "20", 0)],
)
def test_the_memory_that_is_left_is_that_of_the_machine_or_of_the_cgroup(tmp_path, limit, used, free) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  8000000 kB\nMemFree:  1 kB\nMemAvailable:  3000000 kB\n")
    if limit is not None:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{used}\n")
    assert available_memory_bytes(str(tmp_path), str(tmp_path)) == free


def test_a_system_that_does_not_say_how_much_memory_is_left(tmp_path) -> None:
    assert available_memory_bytes(str(tmp_path), str(tmp_path)) is None
