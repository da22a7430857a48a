"""The task: order of phases, context, wrappers, locks, events, and what it says when something fails."""

import dataclasses
import threading

import pytest

from ding.framework.context import Context, OfflineRLContext, OnlineRLContext
from ding.framework.task import Role, Task, VoidMiddleware, current_task, task
from ding.framework.wrapper.step_timer import StepTimer


def phases(name: str, log: list[str]):
    def run(ctx):
        log.append(f"{name}>")
        yield
        log.append(f"<{name}")
        yield
        log.append("never")

    run.__name__ = name
    return run


def plain(name: str, log: list[str]):
    def run(ctx):
        log.append(name)

    run.__name__ = name
    return run


class Counting:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, ctx) -> None:
        self.calls += 1


def test_backward_phases_run_in_reverse_order_and_nothing_runs_after_a_second_yield() -> None:
    log: list[str] = []
    with task.start():
        for name in "abc":
            task.use(phases(name, log))
        task.run(max_step=1)
    assert log == ["a>", "b>", "c>", "<c", "<b", "<a"]


def test_a_run_counts_steps_keeps_its_last_context_and_ends_finished() -> None:
    with task.start():
        counting = Counting()
        task.use(counting)
        task.run(max_step=3)
        assert task.finish
    assert (counting.calls, task.ctx.total_step, task.running) == (3, 2, False)
    with pytest.raises(AssertionError, match=r"call task\.start"):
        task.run()


def test_finish_ends_the_run_after_the_whole_iteration() -> None:
    log: list[str] = []

    def finisher(ctx) -> None:
        task.finish = ctx.total_step == 1

    with task.start():
        task.use(finisher).use(phases("a", log)).run()
    assert log == ["a>", "<a"] * 2
    assert task.ctx.total_step == 1


def test_no_middleware_and_no_steps() -> None:
    with task.start():
        task.run(max_step=5)
        assert not task.finish
        task.use(Counting()).run(max_step=0)
        assert not task.finish


def test_void_is_left_out_and_what_cannot_be_called_is_refused() -> None:
    with task.start():
        task.use(VoidMiddleware()).use(task.void())
        task.run(max_step=1)
        assert task.ctx.total_step == 0
        with pytest.raises(AssertionError, match="int"):
            task.use(3)


def test_serial_runs_as_one_middleware() -> None:
    log: list[str] = []
    with task.start():
        one = task.serial(phases("a", log), plain("p", log), task.void(), Counting(), phases("b", log))
        assert one.__name__ == "serial<a,p,Counting,b>"
        task.use(phases("first", log)).use(one).use(phases("last", log)).run(max_step=1)
    assert log == ["first>", "a>", "p", "b>", "last>", "<last", "<b", "<a", "<first"]


def test_parallel_runs_its_members_at_the_same_time_in_both_phases() -> None:
    forward, backward, log = threading.Barrier(2), threading.Barrier(2), []

    def meet(ctx):
        forward.wait(10)
        yield
        backward.wait(10)
        log.append("met")

    with task.start():
        task.use(phases("first", log)).use(task.parallel(meet, meet)).run(max_step=1)
    assert log == ["first>", "met", "met", "<first"]


def test_wrap_runs_its_backward_phase_once_now_or_at_the_end() -> None:
    log: list[str] = []
    with task.start():
        inner, other, simple = (task.wrap(x) for x in (phases("i", log), phases("o", log), plain("p", log)))

        def outer(ctx) -> None:
            back = inner(ctx)
            other(ctx)
            simple(ctx)()
            back()
            back()
            log.append("outer")

        task.use(outer).run(max_step=1)
    assert log == ["i>", "o>", "p", "<i", "outer", "<o"]


