"""Ports, addresses, ids, memory, parent death, and a thread that propagates its exception."""

import contextlib
import ctypes
import errno
import os
import select
import socket
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
# Flag of a Linux task that is exiting.
_PF_EXITING = 0x4
_recent_ports: deque[int] = deque(maxlen=64)
_ports_lock = threading.Lock()


def get_ip() -> str:
    """Return the address of this host, or the loopback address if it has none."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def get_pid() -> int:
    """Return the id of this process."""
    return os.getpid()


def available_memory_bytes(proc: str = "/proc", cgroup: str = "/sys/fs/cgroup") -> int | None:
    """Return the memory available to this process in bytes; ``None`` if the system does not report it.

    The smaller of the machine's available memory and the rest of the process's cgroup limit.
    """
    left: list[int] = []
    with contextlib.suppress(OSError, LookupError, ValueError):
        lines = Path(proc, "meminfo").read_text(encoding="ascii").splitlines()
        left.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    with contextlib.suppress(OSError, LookupError, ValueError):
        limit, used = (int(Path(cgroup, name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
        left.append(max(0, limit - used))
    return min(left, default=None)


def die_with_parent(signum: int) -> bool:
    """Ask the kernel to send ``signum`` to this process when the thread that started it ends.

    Returns:
        False, without any effect, on systems other than Linux.
    """
    if sys.platform != "linux":
        return False
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)
    return True


def is_ending(pid: int) -> bool:
    """Return whether a process of this user has ended or is exiting; while it exits, its descriptors may still be open.

    Only Linux reports the latter; elsewhere a process not yet reaped by its parent counts as alive.
    """
    try:
        os.kill(pid, 0)
        if sys.platform != "linux":
            return False
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return True
    state, *fields = stat.rpartition(")")[2].split()
    # Fields after the state: parent, group, session, terminal, its group, flags.
    return state in "ZX" or bool(int(fields[5]) & _PF_EXITING)


def wait_for_end(pid: int, timeout_s: float) -> None:
    """Wait until a process has ended, and so has closed its files and locks; at most ``timeout_s`` seconds.

    A killed process releases its files one after the other. Returns at once if the process does not exist, or if the
    system cannot wait for a process that is not a child.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return
    try:
        end = select.poll()
        end.register(descriptor, select.POLLIN)
        end.poll(timeout_s * 1000)
    finally:
        os.close(descriptor)


def get_task_uid() -> str:
    """Return a new id, ``<uuid4>_<6 digits of the time>``; only letters, digits, ``-`` and ``_``."""
    return f"{uuid.uuid4()}_{time.time_ns() // 1000 % 1_000_000:06d}"


def find_free_port(host: str = "") -> int:
    """Return a currently free TCP port on ``host``; the same port is not returned again for a while.

    Another process may still take the port before it is bound. If that matters, bind port 0 and report the result.
    """
    for _ in range(2 * (_recent_ports.maxlen or 1)):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((host, 0))
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL or host == "":
                    raise
                probe.bind(("", 0))  # the address of another host: the best possible check here
            port = int(probe.getsockname()[1])
        with _ports_lock:
            if port not in _recent_ports:
                _recent_ports.append(port)
                return port
    raise OSError(errno.EADDRINUSE, f"found no free port on {host!r} that was not given out lately")


def is_port_free(host: str, port: int) -> bool:
    """Return whether nobody listens on a TCP port of this host. Also True for an address of another host."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Binds like a server: a port with only closed connections is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
        return True


class PropagatingThread(threading.Thread):
    """A thread whose ``join`` returns the result of the target, or raises its exception."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., Any] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        super().__init__(group=group, name=name, daemon=daemon)
        self._call = (target, tuple(args), dict(kwargs or {}))
        self.exc: BaseException | None = None
        self.ret: Any = None

    def run(self) -> None:
        """Call the target and keep its result or exception."""
        target, args, kwargs = self._call
        try:
            if target is not None:
                self.ret = target(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - join raises it
            self.exc = error

    def join(self, timeout: float | None = None) -> Any:
        """Wait at most ``timeout`` seconds. Returns None if the thread is still running."""
        super().join(timeout)
        if self.exc is not None:
            raise self.exc
        return self.ret
