"""R2D2: recurrent Q-learning from sequences with burn-in (Kapturowski et al. 2019, openreview r1lyTjAqYX)."""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias

import numpy as np
import torch

from ding.data import TimestepBatch, batched
from ding.data.roles import Samples
from ding.data.sequences import sequence_batch, stacked_sequences
from ding.model import model_wrap
from ding.policy._acting.recurrent import RecurrentQPolicy
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.q_values import QLoss, greedy, of_action, weighted
from ding.policy._learning.update import Logs
from ding.policy._samples.learned_steps import (
    SequenceForm,
    add_targets,
    burned_in,
    completed_sequences,
    learned_in_di_engine,
    learned_sequences,
    mean_of_learned,
    put_time_first,
    sequence_priority,
    shared_steps,
    with_learned,
)
from ding.policy._samples.segments import as_given, marked_real
from ding.policy.errors import PolicyConfigError
from ding.rl_utils import get_nstep_return_data, get_train_sample, value_inv_transform, value_transform
from ding.rl_utils.adder import Steps
from ding.torch_utils import Adam
from ding.utils import POLICY_REGISTRY
from ding.utils.nested import iter_leaves, map_nested

# ``{'h', 'c'}`` of ``[layers, B, H]``.
State: TypeAlias = Mapping[str, torch.Tensor]


