"""R2D2: recurrent Q-learning from sequences with burn-in (Kapturowski et al. 2019, openreview r1lyTjAqYX)."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ding.data import TimestepBatch, batched
from ding.data.roles import Samples
from ding.data.sequences import sequence_batch, stacked_sequences
from ding.model import model_wrap
from ding.policy._acting.recurrent import RecurrentQPolicy
from ding.policy._learning.optimization import clipping_adam
from ding.policy._r2d2_loss import SequenceLoss, burned_in, r2d2_loss
from ding.policy._samples.learned_steps import (
    SequenceForm,
    completed_sequences,
    learned_sequences,
    shared_steps,
    with_learned,
)
from ding.policy._samples.segments import as_given, marked_real
from ding.policy.common_utils import with_rates
from ding.policy.errors import PolicyConfigError
from ding.rl_utils import get_nstep_return_data, get_train_sample
from ding.torch_utils import Adam
from ding.utils import POLICY_REGISTRY
from ding.utils.nested import iter_leaves, map_nested


@POLICY_REGISTRY.register("r2d2")
class R2D2Policy(RecurrentQPolicy):
    """Recurrent double Q-learning with n-step returns, stored states, burn-in, priorities and rescaled values.

    Each environment has its own recurrent state, which starts anew with every episode. A train sample is a sequence of
    ``burnin_step + learn_unroll_len`` steps of one episode. Sequences overlap, so that each step of an episode is
    learned: the first ones where the sequence begins with the episode, the last ones where the episode ends, or with
    the value of the observation after a time limit. What a short episode lacks is filled up and not learned.

    With ``reference_numerics=True`` sequences do not overlap, the first ``burnin_step`` and the last ``nstep`` steps of
    each are not learned, what fills up is, and priorities are squared errors, as in the original API.
    """

    config = {
        "type": "r2d2",
        "cuda": False,
        "on_policy": False,
        "priority": True,
        "priority_IS_weight": True,
        "discount_factor": 0.997,
        # (int) Number of rewards before the bootstrap value.
        "nstep": 5,
        # (int) Steps that bring the recurrent state up to date, and steps after them. Where an episode begins with the
        # sequence, the former are learned, too.
        "burnin_step": 20,
        "learn_unroll_len": 80,
        # (int or None) How many of the latter two sequences in a row share, at least nstep; None: half of them.
        "overlap_step": None,
        "learn": {
            "update_per_collect": 1,
            "batch_size": 64,
            "learning_rate": 0.0001,
            "grad_clip_type": None,
            "grad_clip_value": None,
            # (float) The share by which the target network moves to the learner at each update.
            "target_update_theta": 0.001,
            # (bool) Whether values are learned on a compressed scale.
            "value_rescale": True,
            "ignore_done": False,
        },
        "collect": {
            # (int) Sequences per collection.
            "n_sample": 32,
            # (bool) Kept for configs of the original API: ``policy.traj_len_inf`` is what collectors read.
            "traj_len_inf": True,
            # (int) Number of environments; has to be given.
            "env_num": None,
        },
        # (int) Number of environments; has to be given.
        "eval": {"env_num": None},
        "other": {
            "eps": {"type": "exp", "start": 0.95, "end": 0.05, "decay": 10000},
            "replay_buffer": {"replay_buffer_size": 10000},
        },
    }

    learn_state = {"model": "_learn_model", "target_model": "_target_model", "optimizer": "_optimizer"}

    def default_model(self) -> tuple[str, list[str]]:
        """``drqn`` of :mod:`ding.model.template.q_learning`."""
        return "drqn", ["ding.model.template.q_learning"]

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._gamma, self._nstep, self._burnin_step = self._lengths()
        self._optimizer = self._make_optimizer()
        self._target_model = model_wrap(
            copy.deepcopy(self._model),
            wrapper_name="target",
            update_type="momentum",
            update_kwargs={"theta": learn.target_update_theta},
        )
        self._learn_model, self._target_model = self._remembering(self._model, self._target_model)
        self._learn_model = model_wrap(self._learn_model, wrapper_name="argmax_sample")

    def _make_optimizer(self) -> Adam:
        return clipping_adam(self._model.parameters(), self._cfg.learn)

    def _lengths(self) -> tuple[float, int, int]:
        cfg = self._cfg
        if cfg.learn_unroll_len <= cfg.nstep:
            raise PolicyConfigError(
                f"policy.learn_unroll_len must exceed policy.nstep={cfg.nstep}, found {cfg.learn_unroll_len}"
            )
        return float(cfg.discount_factor), cfg.nstep, cfg.burnin_step

    @batched
    def _forward_learn(self, data: Samples) -> Any:
        """One update on B sequences, as :meth:`_get_train_sample` makes them (or as lists of T).

        Returns:
            ``cur_lr, total_loss, q_s_taken-a_t0, target_q_s_max-a_t0, q_s_a-mean_t0`` (floats) and ``priority`` (B
            floats).
        """
        batch = self._time_first(data)
        if not self._model.training:
            self._model.train()
        return with_rates(self._run_updates(batch), {"cur_lr": self._optimizer.param_groups[0]["lr"]})

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        result = self._loss(batch)
        self._optimize(result.loss, self._optimizer, self._model)
        self._target_model.update(self._model)
        if self._reference_numerics:
            error, mean = result.error, result.error.mean(0)
        else:
            error = result.error.sqrt()
            mean = error.sum(0) / result.valid.sum(0).clamp(min=1)
        priority = 0.9 * error.max(0).values + 0.1 * mean
        return {"total_loss": result.loss, **result.numbers, "priority": priority}

    def _loss(self, batch: Mapping[str, Any]) -> SequenceLoss:
        """The loss of a batch as :meth:`_time_first` makes it; what an algorithm of this family replaces."""
        return r2d2_loss(
            self._model,
            self._target_network.forward,
            batch,
            self._gamma,
            self._nstep,
            self._burnin_step,
            self._cfg.learn.value_rescale,
        )

    def _time_first(self, data: Samples) -> dict[str, Any]:
        """The batch of :func:`r2d2_loss`."""
        data = completed_sequences(data, self._nstep, self._burnin_step)
        batch = self._tensors(sequence_batch(data))
        rows, steps = batch["done"].shape[:2]
        batch["reward"] = batch["reward"].float().reshape(rows, steps, -1).permute(2, 1, 0)
        batch["prev_state"] = self._first_state(batch)
        batch["obs"] = map_nested(lambda x: x.transpose(0, 1).contiguous(), batch["obs"])
        if self._reference_numerics:
            batch.pop("null", None)
            batch.pop("learned", None)
        for key in ("action", "done", "value_gamma", "null", "learned"):
            if key in batch:
                batch[key] = batch[key].reshape(rows, steps).transpose(0, 1)
        if not self._reference_numerics:
            with_learned(batch, self._nstep, self._burnin_step)
        return batch

    def _first_state(self, batch: Mapping[str, Any]) -> Any:
        """The stored states before the first step of B sequences."""
        return map_nested(lambda x: x.squeeze(2).transpose(0, 1).contiguous(), batch["prev_state"])

    def _data_preprocess_learn(self, data: Samples) -> dict[str, Any]:
        """For subclasses with a ``_forward_learn`` of their own: B sequences as :func:`burned_in` cuts them."""
        return burned_in(self._time_first(data), self._nstep, self._burnin_step)

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "priority", "q_s_taken-a_t0", "target_q_s_max-a_t0", "q_s_a-mean_t0"]

    def _steps_of_sample(self) -> int:
        return int(self._cfg.burnin_step + self._cfg.learn_unroll_len)

    def _init_collect(self) -> None:
        self._gamma, self._nstep, self._burnin_step = self._lengths()
        self._unroll_len = self._steps_of_sample()
        if not self._reference_numerics:
            overlap = self._cfg.get("overlap_step")
            self._sequence_overlap = shared_steps(overlap, self._unroll_len, self._burnin_step, self._nstep)
        super()._init_collect()

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """``obs, action, prev_state, reward, done``, and what :func:`learned_sequences` needs: ``next_obs``, ``begins``
        and ``ends``; for one environment or for columns of N.
        """
        transition = super()._process_transition(obs, policy_output, timestep)
        if self._reference_numerics:
            return transition
        begins = _are_empty(policy_output["prev_state"], isinstance(timestep, TimestepBatch))
        return {**transition, "next_obs": timestep.obs, "begins": begins, "ends": timestep.done}

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Sequences of ``burnin_step + learn_unroll_len`` steps with n-step returns: each field ``[T, ...]``,
        ``prev_state`` that before the first step, ``null``: whether a step only fills the sequence up, ``learned``:
        whether it is learned.
        """
        if self._reference_numerics:
            steps = self._with_nstep_returns(marked_real(transitions))
            return stacked_sequences(get_train_sample(steps, self._unroll_len))
        form = SequenceForm(
            self._unroll_len,
            self._burnin_step,
            self._sequence_overlap,
            self._nstep,
            self._cfg.learn.ignore_done,
        )
        samples = learned_sequences(transitions, form, self._with_nstep_returns, self._step_after)
        return as_given(samples, transitions)

    def _with_nstep_returns(self, steps: Any) -> Any:
        return get_nstep_return_data(steps, self._nstep, gamma=self._gamma, reference_tail=self._reference_numerics)

    def _step_after(self, next_obs: Any) -> Mapping[str, Any]:
        """The fields of the step after the last one, whose value is bootstrapped, from its observation."""
        return {"obs": next_obs}


def _are_empty(states: Any, of_columns: bool) -> Any:
    """Whether recurrent states are all zeros, as before the first step of an episode: bool ``[N]``, or of one."""
    leaves = [torch.as_tensor(leaf) for _, leaf in iter_leaves(states)]
    used = [(leaf if of_columns else leaf.unsqueeze(0)).ne(0).flatten(1).any(1).numpy() for leaf in leaves]
    empty: np.ndarray = np.logical_not(np.logical_or.reduce(used))
    return empty if of_columns else bool(empty[0])