def test_steps_by_hand_share_a_context_until_it_is_renewed() -> None:
    @dataclasses.dataclass
    class Counter(Context):
        seen: list[int] = dataclasses.field(default_factory=list)

    with task.start(ctx=Counter()):
        for _ in range(2):
            task.forward(lambda ctx: ctx.seen.append(0))
            task.forward(lambda ctx: ctx.seen.append(1))
        assert task.ctx.seen == [0, 1, 0, 1]
        task.renew()
        assert (task.ctx.total_step, task.ctx.seen) == (1, [])
        task.forward(lambda ctx: ctx.seen.append(2))
        assert task.ctx.seen == [2]


def test_forward_and_backward_by_hand() -> None:
    log: list[str] = []
    with task.start():
        a, b = task.forward(phases("a", log)), task.forward(phases("b", log))
        assert task.forward(plain("p", log)) is None
        task.backward([])
        assert log == ["a>", "b>", "p"]
        task.backward({0: a})
        task.backward()
        task.backward()
    assert log == ["a>", "b>", "p", "<a", "<b"]
    assert b is not None


@pytest.mark.parametrize("first", ["wrapper", "middleware"])
def test_wrappers_see_both_phases_whenever_they_were_added(first: str) -> None:
    log: list[str] = []

    def wrapper(fn):
        def run(ctx):
            log.append("[")
            yield from fn(ctx)
            log.append("]")

        return run

    with task.start():
        steps = [lambda: task.use_wrapper(wrapper), lambda: task.use(phases("a", log))]
        for step in steps if first == "wrapper" else steps[::-1]:
            step()
        task.run(max_step=1)
    assert log == ["[", "a>", "<a"]


def test_async_runs_forward_phases_together_and_backward_phases_in_order() -> None:
    log: list[str] = []
    meeting = threading.Barrier(3)

    def waits(name):
        def run(ctx):
            meeting.wait(10)
            yield
            log.append(name)

        return run

    with task.start(async_mode=True, n_async_workers=3):
        for name in "abc":
            task.use(waits(name))
        task.run(max_step=2)
        assert task.match_labels("async")
    assert log == ["c", "b", "a"] * 2


def test_locked_middleware_keep_their_order_in_async_mode() -> None:
    log: list[str] = []
    with task.start(async_mode=True, n_async_workers=3):
        for name in "abcdefgh":
            task.use(phases(name, log), lock=True)
        task.run(max_step=1)
    assert log == [f"{x}>" for x in "abcdefgh"] + [f"<{x}" for x in "hgfedcba"]


def test_async_forward_and_backward_return_the_task() -> None:
    log: list[str] = []
    with task.start(async_mode=True):
        assert task.forward(phases("a", log)).sync().backward().sync() is task
        assert isinstance(task.sync_tasks(), Task)
    assert log == ["a>", "<a"]


@pytest.mark.parametrize("async_mode", [False, True])
@pytest.mark.parametrize("backward", [False, True])
def test_an_exception_names_the_middleware(async_mode: bool, backward: bool) -> None:
    def breaks_here(ctx):
        if not backward:
            raise KeyError("x")
        yield
        raise KeyError("x")

    with task.start(async_mode=async_mode), pytest.raises(KeyError) as caught:
        task.use(breaks_here).run(max_step=1)
    assert caught.value.__notes__ == ["in the middleware 'breaks_here'"]
    assert not task.running


def test_a_failed_job_cancels_those_that_wait_and_ends_wait_for() -> None:
    heard, waiting = [], threading.Event()

    def breaks(ctx):
        waiting.wait(10)
        raise ValueError("broken")

    def waits(ctx):
        waiting.set()
        heard.append(task.wait_for("never", timeout=30))

    with task.start(async_mode=True, n_async_workers=2), pytest.raises(ValueError, match="broken"):
        task.use(breaks).use(waits).run(max_step=1)
    assert heard == [None]


