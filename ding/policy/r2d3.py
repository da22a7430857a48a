"""R2D3: recurrent replay distributed Q-learning from demonstrations (Paine et al. 2019, arXiv:1909.01387)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ding.data import batched
from ding.data.roles import Samples
from ding.data.sequences import stacked_sequence
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.q_values import QLoss, greedy, of_action, weighted
from ding.policy._samples.learned_steps import mean_of_learned, sequence_priority, with_learned
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

    def _time_first(self, data: Samples, weighted: bool | None = None) -> dict[str, Any]:
        """The sequences of :meth:`R2D2Policy._time_first`, with ``is_expert`` and ``done_one_step`` ``[T, B]``, and
        ``next``, the position of the step behind each one. A step is learned where its one-step target is defined, too.
        """
        batch = super()._time_first(data, weighted)
        done = batch["done"]
        steps, rows = done.shape
        if self._cfg.learn.ignore_done:
            batch["done_one_step"] = torch.zeros(rows, steps)
        batch.setdefault("is_expert", torch.zeros(rows, steps))
        for key in ("done_one_step", "is_expert"):
            batch[key] = batch[key].to(done).reshape(rows, steps).transpose(0, 1)
        position = torch.arange(steps, device=done.device).unsqueeze(1)
        batch["next"] = (position + 1).clamp(max=steps - 1).expand(-1, rows)
        batch["learned"] = batch["learned"].bool() & ((position < steps - 1) | (batch["done_one_step"] > 0))
        return batch

    def completed(self, samples: Samples) -> Samples:
        """Return the sequences of an expert with all fields of the agent's: those of one without memory get empty
        recurrent states.
        """
        if not len(samples) or "prev_state" in samples[0]:
            return samples
        rows = [stacked_sequence(sample) for sample in samples]
        output = self.collect_mode.forward({0: rows[0]["obs"][0]}, eps=0.0)
        self.collect_mode.reset(data_id=[0])
        state = map_nested(torch.zeros_like, output[0]["prev_state"])
        for row in rows:
            row |= {"prev_state": state, "null": np.zeros(len(row["done"]), dtype=np.bool_)}
            if not self._reference_numerics:
                with_learned(row, self._nstep, self._burnin_step)
                row["learned"] = row["learned"].numpy()
        return rows

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        """``lambda1 (Q(s, a) - h(R_n))^2 + (Q(s, a) - h(R_1))^2 + lambda2 max_b [Q(s, b) + margin(a, b) - Q(s, a)]``,
        the last for steps of the expert, as a mean over the steps that are learned; ``R_n`` and ``R_1`` are the double
        Q-learning targets after n steps and one, and ``h`` is the rescaling.
        """
        learn, action, learned = self._cfg.learn, batch["action"], batch["learned"]
        one_step_weight, margin_size = learn.get("lambda_one_step_td", 1.0), learn.margin_function
        if self._reference_numerics and learn.value_rescale:
            # DI-engine has the two the wrong way round here.
            one_step_weight, margin_size = margin_size, one_step_weight
        q, targets = self._values(batch), []
        after_n = batch["reward"], batch["discount"] * batch["not_done"], batch["ahead"]
        after_1 = batch["rewards"][..., 0], self._gamma * (1 - batch["done_one_step"]), batch["next"]
        with torch.no_grad():
            values_n, values_1 = self._both_bootstrap_values(batch, q)
            for (reward, discount, ahead), (next_q, chooser) in ((after_n, values_n), (after_1, values_1)):
                best = greedy(chooser, batch["action_mask"])
                next_value = self._unscaled(of_action(next_q, best)).gather(0, ahead)
                targets.append(self._rescaled(reward + discount * next_value))
        taken = of_action(q, action)
        n_step, one_step = ((taken - target).square() for target in targets)
        handicap = torch.full_like(q, margin_size).scatter_(-1, action.unsqueeze(-1), 0.0)
        margin = batch["is_expert"] * ((q + handicap).amax(-1) - taken)
        error = learn.lambda1 * n_step + one_step_weight * one_step + learn.lambda2 * margin
        size = error.detach() if self._reference_numerics else error.detach().sqrt()
        parts = {"nstep_loss": n_step, "1step_loss": one_step, "sl_loss": margin}
        numbers = {name: mean_of_learned(part.detach(), learned) for name, part in parts.items()}
        loss, priority = mean_of_learned(weighted(error, batch["weight"]), learned), sequence_priority(size, learned)
        return QLoss(loss, priority, {**self._values_to_log(batch, q, values_n[0]), **numbers})

    def _both_bootstrap_values(
        self, batch: Mapping[str, Any], q: torch.Tensor
    ) -> Sequence[tuple[torch.Tensor, torch.Tensor]]:
        """The values of :meth:`_bootstrap_values` for the targets after n steps, and for those after one."""
        if not self._reference_numerics:
            return [self._bootstrap_values(batch, q)] * 2
        # DI-engine looks n steps ahead from the state after one step, and one step ahead from the state after n.
        steps, after_n, after_1 = len(q), self._burnin_step + self._nstep, self._burnin_step + 1
        target, own = self._target_network.forward, self._model
        return [
            (self._part(target, batch, *cut), self._part(own, batch, *cut))
            for cut in ((after_1, after_n, steps), (after_n, after_1, steps - self._nstep + 1))
        ]

    def _part(
        self, network: Callable[[Any], Any], batch: Mapping[str, Any], known: int, start: int, stop: int
    ) -> torch.Tensor:
        """The values of the steps from ``start`` to ``stop``, from the state after ``known`` steps; 0 elsewhere."""
        obs = batch["obs"]
        before = self._run(network, map_nested(lambda x: x[:known], obs), batch["prev_state"])
        values = self._run(network, map_nested(lambda x: x[start:stop], obs), before["next_state"])["logit"]
        return F.pad(values, (0, 0, 0, 0, start, len(batch["done"]) - stop))

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "nstep_loss", "1step_loss", "sl_loss"]

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Sequences as those of R2D2, with the ``done`` of each step itself as ``done_one_step``."""
        return super()._get_train_sample(with_one_step(transitions, done="done_one_step"))
