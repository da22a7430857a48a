"""Ctrl-C and SIGTERM."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from ding.entry import RunInterrupted
from ding.entry.serial.loop import StopNow, StopSignals

STUBBORN = """
import os, signal, sys
import ding.parallel.launch.signals
from ding.entry.serial.loop import StopSignals
ding.parallel.launch.signals.SAME_WISH_S = {same_wish_s}
with StopSignals() as signals:
    os.kill(os.getpid(), {signum})
    assert signals.requested == {signum}
    sys.stdout.write("first survived\\n")
    sys.stdout.flush()
    os.kill(os.getpid(), {signum})
    sys.stdout.write("second survived\\n")
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_outside_a_section_a_signal_is_only_noted(signum, capfd):
    before = signal.getsignal(signum)
    with StopSignals() as signals:
        os.kill(os.getpid(), signum)
        assert signals.requested == signum
        with pytest.raises(StopNow), signals.interruptible():
            raise AssertionError("the section must not begin")
    assert signal.getsignal(signum) is before
    assert "again to quit at once" in capfd.readouterr().err


def test_inside_a_section_a_signal_leaves_it():
    reached = []

    def section(signals):
        with signals.interruptible():
            reached.append("in")
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("after")

    with StopSignals() as signals:
        with pytest.raises(StopNow):
            section(signals)
        assert signals.requested == signal.SIGINT
    assert reached == ["in"]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_process_by_that_signal(signum):
    done = subprocess.run(
        [sys.executable, "-c", STUBBORN.format(signum=int(signum), same_wish_s=0.0)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "first survived\n"
    assert done.returncode == -signum


def test_another_thread_leaves_the_handlers_alone():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def run():
        with StopSignals() as signals, signals.interruptible():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(timeout=10)
    assert seen == [before]


def test_exit_codes_are_those_of_the_shell():
    assert RunInterrupted(signal.SIGINT).code == 130
    assert RunInterrupted(signal.SIGTERM, "c").code == 143
