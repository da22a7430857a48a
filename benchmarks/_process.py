"""A side of a measurement in a process of its own: start it, ask it, end it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._peers import HERE, OWN, ROOT, SIDEKIT, python_of, without_paths

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
START_TIMEOUT_S = 180.0
ANSWER_TIMEOUT_S = 300.0
QUIT_TIMEOUT_S = 10.0
STDERR_TAIL = 1500


class SideError(RuntimeError):
    """A side did not start, died, or did not answer in time; the message ends with what it wrote to stderr."""


@dataclass(frozen=True)
class Contestant:
    """One side of a measurement.

    Args:
        label: name in the tables.
        peer: whose interpreter runs it: a name of `benchmarks._peers.PEERS`, or ``ding`` for the running one.
        script: path below ``benchmarks/``.
        args: command line of the script.
        root: the checkout whose ``ding`` is imported (own sides only); the one that holds this file by default.
    """

    label: str
    peer: str
    script: str
    args: tuple[str, ...] = ()
    root: Path | None = field(default=None, compare=False)

    def command(self) -> list[str]:
        """The command line that starts it."""
        return [str(python_of(self.peer)), str(HERE / self.script), *self.args]


class SideProcess:
    """A running side. It builds its part, then waits for requests and uses no CPU meanwhile.

    The constructor does not wait for it to be built, `ready` does.

    Args:
        contestant: what to run.
        threads: ``1`` for one torch thread, ``None`` for what a user gets who sets no variable.

    Raises:
        PeerMissing: the peer is not installed.
    """

    def __init__(self, contestant: Contestant, threads: int | None) -> None:
        self.contestant = contestant
        self._folder = Path(tempfile.mkdtemp(prefix="ding-bench-"))
        self._log = (self._folder / "stderr.txt").open("wb")
        (self._folder / "work").mkdir()
        self._buffered = b""
        self._ready_by = time.monotonic() + START_TIMEOUT_S
        try:
            self._process = subprocess.Popen(
                contestant.command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                cwd=self._folder / "work",
                env=child_env(contestant, threads),
                start_new_session=True,
            )
        except Exception:
            self._log.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def is_running(self) -> bool:
        """Whether the process of the side still runs."""
        return self._process.poll() is None

    @functools.cached_property
    def ready(self) -> dict[str, Any]:
        """What it announces when it is built; waits for that.

        Raises:
            SideError: the script failed, or was not ready `START_TIMEOUT_S` seconds after its start.
        """
        return self._answer(max(0.0, self._ready_by - time.monotonic()))["ready"]

    def ask(self, timeout_s: float = ANSWER_TIMEOUT_S, **request: Any) -> dict[str, Any]:
        """Send a request to a side that is `ready` and return the answer.

        Raises:
            SideError: the side died or did not answer within ``timeout_s`` seconds.
        """
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write((json.dumps(request) + "\n").encode())
            stdin.flush()
        except BrokenPipeError as error:
            raise self._failure("it died") from error
        return self._answer(timeout_s)

    def close(self) -> None:
        """Ask it to quit; end it and its children if it does not. Closing it again does nothing."""
        stdin = self._process.stdin
        assert stdin is not None
        if stdin.closed:
            return
        with contextlib.suppress(OSError):
            stdin.write(b'{"quit": true}\n')
            stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(QUIT_TIMEOUT_S)
        # The session of the side holds its env processes, too.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> SideProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        stdout = self._process.stdout
        assert stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffered:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise self._failure(f"no answer within {timeout_s:.0f} s")
                received = os.read(stdout.fileno(), 1 << 16)
                if not received:
                    raise self._failure("it ended")
                self._buffered += received
        line, _, self._buffered = self._buffered.partition(b"\n")
        return json.loads(line)

    def _failure(self, what: str) -> SideError:
        self._log.flush()
        tail = (self._folder / "stderr.txt").read_text(errors="replace")[-STDERR_TAIL:]
        tail = tail.replace(str(self._folder), "<work>")
        return SideError(without_paths(f"{self.contestant.label}: {what}; stderr: {tail.strip() or '(empty)'}"))


def child_env(contestant: Contestant, threads: int | None) -> dict[str, str]:
    """Environment of a side: thread variables set or absent, and only the paths that it needs."""
    env = {key: value for key, value in os.environ.items() if key not in THREAD_VARIABLES and key != "PYTHONPATH"}
    paths = [str(SIDEKIT)]
    if contestant.peer == OWN:
        root = contestant.root or ROOT
        paths.insert(0, str(root))
        env["BENCH_DING_ROOT"] = str(root)
    env["PYTHONPATH"] = os.pathsep.join(paths)
    env["PYTHONWARNINGS"] = "ignore"
    env["RB_LOGGING_LEVEL"] = "ERROR"
    if threads is not None:
        env.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    return env


def run_plain(command: Sequence[str], env: dict[str, str], timeout_s: float, cwd: str) -> None:
    """Run a command to its end in the folder ``cwd``.

    Raises:
        SideError: it failed or took longer than ``timeout_s``.
    """
    try:
        subprocess.run(list(command), env=env, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=True)
    except subprocess.TimeoutExpired as error:
        raise SideError(f"no end within {timeout_s:.0f} s") from error
    except subprocess.CalledProcessError as error:
        raise SideError(
            without_paths(f"exit code {error.returncode}; stderr: {error.stderr[-STDERR_TAIL:]}")
        ) from error
