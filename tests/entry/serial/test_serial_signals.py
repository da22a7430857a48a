"""Ctrl-C and SIGTERM."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import ding
from ding.config import read_config
from ding.entry import RunInterrupted, serial_pipeline
from ding.entry.serial.loop import StopNow, StopSignals
from ding.torch_utils.graph import compiled_graphs

CARTPOLE = Path(ding.__file__).parents[1] / "configs" / "cartpole" / "cartpole_dqn_config.py"

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


def test_a_section_in_a_section_leaves_the_rest_of_the_outer_one_interruptible():
    def section(signals):
        with signals.interruptible():
            with signals.interruptible():
                pass
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("the outer section was not left")

    with StopSignals() as signals, pytest.raises(StopNow):
        section(signals)


# Raised by torch when its compiler is imported.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
def test_a_signal_leaves_the_compilation_of_a_graph(tmp_path, monkeypatch):
    reached = []

    def compiled(*args):
        os.kill(os.getpid(), signal.SIGTERM)
        reached.append("after the signal")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compiled_graphs, "_compiled", compiled)
    main, create = read_config(CARTPOLE)
    main.exp_name, main.policy.learn.compile = "stopped", True
    with pytest.raises(RunInterrupted) as caught:
        serial_pipeline((main, create), seed=0)
    assert not reached
    assert caught.value.checkpoint.endswith("_0")


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
