"""FQF: Q-learning of quantiles at fractions that a network proposes (Yang et al. 2019, arXiv:1911.02140)."""

from collections.abc import Mapping
from itertools import chain
from typing import Any, NamedTuple

import torch
from easydict import EasyDict

from ding.policy._learning.optimization import clipping_adam, clipping_rmsprop
from ding.policy._q_loss import Network, QLoss, double_q_values
from ding.policy.dqn import DQNPolicy
from ding.rl_utils import fqf_calculate_fraction_loss, fqf_nstep_td_data, fqf_nstep_td_error
from ding.utils import POLICY_REGISTRY


class FQFLoss(NamedTuple):
    """What :func:`fqf_loss` returns."""

    #: Of the proposed fractions, and of the quantiles at them; 0-d.
    fraction_loss: torch.Tensor
    quantile_loss: torch.Tensor
    #: Per sample, ``[B]``.
    error: torch.Tensor
    #: Mean of all values, 0-d.
    logit: torch.Tensor


def fqf_loss(
    network: Network,
    target_network: Network,
    batch: Mapping[str, Any],
    gamma: float,
    nstep: int,
    kappa: float,
    ent_coef: float,
) -> FQFLoss:
    """Quantile regression of n-step returns, and the loss of the fractions.

    Args:
        network, target_network: observations to the outputs of ``FQFHead``.
        batch: as for :func:`ding.policy._q_loss.dqn_loss`.
        kappa: threshold of the Huber loss.
        ent_coef: weight of the entropy of the fractions.
    """
    output = network(batch["obs"])
    fraction_loss = fqf_calculate_fraction_loss(
        output["q_tau_i"], output["q"], output["quantiles"], batch["action"]
    ) - ent_coef * output["entropies"].mean()  # fmt: skip
    target, next_action = double_q_values(network, target_network, batch)
    data = fqf_nstep_td_data(
        output["q"], target["q"], batch["action"], next_action, batch["reward"], batch["done"],
        output["quantiles_hats"], batch["weight"],
    )  # fmt: skip
    quantile_loss, error = fqf_nstep_td_error(data, gamma, nstep, kappa, batch.get("value_gamma"))
    return FQFLoss(fraction_loss, quantile_loss, error.detach(), output["logit"].detach().mean())


@POLICY_REGISTRY.register("fqf")
class FQFPolicy(DQNPolicy):
    """Fully parameterised quantiles; the rest is as in :class:`DQNPolicy`. Priorities are the losses of the samples.

    With ``reference_numerics=True`` the value of an action is the plain mean of its quantiles, as in the original API,
    however wide their fractions are.
    """

    config = {
        "type": "fqf",
        "learn": {
            # (float) Learning rates of the network of fractions and of all the rest.
            "learning_rate_fraction": 2.5e-9,
            "learning_rate_quantile": 5e-5,
            # (float) Threshold of the Huber loss.
            "kappa": 1.0,
            # (float) Weight of the entropy of the fractions.
            "ent_coef": 0,
        },
    }

    learn_state = {
        "model": "_learn_model",
        "target_model": "_target_model",
        "optimizer_fraction_loss": "_fraction_optimizer",
        "optimizer_quantile_loss": "_optimizer",
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``fqf`` of :mod:`ding.model.template.q_learning`."""
        return "fqf", ["ding.model.template.q_learning"]

    def _create_model(self, cfg: EasyDict, model: torch.nn.Module | None = None) -> torch.nn.Module:
        made: Any = super()._create_model(cfg, model)
        made.head.weighs_widths = not self._reference_numerics
        return made

    def _init_learn(self) -> None:
        super()._init_learn()
        learn = self._cfg.learn
        head: Any = self._model.head
        self._parts: dict[str, Any] = {
            "quantiles_proposal": head.quantiles_proposal, "Q": head.Q, "fqf_fc": head.fqf_fc,
            "encoder": self._model.encoder,
        }  # fmt: skip
        rest = [part.parameters() for name, part in self._parts.items() if name != "quantiles_proposal"]
        self._fraction_optimizer = clipping_rmsprop(
            head.quantiles_proposal.parameters(),
            learn,
            lr=learn.learning_rate_fraction,
            weight_decay=0.0,
            alpha=0.95,
            eps=1e-5,
        )
        self._optimizer = clipping_adam(
            chain(*rest), learn, lr=learn.learning_rate_quantile, eps=0.01 / learn.batch_size
        )

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update of the fractions and one of the quantiles."""
        result = self._losses(batch)
        # Both losses come from one forward pass, and neither reaches the parameters of the other.
        self._fraction_optimizer.zero_grad()
        self._optimize(result.fraction_loss + result.quantile_loss, self._optimizer, self._model)
        self._fraction_optimizer.step()
        self._target_model.update(self._model)
        numbers = result._asdict()
        priority = {"priority": numbers.pop("error")}
        return {**numbers, **priority, **{f"total_norm_{name}": _grad_norm(part) for name, part in self._parts.items()}}

    def _rates(self) -> dict[str, float]:
        return {
            "cur_lr_fraction_loss": self._fraction_optimizer.param_groups[0]["lr"],
            "cur_lr_quantile_loss": self._optimizer.param_groups[0]["lr"],
        }

    def _losses(self, batch: Mapping[str, Any]) -> FQFLoss:
        learn = self._cfg.learn
        return fqf_loss(
            self._model, self._target_model.forward, batch, self._gamma, self._nstep, learn.kappa, learn.ent_coef
        )

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        result = self._losses(batch)
        return QLoss(result.quantile_loss, result.error, {})

    def _priorities(self, error: torch.Tensor) -> torch.Tensor:
        return error

    def _monitor_vars_learn(self) -> list[str]:
        rates, norms = ["cur_lr_fraction_loss", "cur_lr_quantile_loss"], [f"total_norm_{name}" for name in self._parts]
        return [*rates, "logit", "fraction_loss", "quantile_loss", *norms]


def _grad_norm(module: torch.nn.Module) -> torch.Tensor:
    """The 2-norm of all gradients of a module, 0-d."""
    return torch.stack([p.grad.norm() for p in module.parameters() if p.grad is not None]).norm()
