"""PPO: proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347), with an auxiliary contrast, with a replay
buffer, and without a critic.
"""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch

from ding.data import batched
from ding.data.roles import Samples, StateDict
from ding.model import model_wrap
from ding.policy._acting.episode import EpisodePolicy
from ding.policy._learning.contrast import ContrastParts
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.ppo_parameters import init_ppo_parameters, pretrained_copy
from ding.policy._learning.ppo_settings import PPOSettings as PPOSettings
from ding.policy._learning.ppo_settings import moved_means
from ding.policy._learning.q_values import weighted
from ding.policy._learning.value_norm import ValueNormPolicy
from ding.policy._samples.histories import Network
from ding.policy._samples.segments import as_given
from ding.policy.errors import PolicyConfigError, PolicyUsageError
from ding.rl_utils import gae, gae_data, get_nstep_return_data, get_train_sample
from ding.rl_utils.policy_dist import action_mask_of
from ding.rl_utils.surrogate import Surrogate, surrogate_loss
from ding.torch_utils import Adam
from ding.utils import POLICY_REGISTRY

_FIELDS = ("obs", "action", "logit", "value", "adv", "return", "weight", "logit_pretrained")
_OFF_LOGGED = (
    *("total_loss", "policy_loss", "value", "value_loss", "entropy_loss", "adv_abs_max", "approx_kl", "clipfrac"),
    *("act", "mu_mean", "sigma_mean"),
)
_PG_FIELDS = ("obs", "action", "logit", "return", "weight")
_PG_LOGGED = ("total_loss", "policy_loss", "entropy_loss", "approx_kl", "clipfrac")


