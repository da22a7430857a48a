"""DQfD: deep Q-learning from demonstrations (Hester et al. 2018, arXiv:1704.03732)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import TransitionBatch, batched
from ding.data.roles import Samples
from ding.policy._demonstration_loss import DemonstrationWeights, dqfd_loss
from ding.policy._learning.optimization import clipping_adam
from ding.policy._q_loss import QLoss
from ding.policy.dqn import DQNPolicy
from ding.torch_utils import Adam
from ding.utils import POLICY_REGISTRY


def demonstration_weights(learn_cfg: Mapping[str, Any]) -> DemonstrationWeights:
    """The weights in a ``learn`` section."""
    one_step = learn_cfg.get("lambda_one_step_td", 1.0)
    return DemonstrationWeights(learn_cfg["lambda1"], learn_cfg["lambda2"], one_step, learn_cfg["margin_function"])


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
        done_1 = torch.zeros_like(batch["done"]) if self._cfg.learn.ignore_done else batch["done_1"].float()
        is_expert = batch.get("is_expert")
        is_expert = torch.zeros_like(batch["done"]) if is_expert is None else is_expert.float()
        return dqfd_loss(
            self._model,
            self._target_model.forward,
            {**batch, "done_1": done_1, "is_expert": is_expert},
            self._gamma,
            self._nstep,
            demonstration_weights(self._cfg.learn),
        )

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
