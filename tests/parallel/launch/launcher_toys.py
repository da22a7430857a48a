"""Roles that do nothing but fail, wait and report, for the tests of the launcher."""

import fcntl
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

from ding.parallel.launch import Launcher, PermanentRoleError, RestartRule, Role, RunDir, child
from ding.utils.credentials import own_token

QUICK = RestartRule(delay_s=0.05, max_delay_s=0.1)


def until_stopped(context):
    """Waits; leaves a file that says how it ended, as a checkpoint would."""
    Path(context.run_dir, f"{context.name}.{context.incarnation}.pid").write_text(str(os.getpid()))
    context.progress()
    context.stop.wait(60)
    Path(context.payload or context.run_dir, f"{context.name}.stopped").write_text(str(context.stop.reason))


def deaf(context):
    """Never stops."""
    context.progress()
    while True:
        time.sleep(60)


def deaf_orphan(context):
    """Never stops, also not without a launcher; patience with orphans is short."""
    child.ORPHAN_GRACE_S = 1
    Path(context.run_dir, f"{context.name}.{context.incarnation}.pid").write_text(str(os.getpid()))
    deaf(context)


def raises(context):
    raise ValueError(f"broken in incarnation {context.incarnation}")


def returns(context):
    """Comes to its end by itself; the payload names the role that is waited for."""
    if context.payload is not None:
        context.wait_for_peer(context.payload, 30)
    context.announce({"done": True})


def raises_for_good(context):
    raise PermanentRoleError("port 4100 is taken")


def segfaults(context):
    os.kill(os.getpid(), signal.SIGSEGV)


def finishes(context):
    """The run is over when the payload's number of peers has announced itself."""
    for name in context.payload:
        if context.wait_for_peer(name, 30) is None:
            return None
    return {name: context.peers()[name] for name in context.payload}


def finishes_in_the_third_process(context):
    if context.incarnation < 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"incarnation": context.incarnation}


def holds_a_port(context):
    """Has what only one process may have; the first ones kill the fork server, and need a while for their own end."""
    with open(Path(context.run_dir, "port.lock"), "a") as port:
        fcntl.flock(port, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if context.incarnation < context.payload:
            os.kill(os.getppid(), signal.SIGKILL)
            context.stop.wait(60)
            time.sleep(0.3)
            return None
        return {"incarnation": context.incarnation, "server": os.getppid()}


def hears_with_another_thread(context):
    """SIGTERM comes to another thread than the one that runs handlers, while that one serves a worker."""
    from ding.entry.parallel.workers import serve

    over, proven, heard = threading.Event(), threading.Event(), []
    context.stop.on_set(over.set)
    context.progress = proven.set
    slave = SimpleNamespace(is_connected=True, refusal=None, statistics=lambda: SimpleNamespace(tasks_completed=10**6))

    def send():
        proven.wait(20)
        stat = Path(f"/proc/self/task/{os.getpid()}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(0)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        heard.append(context.stop.wait(10))
        over.set()

    sender = threading.Thread(target=send)
    sender.start()
    serve(SimpleNamespace(slave=slave), SimpleNamespace(payload={}, progress=context.progress), over)
    sender.join()
    return {"heard": heard}


def reports_blocked_signals(context):
    """Of its parent, the fork server, and of itself: the set of signals."""
    return {who: _blocked(pid) for who, pid in (("server", os.getppid()), ("own", os.getpid()))}


def _blocked(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = int(next(line.split()[1] for line in lines if line.startswith("SigBlk")), 16)
    return [number for number in (signal.SIGINT, signal.SIGTERM) if mask >> (number - 1) & 1]


def stops_itself(context):
    """Stands still until somebody lets it go on, then ends the run with what it heard last."""
    Path(context.run_dir, "still.pid").write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGSTOP)
    news = queue.SimpleQueue()
    context.on_peer(lambda name, data: news.put(data) if name == "talker" else None)
    newest = context.wait_for_peer("talker", 30)["number"]
    while newest != context.payload - 1:
        newest = news.get(timeout=30)["number"]
    return {"newest": newest}


def talks(context):
    """Announces the payload's number of things, 1 kB each."""
    for number in range(context.payload):
        context.announce({"number": number, "filler": "x" * 1000})
    context.stop.wait(60)


def member(context):
    """One of a group: the payload's member of the first generation dies by SIGKILL when all are there; a second one
    ends the run with who is there.
    """
    context.announce({"pid": os.getpid(), "incarnation": context.incarnation})
    for name in ("a", "b"):
        if name != context.name and context.wait_for_peer(name, 30) is None:
            return None
    if context.incarnation == 0:
        if context.name == context.payload:
            os.kill(os.getpid(), signal.SIGKILL)
        context.stop.wait(60)
        return None
    if context.name == context.payload:
        return {name: data for name, data in context.peers().items() if name in "ab"}
    context.stop.wait(60)
    return None


def returns_its_token(context):
    return own_token()


def announces(context):
    context.announce({"pid": os.getpid(), "token": len(context.token)})
    context.stop.wait(60)


def main(run_root, out, target="until_stopped", *preload):
    """A launcher of its own: ``python launcher_toys.py ROOT OUT TARGET MODULES``."""
    os.makedirs(out, exist_ok=True)
    run_dir = RunDir.create(run_root)
    roles = [Role(f"w{i}", globals()[target], out, QUICK) for i in range(2)]
    roles.append(Role("c", globals()[target], out, QUICK, stop_phase=0))
    launcher = Launcher(roles, str(run_dir.path), out, "t" * 32, preload=preload)
    try:
        outcome = launcher.run()
    finally:
        run_dir.remove()
    sys.exit(0 if outcome.signum is None else 128 + outcome.signum)


if __name__ == "__main__":
    main(*sys.argv[1:])
