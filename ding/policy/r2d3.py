"""R2D3: recurrent replay distributed Q-learning from demonstrations (Paine et al. 2019, arXiv:1909.01387)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.data.sequences import stacked_sequence
from ding.policy._demonstration_loss import demonstration_weights, r2d3_loss
from ding.policy._learning.optimization import clipping_adam
from ding.policy._r2d2_loss import SequenceLoss
from ding.policy._samples.learned_steps import with_learned
from ding.policy.dqfd import with_one_step
from ding.policy.r2d2 import R2D2Policy
from ding.torch_utils import Adam
from ding.utils import POLICY_REGISTRY
from ding.utils.nested import map_nested


@POLICY_REGISTRY.register("r2d3")
class R2D3Policy(R2D2Policy):
    """R2D2 whose replay holds the sequences of an expert beside its own, and prefers the expert's actions there.

    ``is_expert`` in a sample is a list of 1 or 0, one for each step; ``serial_pipeline_r2d3`` sets it. Samples without
    it are the agent's.
    """

    config = {
        "type": "r2d3",
        "burnin_step": 2,
        "learn": {
            # (float) Weights of the losses of n-step returns, of the large-margin loss and of one-step returns, and the
            # weight decay.
            "lambda1": 1.0,
            "lambda2": 1.0,
            "lambda3": 1e-5,
            "lambda_one_step_td": 1.0,
            # (float) By how much the value of the expert's action shall exceed all others.
            "margin_function": 0.8,
        },
        "collect": {
            # (float) The share of demonstrations in a batch.
            "pho": 0.25,
        },
    }

    optional_keys = {"learn": "expert_replay_buffer_size per_train_iter_k"}

    def _make_optimizer(self) -> Adam:
        learn = self._cfg.learn
        return clipping_adam(self._model.parameters(), learn, optim_type="adamw", weight_decay=learn.lambda3)

    def _time_first(self, data: Samples) -> dict[str, Any]:
        batch = super()._time_first(data)
        steps, rows = batch["done"].shape
        if self._cfg.learn.ignore_done:
            batch["done_one_step"] = torch.zeros(rows, steps)
        batch.setdefault("is_expert", torch.zeros(rows, steps))
        for key in ("done_one_step", "is_expert"):
            batch[key] = batch[key].to(batch["done"]).reshape(rows, steps).transpose(0, 1)
        return batch

    def completed(self, samples: Samples) -> Samples:
        """Return the sequences of an expert with all fields of the agent's: those of one without memory get empty
        recurrent states.
        """
        if not len(samples) or "prev_state" in samples[0]:
            return samples
        rows = [stacked_sequence(sample) for sample in samples]
        output: Any = self.collect_mode.forward({0: rows[0]["obs"][0]}, eps=0.0)
        self.collect_mode.reset(data_id=[0])
        state = map_nested(torch.zeros_like, output[0]["prev_state"])
        for row in rows:
            row |= {"prev_state": state, "null": np.zeros(len(row["done"]), dtype=np.bool_)}
            if not self._reference_numerics:
                with_learned(row, self._nstep, self._burnin_step)
                row["learned"] = row["learned"].numpy()
        return rows

    def _loss(self, batch: Mapping[str, Any]) -> SequenceLoss:
        learn = self._cfg.learn
        weights = demonstration_weights(learn)
        if self._reference_numerics and learn.value_rescale:
            # DI-engine has the two the wrong way round here.
            weights = weights._replace(
                margin_function=weights.lambda_one_step_td, lambda_one_step_td=weights.margin_function
            )
        return r2d3_loss(
            self._model,
            self._target_network.forward,
            batch,
            self._gamma,
            self._nstep,
            self._burnin_step,
            learn.value_rescale,
            weights,
            states_swapped=self._reference_numerics,
        )

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "nstep_loss", "1step_loss", "sl_loss"]

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Sequences as those of R2D2, with the ``done`` of each step itself as ``done_one_step``."""
        return super()._get_train_sample(with_one_step(transitions, done="done_one_step"))
