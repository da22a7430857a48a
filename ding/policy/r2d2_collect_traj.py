"""R2D2 that collects the trajectories of an expert, for R2D3 to learn from."""

from typing import Any

import torch
from easydict import EasyDict

from ding.data import EnvBatch, batched
from ding.data.roles import Samples, StateDict
from ding.policy._learning.loading import with_target
from ding.policy.dqfd import with_one_step
from ding.policy.r2d2 import R2D2Policy
from ding.utils import POLICY_REGISTRY
from ding.utils.nested import map_nested


@POLICY_REGISTRY.register("r2d2_collect_traj")
class R2D2CollectTrajPolicy(R2D2Policy):
    """R2D2 that acts greedily when it collects.

    Its sequences of ``burnin_step + unroll_len`` steps have what R2D3 asks of an expert's: ``done_one_step``, the
    ``done`` of each step itself, and empty recurrent states, as those of another network mean nothing to the learner.
    """

    config = {"type": "r2d2_collect_traj", "burnin_step": 2, "unroll_len": 80}

    @classmethod
    def default_config(cls) -> EasyDict:
        """As :meth:`Policy.default_config`; the steps after the burn-in are ``unroll_len`` here."""
        cfg = super().default_config()
        cfg.pop("learn_unroll_len", None)
        return cfg

    def _lengths(self) -> tuple[float, int, int]:
        cfg = self._cfg
        return float(cfg.discount_factor), cfg.nstep, cfg.burnin_step

    def _steps_of_sample(self) -> int:
        return int(self._cfg.burnin_step + self._cfg.unroll_len)

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        super()._load_state_dict_learn(with_target(state_dict))

    @batched
    def _forward_collect(self, data: EnvBatch, **kwargs: Any) -> EnvBatch:  # type: ignore[override]
        """Greedy actions, with the fields of :meth:`R2D2Policy._forward_collect`; other arguments are ignored."""
        return super()._forward_collect(data, eps=0.0)

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """As :meth:`R2D2Policy._process_transition`, with an empty ``prev_state``."""
        transition = super()._process_transition(obs, policy_output, timestep)
        return {**transition, "prev_state": map_nested(torch.zeros_like, transition["prev_state"])}

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Sequences as those of R2D2, with ``done_one_step``."""
        return super()._get_train_sample(with_one_step(transitions, done="done_one_step"))