def test_events_reach_listeners() -> None:
    heard: list[tuple] = []
    with task.start():
        task.on("a", lambda *args, **kwargs: heard.append((args, kwargs)))
        task.once("a", lambda *_, **__: heard.append("once"))
        for i in range(2):
            task.emit("a", i, key=i)
        task.emit("a", 2, only_remote=True)
        waiter = threading.Timer(0.01, task.emit, ("b", 1))
        waiter.start()
        assert task.wait_for("b", timeout=10) == ((1,), {})
        waiter.join()
    assert sorted(map(str, heard)) == sorted(map(str, [((0,), {"key": 0}), "once", ((1,), {"key": 1})]))


def test_a_listener_that_fails_ends_all_events(caplog) -> None:
    def fails() -> None:
        raise ValueError("in a listener")

    with task.start():
        called = threading.Event()
        task.on("a", fails)
        task.on("a", called.set)
        task.on("b", called.set)
        task.emit("a")
        with pytest.raises(ValueError, match="in a listener"):  # it wakes what waits, too
            task.wait_for("never", timeout=60, ignore_timeout_exception=False)
        for _ in range(2):
            with pytest.raises(ValueError, match="in a listener"):
                task.emit("b")
            with pytest.raises(ValueError, match="in a listener"):
                task.sync()
        assert not called.is_set()
    assert "a listener of event 'a' failed" in caplog.text


def test_wait_for_gives_up() -> None:
    with task.start():
        assert task.wait_for("never", timeout=0.01) is None
        with pytest.raises(TimeoutError, match=r"'never' did not come within 0\.01 s"):
            task.wait_for("never", timeout=0.01, ignore_timeout_exception=False)
        threading.Timer(0.01, setattr, (task, "finish", True)).start()
        assert task.wait_for("never", timeout=30) is None


def test_roles_and_labels() -> None:
    with task.start(labels={"gpu"}):
        assert task.has_role(task.role.LEARNER)
        task.add_role(task.role.COLLECTOR)
        assert task.has_role("collector")
        assert not task.has_role(Role.LEARNER)
        assert list(Role) == ["learner", "collector", "evaluator", "fetcher"]
        assert task.labels == {"gpu", "standalone"}
        assert task.match_labels(["node.*", "g?u"])
        assert not task.match_labels("node.*")
        with pytest.raises(RuntimeError, match="alone"):
            task.get_attch_to_len()


def test_several_tasks_live_side_by_side() -> None:
    assert current_task() is task
    with Task().start() as one, Task().start() as two:
        assert current_task() is two
        one.use(Counting()).run(max_step=1)
        assert not two.finish
    assert current_task() is task


def test_a_context_carries_what_is_kept_through_all_iterations() -> None:
    ctx = Context()
    ctx.keep("here", "absent")
    ctx.here, ctx.there = 1, 2
    for step in (1, 2, 3):
        ctx = ctx.renew()
        assert (ctx.here, ctx.has_attr("there"), ctx.has_attr("absent"), ctx.total_step) == (1, False, False, step)


def test_the_contexts_of_rl_keep_their_counters() -> None:
    online = OnlineRLContext()
    online.env_step, online.train_iter, online.trajectories, online.last_eval_value = 5, 6, [1], 7.0
    online = online.renew()
    assert (online.env_step, online.train_iter, online.trajectories, online.last_eval_value) == (5, 6, None, 7.0)
    offline = OfflineRLContext()
    offline.train_epoch = offline.trained_env_step = 3
    offline = offline.renew()
    assert (offline.train_epoch, offline.trained_env_step, offline.eval_value) == (3, 3, -float("inf"))


def test_the_step_timer_times_both_phases(caplog) -> None:
    caplog.set_level("INFO")
    timer = StepTimer(print_per_step=2)
    log: list[str] = []
    with task.start():
        task.use(phases("a", log)).use_wrapper(timer).use(plain("b", log)).run(max_step=3)
    assert {name: len(times) for name, times in timer.records.items()} == {"a": 3, "b": 3}
    assert caplog.text.count("[StepTimer a]") == 2
    assert log == ["a>", "b", "<a"] * 3
