"""Private attributes of DI-engine's policies, for subclasses that were written for it.

A subclass with a ``_forward_learn`` or ``_get_train_sample`` of its own reads such attributes of the policy beside the
config: ``self._clip_ratio``, ``self._log_alpha``. The policies here do not keep them: they read the config, and call
some parts by other names. :data:`ATTRIBUTES` says where each value is; :func:`original_attribute` looks it up when a
policy is asked for an attribute that it lacks.

* A value is looked up at each access. Optimisers, parameters and timers are the objects themselves and not copies.
* An attribute that a subclass sets is an ordinary one from then on. The methods here go on reading the config:
  :func:`warn_of_unread` names what such a subclass sets in vain.
* Nothing in this package reads an attribute in this way.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import torch
from easydict import EasyDict

from ding.policy._learning.optimization import ReadOnlySchedule
from ding.policy._learning.target_update import num_steps
from ding.policy.errors import PolicyMemberError
from ding.torch_utils.loss import LabelSmoothCELoss
from ding.utils.time_helper import EasyTimer

logger = logging.getLogger(__name__)

Source = str | Callable[[Any], Any]
"""Where a value is: the path of a key in the ``policy`` section of the config, or a function of the policy."""


class Parts(Protocol):
    """What the functions below read of the policies that have them."""

    _cfg: EasyDict
    _model: torch.nn.Module
    _optimizer: torch.optim.Optimizer
    _temperature: Any

    def _steps_of_sample(self) -> int:
        """The length of a sample that is a sequence."""


class Learning(Protocol):
    """What :func:`warn_of_unread` looks at."""

    def _init_learn(self) -> None:
        """The parts of learning."""

    def _forward_learn(self, data: Any) -> Any:
        """One call of learning."""


def _alpha(policy: Parts) -> torch.Tensor:
    """The temperature: the parameter itself where that is what is learned, else its value without gradients."""
    learn = policy._cfg.learn
    return policy._temperature.alpha if learn.auto_alpha and not learn.log_space else policy._temperature.value


def _twin_critic(policy: Parts) -> bool:
    return bool(policy._cfg.model.get("twin_critic", getattr(policy._model, "twin_critic", False)))


def _with_lagrange(policy: Parts) -> bool:
    learn = policy._cfg.learn
    return bool(learn.with_lagrange and learn.lagrange_thresh > 0)


def _lr_scheduler(policy: Parts) -> ReadOnlySchedule:
    if policy._cfg.learn.lr_scheduler is None:
        raise AttributeError("policy.learn.lr_scheduler is None")
    return ReadOnlySchedule(policy._optimizer)


def _cloning_loss(policy: Parts) -> torch.nn.Module:
    if policy._cfg.continuous:
        return torch.nn.L1Loss() if policy._cfg.loss_type == "l1_loss" else torch.nn.MSELoss()
    return LabelSmoothCELoss(0.1) if policy._cfg.learn.ce_label_smooth else torch.nn.CrossEntropyLoss()


def _timer(name: str) -> Source:
    """A timer that is kept: it is read after it has run."""
    return lambda policy: policy.__dict__.setdefault(name, EasyTimer(cuda=policy._cuda))


def _steps_of(optimizer: str) -> Source:
    """The number of updates, which go on from those of a checkpoint."""
    return lambda policy: num_steps(getattr(policy, optimizer))


def _sample_len(policy: Parts) -> int:
    return policy._steps_of_sample()


_SPACE: dict[str, Source] = {"_action_space": "action_space"}
_COLLECT_GAMMA: dict[str, Source] = {"_gamma": "collect.discount_factor"}
_LEARN_GAMMA: dict[str, Source] = {"_gamma": "learn.discount_factor"}
_GAE: dict[str, Source] = {**_COLLECT_GAMMA, "_gae_lambda": "collect.gae_lambda"}
_WEIGHTS: dict[str, Source] = {"_entropy_weight": "learn.entropy_weight", "_value_weight": "learn.value_weight"}
_PPO: dict[str, Source] = {
    **_GAE, **_WEIGHTS, "_clip_ratio": "learn.clip_ratio", "_adv_norm": "learn.adv_norm",
}  # fmt: skip
_ATOMS: dict[str, Source] = {"_v_min": "model.v_min", "_v_max": "model.v_max", "_n_atom": "model.n_atom"}
_RECURRENT: dict[str, Source] = {"_value_rescale": "learn.value_rescale", "_sequence_len": _sample_len}
_DELAYED: dict[str, Source] = {
    "_actor_update_freq": "learn.actor_update_freq", "_forward_learn_cnt": _steps_of("_optimizer_critic"),
    "_reward_batch_norm": "reward_batch_norm", "_twin_critic": _twin_critic,
}  # fmt: skip
_TEMPERATURE: dict[str, Source] = {
    "_alpha": _alpha, "_log_alpha": lambda policy: policy._temperature.log_alpha,
    "_alpha_optim": lambda policy: policy._optimizer_alpha, "_auto_alpha": "learn.auto_alpha",
    "_log_space": "learn.log_space", "_twin_critic": _twin_critic, "_forward_learn_cnt": _steps_of("_optimizer_q"),
}  # fmt: skip

ATTRIBUTES: Mapping[str, Mapping[str, Source]] = {
    "Policy": {"_bp_update_sync": "bp_update_sync"},
    # Values and distributions of values.
    "C51Policy": _ATOMS,
    "IQNPolicy": {"_kappa": "learn.kappa"},
    "FQFPolicy": {
        "_kappa": "learn.kappa", "_ent_coef": "learn.ent_coef",
        "_fraction_loss_optimizer": lambda policy: policy._fraction_optimizer,
        "_quantile_loss_optimizer": lambda policy: policy._optimizer,
    },
    "MDQNPolicy": {"_entropy_tau": "entropy_tau", "_m_alpha": "m_alpha"},
    "SQLPolicy": {"_alpha": "learn.alpha"},
    "DiscreteCQLPolicy": {"_min_q_weight": "learn.min_q_weight"},
    "DQNSTDIMPolicy": {"_aux_loss_weight": "aux_loss_weight"},
    "SQNPolicy": {
        **_LEARN_GAMMA, "_action_shape": "model.action_shape", "_target_entropy": "learn.target_entropy",
        "_log_alpha": lambda policy: policy._temperature.log_alpha, "_forward_learn_cnt": _steps_of("_optimizer_q"),
    },
    # Values of histories.
    "R2D2Policy": _RECURRENT,
    "R2D2CollectTrajPolicy": {"_unroll_len_add_burnin_step": _sample_len},
    "R2D2GTrXLPolicy": {
        "_init_memory": "learn.init_memory", "_seq_len": "seq_len", "_batch_size": "learn.batch_size",
    },
    # Policies and values.
    "PPOPolicy": {
        **_SPACE, **_PPO, "_recompute_adv": "recompute_adv", "_value_norm": "learn.value_norm",
        "_lr_scheduler": _lr_scheduler,
    },
    "PPOOffPolicy": {
        **_SPACE, **_PPO, "_value_norm": "learn.value_norm", "_nstep": "nstep", "_nstep_return": "nstep_return",
    },
    "PPOPGPolicy": {
        **_SPACE, **_COLLECT_GAMMA, "_clip_ratio": "learn.clip_ratio", "_entropy_weight": "learn.entropy_weight",
    },
    "PPOSTDIMPolicy": {"_aux_loss_weight": "aux_loss_weight"},
    "PPGPolicy": {
        **_SPACE, **_PPO, "_value_norm": "learn.value_norm", "_aux_train_epoch": "learn.aux_train_epoch",
        "_aux_bc_weight": "learn.aux_bc_weight",
    },
    "PPGOffPolicy": {
        **_SPACE, **_PPO, "_aux_train_epoch": "learn.aux_train_epoch", "_aux_bc_weight": "learn.aux_bc_weight",
    },
    "HAPPOPolicy": {"_actor_optimizer": lambda policy: policy._optimizer},
    "A2CPolicy": {
        **_SPACE, **_GAE, **_WEIGHTS, "_adv_norm": "learn.adv_norm", "_grad_norm": "learn.grad_norm",
    },
    "PGPolicy": {**_COLLECT_GAMMA, "_entropy_weight": "learn.entropy_weight", "_grad_norm": "learn.grad_norm"},
    "IMPALAPolicy": {
        **_SPACE, **_LEARN_GAMMA, **_WEIGHTS, "_lambda": "learn.lambda_", "_action_shape": "model.action_shape",
        "_rho_clip_ratio": "learn.rho_clip_ratio", "_c_clip_ratio": "learn.c_clip_ratio",
        "_rho_pg_clip_ratio": "learn.rho_pg_clip_ratio", "_unroll_len": "unroll_len",
    },
    "ACERPolicy": {
        **_LEARN_GAMMA, **_WEIGHTS, "_c_clip_ratio": "learn.c_clip_ratio", "_action_shape": "model.action_shape",
        "_use_trust_region": "learn.trust_region", "_trust_region_value": "learn.trust_region_value",
        "_collect_unroll_len": "collect.unroll_len", "_unroll_len": "learn.unroll_len",
    },
    # Actors and Q functions.
    "DDPGPolicy": _DELAYED,
    "D4PGPolicy": {**_ATOMS, "_nstep": "nstep"},
    "TD3BCPolicy": {
        "_alpha": "learn.alpha", "noise_sigma": "learn.noise_sigma", "noise_range": "learn.noise_range",
    },
    "ATOCPolicy": {
        "_communication": "learn.communication",
        "_optimizer_actor_attention": lambda policy: policy._optimizer_attention,
    },
    "SACPolicy": _TEMPERATURE,
    "DiscreteSACPolicy": _TEMPERATURE,
    "SQILSACPolicy": {"_monitor_cos": lambda policy: True, "_monitor_entropy": lambda policy: True},
    "CQLPolicy": {
        "_num_actions": "learn.num_actions", "_min_q_weight": "learn.min_q_weight", "_min_q_version": lambda policy: 3,
        "_with_q_entropy": "learn.with_q_entropy", "_with_lagrange": _with_lagrange,
        "_lagrange_thresh": "learn.lagrange_thresh",
    },
    "EDACPolicy": {"_eta": "learn.eta", "_with_q_entropy": "learn.with_q_entropy"},
    "BCQPolicy": {
        "_nstep": "nstep", "_unroll_len": "collect.unroll_len", "_forward_learn_cnt": _steps_of("_optimizer_q"),
    },
    # Several agents with one value.
    "JointQPolicy": _LEARN_GAMMA,
    "CollaQPolicy": {"_alpha": "learn.collaq_loss_weight"},
    "COMAPolicy": {**_WEIGHTS, "_lambda": "learn.td_lambda", "_policy_weight": "learn.policy_weight"},
    "MADQNPolicy": {"_nstep": "nstep", "_optimizer_current": lambda policy: policy._optimizer},
    "QTRANPolicy": {
        "_td_weight": "learn.td_weight", "_opt_weight": "learn.opt_weight", "_nopt_min_weight": "learn.nopt_min_weight",
    },
    # Imitation.
    "BehaviourCloningPolicy": {"_loss": _cloning_loss, "_timer": _timer("_timer")},
    "IBCPolicy": {
        "_stochastic_optimizer": lambda policy: policy._search, "_timer": _timer("_timer"),
        "_sync_timer": _timer("_sync_timer"),
    },
}  # fmt: skip
"""Class -> attribute -> where its value is; a class has those of its parents, too."""


def attribute_sources(cls: type) -> Iterator[tuple[str, Source]]:
    """The attributes of :data:`ATTRIBUTES` that the instances of a class have, the nearest class first."""
    for parent in cls.__mro__:
        yield from ATTRIBUTES.get(parent.__name__, {}).items()


def original_attribute(policy: object, name: str) -> Any:
    """The value of an attribute that a policy lacks, by :data:`ATTRIBUTES`.

    Raises:
        PolicyMemberError: there is none of that name, or none in a policy of this config (an ``AttributeError``).
    """
    if hasattr(type(policy), name):  # a property whose own error led here
        return object.__getattribute__(policy, name)
    own = vars(policy)
    if not name.startswith("__") and "_cfg" in own:  # a policy that is being copied has no config yet
        for parent in type(policy).__mro__:
            source = ATTRIBUTES.get(parent.__name__, {}).get(name)
            if source is not None:
                try:
                    return _from_config(own["_cfg"], source) if isinstance(source, str) else source(policy)
                except (AttributeError, KeyError) as error:
                    raise PolicyMemberError(type(policy).__name__, name, reason=str(error)) from error
    known = {*own, *(key for key, _ in attribute_sources(type(policy)))}
    raise PolicyMemberError(type(policy).__name__, name, known=tuple(known))


def warn_of_unread(policy: Learning) -> None:
    """Log which attributes a subclass has set to other values than those of the config, although ``_forward_learn`` is
    one of this package, which reads the config.
    """
    if not _is_ours(type(policy)._forward_learn) or _is_ours(type(policy)._init_learn):
        return
    own = vars(policy)
    for name, source in dict(attribute_sources(type(policy))).items():
        if name in own and isinstance(source, str) and own[name] != _from_config(own["_cfg"], source):
            logger.warning(
                "%s sets %s=%r, but its _forward_learn is that of ding and reads policy.%s: set that key, or override "
                "_forward_learn, too",
                type(policy).__name__, name, own[name], source,
            )  # fmt: skip


def _is_ours(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("ding.policy.")


def _from_config(cfg: Mapping[str, Any], path: str) -> Any:
    value: Any = cfg
    for key in path.split("."):
        if key not in value:
            raise KeyError(f"the config has no policy.{path}")
        value = value[key]
    return value
