"""Middleware of a newcomer, written from ``docs/framework.md`` alone: a bandit that is learned by a task of its own.

The same three middleware, a function, a generator and a class, run in the serial and in the async form.
"""

import threading

import numpy as np
import pytest

from ding.framework import OnlineRLContext, task

PAYOUTS = (0.2, 0.8, 0.5)


def play_every_arm(num_rounds: int):
    """A factory: what it returns plays each arm so often and leaves (arm, reward) pairs in the context."""
    rng = np.random.default_rng(0)

    def play(ctx) -> None:
        arms = np.repeat(np.arange(len(PAYOUTS)), num_rounds)
        ctx.trajectories = [(int(arm), float(rng.random() < PAYOUTS[arm])) for arm in arms]
        ctx.env_step += len(ctx.trajectories)

    return play


class Estimates:
    """A class: keeps the mean reward of each arm."""

    def __init__(self) -> None:
        self.sums = np.zeros(len(PAYOUTS))
        self.counts = np.zeros(len(PAYOUTS))

    def __call__(self, ctx) -> None:
        for arm, reward in ctx.trajectories:
            self.sums[arm] += reward
            self.counts[arm] += 1
        ctx.trajectories = None
        ctx.train_iter += 1
        ctx.train_output = {"values": (self.sums / self.counts).tolist()}


def report(seen: list):
    """A generator: what follows its yield sees what the iteration made."""

    def watch(ctx):
        before = ctx.env_step
        yield
        seen.append((ctx.total_step, before, ctx.env_step, ctx.train_output["values"]))

    return watch


def stop_at(max_env_step: int):
    def check(ctx) -> None:
        task.finish = ctx.env_step >= max_env_step

    return check


def learn(async_mode: bool) -> list:
    seen: list = []
    with task.start(async_mode=async_mode, ctx=OnlineRLContext()):
        task.use(report(seen), lock=async_mode)
        task.use(play_every_arm(10), lock=async_mode)
        task.use(Estimates(), lock=async_mode)
        task.use(stop_at(300), lock=async_mode)
        task.run(max_step=100)
    return seen


@pytest.mark.parametrize("async_mode", [False, True], ids=["serial", "async"])
def test_a_bandit_is_learned(async_mode) -> None:
    seen = learn(async_mode)
    assert [one[:3] for one in seen] == [(number, 30 * number, 30 * number + 30) for number in range(10)]
    assert np.argmax(seen[-1][3]) == 1
    np.testing.assert_allclose(seen[-1][3], PAYOUTS, atol=0.2)


def test_both_forms_learn_the_same() -> None:
    assert learn(async_mode=False) == learn(async_mode=True)


@pytest.mark.parametrize("async_mode", [False, True], ids=["serial", "async"])
def test_an_error_names_the_middleware(async_mode) -> None:
    def forgetful(ctx) -> None:
        raise KeyError("obs")

    with task.start(async_mode=async_mode, ctx=OnlineRLContext()):
        task.use(forgetful)
        with pytest.raises(KeyError, match="obs") as raised:
            task.run(max_step=1)
    assert "in the middleware 'forgetful'" in raised.value.__notes__


def test_middleware_without_a_lock_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=30)

    def first(ctx) -> None:
        meeting.wait()

    def second(ctx) -> None:
        meeting.wait()

    with task.start(async_mode=True, n_async_workers=2, ctx=OnlineRLContext()):
        task.use(first)
        task.use(second)
        task.run(max_step=3)
    assert task.ctx.total_step == 2