class PPOLoss(NamedTuple):
    """What :func:`ppo_loss` returns; each 0-d, only ``total_loss`` carries gradients that are used."""

    total_loss: torch.Tensor
    policy_loss: torch.Tensor
    value_loss: torch.Tensor
    entropy_loss: torch.Tensor
    #: Of the advantages as the loss takes them.
    adv_max: torch.Tensor
    adv_mean: torch.Tensor
    value_mean: torch.Tensor
    value_max: torch.Tensor
    approx_kl: torch.Tensor
    clipfrac: torch.Tensor
    kl_div: torch.Tensor
    #: Means over the batch, for continuous actions.
    act: torch.Tensor | None = None
    mu_mean: torch.Tensor | None = None
    sigma_mean: torch.Tensor | None = None

    def numbers(self) -> dict[str, torch.Tensor]:
        """Return the fields by name, to log."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def normalized(adv: torch.Tensor) -> torch.Tensor:
    """Advantages with mean 0 and standard deviation 1."""
    return (adv - adv.mean()) / (adv.std() + 1e-8)


def surrogate_of(logit: Any, batch: Mapping[str, Any], adv: torch.Tensor, settings: PPOSettings) -> Surrogate:
    """The clipped surrogate of the policy ``logit``, with its entropy: :func:`ding.rl_utils.surrogate_loss`.

    Args:
        batch: ``obs, action, logit`` (of the policy that collected); optional ``weight, logit_pretrained``.
        adv: ``[B]`` (``[B, agents]``).
    """
    if settings.rpo_alpha:
        logit = moved_means(logit, settings.rpo_alpha)
    return surrogate_loss(
        logit, batch["logit"], batch["action"], adv, batch.get("weight"), settings.clip_ratio, settings.dual_clip,
        dual_clip_both_signs=settings.reference_numerics,
        action_mask=None if settings.reference_numerics else action_mask_of(batch["obs"]),
        pretrained=batch.get("logit_pretrained"), kl_type=settings.kl_type,
    )  # fmt: skip


def ppo_loss(network: Network, batch: Mapping[str, Any], settings: PPOSettings) -> PPOLoss:
    """Clipped surrogate, clipped value loss, entropy bonus and distance to a pretrained policy.

    Args:
        network: observations to ``logit`` and ``value`` ``[B]``.
        batch: ``obs, action``; of the policy that collected ``logit``; ``value, adv, return`` ``[B]`` (each
            ``[B, agents]`` for several); optional ``weight`` ``[B]``, ``logit_pretrained``, and ``factor`` ``[B]``, a
            positive number that multiplies the surrogate (HAPPO).
    """
    output, weight = network(batch["obs"]), batch.get("weight")
    logit, value, old_value, return_ = output["logit"], output["value"], batch["value"], batch["return"]
    adv = normalized(batch["adv"]) if settings.adv_norm else batch["adv"]
    surrogate = surrogate_of(logit, batch, adv * batch["factor"] if "factor" in batch else adv, settings)
    clipped = old_value + (value - old_value).clamp(-settings.clip_ratio, settings.clip_ratio)
    value_error = torch.max((return_ - value).square(), (return_ - clipped).square())
    value_loss = 0.5 * weighted(value_error, weight).mean()
    total = (
        surrogate.policy_loss
        + settings.value_weight * value_loss
        - settings.entropy_weight * surrogate.entropy_loss
        + settings.kl_beta * surrogate.kl_div
    )
    with torch.no_grad():
        statistics = (adv.max(), adv.mean(), value.mean(), value.max())
        continuous: tuple[torch.Tensor, ...] = ()
        if isinstance(logit, Mapping) and "mu" in logit:
            continuous = (batch["action"].float().mean(), logit["mu"].mean(), logit["sigma"].mean())
    policy_loss, entropy_loss, kl_div, approx_kl, clipfrac = surrogate
    return PPOLoss(total, policy_loss, value_loss, entropy_loss, *statistics, approx_kl, clipfrac, kl_div, *continuous)


@POLICY_REGISTRY.register("ppo")
class PPOPolicy(ValueNormPolicy):
    """On-policy PPO for discrete, continuous and hybrid actions, and for several agents with one critic.

    ``learn.forward`` takes the samples of a collection in order, since advantages are computed anew in each epoch, and
    returns a dict per minibatch.

    ``value_norm`` keeps returns in a unit that follows their spread. Its statistics belong to the learn state; where
    collecting and learning are separate processes, advantages need ``recompute_adv``.

    With ``recurrent`` policy and values depend on all observations of an episode; see
    :class:`~ding.policy._samples.histories.Histories`. Of a minibatch of ``batch_size`` steps all steps of a sequence
    are part.
    """

    _learns_from_transitions = False
    may_be_recurrent = True

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
        # (bool) Whether the network has a state: the model is `recurrent_vac` then. collect.env_num and eval.env_num
        # are needed.
        "recurrent": False,
        # (int) Steps of the sequences that a recurrent network learns from.
        "learn_unroll_len": 32,
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
            # (float) Uniform noise on the means of continuous actions in an update (RPO, arXiv:2212.07536).
            "rpo_alpha": 0.0,
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
        "collect": {"unroll_len": 1, "discount_factor": 0.99, "gae_lambda": 0.95, "env_num": None},
        "eval": {"env_num": None},
    }

    #: What a minibatch holds, and what is logged of it.
    minibatch_fields: ClassVar[tuple[str, ...]] = _FIELDS
    logged_fields: ClassVar[tuple[str, ...]] = PPOLoss._fields

    _pretrained_model: torch.nn.Module | None = None

    def default_model(self) -> tuple[str, list[str]]:
        """``vac``, ``mavac`` for several agents, or ``recurrent_vac``."""
        if self._cfg.get("recurrent", False):
            return "recurrent_vac", ["ding.model.template.recurrent_vac"]
        return ("mavac", ["ding.model.template.mavac"]) if self._cfg.multi_agent else super().default_model()

    @functools.cached_property
    def _settings(self) -> PPOSettings:
        return PPOSettings.of(self._cfg)

    def _init_learn(self) -> None:
        cfg = self._cfg
        if self._priority or self._priority_IS_weight:
            raise PolicyUsageError("policy.priority: PPO learns from all samples alike; leave it and its weights False")
        if "multinomial_sample" in self._samplers() and cfg.learn.rpo_alpha:
            raise PolicyConfigError("policy.learn.rpo_alpha: discrete actions have no means to move; leave it 0")
        if cfg.learn.ppo_param_init:
            self._init_parameters()
        self._optimizer = self._make_optimizer()
        if self._histories is not None and cfg.learn.pretrained_model_path is not None:
            raise PolicyConfigError(
                "policy.learn.pretrained_model_path: a recurrent policy cannot stay near another one"
            )
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
        batch = self._learn_batch(data)
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
        network: Network = self._actor_critic
        if self._histories is not None:  # sequences, unrolled
            network, batch = self._histories.unrolled(batch)
        result = ppo_loss(network, batch, self._settings)
        self._optimize(result.total_loss, self._optimizer, self._model)
        return result.numbers()

    def _returns(self, batch: dict[str, Any]) -> dict[str, torch.Tensor]:
        """``value, adv, return`` for an epoch; values and returns in the unit of ``value_norm``."""
        scale, value, adv = self._value_scale, batch["value"], batch["adv"]
        if self._cfg.recompute_adv:
            if self._histories is None:
                values = self._values(batch["obs"]), self._values(batch["next_obs"])
            else:
                values = self._histories.values(batch)
            value, adv = self._fresh_advantages(*values, batch, scale)
        return {"value": value, "adv": adv, "return": self._in_unit(value * scale + adv, self._running_mean_std)}

    def _fresh_advantages(
        self, value: torch.Tensor, next_value: torch.Tensor, batch: Mapping[str, Any], value_scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The values, and advantages in the unit of the rewards; both shaped as the values."""
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
        network: Network = self._actor_critic
        if self._histories is not None:  # sequences, unrolled
            network, batch = self._histories.unrolled(batch)
        learned = self._contrast_step(batch)
        result, aux = ppo_loss(network, batch, self._settings), self._weighted_contrast(batch)
        result = result._replace(total_loss=result.total_loss + aux)
        self._optimize(result.total_loss, self._optimizer, self._model)
        return {**result.numbers(), "aux_loss_learn": learned, "aux_loss_eval": aux}

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        super()._load_state_dict_learn(self._with_aux_model(state_dict))


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

    @functools.cached_property
    def _settings(self) -> PPOSettings:
        return PPOSettings.of(self._cfg)

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
        batch = self._learn_batch(data)
        if not self._cfg.nstep_return:
            returns = batch["value"] * self._value_scale + batch["adv"]
            batch["return"] = self._in_unit(returns, self._running_mean_std)
        if not self._model.training:
            self._model.train()
        (numbers,) = self._compiled_updates.run(batch, [{}])
        return {"cur_lr": self._optimizer.param_groups[0]["lr"], **numbers}

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        if self._cfg.nstep_return:
            numbers = self._nstep_loss(batch)
        else:
            found = ppo_loss(self._actor_critic, batch, self._settings).numbers()
            numbers = {**found, "value": batch["value"].mean()}
        self._optimize(numbers["total_loss"], self._optimizer, self._model)
        numbers["adv_abs_max"] = batch["adv"].abs().max()
        return {name: numbers[name] for name in _OFF_LOGGED if name in numbers}

    def _nstep_loss(self, batch: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """:func:`ppo_loss` with ``mean (V(s) - r - discount V(s'))^2`` for the critic, whose values are in the unit of
        the rewards then.
        """
        settings = self._settings
        adv = normalized(batch["adv"]) if settings.adv_norm else batch["adv"]
        output, next_value = self._actor_critic(batch["obs"]), self._values(batch["next_obs"])
        target = batch["reward"] + batch["discount"] * batch["not_done"] * next_value
        value_loss = weighted((output["value"] - target).square(), batch["weight"]).mean()
        surrogate = surrogate_of(output["logit"], batch, adv, settings)
        total = (
            surrogate.policy_loss
            + settings.value_weight * value_loss
            - settings.entropy_weight * surrogate.entropy_loss
        )
        losses = {"total_loss": total, "value_loss": value_loss, "value": output["value"].mean()}
        return {**surrogate._asdict(), **losses}

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", *(_OFF_LOGGED if self._cfg.action_space == "continuous" else _OFF_LOGGED[:-3])]

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """The transitions of segments with ``adv``; with ``nstep_return`` as n-step data."""
        cfg = self._cfg
        samples = as_given(self._with_advantages(transitions, self._value_scale), transitions)
        if cfg.nstep_return:
            gamma = 0.99 if self._reference_numerics else cfg.collect.discount_factor
            return get_nstep_return_data(samples, cfg.nstep, gamma=gamma, reference_tail=self._reference_numerics)
        return get_train_sample(samples, self._unroll_len)


@POLICY_REGISTRY.register("ppo_pg")
class PPOPGPolicy(EpisodePolicy):
    """PPO (arXiv:1707.06347) with the returns of whole episodes in the place of advantages."""

    config = {
        "type": "ppo_pg",
        "on_policy": True,
        # (str) 'discrete', 'continuous' or 'hybrid'.
        "action_space": "discrete",
        "multi_agent": False,
        "transition_with_policy_data": True,
        "learn": {
            # (int) How often all samples of a collection are gone through.
            "epoch_per_collect": 10,
            "batch_size": 64,
            "learning_rate": 3e-4,
            "entropy_weight": 0.0,
            "clip_ratio": 0.2,
            # (bool) Whether to start from orthogonal weights.
            "ppo_param_init": True,
            "grad_clip_type": "clip_norm",
            "grad_clip_value": 0.5,
            # Not supported: a return needs the end of the episode.
            "ignore_done": False,
        },
        "collect": {"unroll_len": 1, "discount_factor": 0.99},
        "eval": {},
    }
    output_fields = ("action", "logit")

    def _init_learn(self) -> None:
        if self._cfg.learn.ppo_param_init:
            init_ppo_parameters(self._model)
        self._optimizer = clipping_adam(self._model.parameters(), self._cfg.learn)
        self._learn_model = self._model

    @batched
    def _forward_learn(self, data: Samples) -> list[dict[str, Any]]:
        """``epoch_per_collect`` epochs over B samples with ``return``; returns a dict of floats per minibatch."""
        cfg, batch = self._cfg.learn, self._learn_batch(data)
        if not self._model.training:
            self._model.train()
        logs = [
            log
            for _ in range(cfg.epoch_per_collect)
            for log in self._run_minibatches(batch, _PG_FIELDS, cfg.batch_size)
        ]
        return [{"cur_lr": self._optimizer.param_groups[0]["lr"], **log} for log in logs]

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update on a minibatch: the surrogate of returns, and the entropy bonus."""
        logit, settings = self._model(batch["obs"])["logit"], PPOSettings.of(self._cfg)
        surrogate = surrogate_of(logit, batch, batch["return"], settings)
        loss = surrogate.policy_loss - settings.entropy_weight * surrogate.entropy_loss
        self._optimize(loss, self._optimizer, self._model)
        numbers = surrogate._asdict()
        return {"total_loss": loss, **{name: numbers[name] for name in _PG_LOGGED[1:]}}

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", *_PG_LOGGED]
