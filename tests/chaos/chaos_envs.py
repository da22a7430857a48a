"""Envs and policies that fail, end a run, or write down what they do."""

import hashlib
import os
import signal
import sys
import time
from pathlib import Path

import torch

from ding.data import batched
from ding.envs import DingEnvWrapper
from ding.policy.command_mode_policy_instance import DQNCommandModePolicy
from ding.utils import ENV_REGISTRY, POLICY_REGISTRY


@ENV_REGISTRY.register("chaos_env")
class ChaosEnv(DingEnvWrapper):
    """CartPole that, after ``chaos_after`` steps, does what ``chaos_how`` says."""

    def __init__(self, env=None, cfg=None, **kwargs):
        super().__init__(env, cfg, **kwargs)
        self._chaos_how, self._chaos_left = cfg["chaos_how"], cfg["chaos_after"]

    def step(self, action):
        self._chaos_left -= 1
        if self._chaos_left < 0:
            CHAOS[self._chaos_how]()
        return super().step(action)


def _raise():
    raise ArithmeticError("the chaos env is broken")


CHAOS = {
    "raise": _raise,
    "exit": lambda: sys.exit(3),
    "abort": os.abort,
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "slow": lambda: time.sleep(0.02),
}


@ENV_REGISTRY.register("winning_env")
class WinningEnv(DingEnvWrapper):
    """CartPole whose episodes return more than any stop value as soon as there is a file ``enough``."""

    def step(self, action):
        timestep = super().step(action)
        if timestep.done and os.path.exists("enough"):
            timestep.info["eval_episode_return"] = 2e9
        return timestep


@POLICY_REGISTRY.register("told_dqn_command")
class ToldDQN(DQNCommandModePolicy):
    """A DQN of which each learning process writes down its parameters: file ``params/<rank>_<pid>``, a digest per line
    and train iteration.
    """

    _told = None

    @batched
    def _forward_learn(self, data):
        result = super()._forward_learn(data)
        if self._told is None:
            os.makedirs("params", exist_ok=True)
            self._told = Path(f"params/{os.environ.get('RANK', 0)}_{os.getpid()}").open("a", buffering=1)  # noqa: SIM115
        values = torch.cat([value.detach().reshape(-1) for value in self._model.state_dict().values()])
        self._told.write(hashlib.sha256(values.numpy().tobytes()).hexdigest() + "\n")
        return result
