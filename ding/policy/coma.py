"""COMA: policy gradients whose baseline leaves an agent's own action out (Foerster et al. 2018, arXiv:1705.08926)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch

from ding.data import EnvBatch, TransitionBatch, batched
from ding.data.roles import Samples
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.update import Logs
from ding.policy._samples.joint_sequences import JOINT_Q_CONFIG, JointQPolicy
from ding.policy._samples.learned_steps import completed_sequences
from ding.policy._samples.segments import as_given, marked_real
from ding.rl_utils import coma_data, coma_error
from ding.utils import POLICY_REGISTRY, deep_merge_dicts

# What the logit of a forbidden action is; finite, so that the entropy stays a number.
_FORBIDDEN = -9999999.0

_CONFIG: dict[str, Any] = {
    "type": "coma",
    **deep_merge_dicts(
        JOINT_Q_CONFIG,
        {
            "learn": {
                "target_update_theta": 0.001,
                # (float) Lambda of the returns that the critic learns.
                "td_lambda": 0.8,
                "policy_weight": 0.001,
                "value_weight": 1,
                "entropy_weight": 0.01,
            },
            "collect": {"unroll_len": 20},
        },
    ),
}
for _key in ("clip_value", "double_q"):
    del _CONFIG["learn"][_key]


@POLICY_REGISTRY.register("coma")
class COMAPolicy(JointQPolicy):
    """Recurrent actors and a central critic of lambda returns; the advantage of an action is its value against what the
    agent's policy would get on average, the others' actions being the same.

    The policy that acts and that learns is the softmax of the logits with chance ``1 - eps``, and uniform over the
    allowed actions with chance ``eps``: see :func:`mixed_logit`. A transition keeps its ``eps``. Sequences overlap by
    one step, so that the value of each step is learned. A step that two sequences have is learned from the second one.
    With ``reference_numerics=True`` they do not overlap, and the policy that learns is the softmax alone, as in
    DI-engine.

    ``agent_state`` ends with the agent's last action and its number, both one-hot (see
    :class:`ding.model.template.coma.COMACriticNetwork`).
    """

    config = _CONFIG
    acting_kwargs = {"mode": "compute_actor"}
    output_fields: ClassVar[tuple[str, ...]] = (*JointQPolicy.output_fields, "eps")

    def default_model(self) -> tuple[str, list[str]]:
        """``coma`` of :mod:`ding.model.template.coma`."""
        return "coma", ["ding.model.template.coma"]

    def _make_optimizer(self, network: torch.nn.Module, weight_decay: float = 0.0) -> torch.optim.Optimizer:
        return clipping_adam(network.parameters(), self._cfg.learn, weight_decay=weight_decay)

    def _sampler(self) -> str:
        # DI-engine explores around the best action, whatever the policy gives the others.
        return "eps_greedy_sample" if self._reference_numerics else "eps_greedy_multinomial_sample"

    def _init_collect(self) -> None:
        super()._init_collect()
        if not self._reference_numerics:
            # The value of the last step of a sequence has no target but in the next one, which begins with it.
            self._sequence_overlap = 1

    @batched
    def _forward_collect(self, data: EnvBatch, eps: float) -> EnvBatch:  # type: ignore[override]
        """As :meth:`RecurrentQPolicy._forward_collect`, and ``eps`` float32 ``[N, 1]``."""
        return super()._forward_collect(data, eps=eps).with_columns(eps=torch.full((len(data), 1), float(eps)))

    @batched
    def _forward_learn(self, data: Samples) -> Logs:
        """One update on B sequences.

        Returns:
            Floats: ``cur_lr, total_loss, policy_loss, value_loss, entropy_loss``.
        """
        return self._learn(data)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        loss, numbers = self._loss(batch)
        self._optimize(loss, self._optimizer, self._model)
        self._target_model.update(self._model)
        return {"total_loss": loss, **numbers}

    def _loss(self, batch: Mapping[str, Any]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """``policy_weight L_policy + value_weight L_value - entropy_weight H``, by :func:`~ding.rl_utils.coma_error`:

        * ``L_policy = -mean log pi(u | h) A`` with ``A = Q(s, u) - sum_u' pi(u' | h) Q(s, (u', the others' actions))``;
        * ``L_value = mean (Q(s, u) - R)^2`` with ``R`` the lambda returns of the target network;
        * ``H``: the mean entropy of ``pi``.
        """
        learn, obs, action, mask = self._cfg.learn, batch["obs"], batch["action"], batch["action_mask"]
        judged = {"obs": obs, "action": action}
        logit = self._model({"obs": obs, "prev_state": batch["prev_state"]}, mode="compute_actor")["logit"]
        if mask is not None:
            logit = logit.masked_fill(mask == 0, _FORBIDDEN)
        if "eps" in batch:
            logit = mixed_logit(logit, batch["eps"][..., None, None], mask)
        q = self._model(judged, mode="compute_critic")["q_value"]
        with torch.no_grad():
            target_q = self._target_network.forward(judged, mode="compute_critic")["q_value"]
            target_q = target_q * batch["in_episode"][..., None, None]
        weight, value_weight = (batch[key].unsqueeze(-1).expand_as(action) for key in ("weight", "value_weight"))
        data = coma_data(logit, action, q, target_q, batch["reward"], weight)
        part = coma_error(data, learn.discount_factor, batch["lambda"], value_weight)
        loss = learn.policy_weight * part.policy_loss + learn.value_weight * part.q_value_loss
        numbers = dict(zip(("policy_loss", "value_loss", "entropy_loss"), part))
        return loss - learn.entropy_weight * part.entropy_loss, numbers

    def _learn_batch(self, data: Samples, weighted: bool | None = None) -> dict[str, Any]:
        """Return the fields of :meth:`JointQPolicy._learn_batch`, and

        =====================  ===================================================================================
        ``in_episode``         0 where the episode ended before the step, else 1: ``[T, B]``
        ``lambda``             ``learn.td_lambda``, and 0 where the return of the next step is not known: ``[T, B, 1]``
        ``value_weight``       ``weight``, and 0 where the return is not known: ``[T, B]``
        ``eps``                chance of a random action, ``[T, B]``, if transitions have it
        =====================  ===================================================================================
        """
        if not self._reference_numerics:
            data = completed_sequences(data, nstep=1, burnin=0)
        batch = super()._learn_batch(data, weighted)
        real, done = 1 - batch["null"], batch["done"]
        batch["in_episode"] = torch.cat([real[:1], real[1:] * (1 - done[:-1])])
        # A return is known where the episode ends or goes on within the sequence.
        known = real * torch.cat([torch.maximum(done[:-1], real[1:]), done[-1:]])
        if self._reference_numerics:
            # DI-engine learns no value at the last step, also where the episode ends there; its mean is over
            # the others.
            batch.pop("eps", None)
            known[-1] = 0
        share = len(known) / (len(known) - 1) if self._reference_numerics else 1.0
        batch["value_weight"] = batch["weight"] * known * share
        batch["lambda"] = self._cfg.learn.td_lambda * torch.cat([known[1:], torch.zeros_like(known[:1])]).unsqueeze(-1)
        return batch

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """As :meth:`JointQPolicy._get_train_sample`, and ``learned``: whether the step is learned from this sequence.
        It is not where the next sequence has it, too, and where it only fills up.
        """
        if self._reference_numerics or not len(transitions):
            return super()._get_train_sample(transitions)
        steps = marked_real(TransitionBatch.of(transitions))
        samples = TransitionBatch.of(self._sequences(steps.with_columns(_position=np.arange(len(steps)))))
        columns = dict(samples.columns)
        position = np.asarray(columns.pop("_position"))
        next_start = np.append(position[1:, 0], len(steps))
        is_null = np.asarray(columns["null"]).reshape(position.shape).astype(np.bool_)
        columns["learned"] = (position < next_start[:, None]) & ~is_null
        return as_given(TransitionBatch(columns, lengths=samples.lengths), transitions)

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "policy_loss", "value_loss", "entropy_loss"]


def mixed_logit(logit: torch.Tensor, eps: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Log-probabilities of the softmax of ``logit`` ``[..., N]`` with chance ``1 - eps`` and of a uniformly random
    allowed action with chance ``eps``.

    Without it the loss of an action that is taken at random only, and is worse than the average, grows without bound:
    its logit falls for ever, and the policies are deterministic before the critic has learned which action is good.

    Args:
        logit: of forbidden actions at most -1e6.
        eps: ``[..., 1]``, in ``[0, 1]``.
        mask: 0 for forbidden actions, of the shape of ``logit``; None: all are allowed.
    """
    log_p = logit.log_softmax(-1)
    num_allowed = logit.shape[-1] if mask is None else mask.sum(-1, keepdim=True)
    mixed = torch.logaddexp(log_p + torch.log1p(-eps), (eps / num_allowed).log())
    return mixed if mask is None else mixed.masked_fill(mask == 0, _FORBIDDEN)
