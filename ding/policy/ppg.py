"""PPG: phasic policy gradient (Cobbe et al. 2021, arXiv:2009.04416), on-policy and from replay buffers."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ding.data import TransitionBatch, batched
from ding.data.columns import concat
from ding.data.roles import Samples, StateDict
from ding.model import model_wrap
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.q_values import weighted
from ding.policy._learning.update import read_out
from ding.policy._learning.value_norm import ValueNormPolicy
from ding.policy._samples.segments import as_given, minibatches
from ding.policy.ppo import PPOSettings, normalized, surrogate_of
from ding.rl_utils import get_train_sample, ppo_value_error
from ding.rl_utils.policy_dist import action_mask_of, policy_of, policy_parts
from ding.torch_utils.data_helper import to_device
from ding.utils import POLICY_REGISTRY

__all__ = ["PPGOffPolicy", "PPGPolicy"]

_POLICY_FIELDS = ("obs", "action", "logit", "adv", "weight")
_VALUE_FIELDS = ("obs", "value", "return", "weight")
_KEPT = ("obs", "action", "value", "return", "weight")
_POLICY_NUMBERS = ("policy_loss", "entropy_loss", "approx_kl", "clipfrac", "policy_adv_abs_max")
_AUXILIARY_NUMBERS = ("auxiliary_loss", "behavioral_cloning_loss", "aux_value_loss")


class KeptSamples:
    """Batches of samples that wait for the next auxiliary phase.

    Args:
        device: Where they are when they were restored.
    """

    def __init__(self, device: str | torch.device) -> None:
        self._device = device
        self.batches: list[dict[str, Any]] = []

    def state_dict(self) -> StateDict:
        """The batches on the CPU; there they share memory with these."""
        return {"batches": to_device(self.batches, "cpu")}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.batches = to_device(list(state_dict["batches"]), self._device)


class PhasicPolicy(ValueNormPolicy):
    """The phases of PPG: policy, value, and every ``aux_freq`` learn steps the auxiliary phase over all their samples.

    Advantages and returns follow from the separate critic; ``reference_numerics=True`` takes the policy's own value
    head, which is learned in auxiliary phases only, and clips no gradients. The samples kept for the next auxiliary
    phase, ``kept_samples``, are part of a run's snapshot, but not of a checkpoint, which would grow by collections: a
    run that goes on from the latter begins to keep anew.
    """

    _learns_from_transitions = False

    kept_samples: KeptSamples | None = None
    """None where the policy does not learn."""

    learn_state = {
        "model": "_learn_model",
        "optimizer_ac": "_optimizer_ac",
        "optimizer_aux_critic": "_optimizer_aux_critic",
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``ppg`` of :mod:`ding.model.template.ppg`."""
        return "ppg", ["ding.model.template.ppg"]

    @functools.cached_property
    def _settings(self) -> PPOSettings:
        return PPOSettings.of(self._cfg)

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._samplers()
        clipping = {"grad_clip_type": None} if self._reference_numerics else {}
        self._optimizer_ac = clipping_adam(self._model.get_submodule("actor_critic").parameters(), learn, **clipping)
        self._optimizer_aux_critic = clipping_adam(
            self._model.get_submodule("aux_critic").parameters(), learn, **clipping
        )
        self._kept = self.kept_samples = KeptSamples(self._device)
        self._learn_model = model_wrap(self._model, wrapper_name="base")

    def _policy_step(self, batch: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
        """One update of the policy: the clipped surrogate of PPO with an entropy bonus; returns ``_POLICY_NUMBERS``."""
        settings = self._settings
        adv = normalized(batch["adv"]) if settings.adv_norm else batch["adv"]
        logit = self._model(batch["obs"], mode="compute_actor")["logit"]
        surrogate = surrogate_of(logit, batch, adv, settings)
        loss = surrogate.policy_loss - settings.entropy_weight * surrogate.entropy_loss
        self._optimize(loss, self._optimizer_ac, self._model.get_submodule("actor_critic"))
        return (*surrogate[:2], *surrogate[3:], adv.abs().max())

    def _value_step(self, batch: Mapping[str, Any], value_weight: float = 1.0) -> torch.Tensor:
        """One update of the separate critic on the clipped value loss of PPO; returns its weighted loss."""
        value = self._model(batch["obs"], mode="compute_critic")["value"]
        data = value, batch["value"], batch["return"], batch.get("weight")
        loss = value_weight * ppo_value_error(data, self._settings.clip_ratio)
        self._optimize(loss, self._optimizer_aux_critic, self._model.get_submodule("aux_critic"))
        return loss

    def _auxiliary_step(self, batch: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
        """One update of the auxiliary phase: the value loss of the policy's own value head, ``aux_bc_weight KL(old ||
        new)`` towards the policy before the phase, and a value step; returns ``_AUXILIARY_NUMBERS``.
        """
        output = self._model(batch["obs"], mode="compute_actor_critic")
        mask = None if self._reference_numerics else action_mask_of(batch["obs"])
        new, old = (policy_parts(logit, batch["action"], mask) for logit in (output["logit"], batch["logit"]))
        kl = [policy_of(before).kl_to(policy_of(now)) for (now, _), (before, _) in zip(new, old)]  # type: ignore[arg-type]
        cloning_loss = weighted(torch.stack(kl).sum(0), batch.get("weight")).mean()
        data = output["value"], batch["value"], batch["return"], batch.get("weight")
        # The values of the samples are those of the separate critic, which would hold this head back.
        auxiliary_loss = ppo_value_error(data, self._settings.clip_ratio, use_value_clip=self._reference_numerics)
        loss = auxiliary_loss + self._cfg.learn.aux_bc_weight * cloning_loss
        self._optimize(loss, self._optimizer_ac, self._model.get_submodule("actor_critic"))
        return auxiliary_loss, cloning_loss, self._value_step(batch)

    def _end_of_step(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Keep the samples; the auxiliary phase, when enough were kept; returns the rates and its numbers."""
        learn = self._cfg.learn
        self._kept.batches.append({key: batch[key] for key in _KEPT if batch.get(key) is not None})
        numbers: dict[str, Any] = {
            "policy_cur_lr": self._optimizer_ac.param_groups[0]["lr"],
            "value_cur_lr": self._optimizer_aux_critic.param_groups[0]["lr"],
        }
        if len(self._kept.batches) < learn.aux_freq:
            return numbers
        with torch.no_grad():
            for kept in self._kept.batches:
                kept["logit"] = self._model(kept["obs"], mode="compute_actor")["logit"]
        samples: Any = concat(self._kept.batches)
        self._kept.batches = []
        results = [
            self._auxiliary_step(part)
            for _ in range(learn.aux_train_epoch)
            for part in minibatches(samples, (*_KEPT, "logit"), learn.batch_size)
        ]
        return {**numbers, **_means(results, _AUXILIARY_NUMBERS)}

    def _monitor_vars_learn(self) -> list[str]:
        return ["policy_cur_lr", "value_cur_lr", *_POLICY_NUMBERS, "value_loss", *_AUXILIARY_NUMBERS]

    def _values(self, obs: Any) -> torch.Tensor:
        if self._reference_numerics:
            with torch.no_grad():
                output: torch.Tensor = self._actor_critic(obs)["value"]
                return output
        return super()._values(obs)

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """The transitions of segments with ``value`` of the critic and ``adv``."""
        batch = TransitionBatch.of(transitions)
        if not self._reference_numerics:
            shape = batch.columns["value"].shape
            batch = batch.with_columns(value=self._column_values(batch.columns["obs"]).cpu().reshape(shape))
        batch = self._with_advantages(batch, self._value_scale).without_columns("next_obs", "traj_flag")
        return get_train_sample(as_given(batch, transitions), self._unroll_len)


@POLICY_REGISTRY.register("ppg")
class PPGPolicy(PhasicPolicy):
    """PPG whose phases go through all samples of a collection, for discrete, continuous and hybrid actions."""

    config = {
        "type": "ppg",
        "on_policy": True,
        # Samples have no priorities here.
        "priority": False,
        "priority_IS_weight": False,
        # (str) 'discrete', 'continuous' or 'hybrid'.
        "action_space": "discrete",
        "learn": {
            # (int) How often the policy phase and the value phase go through the samples of a collection.
            "actor_epoch_per_collect": 1,
            "critic_epoch_per_collect": 1,
            "batch_size": 64,
            "learning_rate": 0.001,
            "value_weight": 0.5,
            "entropy_weight": 0.01,
            "clip_ratio": 0.2,
            # (bool) Whether values are learned in units of the returns' standard deviation.
            "value_norm": False,
            # (bool) Whether advantages are normalised in each minibatch.
            "adv_norm": False,
            # (int) Collections from one auxiliary phase to the next, its epochs, and the weight of the divergence.
            "aux_freq": 8,
            "aux_train_epoch": 6,
            "aux_bc_weight": 1,
            "grad_clip_type": "clip_norm",
            "grad_clip_value": 10,
            # (bool) Whether to bootstrap at the end of an episode too.
            "ignore_done": False,
        },
        "collect": {"unroll_len": 1, "discount_factor": 0.99, "gae_lambda": 0.95},
        "eval": {},
    }

    def _init_learn(self) -> None:
        super()._init_learn()
        self._init_value_norm()

    @batched
    def _forward_learn(self, data: Samples) -> dict[str, Any]:
        """The policy phase and the value phase on B samples of one collection; returns means over their minibatches,
        as floats.
        """
        learn = self._cfg.learn
        batch = self._learn_batch(data)
        batch["return"] = self._in_unit(batch["value"] * self._value_scale + batch["adv"], self._running_mean_std)
        if not self._model.training:
            self._model.train()
        policy, value = [], []
        for _ in range(learn.actor_epoch_per_collect):
            policy += [self._policy_step(part) for part in minibatches(batch, _POLICY_FIELDS, learn.batch_size)]
        for _ in range(learn.critic_epoch_per_collect):
            parts = minibatches(batch, _VALUE_FIELDS, learn.batch_size)
            value += [(self._value_step(part, learn.value_weight),) for part in parts]
        numbers = {**_means(policy, _POLICY_NUMBERS), **_means(value, ("value_loss",))}
        return {**numbers, **self._end_of_step(batch)}


@POLICY_REGISTRY.register("ppg_offpolicy")
class PPGOffPolicy(PhasicPolicy):
    """PPG that draws the batches of the policy phase and of the value phase from a replay buffer each, ``policy`` and
    ``value``.
    """

    config = {
        "type": "ppg_offpolicy",
        "on_policy": False,
        # Samples have no priorities here.
        "priority": False,
        "priority_IS_weight": False,
        # (str) 'discrete', 'continuous' or 'hybrid'.
        "action_space": "discrete",
        "transition_with_policy_data": True,
        "learn": {
            # (int) Updates per collection.
            "update_per_collect": 5,
            "batch_size": 64,
            "learning_rate": 0.001,
            "value_weight": 0.5,
            "entropy_weight": 0.01,
            "clip_ratio": 0.2,
            # (bool) Whether advantages are normalised in each batch.
            "adv_norm": False,
            # (int) Updates from one auxiliary phase to the next, its epochs, and the weight of the divergence.
            "aux_freq": 5,
            "aux_train_epoch": 6,
            "aux_bc_weight": 1,
            # (bool) Whether to bootstrap at the end of an episode too.
            "ignore_done": False,
        },
        "collect": {"unroll_len": 1, "discount_factor": 0.99, "gae_lambda": 0.95},
        "eval": {},
        "other": {
            "replay_buffer": {
                "multi_buffer": True,
                "policy": {"replay_buffer_size": 1000},
                "value": {"replay_buffer_size": 1000},
            },
        },
    }

    def _get_batch_size(self) -> dict[str, int]:
        """Attribute ``batch_size``: samples that a learn step takes from each buffer."""
        return dict.fromkeys(("policy", "value"), self._setting("batch_size", "learn"))

    @batched
    def _forward_learn(self, data: Any) -> dict[str, Any]:
        """One update of policy and critic, from ``{'policy': samples, 'value': samples}`` of B each; returns floats."""
        policy_batch, value_batch = (self._learn_batch(data[name]) for name in ("policy", "value"))
        value_batch["return"] = value_batch["value"] + value_batch["adv"]
        if not self._model.training:
            self._model.train()
        numbers = dict(zip(_POLICY_NUMBERS, self._policy_step(policy_batch)))
        numbers["value_loss"] = self._value_step(value_batch, self._cfg.learn.value_weight)
        numbers["total_loss"] = (
            numbers["policy_loss"] - self._settings.entropy_weight * numbers["entropy_loss"] + numbers["value_loss"]
        )
        return {**read_out(numbers), **self._end_of_step(value_batch)}


def _means(results: Sequence[tuple[torch.Tensor, ...]], names: Sequence[str]) -> dict[str, float]:
    """The means of the results of minibatches, by name."""
    return read_out(dict(zip(names, torch.stack([torch.stack(row) for row in results]).detach().mean(0))))
