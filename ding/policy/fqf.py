"""FQF: Q-learning of quantiles at fractions that a network proposes (Yang et al. 2019, arXiv:1911.02140)."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

import torch
from easydict import EasyDict

from ding.policy._learning.optimization import clipping_adam, clipping_rmsprop
from ding.policy._learning.q_values import QLoss, greedy, mean_of, row_of_action
from ding.policy.dqn import DQNPolicy
from ding.rl_utils import fqf_calculate_fraction_loss, quantile_huber_loss
from ding.torch_utils import Adam
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("fqf")
class FQFPolicy(DQNPolicy):
    """Fully parameterised quantiles; the rest is as in :class:`DQNPolicy`. Priorities are the losses of the samples.

    With ``reference_numerics=True`` the value of an action is the plain mean of its quantiles, as in DI-engine,
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

    learn_rates = {"cur_lr_fraction_loss": "_fraction_optimizer", "cur_lr_quantile_loss": "_optimizer"}

    @classmethod
    def default_config(cls) -> EasyDict:
        """The defaults without ``learn.learning_rate`` of DQN, which is not read here."""
        cfg = super().default_config()
        cfg.learn.pop("learning_rate", None)
        return cfg

    def default_model(self) -> tuple[str, list[str]]:
        """``fqf`` of :mod:`ding.model.template.q_learning`."""
        return "fqf", ["ding.model.template.q_learning"]

    def _create_model(self, cfg: EasyDict, model: torch.nn.Module | None = None) -> torch.nn.Module:
        network = super()._create_model(cfg, model)
        head: Any = network.head
        head.weighs_widths = not self._reference_numerics
        return network

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        head: Any = self._model.head
        self._parts: dict[str, Any] = {
            "quantiles_proposal": head.quantiles_proposal, "Q": head.Q, "fqf_fc": head.fqf_fc,
            "encoder": self._model.encoder,
        }  # fmt: skip
        super()._init_learn()
        self._fraction_optimizer = clipping_rmsprop(
            head.quantiles_proposal.parameters(),
            learn,
            lr=learn.learning_rate_fraction,
            weight_decay=0.0,
            alpha=0.95,
            eps=1e-5,
        )

    def _make_optimizer(self) -> Adam:
        learn = self._cfg.learn
        rest = [part.parameters() for name, part in self._parts.items() if name != "quantiles_proposal"]
        return clipping_adam(chain(*rest), learn, lr=learn.learning_rate_quantile, eps=0.01 / learn.batch_size)

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        """Quantile regression of ``Z_tau(s, a)`` to ``r + discount Z'_tau(s', argmax_a E Z(s', a))``; among its numbers
        ``fraction_loss``, which moves the proposed fractions ``tau``. Neither loss reaches the parameters of the other.
        """
        output, action = self._model(batch["obs"]), batch["action"]
        fraction_loss = fqf_calculate_fraction_loss(output["q_tau_i"], output["q"], output["quantiles"], action)
        with torch.no_grad():
            following = self._target_model.forward(batch["next_obs"])
            best = greedy(self._model(batch["next_obs"])["logit"], batch["next_action_mask"])
            next_quantiles = row_of_action(following["q"].transpose(1, 2), best)
            discount = batch["discount"] * batch["not_done"]
            target = batch["reward"].unsqueeze(-1) + discount.unsqueeze(-1) * next_quantiles
        quantiles = row_of_action(output["q"].transpose(1, 2), action)
        pairs = quantile_huber_loss(quantiles, target, output["quantiles_hats"], self._cfg.learn.kappa)
        error = pairs.sum(1).mean(-1)
        numbers = {
            "fraction_loss": fraction_loss - self._cfg.learn.ent_coef * output["entropies"].mean(),
            "logit": mean_of(output["logit"]),
        }
        return QLoss((batch["weight"] * error).mean(), error.detach(), numbers)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update of the fractions and one of the quantiles, from one forward pass."""
        result = self._loss(batch)
        self._fraction_optimizer.zero_grad()
        self._optimize(result.numbers["fraction_loss"] + result.loss, self._optimizer, self._model)
        self._fraction_optimizer.step()
        self._target_model.update(self._model)
        norms = {f"total_norm_{name}": _grad_norm(part) for name, part in self._parts.items()}
        return {"quantile_loss": result.loss, **result.numbers, "priority": result.priority, **norms}

    def _monitor_vars_learn(self) -> list[str]:
        rates, norms = ["cur_lr_fraction_loss", "cur_lr_quantile_loss"], [f"total_norm_{name}" for name in self._parts]
        return [*rates, "logit", "fraction_loss", "quantile_loss", *norms]


def _grad_norm(module: torch.nn.Module) -> torch.Tensor:
    """The 2-norm of all gradients of a module, 0-d."""
    output: torch.Tensor = torch.stack([p.grad.norm() for p in module.parameters() if p.grad is not None]).norm()
    return output
