"""A CartPole that writes down how many steps it made, for libraries that step their envs in processes of their own."""

from __future__ import annotations

import os
from typing import Any

import gymnasium
from bench_events import FOLDER_VARIABLE, EventLog

STEPS_PER_EVENT = 64


class CountingEnv(gymnasium.Wrapper):
    """Adds an ``env_step`` event after every 64 steps."""

    def __init__(self, env: Any, log: EventLog) -> None:
        super().__init__(env)
        self._log = log
        self._steps = 0

    def step(self, action: Any) -> Any:
        self._steps += 1
        if self._steps == STEPS_PER_EVENT:
            self._steps = 0
            self._log.add("env_step", STEPS_PER_EVENT)
        return self.env.step(action)


def make_cartpole(*_: Any, **__: Any) -> Any:
    """CartPole-v1, counting where a run asks for events; whatever else a library passes is not needed."""
    env = gymnasium.make("CartPole-v1")
    folder = os.environ.get(FOLDER_VARIABLE)
    return env if folder is None else CountingEnv(env, EventLog(folder))


def count_updates() -> None:
    """Let this process write down the steps of its torch optimisers, where a run asks for events."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook

    log = EventLog(folder)
    register_optimizer_step_post_hook(lambda *_: log.add("update"))
