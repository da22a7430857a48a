"""R2D2 over a gated transformer-XL: Q-learning from sequences (openreview r1lyTjAqYX) with GTrXL (arXiv:1910.06764)."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from easydict import EasyDict

from ding.data import EnvBatch, TransitionBatch, batched
from ding.data.roles import Samples, StateDict
from ding.model import model_wrap
from ding.policy._learning.loading import with_target
from ding.policy.errors import PolicyConfigError
from ding.policy.r2d2 import R2D2Policy
from ding.utils import POLICY_REGISTRY
from ding.utils.names import check_choice


@POLICY_REGISTRY.register("r2d2_gtrxl")
class R2D2GTrXLPolicy(R2D2Policy):
    """R2D2 whose network looks at the ``memory_len`` steps before by attention, in the place of a recurrent layer.

    A train sample is a sequence of ``unroll_len`` steps of one episode. An environment's memory grows by one step at a
    time, and is empty when an episode begins.
    """

    config = {
        "type": "r2d2_gtrxl",
        "discount_factor": 0.99,
        # (int) Steps at the beginning of a sequence that are not learned, but where an episode begins with it.
        "burnin_step": 1,
        # (int) Steps of a train sample.
        "unroll_len": 25,
        # (int) Steps that the network runs at once when it learns; the memory carries on from one such segment.
        "seq_len": 20,
        "learn": {
            "value_rescale": False,
            # (str) The memory before a sequence: 'zero', or 'old', that of the policy that collected.
            "init_memory": "zero",
        },
        # (int) Kept for configs of DI-engine; collectors read ``n_sample``.
        "collect": {"each_iter_n_sample": 32},
    }

    @classmethod
    def default_config(cls) -> EasyDict:
        """As :meth:`Policy.default_config`; the length of a sample is ``unroll_len`` here."""
        cfg = super().default_config()
        cfg.pop("learn_unroll_len", None)
        return cfg

    def default_model(self) -> tuple[str, list[str]]:
        """``gtrxldqn`` of :mod:`ding.model.template.q_learning`."""
        return "gtrxldqn", ["ding.model.template.q_learning"]

    def _lengths(self) -> tuple[float, int, int]:
        cfg = self._cfg
        if cfg.unroll_len <= cfg.nstep + cfg.burnin_step:
            raise PolicyConfigError(
                f"policy.unroll_len must exceed policy.nstep + policy.burnin_step = {cfg.nstep + cfg.burnin_step}, "
                f"found {cfg.unroll_len}"
            )
        check_choice("policy.learn.init_memory", cfg.learn.init_memory, ("zero", "old"), PolicyConfigError)
        return float(cfg.discount_factor), cfg.nstep, cfg.burnin_step

    def _values(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """Return the values ``[T, B, N]`` of all steps. The burn-in is only left out of the loss."""
        output: torch.Tensor = self._run(self._model, batch["obs"], batch["prev_state"])["logit"]
        return output

    def _bootstrap_values(self, batch: Mapping[str, Any], q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if not self._reference_numerics:
            return super()._bootstrap_values(batch, q)
        # DI-engine bootstraps from runs that begin n steps later.
        n = self._nstep
        obs, networks = batch["obs"][n:], (self._target_network.forward, self._model)
        next_q, chooser = (self._run(network, obs, batch["later_memory"])["logit"] for network in networks)
        return torch.cat([q[:n], next_q]), torch.cat([q[:n], chooser])

    def _run(self, network: Callable[[Any], Any], obs: torch.Tensor, state: object) -> Mapping[str, Any]:
        """As :meth:`R2D2Policy._run`, in segments of ``seq_len`` steps; ``next_state`` is the memory."""
        values = []
        for segment in obs.split(self._cfg.seq_len):
            output = super()._run(network, segment, state)
            values.append(output["logit"])
            state = output["next_state"]
        return {"logit": torch.cat(values), "next_state": state}

    def _logged_step(self) -> int:
        return 0

    def _time_first(self, data: Samples, weighted: bool | None = None) -> dict[str, Any]:
        """The sequences of :meth:`R2D2Policy._time_first`. ``prev_state`` is the memory before step 0, ``[layers + 1,
        M, B, hidden]``, or None for an empty one, and ``later_memory`` that before step ``nstep``.
        """
        batch = super()._time_first(data, weighted)
        batch["later_memory"] = self._memory(batch, self._nstep)
        return batch

    def _first_state(self, batch: Mapping[str, Any]) -> torch.Tensor | None:
        return self._memory(batch, 0)

    def _memory(self, batch: Mapping[str, Any], step: int) -> torch.Tensor | None:
        """The memory before step 0 or ``nstep``."""
        if self._cfg.learn.init_memory == "zero":
            return None
        # [B, 2, layers + 1, M, hidden], or with all T steps in the place of the two.
        memory = batch["prev_memory"]
        at: torch.Tensor = memory[:, min(step, 1) if memory.shape[1] == 2 else step]
        return at.permute(1, 2, 0, 3).contiguous()

    def _remembering(self, *networks: Any) -> list[Any]:
        """No wrappers keep the memories of a batch."""
        return [model_wrap(network, wrapper_name="base") for network in networks]

    def _steps_of_sample(self) -> int:
        return int(self._cfg.unroll_len)

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        super()._load_state_dict_learn(with_target(state_dict))

    @batched
    def _forward_collect(self, data: EnvBatch, eps: float) -> EnvBatch:  # type: ignore[override]
        """Epsilon-greedy actions, and ``memory`` before this step: ``[N, layers + 1, M, hidden]``."""
        columns = super()._forward_collect(data, eps).fields
        memory = columns.pop("prev_state")["memory"]
        return EnvBatch.unchecked(data.env_ids, {**columns, "memory": memory})

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """The fields of :meth:`R2D2Policy._process_transition` without ``prev_state``, and with ``init_memory='old'``
        ``prev_memory``, the memory before the step.
        """
        memory = policy_output["memory"]
        transition = super()._process_transition(obs, {**policy_output, "prev_state": memory}, timestep)
        del transition["prev_state"]
        return transition if self._cfg.learn.init_memory == "zero" else {**transition, "prev_memory": memory}

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Sequences of ``unroll_len`` steps with n-step returns: each field ``[T, ...]``, ``prev_memory`` before steps
        0 and ``nstep``, ``null``: whether a step only fills the sequence up, ``learned``: whether it is learned.
        """
        samples, kept = super()._get_train_sample(transitions), [0, self._nstep]
        if self._cfg.learn.init_memory == "zero":
            return samples
        if isinstance(samples, TransitionBatch):
            return samples.with_columns(prev_memory=samples.columns["prev_memory"][:, kept])
        return [{**sample, "prev_memory": sample["prev_memory"][kept]} for sample in samples]
