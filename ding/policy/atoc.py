"""ATOC: agents that learn when to talk to each other (Jiang and Lu 2018, arXiv:1805.07733)."""

from collections.abc import Mapping
from typing import Any

import torch
from easydict import EasyDict

from ding.data import EnvBatch, TransitionBatch, batched
from ding.data.roles import Samples
from ding.policy._learning.critics import critic_losses, priorities, q_values
from ding.policy._learning.optimization import clipping_adam
from ding.policy._samples.segments import as_given
from ding.policy.common_utils import transition_of
from ding.policy.ddpg import DDPGPolicy
from ding.rl_utils import get_train_sample
from ding.utils import POLICY_REGISTRY, deep_merge_dicts


@POLICY_REGISTRY.register("atoc")
class ATOCPolicy(DDPGPolicy):
    """DDPG of agents that share an actor and a critic and exchange thoughts in groups.

    Observations are float32 ``[A, O]``, actions ``[A, D]`` in [-1, 1], with one reward for all. With
    ``learn.communication`` a transition has ``delta_q`` ``[A]``: what the groups gained, scaled to [0, 1] over the
    segment.
    """

    config = deep_merge_dicts(
        {key: value for key, value in DDPGPolicy.config.items() if key != "random_collect_size"},
        {
            "type": "atoc",
            "random_collect_size": 0,
            "model": {
                # (bool) Whether agents talk.
                "communication": True,
                "thought_size": 8,
                "agent_per_group": 2,
            },
            "learn": {
                "update_per_collect": 5,
                "batch_size": 64,
                "communication": True,
                "noise": True,
                "noise_sigma": 0.15,
                "noise_range": {"min": -0.5, "max": 0.5},
            },
            "collect": {"noise_sigma": 0.4},
            # (int) How often a transition is learned from.
            "other": {"replay_buffer": {"max_use": 10}},
        },
    )

    @classmethod
    def default_config(cls) -> EasyDict:
        """As of DDPG, but for the forms of its actor: this network has one."""
        cfg = super().default_config()
        cfg.model.pop("action_space", None)
        return cfg

    def default_model(self) -> tuple[str, list[str]]:
        """``atoc`` of :mod:`ding.model.template.atoc`."""
        return "atoc", ["ding.model.template.atoc"]

    def _init_learn(self) -> None:
        super()._init_learn()
        learn = self._cfg.learn
        if learn.communication:
            actor: Any = self._model.actor
            self._attention = actor.attention
            rate = learn.learning_rate_actor
            self._optimizer_attention = clipping_adam(self._attention.parameters(), learn, lr=rate)
            # The key of DI-engine.
            self.learn_state = {**self.learn_state, "optimize_actor_attention": "_optimizer_attention"}

    def _update_critic(self, batch: Mapping[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """One step of the critic on ``mean (Q(s, a) - r - discount Q'(s', mu'(s')))^2``, ``Q`` the mean over agents."""
        with torch.no_grad():
            next_action = self._target_model.forward(batch["next_obs"], mode="compute_actor")["action"]
            next_q = q_values(self._target_model.forward, batch["next_obs"], action=next_action).mean(-1)
            target = batch["reward"] + batch["discount"] * batch["not_done"] * next_q
        q = q_values(self._model, batch["obs"], action=batch["action"]).mean(-1)
        (loss,) = critic_losses(q - target, batch["weight"])
        self._optimize(loss, self._optimizer_critic, self._model.critic)
        priority = priorities(q - target, self._reference_numerics)
        return {"critic_loss": loss}, {"priority": priority, "q_value": q.detach().mean()}

    def _update_actor(self, batch: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """One step of the attention, which says when to talk (high where ``delta_q`` is), and one of the actor."""
        losses: dict[str, torch.Tensor] = {}
        if self._cfg.learn.communication:
            output = self._model(batch["obs"], mode="compute_actor")
            data = {"delta_q": batch["delta_q"], **{key: output[key] for key in ("initiator_prob", "is_initiator")}}
            loss = self._model(data, mode="optimize_actor_attention")["loss"]
            self._optimize(loss, self._optimizer_attention, self._attention)
            losses["attention_loss"] = loss
        return {**losses, **super()._update_actor(batch)}

    def _monitor_vars_learn(self) -> list[str]:
        names = ["cur_lr_actor", "cur_lr_critic", "critic_loss", "actor_loss", "total_loss", "q_value"]
        return [*names, "attention_loss"] if self._cfg.learn.communication else names

    @batched
    def _forward_collect(self, data: EnvBatch, **kwargs: Any) -> EnvBatch:  # type: ignore[override]
        """Actions with noise, float32 ``[N, A, D]``, and with communication what
        :meth:`ding.model.template.atoc.ATOC.compute_actor` returns beside them.
        """
        return self._act(self._collect_model, data, mode="compute_actor", get_delta_q=self._talks(), **kwargs)

    def _talks(self) -> bool:
        return bool(self._cfg.model.communication)

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """``obs, next_obs, action, reward, done`` and with communication ``delta_q``."""
        fields = ("action", "delta_q") if self._talks() else ("action",)
        return transition_of(obs, policy_output, timestep, fields, time_limit_is_end=self._reference_numerics)

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """The transitions with ``delta_q`` of each segment scaled to [0, 1], in sequences of ``collect.unroll_len``."""
        if self._talks():
            batch = TransitionBatch.of(transitions)
            transitions = as_given(_scaled(batch), transitions)
        return get_train_sample(transitions, self._unroll_len)


def _scaled(batch: TransitionBatch) -> TransitionBatch:
    gains = torch.as_tensor(batch.columns["delta_q"]).split(batch.segment_lengths().tolist())
    scaled = [(gain - gain.min()) / (gain.max() - gain.min() + 1e-8) for gain in gains]
    return batch.with_columns(delta_q=torch.cat(scaled))
