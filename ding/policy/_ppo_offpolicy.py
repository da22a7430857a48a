"""PPO on samples of a replay buffer."""

from typing import Any

from ding.data import batched
from ding.data.roles import Samples
from ding.model import model_wrap
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.q_values import weighted
from ding.policy._learning.value_norm import ValueNormPolicy
from ding.policy._ppo_learning import init_ppo_parameters, logged
from ding.policy._ppo_loss import normalized, policy_terms, ppo_loss
from ding.policy._samples.segments import as_given
from ding.rl_utils import get_nstep_return_data, get_train_sample
from ding.utils import POLICY_REGISTRY

_LOGGED = (
    *("total_loss", "policy_loss", "value", "value_loss", "entropy_loss", "adv_abs_max", "approx_kl", "clipfrac"),
    *("act", "mu_mean", "sigma_mean"),
)


@POLICY_REGISTRY.register("ppo_offpolicy")
class PPOOffPolicy(ValueNormPolicy):
    """PPO (arXiv:1707.06347) that draws each batch from a replay buffer, for discrete, continuous and hybrid actions.

    Advantages are those of the policy that collected. With ``nstep_return`` the critic learns n-step returns instead.
    """

    config = {
        "type": "ppo_offpolicy",
        "on_policy": False,
        "priority": False,
        "priority_IS_weight": False,
        # (str) 'discrete', 'continuous' or 'hybrid'.
        "action_space": "discrete",
        # (bool) Whether the critic learns n-step returns, of `nstep` steps, and not those of the advantages.
        "nstep_return": False,
        "nstep": 3,
        "transition_with_policy_data": True,
        "learn": {
            # (int) Updates per collection.
            "update_per_collect": 5,
            "batch_size": 64,
            "learning_rate": 0.001,
            "value_weight": 0.5,
            "entropy_weight": 0.01,
            "clip_ratio": 0.2,
            # (float or None) Bound of the loss of very bad samples, above 1.
            "dual_clip": None,
            # (bool) Whether advantages are normalised in each batch.
            "adv_norm": False,
            # (bool) Whether values are learned in units of the returns' standard deviation.
            "value_norm": True,
            # (bool) Whether to start from orthogonal weights.
            "ppo_param_init": True,
            "grad_clip_type": "clip_norm",
            "grad_clip_value": 0.5,
            "weight_decay": 0.0,
            # (bool) Whether to bootstrap at the end of an episode too.
            "ignore_done": False,
        },
        "collect": {"unroll_len": 1, "discount_factor": 0.99, "gae_lambda": 0.95},
        "eval": {},
        "other": {"replay_buffer": {"replay_buffer_size": 10000}},
    }

    def _init_learn(self) -> None:
        cfg = self._cfg
        if cfg.learn.ppo_param_init:
            init_ppo_parameters(self._model, log_sigma=-2.0, reference_numerics=self._reference_numerics)
        self._optimizer = clipping_adam(self._model.parameters(), cfg.learn)
        if cfg.nstep_return:
            self._gamma, self._nstep = float(cfg.collect.discount_factor), cfg.nstep
        self._init_value_norm()
        self._learn_model = model_wrap(self._model, wrapper_name="base")
        self._learn_model.reset()

    @batched
    def _forward_learn(self, data: Samples) -> dict[str, Any]:
        """One update on B samples; returns floats."""
        cfg = self._cfg
        batch = self._learn_batch(data)
        if not self._model.training:
            self._model.train()
        adv_abs_max = batch["adv"].abs().max()
        if cfg.nstep_return:
            numbers = self._nstep_losses(batch)
        else:
            batch["return"] = self._normed_returns(batch["value"], batch["adv"])
            result = ppo_loss(self._actor_critic, batch, self._settings)
            numbers = {**result._asdict(), "value": batch["value"].mean()}
        self._optimize(numbers["total_loss"], self._optimizer, self._model)
        numbers["adv_abs_max"] = adv_abs_max
        (logs,) = logged([tuple(numbers.get(name) for name in _LOGGED)], _LOGGED)
        return {"cur_lr": self._optimizer.param_groups[0]["lr"], **logs}

    def _nstep_losses(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The losses with n-step returns for the critic, whose values are in the unit of the rewards then."""
        cfg = self._cfg
        adv = normalized(batch["adv"]) if cfg.learn.adv_norm else batch["adv"]
        output, next_value = self._actor_critic(batch["obs"]), self._values(batch["next_obs"])
        terms = policy_terms(output["logit"], batch, adv, self._settings)
        target = batch["reward"] + batch["discount"] * batch["not_done"] * next_value
        value_loss = weighted((output["value"] - target).square(), batch["weight"]).mean()
        total = terms.policy_loss + cfg.learn.value_weight * value_loss - cfg.learn.entropy_weight * terms.entropy_loss
        return {**terms._asdict(), "total_loss": total, "value_loss": value_loss, "value": output["value"].mean()}

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", *(_LOGGED if self._cfg.action_space == "continuous" else _LOGGED[:-3])]

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """The transitions of segments with ``adv``; with ``nstep_return`` as n-step data."""
        cfg = self._cfg
        samples = as_given(self._with_advantages(transitions, self._value_scale), transitions)
        if cfg.nstep_return:
            gamma = 0.99 if self._reference_numerics else cfg.collect.discount_factor
            return get_nstep_return_data(samples, cfg.nstep, gamma=gamma, reference_tail=self._reference_numerics)
        return get_train_sample(samples, self._unroll_len)
