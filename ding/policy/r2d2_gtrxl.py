"""R2D2 over a gated transformer-XL: Q-learning from sequences (openreview r1lyTjAqYX) with GTrXL (arXiv:1910.06764)."""

from collections.abc import Mapping
from typing import Any

import torch
from easydict import EasyDict

from ding.data import EnvBatch, TransitionBatch, batched
from ding.data.roles import Samples, StateDict
from ding.model import model_wrap
from ding.policy._learning.loading import with_target
from ding.policy._learning.q_values import Network, greedy
from ding.policy._r2d2_loss import SequenceLoss, first_step_values, learned_and_next, nstep_loss
from ding.policy._samples.learned_steps import at_steps, learned_steps
from ding.policy.errors import PolicyConfigError
from ding.policy.r2d2 import R2D2Policy
from ding.utils import POLICY_REGISTRY
from ding.utils.names import check_choice
from ding.utils.nested import map_nested


def gtrxl_loss(
    network: Network,
    target_network: Network,
    batch: Mapping[str, Any],
    gamma: float,
    nstep: int,
    burnin: int,
    value_rescale: bool,
    segment_len: int,
) -> SequenceLoss:
    """The loss of double Q-learning over sequences of T steps, which the networks run in segments.

    Without the field ``learned`` the steps from ``burnin`` to ``T - nstep`` are, and bootstrap values come from a run
    that begins ``nstep`` steps later, as in the original API.

    Args:
        network, target_network: ``{'obs', 'prev_state'}`` to ``logit`` ``[S, B, actions]`` and ``next_state``.
        batch: as for :func:`ding.policy._r2d2_loss.r2d2_loss`; ``prev_state``: the memories before step 0 and before
            step ``nstep``, each ``[layers + 1, M, B, hidden]``, or None for an empty one.
        segment_len: steps of a segment.
    """
    obs, (memory, later_memory) = batch["obs"], batch["prev_state"]
    steps = learned_steps(batch, nstep, burnin)
    if "learned" in batch:
        with torch.no_grad():
            target_q = at_steps(_run(target_network, obs, memory, segment_len), steps.ahead)
        q, next_action = learned_and_next(_run(network, obs, memory, segment_len), obs, steps)
        return nstep_loss(q, target_q, next_action, batch, steps, gamma, nstep, value_rescale, first=0)
    q = _run(network, map_nested(lambda x: x[: steps.stop], obs), memory, segment_len)
    with torch.no_grad():
        later_obs = map_nested(lambda x: x[nstep:], obs)
        target_q = _run(target_network, later_obs, later_memory, segment_len)
        next_action = greedy(_run(network, later_obs, later_memory, segment_len), None)
    parts = q[burnin:], target_q[burnin:], next_action[burnin:]
    found = nstep_loss(*parts, batch, steps, gamma, nstep, value_rescale, first=burnin)
    # Logged are the values at the very first step.
    return found._replace(numbers=first_step_values(q[0], target_q[0], batch["action"][0]))


def _run(network: Network, obs: torch.Tensor, memory: torch.Tensor | None, segment_len: int) -> torch.Tensor:
    """The values of a sequence, from a memory."""
    values = []
    for segment in obs.split(segment_len):
        output = network({"obs": segment, "prev_state": memory})
        values.append(output["logit"])
        memory = output["next_state"]
    return torch.cat(values)


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
        # (int) Kept for configs of the original API; collectors read ``n_sample``.
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

    def _loss(self, batch: Mapping[str, Any]) -> SequenceLoss:
        return gtrxl_loss(
            self._model,
            self._target_network.forward,
            batch,
            self._gamma,
            self._nstep,
            self._burnin_step,
            self._cfg.learn.value_rescale,
            self._cfg.seq_len,
        )

    def _first_state(self, batch: Mapping[str, Any]) -> Any:
        """The memories before step 0 and before step ``nstep``."""
        if self._cfg.learn.init_memory == "zero":
            return None, None
        # [B, 2, layers + 1, M, hidden], or with all T steps in the place of the two.
        memory = batch["prev_memory"]
        later = 1 if memory.shape[1] == 2 else self._nstep
        return tuple(memory[:, step].permute(1, 2, 0, 3).contiguous() for step in (0, later))

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
        columns: Any = super()._forward_collect(data, eps).columns
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
