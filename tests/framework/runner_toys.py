"""What the processes of a run do in the tests of the runner; each leaves what it saw as JSON in a folder."""

import json
import os
import signal
from pathlib import Path

from ding.framework import Parallel, Role, task


def note(folder: str, what: str, data: object) -> None:
    router = Parallel()
    Path(folder, f"{what}.{router.node_id}.{os.getpid()}.tmp").write_text(json.dumps(data))
    os.replace(
        Path(folder, f"{what}.{router.node_id}.{os.getpid()}.tmp"), Path(folder, f"{what}.{router.node_id}.json")
    )


def wait_a_little(ctx) -> None:
    """An iteration is no busy loop."""
    task.wait_until(lambda: False, 0.01)


def greets(folder: str, num_peers: int) -> None:
    """The very first thing that a process does reaches the others."""
    heard: list[int] = []
    with task.start():

        def hear(node_id: int) -> None:
            heard.append(node_id)
            task.wake()

        # Of two listeners each is called once per message.
        task.on("greeting", hear)
        task.on("greeting", lambda node_id: task.wake())
        task.emit("greeting", task.router.node_id, only_remote=True)
        task.wait_until(lambda: len(heard) >= num_peers, 30)
        note(folder, "heard", {"from": sorted(heard), "labels": sorted(task.labels)})
        # The first one that leaves ends the others: they leave together.
        task.emit("ready", task.router.node_id)
        task.use(wait_a_little)
        ready: list[int] = []
        task.on("ready", ready.append)
        if task.router.node_id == 0:
            task.run(max_step=5)
        else:
            task.run()
    note(folder, "ended", {"finish": task.finish, "has_finished": task.router.has_finished})


def counts(folder: str, max_step: int) -> None:
    """The first node ends after some iterations, the others would go on for ever."""
    with task.start():
        task.use(wait_a_little).run(max_step=max_step if task.router.local_id == 0 else 10**9)
    note(folder, "ended", task.ctx.total_step)


def sees_the_end(folder: str) -> None:
    """Node 1 is in the middle of an iteration when node 0 finishes."""
    seen: list[tuple[str, bool]] = []

    def first(ctx) -> None:
        seen.append(("first", task.finish))

    def waits_for_the_end(ctx) -> None:
        task.emit("in the middle", True)
        task.wait_until(lambda: False, 30)

    def last(ctx) -> None:
        seen.append(("last", task.finish))

    with task.start():
        if task.router.node_id == 0:
            task.wait_for("in the middle", timeout=30)
            task.use(wait_a_little).run(max_step=1)
        else:
            task.use(first).use(waits_for_the_end).use(last).run()
    note(folder, "seen", seen)


def breaks(folder: str, in_backward: bool) -> None:
    """A middleware of node 1 raises; node 2 is in the middle of something long."""

    def broken_middleware(ctx):
        if not in_backward:
            raise KeyError("no such thing")
        yield
        raise KeyError("no such thing")

    def hangs(ctx) -> None:
        note(folder, "hangs", os.getpid())
        signal.sigwait({signal.SIGUSR1})

    def waits_for_the_one_that_hangs(ctx) -> None:
        task.wait_until(lambda: Path(folder, "hangs.2.json").exists(), 0.01)

    with task.start():
        note(folder, "pid", os.getpid())
        if task.router.node_id == 2:
            task.use(hangs)
        elif task.router.node_id == 1:
            while not Path(folder, "hangs.2.json").exists():
                wait_a_little(None)
            task.use(broken_middleware)
        else:
            task.use(waits_for_the_one_that_hangs)
        task.run()


def is_killed(folder: str, learns: bool) -> None:
    """Node 1 is killed once. It comes back, and hears what node 0 has retained; then node 0 ends the run."""
    router = Parallel()
    with task.start():
        if learns:
            task.add_role(Role.LEARNER if router.node_id == 1 else Role.COLLECTOR)
        back: list[int] = []

        def hear(incarnation: int) -> None:
            back.append(incarnation)
            task.wake()

        if router.node_id == 0:
            router.emit("task.model", {"version": 7}, retain=True)
            task.on("back", hear)
            task.wait_until(lambda: bool(back), 60)
            task.use(wait_a_little).run(max_step=1)
        elif router.node_id == 1:
            if router._retries == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            heard = task.wait_for("model", timeout=30)
            note(folder, "model", heard[0][0])
            task.emit("back", router._retries)
            task.use(wait_a_little).run()
        else:
            task.use(wait_a_little).run()
    note(folder, "ended", True)


def fails_twice(folder: str) -> None:
    retries = Parallel()._retries
    with task.start():
        if Parallel().node_id == 1 and retries < 2:
            raise ValueError(f"retry {retries}")
        note(folder, "retries", retries)
        if Parallel().node_id == 1:
            task.use(wait_a_little).run(max_step=2)
        else:
            task.use(wait_a_little).run()


def returns_without_a_task(folder: str) -> None:
    note(folder, "ended", sorted(Parallel().labels))
