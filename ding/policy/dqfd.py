"""DQfD: deep Q-learning from demonstrations (Hester et al. 2018, arXiv:1704.03732)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import TransitionBatch, batched
from ding.data.roles import Samples
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.q_values import QLoss, greedy, mean_of, of_action
from ding.policy.dqn import DQNPolicy
from ding.torch_utils import Adam
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("dqfd")
class DQFDPolicy(DQNPolicy):
    """Q-learning whose replay holds the samples of an expert beside its own, and prefers the expert's actions there.

    ``is_expert`` in a sample is 1 for those of the expert; ``serial_pipeline_dqfd`` sets it. Samples without it are the
    agent's.
    """

    config = {
        "type": "dqfd",
        "priority": True,
        "priority_IS_weight": True,
        "discount_factor": 0.99,
        "nstep": 10,
        "learn": {
            # (float) Weights of the loss of n-step returns and of the large-margin loss, and the weight decay.
            "lambda1": 1.0,
            "lambda2": 1.0,
            "lambda3": 1e-5,
            # (float) By how much the value of the expert's action shall exceed all others.
            "margin_function": 0.8,
            # (int) Updates from the demonstrations alone, before the first collection.
            "per_train_iter_k": 10,
        },
        "collect": {
            # (float) The share of demonstrations in a batch.
            "pho": 0.5,
        },
    }

    optional_keys = {"learn": "expert_replay_buffer_size lambda_one_step_td"}

    def _make_optimizer(self) -> Adam:
        learn = self._cfg.learn
        return clipping_adam(self._model.parameters(), learn, optim_type="adamw", weight_decay=learn.lambda3)

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        """``lambda1 (Q(s, a) - R_n)^2 + (Q(s, a) - R_1)^2 + lambda2 max_b [Q(s, b) + margin(a, b) - Q(s, a)]``, the
        last for samples of the expert; ``R_n`` and ``R_1`` are the double Q-learning targets after n steps and one.
        """
        learn, action = self._cfg.learn, batch["action"]
        after_n = batch["next_obs"], batch["next_action_mask"], batch["reward"], batch["discount"] * batch["not_done"]
        going_on = 1.0 if learn.ignore_done else 1 - batch["done_1"].float()
        obs_1, first_reward = batch["next_obs_1"], batch.get("reward_1", batch["reward"])
        mask_1 = obs_1.get("action_mask") if isinstance(obs_1, Mapping) else None
        q, targets = self._model(batch["obs"])["logit"], []
        with torch.no_grad():
            for next_obs, mask, reward, discount in (after_n, (obs_1, mask_1, first_reward, self._gamma * going_on)):
                next_q = self._target_model.forward(next_obs)["logit"]
                best = greedy(self._model(next_obs)["logit"], mask)
                targets.append(reward + discount * of_action(next_q, best))
        taken = of_action(q, action)
        n_step, one_step = ((taken - target).square() for target in targets)
        handicap = torch.full_like(q, learn.margin_function).scatter_(-1, action.unsqueeze(-1), 0.0)
        margin = batch.get("is_expert", 0.0) * ((q + handicap).amax(-1) - taken)
        one_step_weight = learn.get("lambda_one_step_td", 1.0)
        error = learn.lambda1 * n_step + one_step_weight * one_step + learn.lambda2 * margin
        numbers = {"nstep_loss": n_step.mean(), "1step_loss": one_step.mean(), "sl_loss": margin.mean()}
        priority = error.detach() if self._reference_numerics else error.detach().sqrt()
        means = {"q_value": mean_of(q), "target_q_value": mean_of(next_q)}
        return QLoss((batch["weight"] * error).mean(), priority, {**means, **numbers})

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "nstep_loss", "1step_loss", "sl_loss"]

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """n-step samples, which also keep what followed after one step: ``next_obs_1, done_1``."""
        return super()._get_train_sample(with_one_step(transitions, next_obs="next_obs_1", done="done_1"))


def with_one_step(transitions: Samples, **names: str) -> Samples:
    """The transitions with these fields twice: under their name, and under a name that n-step returns leave alone."""
    if isinstance(transitions, TransitionBatch):
        columns = transitions.columns
        return transitions.with_columns(**{name: columns[field] for field, name in names.items()})
    return [{**one, **{name: one[field] for field, name in names.items()}} for one in transitions]