@POLICY_REGISTRY.register("r2d2")
class R2D2Policy(RecurrentQPolicy):
    """Recurrent double Q-learning with n-step returns, stored states, burn-in, priorities and rescaled values.

    Each environment has its own recurrent state, which starts anew with every episode. A train sample is a sequence of
    ``burnin_step + learn_unroll_len`` steps of one episode. Sequences overlap, so that each step of an episode is
    learned: the first ones where the sequence begins with the episode, the last ones where the episode ends, or with
    the value of the observation after a time limit. What a short episode lacks is filled up and not learned.

    With ``reference_numerics=True`` sequences do not overlap, the first ``burnin_step`` and the last ``nstep`` steps of
    each are not learned, what fills up is, and priorities are squared errors, as in DI-engine.
    """

    _learns_from_transitions = False

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
            # (bool) Kept for configs of DI-engine: ``policy.traj_len_inf`` is what collectors read.
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
    def _forward_learn(self, data: Samples) -> Logs:
        """One update on B sequences, as :meth:`_get_train_sample` makes them (or as lists of T).

        Returns:
            ``cur_lr, total_loss, q_s_taken-a_t0, target_q_s_max-a_t0, q_s_a-mean_t0`` (floats) and ``priority`` (B
            floats).
        """
        return self._learn(data)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        result = self._loss(batch)
        self._optimize(result.loss, self._optimizer, self._model)
        self._target_model.update(self._model)
        return {"total_loss": result.loss, **result.numbers, "priority": result.priority}

    def _loss(self, batch: Mapping[str, Any]) -> QLoss:
        """``mean (Q(s_t, a_t) - h(R_t))^2`` over the steps that are learned, with
        ``R_t = sum_{i<n} gamma^i r_{t+i} + gamma^n h^-1(Q'(s_{t+n}, argmax_a Q(s_{t+n}, a)))``, ``Q'`` the target
        network and ``h`` the rescaling.

        What an algorithm of this family replaces.

        Args:
            batch: see :meth:`_learn_batch`.
        """
        q = self._values(batch)
        with torch.no_grad():
            next_q, chooser = self._bootstrap_values(batch, q)
            best = greedy(chooser, batch["action_mask"])
            next_value = self._unscaled(of_action(next_q, best)).gather(0, batch["ahead"])
            target = self._rescaled(batch["reward"] + batch["discount"] * batch["not_done"] * next_value)
        td_error = of_action(q, batch["action"]) - target
        loss = mean_of_learned(weighted(td_error.square(), batch["weight"]), batch["learned"])
        # DI-engine takes squares here.
        size = td_error.detach().square() if self._reference_numerics else td_error.detach().abs()
        return QLoss(loss, sequence_priority(size, batch["learned"]), self._values_to_log(batch, q, next_q))

    def _values(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """Return the values ``[T, B, N]`` of all steps, from the stored states on.

        No gradient reaches back into the burn-in, but in sequences whose burn-in is learned.
        """
        obs, state, burnin = batch["obs"], batch["prev_state"], self._burnin_step
        if not burnin:
            output: torch.Tensor = self._run(self._model, obs, state)["logit"]
            return output
        with torch.no_grad() if self._reference_numerics else nullcontext():
            before = self._run(self._model, map_nested(lambda x: x[:burnin], obs), state)
        known = (batch["learned"][:burnin].sum(0) > 0).view(1, -1, 1)
        state = map_nested(lambda x: torch.where(known, x, x.detach()), _joined_state(before["next_state"]))
        after = self._run(self._model, map_nested(lambda x: x[burnin:], obs), state)
        return torch.cat([before["logit"], after["logit"]])

    def _bootstrap_values(self, batch: Mapping[str, Any], q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the values ``[T, B, N]`` of the target network, and those that choose its actions (double Q).

        Args:
            q: the values of the network.
        """
        return self._run(self._target_network.forward, batch["obs"], batch["prev_state"])["logit"], q

    def _run(self, network: Callable[[Any], Any], obs: Any, state: object) -> Mapping[str, Any]:
        """Return ``logit`` ``[S, B, N]`` and ``next_state`` after these S steps, which begin in this state."""
        output: Mapping[str, Any] = network({**self._network_inputs(obs), "prev_state": state})
        return output

    def _rescaled(self, value: torch.Tensor) -> torch.Tensor:
        """``h`` of Pohlen et al. 2018 (arXiv:1805.11593), the scale of the networks; see ``learn.value_rescale``."""
        return value_transform(value) if self._cfg.learn.value_rescale else value

    def _unscaled(self, value: torch.Tensor) -> torch.Tensor:
        """The inverse of :meth:`_rescaled`."""
        return value_inv_transform(value) if self._cfg.learn.value_rescale else value

    def _values_to_log(
        self, batch: Mapping[str, Any], q: torch.Tensor, next_q: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """The means of the values at one step, and of the best value where that step bootstraps."""
        first = self._logged_step()
        q, ahead = q[first].detach(), batch["ahead"][first].unsqueeze(0)
        return {
            "q_s_taken-a_t0": of_action(q, batch["action"][first]).mean(),
            "target_q_s_max-a_t0": next_q.amax(-1).gather(0, ahead).mean(),
            "q_s_a-mean_t0": q.mean(),
        }

    def _logged_step(self) -> int:
        """Position of the step whose values are logged."""
        return self._burnin_step

    def _learn_batch(self, data: Samples, weighted: bool | None = None) -> dict[str, Any]:
        """Return B sequences of T steps as tensors on the device, time first.

        =====================  ===================================================================================
        ``obs``                as the network takes them, ``[T, B, ...]``
        ``prev_state``         the stored state before the first step, ``{'h', 'c'}`` of ``[layers, B, H]``
        ``action``             int64 ``[T, B]``
        ``reward``             sum of the rewards of ``n`` steps, discounted: ``[T, B]``; ``rewards`` ``[T, B, n]``
        ``ahead``              position of the step whose value is bootstrapped, int64 ``[T, B]``
        ``discount``           ``gamma`` to the number of steps until that one, ``[T, B]``
        ``done``, ``not_done`` 1.0 where the episode ends within these steps, or does not: ``[T, B]``
        ``learned``            1.0 for a step that is learned, else 0.0: ``[T, B]``
        ``weight``             weight of the sequence in the loss, ``[B]``, or None for equal ones
        ``action_mask``        1 where an action is allowed, ``[T, B, N]``, or None
        =====================  ===================================================================================

        Arguments and errors are those of :meth:`Learning._learn_batch`.
        """
        batch = self._time_first(data, weighted)
        add_targets(batch, self._discount_of(batch), self._nstep)
        return batch

    def _discount_of(self, batch: Mapping[str, Any]) -> float | torch.Tensor:
        """The discount of a step; ``[B]`` where sequences have their own."""
        return self._gamma

    def _time_first(self, data: Samples, weighted: bool | None = None) -> dict[str, Any]:
        """B sequences time first, with ``null`` and ``learned``; their rewards as ``rewards`` ``[T, B, n]``."""
        data = completed_sequences(data, self._nstep, self._burnin_step)
        batch = super()._learn_batch(sequence_batch(data), weighted)
        batch["prev_state"] = self._first_state(batch)
        put_time_first(batch)
        if self._reference_numerics:
            learned_in_di_engine(batch, self._nstep, self._burnin_step)
        else:
            with_learned(batch, self._nstep, self._burnin_step)
        return batch

    def _first_state(self, batch: Mapping[str, Any]) -> object:
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

    def _with_nstep_returns(self, steps: Steps) -> Steps:
        return get_nstep_return_data(steps, self._nstep, gamma=self._gamma, reference_tail=self._reference_numerics)

    def _step_after(self, next_obs: object) -> Mapping[str, Any]:
        """The fields of the step after the last one, whose value is bootstrapped, from its observation."""
        return {"obs": next_obs}


def _are_empty(states: object, of_columns: bool) -> bool | np.ndarray:
    """Whether recurrent states are all zeros, as before the first step of an episode: bool ``[N]``, or of one."""
    leaves = [torch.as_tensor(leaf) for _, leaf in iter_leaves(states)]
    used = [(leaf if of_columns else leaf.unsqueeze(0)).ne(0).flatten(1).any(1).numpy() for leaf in leaves]
    empty: np.ndarray = np.logical_not(np.logical_or.reduce(used))
    return empty if of_columns else bool(empty[0])


def _joined_state(state: State | Sequence[State]) -> State:
    """A recurrent state as ``{'h', 'c'}`` of ``[layers, B, H]``, from that or from a list of B states."""
    if isinstance(state, Mapping):
        return state
    return {key: torch.cat([row[key] for row in state], dim=1) for key in state[0]}
