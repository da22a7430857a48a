"""PPO: proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347), and its relatives by name."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch

from ding.data import batched
from ding.data.roles import Samples, StateDict
from ding.model import model_wrap
from ding.policy._learning.contrast import ContrastParts
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.value_norm import ValueNormPolicy
from ding.policy._ppo_learning import (
    init_ppo_parameters,
    named,
    pretrained_copy,
)
from ding.policy._ppo_loss import PPOLoss, ppo_loss
from ding.policy._ppo_offpolicy import PPOOffPolicy
from ding.policy._ppo_pg import PPOPGPolicy
from ding.policy._samples.segments import as_given
from ding.policy.errors import PolicyUsageError
from ding.rl_utils import gae, gae_data, get_train_sample
from ding.torch_utils import Adam
from ding.utils import POLICY_REGISTRY

__all__ = ["PPOOffPolicy", "PPOPGPolicy", "PPOPolicy", "PPOSTDIMPolicy"]

_FIELDS = ("obs", "action", "logit", "value", "adv", "return", "weight", "logit_pretrained")


@POLICY_REGISTRY.register("ppo")
class PPOPolicy(ValueNormPolicy):
    """On-policy PPO for discrete, continuous and hybrid actions, and for several agents with one critic.

    ``learn.forward`` takes the samples of a collection in order, since advantages are computed anew in each epoch, and
    returns a dict per minibatch.

    ``value_norm`` keeps returns in a unit that follows their spread. Its statistics belong to the learn state; where
    collecting and learning are separate processes, advantages need ``recompute_adv``.
    """

    config = {
        "type": "ppo",
        "on_policy": True,
        # Samples have no priorities here.
        "priority": False,
        "priority_IS_weight": False,
        # (bool) Whether advantages are computed anew, with the newest critic, in each epoch.
        "recompute_adv": True,
        # (str) 'discrete', 'continuous' or 'hybrid'.
        "action_space": "discrete",
        "nstep_return": False,
        # (bool) Whether several agents act: the model is `mavac` then.
        "multi_agent": False,
        "transition_with_policy_data": True,
        "learn": {
            # (int) How often all samples of a collection are gone through.
            "epoch_per_collect": 10,
            "batch_size": 64,
            "learning_rate": 3e-4,
            "value_weight": 0.5,
            "entropy_weight": 0.0,
            "clip_ratio": 0.2,
            # (float or None) Bound of the loss of very bad samples, above 1.
            "dual_clip": None,
            # (bool) Whether advantages are normalised in each minibatch.
            "adv_norm": True,
            # (bool) Whether values are learned in units of the returns' standard deviation.
            "value_norm": True,
            # (bool) Whether to start from orthogonal weights.
            "ppo_param_init": True,
            "grad_clip_type": "clip_norm",
            "grad_clip_value": 0.5,
            # (bool) Whether to bootstrap at the end of an episode too.
            "ignore_done": False,
            # (str) Estimator of the distance to the pretrained policy: 'k1', 'k2' or 'k3'; and its weight.
            "kl_type": "k1",
            "kl_beta": 0.0,
            # (str or None) File of a pretrained policy to stay near to.
            "pretrained_model_path": None,
        },
        "collect": {"unroll_len": 1, "discount_factor": 0.99, "gae_lambda": 0.95},
        "eval": {},
    }

    #: What a minibatch holds, and what is logged of it.
    minibatch_fields: ClassVar[tuple[str, ...]] = _FIELDS
    logged_fields: ClassVar[tuple[str, ...]] = PPOLoss._fields

    _pretrained_model: torch.nn.Module | None = None

    def default_model(self) -> tuple[str, list[str]]:
        """``vac``, or ``mavac`` for several agents."""
        return ("mavac", ["ding.model.template.mavac"]) if self._cfg.multi_agent else super().default_model()

    def _init_learn(self) -> None:
        cfg = self._cfg
        if self._priority or self._priority_IS_weight:
            raise PolicyUsageError("policy.priority: PPO learns from all samples alike; leave it and its weights False")
        self._samplers()
        if cfg.learn.ppo_param_init:
            self._init_parameters()
        self._optimizer = self._make_optimizer()
        self._pretrained_model = pretrained_copy(self._model, cfg.learn.pretrained_model_path)
        self._init_value_norm()
        self._learn_model = model_wrap(self._model, wrapper_name="base")
        self._learn_model.reset()

    def _init_parameters(self) -> None:
        init_ppo_parameters(self._model, reference_numerics=self._reference_numerics)

    def _make_optimizer(self) -> Adam:
        return clipping_adam(self._model.parameters(), self._cfg.learn)

    @batched
    def _forward_learn(self, data: Samples) -> list[dict[str, Any]]:
        """``epoch_per_collect`` epochs over B samples of one collection, in the order in which they were collected.

        Returns:
            Per minibatch ``cur_lr`` and the fields of :class:`PPOLoss`, as floats.
        """
        cfg = self._cfg.learn
        batch = self._tensors(data)
        if self._pretrained_model is not None:
            with torch.no_grad():
                batch["logit_pretrained"] = self._pretrained_model(batch["obs"], mode="compute_actor")["logit"]
        results: list[dict[str, float]] = []
        for _ in range(cfg.epoch_per_collect):
            batch.update(self._returns(batch))
            if not self._model.training:
                self._model.train()
            results += self._run_minibatches(batch, self.minibatch_fields, cfg.batch_size)
        rate = self._optimizer.param_groups[0]["lr"]
        return [{"cur_lr": rate, **numbers} for numbers in results]

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update on a minibatch; returns what :attr:`logged_fields` names."""
        result = ppo_loss(self._actor_critic, batch, self._settings)
        self._optimize(result.total_loss, self._optimizer, self._model)
        return named(result)

    def _returns(self, batch: dict[str, Any]) -> dict[str, torch.Tensor]:
        """``value, adv, return`` for an epoch; values and returns in the unit of ``value_norm``."""
        if self._cfg.recompute_adv:
            value, adv = self._fresh_advantages(self._values, batch, self._value_scale)
        else:
            value, adv = batch["value"], batch["adv"]
        return {"value": value, "adv": adv, "return": self._normed_returns(value, adv)}

    def _fresh_advantages(
        self, values: Callable[[Any], torch.Tensor], batch: Mapping[str, Any], value_scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Values by the newest critic, and advantages in the unit of the rewards; both shaped as the values."""
        value, next_value = values(batch["obs"]), values(batch["next_obs"])
        flag = batch.get("traj_flag")
        data = gae_data(value * value_scale, next_value * value_scale, batch["reward"], batch["done"], flag)
        return value, gae(data, self._cfg.collect.discount_factor, self._cfg.collect.gae_lambda)

    def _monitor_vars_learn(self) -> list[str]:
        continuous = ["act", "mu_mean", "sigma_mean"] if self._cfg.action_space == "continuous" else []
        kl_div = [] if self._pretrained_model is None else ["kl_div"]
        names = [name for name in self.logged_fields if name not in ("kl_div", "act", "mu_mean", "sigma_mean")]
        return ["cur_lr", *names, *kl_div, *continuous]

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """The transitions of segments with ``adv`` and ``traj_flag``."""
        batch = self._with_advantages(transitions, self._value_scale)
        if not self._cfg.recompute_adv and "next_obs" not in self.minibatch_fields:
            batch = batch.without_columns("next_obs")
        return get_train_sample(as_given(batch, transitions), self._unroll_len)


@POLICY_REGISTRY.register("ppo_stdim")
class PPOSTDIMPolicy(PPOPolicy, ContrastParts):
    """PPO whose encoder also learns which observations follow each other (ST-DIM, arXiv:1906.08226)."""

    config = {
        "type": "ppo_stdim",
        # (float) Weight of the contrast in the loss of the network.
        "aux_loss_weight": 0.001,
        # Arguments of ``ContrastiveLoss``.
        "aux_model": {"encode_shape": 64, "heads": [1, 1], "loss_type": "infonce", "temperature": 1.0},
    }
    learn_state = {**PPOPolicy.learn_state, "aux_model": "_aux_model", "aux_optimizer": "_aux_optimizer"}
    minibatch_fields = (*_FIELDS, "next_obs")
    logged_fields = (*PPOLoss._fields, "aux_loss_learn", "aux_loss_eval")

    def _init_learn(self) -> None:
        super()._init_learn()
        self._init_contrast()

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        learned = self._contrast_step(batch)
        result, aux = ppo_loss(self._actor_critic, batch, self._settings), self._weighted_contrast(batch)
        result = result._replace(total_loss=result.total_loss + aux)
        self._optimize(result.total_loss, self._optimizer, self._model)
        return {**named(result), "aux_loss_learn": learned, "aux_loss_eval": aux}

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        super()._load_state_dict_learn(self._with_aux_model(state_dict))
