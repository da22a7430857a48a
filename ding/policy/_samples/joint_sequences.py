"""Sequences of cooperating agents, ready to learn from, and networks run over them: what the relatives of QMIX share.

An algorithm of this family replaces ``_loss`` (or ``_update``, for several optimisers). It gets sequences of T steps of
B episodes, time first, by :meth:`JointQPolicy._learn_batch`, and lets networks run over them, from the states that the
sequences began with: :meth:`JointQPolicy._outputs` for ``obs``, :meth:`JointQPolicy._next_outputs` for ``next_obs``.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch

from ding.data import TransitionBatch, batched
from ding.data.columns import row_at, stack_rows
from ding.data.roles import Samples, StateDict
from ding.data.sequences import stacked_sequence
from ding.model import model_wrap
from ding.policy._acting.recurrent import RecurrentQPolicy
from ding.policy._learning.loading import with_target
from ding.policy._learning.optimization import clipping_rmsprop
from ding.policy._learning.update import discounted_sum
from ding.policy._samples.segments import marked_real
from ding.policy.errors import PolicyConfigError
from ding.rl_utils import get_train_sample
from ding.utils.nested import map_nested

JointNetwork = Callable[..., Mapping[str, Any]]
"""``{'obs', 'prev_state'[, 'action']}`` of T steps to ``total_q`` ``[T, B]``, ``logit`` and ``next_state``; see
:class:`ding.model.QMix`."""

#: The keys that all of them have.
JOINT_Q_CONFIG: dict[str, Any] = {
    # (bool or 'auto') Whether to use a GPU: where there is one; without it True warns, and 'auto' does not.
    "cuda": "auto",
    "on_policy": False,
    "priority": False,
    "priority_IS_weight": False,
    "learn": {
        "update_per_collect": 20,
        "batch_size": 32,
        "learning_rate": 0.0005,
        # (float) Limit of the 2-norm of the gradients.
        "clip_value": 100,
        # (float) The share by which the target network moves to the learner at each update.
        "target_update_theta": 0.008,
        "discount_factor": 0.99,
        # (bool) Whether the learner chooses the actions that the target network values.
        "double_q": False,
        "ignore_done": False,
    },
    "collect": {
        # (int) Steps of a sequence.
        "unroll_len": 10,
        # (int) Number of environments; has to be given.
        "env_num": None,
    },
    # (int) Number of environments; has to be given.
    "eval": {"env_num": None},
    "other": {
        "eps": {"type": "exp", "start": 1, "end": 0.05, "decay": 50000},
        "replay_buffer": {"replay_buffer_size": 5000},
    },
}


class JointQPolicy(RecurrentQPolicy):
    """Agents that act epsilon-greedily, each by its own history, and learn together.

    Observations are dicts: ``agent_state`` ``[A, O]``, ``global_state`` ``[G]`` and optionally ``action_mask`` ``[A,
    actions]``; actions int64 ``[A]``; one reward for all. A train sample is a sequence of ``collect.unroll_len`` steps
    of one episode; what a short episode lacks is filled up and not learned. The value of a next observation is computed
    from the state after the first step; ``reference_numerics=True`` starts before it, and learns what is filled up, as
    DI-engine does.
    """

    learn_state = {
        "model": "_learn_model", "target_model": "_target_model", "optimizer": "_optimizer",
    }  # fmt: skip
    acting_kwargs: ClassVar[dict[str, Any]] = {}
    keeps_next_obs = True
    _learns_from_transitions = False

    @property
    def _double_q(self) -> bool:
        """Whether the learner chooses the actions that the target network values."""
        return bool(self._cfg.learn.get("double_q", False))

    @property
    def _steps_ahead(self) -> int:
        """How many steps after ``obs`` the ``next_obs`` of a step is."""
        return 1

    @property
    def _max_grad_norm(self) -> float:
        return float(self._cfg.learn.clip_value)

    def _init_learn(self) -> None:
        self._optimizer = self._make_optimizer(self._model)
        self._target_model = model_wrap(
            copy.deepcopy(self._model),
            wrapper_name="target",
            update_type="momentum",
            update_kwargs={"theta": self._cfg.learn.target_update_theta},
        )
        self._learn_model, self._target_model = self._remembering(self._model, self._target_model)

    def _make_optimizer(self, network: torch.nn.Module, weight_decay: float = 0.0) -> torch.optim.Optimizer:
        return clipping_rmsprop(network.parameters(), self._cfg.learn, alpha=0.99, eps=1e-5, weight_decay=weight_decay)

    # An update.

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        loss, numbers = self._loss(batch)
        norm = self._limited_step(loss, self._optimizer, self._model)
        self._target_model.update(self._model)
        return {"total_loss": loss, **numbers, "grad_norm": norm}

    def _loss(self, batch: Mapping[str, Any]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """The loss, 0-d, and what to log: 0-d tensors and perhaps ``priority`` ``[B]``.

        Args:
            batch: see :meth:`_learn_batch`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no _loss")

    def _limited_step(
        self, loss: torch.Tensor, optimizer: torch.optim.Optimizer, network: torch.nn.Module
    ) -> torch.Tensor:
        """One optimiser step; returns the norm of the gradients before it was limited, 0-d."""
        norm = self._optimize(loss, optimizer, network, self._max_grad_norm)
        assert norm is not None  # there is a limit
        return norm

    def _per_agent(self, batch: Mapping[str, Any], **values: torch.Tensor) -> dict[str, torch.Tensor]:
        """The means of joint values ``[T, B]``, divided by the number of agents, to log."""
        agents = batch["action"].shape[-1]
        return {name: value.detach().mean() / agents for name, value in values.items()}

    # Networks over sequences.

    def _outputs(
        self,
        network: JointNetwork,
        batch: Mapping[str, Any],
        action: torch.Tensor | None = None,
        start: Any = None,
        **kwargs: Any,
    ) -> Mapping[str, Any]:
        """The output of ``network`` for ``obs`` and the actions that were taken there, or for others.

        Args:
            action: int64 ``[T, B, A]``.
            start: the states before the first step; by default the stored ones.
            kwargs: of the network.
        """
        data = {
            "obs": batch["obs"],
            "prev_state": batch["prev_state"] if start is None else start,
            "action": batch["action"] if action is None else action,
        }
        return network(data, single_step=False, **kwargs)

    def _next_outputs(
        self,
        network: JointNetwork,
        batch: Mapping[str, Any],
        action: torch.Tensor | None = None,
        start: Any = None,
        **kwargs: Any,
    ) -> Mapping[str, Any]:
        """The output of ``network`` for ``next_obs`` and the best allowed actions there, or for others.

        Histories continue those of ``obs``: the network sees the first observations, too, and its output for them, and
        ``next_state``, are left out. With ``reference_numerics`` they do not: it starts at ``next_obs``.

        Args:
            action: int64 ``[T, B, A]``.
            start: with ``reference_numerics`` the states to start from; by default those before the first step.
            kwargs: of the network.
        """
        if self._reference_numerics:
            data = {"obs": batch["next_obs"], "prev_state": batch["prev_state"] if start is None else start}
            return network(data if action is None else {**data, "action": action}, single_step=False, **kwargs)
        obs, next_obs, skipped = batch["obs"], batch["next_obs"], self._steps_ahead
        seen = batch["all_obs"] or {key: torch.cat([obs[key][:skipped], next_obs[key]]) for key in next_obs}
        data = {"obs": seen, "prev_state": batch["prev_state"]}
        if action is not None:
            data["action"] = torch.cat([batch["action"][:skipped], action])
        output = network(data, single_step=False, **kwargs)
        return {key: value[skipped:] for key, value in output.items() if key != "next_state"}

    def _learner_outputs(self, batch: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
        """The output of the learner for ``obs`` and the actions that were taken there; and with double Q-learning its
        output for ``next_obs``, without gradients, else None.

        Where there are ``all_obs``, one pass over them gives both.
        """
        if not self._double_q or batch["all_obs"] is None:
            now = self._outputs(self._model, batch)
            if not self._double_q:
                return now, None
            with torch.no_grad():
                return now, self._next_outputs(self._model, batch, start=self._second_state(batch, now))
        action = batch["action"]
        # For the last observation any action will do: its value is not used.
        data = {
            "obs": batch["all_obs"], "prev_state": batch["prev_state"], "action": torch.cat([action, action[-1:]]),
        }  # fmt: skip
        output = {key: value for key, value in self._model(data, single_step=False).items() if key != "next_state"}
        return (
            {key: value[:-1] for key, value in output.items()},
            {key: value[1:].detach() for key, value in output.items()},
        )

    def _second_state(self, batch: Mapping[str, Any], now: Mapping[str, Any]) -> object:
        """With ``reference_numerics``, where the pass of the learner over ``next_obs`` starts.

        Args:
            now: the output of the learner for ``obs``.
        """
        if not self._reference_numerics:
            return None
        return batch["second_state"] if "second_state" in batch else self._state_after_first_step(batch)

    def _state_after_first_step(self, batch: Mapping[str, Any]) -> object:
        first = {"obs": map_nested(lambda x: x[0], batch["obs"]), "prev_state": batch["prev_state"]}
        with torch.no_grad():
            return self._model(first)["next_state"]

    # Samples.

    def _learn_batch(self, data: Samples, weighted: bool | None = None) -> dict[str, Any]:
        """Return B sequences of T steps, as :meth:`_get_train_sample` makes them (or with a list for each field), as
        tensors on the device.

        =====================  ===================================================================================
        ``obs``, ``next_obs``  ``[T, B, ...]``
        ``action``             int64 ``[T, B, A]``
        ``reward``             sum of the rewards until ``next_obs``, discounted: ``[T, B]``
        ``discount``           ``gamma`` to the number of steps until ``next_obs``: ``[T, B]``
        ``done``, ``not_done`` 1.0 where the episode is over, or is not: ``[T, B]``; see ``learn.ignore_done``
        ``null``               1.0 where a step only fills the sequence up: ``[T, B]``
        ``weight``             weight in a mean over all steps, ``[T, B]``: 0 for what is not learned, and 1 on average
                               where there are no importance weights
        ``action_mask``        1 where an action is allowed in ``obs``, ``[T, B, A, N]``, or None
        ``next_action_mask``   the same of ``next_obs``
        ``prev_state``         the recurrent states before the first step
        ``all_obs``            with double Q-learning, where each step begins where the one before it ended,
                               ``[T + 1, B, ...]``; else None
        =====================  ===================================================================================

        Arguments and errors are those of :meth:`_learn_batch`.

        Raises:
            PolicyDataError: the samples have not the rewards of ``policy.nstep`` steps.
        """
        batch, gamma, nstep = (
            self._time_first(data, weighted),
            float(self._cfg.learn.discount_factor),
            self._steps_ahead,
        )
        reward = batch["reward"]
        if nstep > 1 or reward.ndim > 2:
            rewards = reward.unsqueeze(-1) if reward.ndim == 2 else reward.movedim(0, -1)
            batch["reward"] = discounted_sum(rewards, gamma, nstep)
        discount = batch.pop("value_gamma", None)
        batch["discount"] = torch.full_like(batch["done"], gamma**nstep) if discount is None else discount
        batch["not_done"] = 1 - batch["done"]
        batch["action_mask"], batch["next_action_mask"] = (batch[key].get("action_mask") for key in ("obs", "next_obs"))
        batch["all_obs"] = None
        if self._double_q and nstep == 1 and not self._reference_numerics and _is_continuous(batch):
            batch["all_obs"] = {key: torch.cat([batch["obs"][key][:1], x]) for key, x in batch["next_obs"].items()}
        return batch

    def _time_first(self, data: Samples, weighted: bool | None = None) -> dict[str, Any]:
        """The fields of B sequences with time first, ``weight`` as :meth:`_learn_batch` has it, and the ``reward`` as
        it was collected, ``[T, B]`` (``[n, T, B]`` of n steps).
        """
        if not isinstance(data, TransitionBatch) or isinstance(data.columns["done"], list):
            data = TransitionBatch.from_rows([self._stacked(row) for row in data])
        batch = super()._learn_batch(data, weighted)
        rows, steps = batch["done"].shape[:2]
        for key in ("obs", "next_obs"):
            batch[key] = map_nested(lambda x: x.transpose(0, 1).contiguous(), batch[key])
        batch["action"] = batch["action"].transpose(0, 1)
        batch["reward"] = batch["reward"].float().reshape(rows, steps, -1).permute(2, 1, 0).squeeze(0)
        if self._reference_numerics or "null" not in batch:
            batch["null"] = torch.zeros_like(batch["done"])
        for key in ("done", "null", "learned", "value_gamma", "eps"):
            if key in batch:
                batch[key] = batch[key].reshape(rows, steps).t().float()
        learned = batch["learned"] if "learned" in batch else 1 - batch["null"]
        weight = learned / learned.mean().clamp(min=1 / learned.numel())
        batch["weight"] = weight if batch["weight"] is None else weight * batch["weight"].reshape(1, rows)
        return batch

    def _data_preprocess_learn(self, data: Samples) -> dict[str, Any]:
        """For subclasses with a ``_forward_learn`` of their own: the batch of :meth:`_time_first`, whose ``prev_state``
        is a list: of the B states before the first step and, with ``double_q``, of those after it.
        """
        batch = self._time_first(data)
        states = [batch["prev_state"]]
        if self._double_q:
            states.append(self._state_after_first_step(batch))
        rows = range(batch["done"].shape[1])
        return {**batch, "prev_state": [[row_at(state, row) for row in rows] for state in states]}

    def _init_collect(self) -> None:
        self._unroll_len = self._cfg.collect.unroll_len
        if self._unroll_len < 2:
            raise PolicyConfigError(
                f"policy.collect.unroll_len={self._unroll_len}: {type(self).__name__} learns from sequences of 2 steps "
                "or more"
            )
        super()._init_collect()

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Sequences of ``collect.unroll_len`` steps: each field ``[T, ...]``, ``prev_state`` that before the first
        step, ``null``: whether a step only fills the sequence up.
        """
        return self._sequences(marked_real(transitions))

    def _sequences(self, steps: Samples) -> Samples:
        samples = get_train_sample(steps, self._unroll_len, overlap=self._sequence_overlap)
        rows = [self._stacked(sample) for sample in samples]
        return TransitionBatch.from_rows(rows, samples.lengths) if isinstance(samples, TransitionBatch) else rows

    def _stacked(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """A sequence with fields ``[T, ...]`` and the state before its first step; as DI-engine needs it, also
        that before the second one.
        """
        row = stacked_sequence(sample)
        states = sample["prev_state"]
        row["prev_state"] = _stacked_state(row["prev_state"])
        if self._reference_numerics and isinstance(states, list):
            row["second_state"] = _stacked_state(states[1])
        return row

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "total_q", "target_total_q", "grad_norm", "target_reward_total_q"]

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        # DI-engine stores no target network for some of them.
        super()._load_state_dict_learn(with_target(state_dict) if "target_model" in self.learn_state else state_dict)


def _stacked_state(state: Any) -> object:
    """The state of a row of DI-engine, a list per agent or a list of such, as ``{'h', 'c'}`` of ``[A, layers, 1,
    H]``.
    """
    if isinstance(state, Mapping):
        return state
    return stack_rows([one for part in state for one in (part if isinstance(part, (list, tuple)) else (part,))])


def _is_continuous(batch: Mapping[str, Any]) -> bool:
    # To look at the tensors of a GPU would be to wait for it.
    if not batch["done"].is_cpu:
        return False
    real = batch["null"][1:] == 0
    pairs = [(batch["obs"][key][1:], value[:-1]) for key, value in batch["next_obs"].items()]
    return all(torch.equal(one, other) or torch.equal(one[real], other[real]) for one, other in pairs)
