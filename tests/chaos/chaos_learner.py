"""A DQN of which each learner writes down what it went on from, a slow one, and a broken one."""

import os
import time

import torch

from ding.data import batched
from ding.policy.command_mode_policy_instance import DQNCommandModePolicy
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("recovering_dqn_command")
class RecoveringDQN(DQNCommandModePolicy):
    """Saves, right after a learner has loaded a state, that state once more: ``loaded/<pid>.pth``."""

    def _load_state_dict_learn(self, state_dict):
        super()._load_state_dict_learn(state_dict)
        os.makedirs("loaded", exist_ok=True)
        path = f"loaded/{os.getpid()}.pth"
        torch.save(self._state_dict_learn(), f"{path}.new")
        os.replace(f"{path}.new", path)


@POLICY_REGISTRY.register("slow_dqn_command")
class SlowDQN(DQNCommandModePolicy):
    """A train iteration takes ten times as long."""

    @batched
    def _forward_learn(self, data):
        begin_s = time.monotonic()
        result = super()._forward_learn(data)
        time.sleep(max(0.01, 9 * (time.monotonic() - begin_s)))
        return result


@POLICY_REGISTRY.register("broken_dqn_command")
class BrokenDQN(DQNCommandModePolicy):
    """Fails in the forward of the mode ``cfg.broken_mode``, always after a few calls, as ``cfg.broken_how`` says."""

    _calls = 0

    @batched
    def _forward_learn(self, data):
        self._maybe_break("learn")
        return super()._forward_learn(data)

    @batched
    def _forward_collect(self, data, eps):
        self._maybe_break("collect")
        return super()._forward_collect(data, eps)

    def _maybe_break(self, mode):
        self._calls += mode == self._cfg.broken_mode
        if self._calls > 3:
            if self._cfg.broken_how == "memory":
                raise MemoryError("the chaos policy has no memory left")
            raise ArithmeticError("the chaos policy is broken")
