"""ACER: actor-critic with experience replay (Wang et al. 2017, arXiv:1611.01224)."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.model import model_wrap
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.update import Logs
from ding.policy._samples.sequences import SequencePolicy
from ding.rl_utils.acer import acer_policy_error, acer_trust_region_update, acer_value_error
from ding.rl_utils.policy_dist import action_mask_of
from ding.rl_utils.retrace import compute_q_retraces
from ding.utils import POLICY_REGISTRY
from ding.utils.nested import map_nested

# The logit of a forbidden action: minus infinity would give 0 / 0 in the importance ratios.
_FORBIDDEN = -1e9

Network = Callable[..., Mapping[str, Any]]


class ACERLoss(NamedTuple):
    """What :func:`acer_loss` returns, each 0-d; the first two carry gradients that are used, the others are logged with
    the sign of objectives that are maximised.
    """

    actor_step: torch.Tensor
    critic_loss: torch.Tensor
    actor_loss: torch.Tensor
    bc_loss: torch.Tensor
    policy_loss: torch.Tensor
    entropy_loss: torch.Tensor
    kl_div: torch.Tensor


def acer_loss(
    network: Network,
    average_network: Network,
    batch: Mapping[str, Any],
    settings: Mapping[str, Any],
    reference_numerics: bool = False,
) -> ACERLoss:
    """Truncated importance sampling with bias correction against Retrace values, an entropy bonus, and the projection
    of the policy's gradient onto the trust region around the average policy.

    Args:
        network, average_network: ``(obs, mode)`` to ``logit`` or ``q_value``, both ``[.., N]``.
        batch: time first, see :meth:`SequencePolicy._time_first`; ``action`` int64 ``[T, B]``.
        settings: ``discount_factor, c_clip_ratio, entropy_weight, trust_region, trust_region_value``.
        reference_numerics: leave forbidden actions in the distributions.
    """
    obs, action, goes_on, null = batch["obs"], batch["action"], 1 - batch["done"], batch.get("null")
    mask = None if reference_numerics else action_mask_of(obs)
    flat_obs = map_nested(lambda x: x.flatten(0, 1), obs)

    def log_policy(logit: torch.Tensor, allowed: torch.Tensor | None) -> torch.Tensor:
        """Log-probabilities ``[.., B, N]``."""
        logit = logit.view(-1, action.shape[1], logit.shape[-1])
        return (logit if allowed is None else logit.masked_fill(allowed == 0, _FORBIDDEN)).log_softmax(-1)

    logp = log_policy(network(flat_obs, mode="compute_actor")["logit"], mask)
    q = network(flat_obs, mode="compute_critic")["q_value"].view(logp.shape)
    steps = slice(0, -1)
    with torch.no_grad():
        average = log_policy(average_network(flat_obs, mode="compute_actor")["logit"], mask)[steps]
        ratio = (logp[steps] - log_policy(batch["logit"], None if mask is None else mask[steps])).exp()
        if null is not None:
            # The value of the step that fills a sequence up is the bootstrap value of the one before it.
            ratio = ratio * (1 - null).unsqueeze(-1)
        value = (q * logp.exp()).sum(-1, keepdim=True)
        q_retrace = compute_q_retraces(
            q, value, batch["reward"], action, goes_on, ratio, gamma=settings["discount_factor"]
        )[steps]
        # A step behind the end of an episode does not count.
        weight = torch.cat([torch.ones_like(goes_on[:1]), goes_on[:-1]])
        weight = weight if null is None else weight * (1 - null)
        weight = (weight / weight.sum().clamp(min=1)).unsqueeze(-1)
    q, value, logp = q[steps], value[steps], logp[steps]
    actor, bias = acer_policy_error(q.detach(), q_retrace, value, logp, action, ratio, settings["c_clip_ratio"])
    entropy = -(logp.exp() * logp).sum(-1, keepdim=True)
    objective = (weight * (actor + bias + settings["entropy_weight"] * entropy)).sum()
    (gradient,) = torch.autograd.grad(-objective, logp, retain_graph=True)
    if settings["trust_region"]:
        (gradient,) = acer_trust_region_update([gradient], logp, average, settings["trust_region_value"])
    critic = (weight * acer_value_error(q, q_retrace, action)).sum()
    with torch.no_grad():
        actor, bias = ((weight * term).sum() for term in (actor, bias))
        kl = (weight * (average.exp() * (average - logp)).sum(-1, keepdim=True)).sum()
        entropy = (weight * entropy).sum()
    return ACERLoss((logp * gradient).sum(), critic, actor, bias, objective.detach(), entropy, kl)


@POLICY_REGISTRY.register("acer")
class ACERPolicy(SequencePolicy):
    """Off-policy actor-critic for discrete actions from sequences of ``learn.unroll_len`` steps.

    What fills a short sequence up is not learned, and the value after a time limit is bootstrapped;
    ``reference_numerics=True`` learns all steps and ends at a time limit.
    """

    config = {
        "type": "acer",
        "on_policy": False,
        # Samples have no priorities here.
        "priority": False,
        "priority_IS_weight": False,
        "transition_with_policy_data": True,
        "learn": {
            # (str or None) How gradients of the actor are clipped, and the limit.
            "grad_clip_type": None,
            "clip_value": None,
            "update_per_collect": 4,
            "batch_size": 16,
            # Kept for configs of DI-engine; not used.
            "value_weight": 0.5,
            "lambda_": 0.95,
            "entropy_weight": 0.0001,
            "discount_factor": 0.9,
            # (int) Steps of a train sample.
            "unroll_len": 32,
            # (float) Upper bound of the importance weights.
            "c_clip_ratio": 10,
            # (bool) Whether a step of the policy stays near to the average policy, and how near.
            "trust_region": True,
            "trust_region_value": 1.0,
            "learning_rate_actor": 0.0005,
            "learning_rate_critic": 0.0005,
            # (float) The share by which the average policy moves to the policy at each update.
            "target_theta": 0.01,
            # (bool) Whether to bootstrap at the end of an episode too.
            "ignore_done": False,
        },
        # Kept for configs of DI-engine: `learn` has what is used.
        "collect": {"unroll_len": 32, "discount_factor": 0.9, "gae_lambda": 0.95},
        "eval": {"evaluator": {"eval_freq": 200}},
        "other": {"replay_buffer": {"replay_buffer_size": 1000, "max_use": 16}},
    }
    collect_kwargs = {"mode": "compute_actor"}
    learn_state = {
        "model": "_learn_model",
        "target_model": "_target_model",
        "actor_optimizer": "_optimizer_actor",
        "critic_optimizer": "_optimizer_critic",
    }

    learn_rates = {"cur_actor_lr": "_optimizer_actor", "cur_critic_lr": "_optimizer_critic"}

    def default_model(self) -> tuple[str, list[str]]:
        """``acer`` of :mod:`ding.model.template.acer`."""
        return "acer", ["ding.model.template.acer"]

    def _samplers(self) -> tuple[str, str]:
        return "multinomial_sample", "argmax_sample"

    def _steps_of_sample(self) -> int:
        return int(self._cfg.learn.unroll_len)

    def _init_learn(self) -> None:
        learn, model = self._cfg.learn, self._model
        self._optimizer_actor = clipping_adam(
            model.get_submodule("actor").parameters(), learn, lr=learn.learning_rate_actor
        )
        self._optimizer_critic = clipping_adam(
            model.get_submodule("critic").parameters(), learn, lr=learn.learning_rate_critic, grad_clip_type=None
        )
        self._learn_model = model_wrap(model, wrapper_name="base")
        self._target_model = model_wrap(
            copy.deepcopy(model),
            wrapper_name="target",
            update_type="momentum",
            update_kwargs={"theta": learn.target_theta},
        )

    @batched
    def _forward_learn(self, data: Samples) -> Logs:
        """One update of actor and critic on B sequences, as :meth:`_get_train_sample` makes them (or with a list for
        each field); returns floats.
        """
        return self._learn(data)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        loss = acer_loss(self._model, self._target_model.forward, batch, self._cfg.learn, self._reference_numerics)
        self._optimize(loss.actor_step, self._optimizer_actor, self._model.get_submodule("actor"))
        self._optimize(loss.critic_loss, self._optimizer_critic, self._model.get_submodule("critic"))
        self._target_model.update(self._model)
        numbers = loss._asdict()
        del numbers["actor_step"]
        return numbers

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_actor_lr", "cur_critic_lr", *ACERLoss._fields[1:]]
