"""COMA: policy gradients whose baseline leaves an agent's own action out (Foerster et al. 2018, arXiv:1705.08926)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from ding.data import EnvBatch, batched
from ding.data.roles import Samples
from ding.policy._joint_q import JOINT_Q_CONFIG, JointNetwork, JointQPolicy
from ding.policy._learning.optimization import clipping_adam
from ding.policy.common_utils import read_out
from ding.rl_utils import coma_data, coma_error, coma_loss
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
    one step, so that the value of each step is learned. With ``reference_numerics=True`` they do not, and the policy
    that learns is the softmax alone, as in the original API.

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
        # The original API explores around the best action, whatever the policy gives the others.
        return "eps_greedy_sample" if self._reference_numerics else "eps_greedy_multinomial_sample"

    def _init_collect(self) -> None:
        super()._init_collect()
        if not self._reference_numerics:
            # The value of the last step of a sequence has no target but in the next one, which begins with it.
            self._sequence_overlap = 1

    @batched
    def _forward_collect(self, data: EnvBatch, eps: float) -> EnvBatch:  # type: ignore[override]
        """As :meth:`RecurrentQPolicy._forward_collect`, and ``eps`` float32 ``[N, 1]``."""
        columns: Any = super()._forward_collect(data, eps=eps).columns
        return EnvBatch.unchecked(data.env_ids, {**columns, "eps": torch.full((len(data), 1), float(eps))})

    @batched
    def _forward_learn(self, data: Samples) -> dict[str, Any]:
        """One update on B sequences.

        Returns:
            Floats: ``cur_lr, total_loss, policy_loss, value_loss, entropy_loss``.
        """
        batch = self._time_first(data)
        if self._reference_numerics:
            batch.pop("eps", None)
        learn = self._cfg.learn
        self._model.train()
        part = coma_losses(
            self._model,
            self._target_network.forward,
            batch,
            learn.discount_factor,
            learn.td_lambda,
            self._reference_numerics,
        )
        total = (
            learn.policy_weight * part.policy_loss
            + learn.value_weight * part.q_value_loss
            - learn.entropy_weight * part.entropy_loss
        )
        self._optimize(total, self._optimizer, self._model)
        self._target_model.update(self._model)
        names = ("policy_loss", "value_loss", "entropy_loss")
        numbers = read_out({"total_loss": total, **dict(zip(names, part))})
        return {"cur_lr": self._optimizer.param_groups[0]["lr"], **numbers}

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "policy_loss", "value_loss", "entropy_loss"]


def coma_losses(
    network: JointNetwork,
    target_network: JointNetwork,
    batch: Mapping[str, Any],
    gamma: float,
    lambda_: float,
    reference_numerics: bool = False,
) -> coma_loss:
    """Policy, action value and entropy losses over sequences of T steps, without values after the end of an episode.

    Args:
        network, target_network: see :class:`ding.model.COMA`.
        batch: see ``JointQPolicy._time_first``; optionally ``eps`` ``[T, B]``, the chance of a random action there.
        reference_numerics: learn no value at the last step of a sequence, also where the episode ends there.
    """
    obs, action = batch["obs"], batch["action"]
    acted = network({"obs": obs, "prev_state": batch["prev_state"]}, mode="compute_actor")
    logit, mask = acted["logit"], obs.get("action_mask")
    if mask is not None:
        logit = logit.masked_fill(mask == 0, _FORBIDDEN)
    if "eps" in batch:
        logit = mixed_logit(logit, batch["eps"][..., None, None], mask)
    judged = {"obs": obs, "action": action}
    q_value = network(judged, mode="compute_critic")["q_value"]
    real, done = 1 - batch["null"], batch["done"]
    # A return is known where the episode ends or goes on within the sequence.
    known = real * torch.cat([torch.maximum(done[:-1], real[1:]), done[-1:]])
    with torch.no_grad():
        target_q = target_network(judged, mode="compute_critic")["q_value"]
        target_q[1:] *= (real[1:] * (1 - done[:-1]))[..., None, None]
    weight = (batch["weight"] * real).unsqueeze(-1).expand_as(action)
    data = coma_data(logit, action, q_value, target_q, batch["reward"], weight)
    if reference_numerics:
        return coma_error(data, gamma, lambda_)
    next_known = torch.cat([known[1:], torch.zeros_like(known[:1])]).unsqueeze(-1)
    return coma_error(data, gamma, lambda_ * next_known, weight * known.unsqueeze(-1))


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
