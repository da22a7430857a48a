"""Advantage-weighted regression (AWR; Peng et al. 2019, arXiv:1910.00177) for the task of ``prompt_pg``."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F

from ding.data import batched
from ding.data.roles import Samples
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.update import Logs
from ding.policy.ppo import normalized
from ding.policy.prompt_pg import PromptPGPolicy
from ding.rl_utils.policy_dist import Categorical
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("prompt_awr")
class PromptAWRPolicy(PromptPGPolicy):
    """As :class:`~ding.policy.prompt_pg.PromptPGPolicy`, with a critic: a choice is made more likely the more its
    return was above the value of the text.
    """

    config = {
        "type": "prompt_awr",
        "on_policy": True,
        # Samples have no priorities here.
        "priority": False,
        "priority_IS_weight": False,
        # (str) Kept for configs of DI-engine: an action is always numbers of candidates.
        "action_space": "discrete",
        # (int) Number of candidates to choose.
        "shot_number": 1,
        "learn": {
            # Kept for configs of DI-engine; a collection is gone through once.
            "update_per_collect": 1,
            "batch_size": 64,
            "learning_rate": 0.001,
            "betas": (0.9, 0.999),
            "eps": 1e-8,
            # (float) Limit of the 2-norm of the gradient.
            "grad_norm": 0.5,
            # (str or None) How gradients are clipped, and the limit.
            "grad_clip_type": None,
            "grad_clip_value": None,
            "value_weight": 0.5,
            # (float) Temperature: a choice has the weight exp(advantage / beta).
            "beta": 1.0,
            "entropy_weight": 0.001,
            # (tuple) Bounds of the advantages; DI-engine reads them as norm_range, which is read where it is given.
            "adv_range": (-0.5, 0.5),
            # (bool) Whether advantages are normalised in each minibatch.
            "adv_norm": False,
            # Not supported: a return needs the end of the episode.
            "ignore_done": False,
        },
        "collect": {
            "unroll_len": 1,
            "discount_factor": 0.9,
            # Kept for configs of DI-engine; returns are whole sums.
            "gae_lambda": 0.95,
            "collector": {"get_train_sample": True},
        },
        "eval": {},
    }
    optional_keys = {**PromptPGPolicy.optional_keys, "learn": f"{PromptPGPolicy.optional_keys['learn']} norm_range"}
    network_mode = "compute_actor_critic"
    output_fields = ("action", "value")

    def _init_learn(self) -> None:
        super()._init_learn()
        learn = self._cfg.learn
        self._optimizer = clipping_adam(self._model.parameters(), learn, betas=tuple(learn.betas), eps=learn.eps)

    @batched
    def _forward_learn(self, data: Samples) -> Logs:
        """One pass over B samples with ``return`` and ``value``; returns the floats of the last minibatch."""
        logs = super()._forward_learn(data)
        return logs[-1] if isinstance(logs, list) else logs

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update on a minibatch: ``-mean(exp(A / beta) sum_i log pi(a_i | s)) + value_weight mean (R - V(s))^2 -
        entropy_weight H(pi)``, with ``A = R - V_old(s)`` within ``adv_range``.
        """
        learn, return_ = self._cfg.learn, batch["return"]
        output = self._learn_model.forward(batch["texts"], batch["candidates"], mode="compute_actor_critic")
        policy, value = Categorical(output["logit"]), output["value"].squeeze(1)
        adv = return_ - batch["value"]
        if learn.adv_norm and len(adv) > 1:
            adv = normalized(adv)
        adv = adv.clamp(*learn.get("norm_range", learn.adv_range))
        log_prob = policy.log_p.gather(1, batch["action"]).sum(1)
        policy_loss = -(log_prob * (adv / learn.beta).exp()).mean()
        value_loss, value_weight = F.mse_loss(value, return_), learn.value_weight
        if self._reference_numerics:
            # DI-engine compares each return with the values of all texts, and does not read value_weight.
            value_loss, value_weight = (return_ - value.unsqueeze(1)).square().mean(), 1.0
        entropy_loss = -learn.entropy_weight * policy.entropy().mean()
        loss = policy_loss + value_weight * value_loss + entropy_loss
        norm = self._optimize(loss, self._optimizer, self._model, learn.grad_norm)
        assert norm is not None  # there is a limit
        return {
            "total_loss": loss,
            "policy_loss": policy_loss,
            "entropy_loss": entropy_loss,
            "value_loss": value_loss,
            "return_abs_max": return_.abs().max(),
            "grad_norm": norm,
        }

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "value_loss"]
