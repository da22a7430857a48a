"""Learning the joint value of cooperating agents from sequences, as the relatives of QMIX do."""

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import torch

from ding.data import TransitionBatch, batched
from ding.data.columns import row_at, stack_rows
from ding.data.roles import Samples, StateDict
from ding.data.sequences import stacked_sequence
from ding.model import model_wrap
from ding.policy._acting.recurrent import RecurrentQPolicy
from ding.policy._learning.loading import with_target
from ding.policy._learning.optimization import clipping_rmsprop
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


class TargetSettings(NamedTuple):
    """How the target of a joint value is made."""

    gamma: float
    #: Whether the learner chooses the actions that the target network values.
    double_q: bool
    reference_numerics: bool


class JointQPolicy(RecurrentQPolicy):
    """Agents that act epsilon-greedily, each by its own history, and learn together.

    Observations are dicts: ``agent_state`` ``[A, O]``, ``global_state`` ``[G]`` and optionally ``action_mask`` ``[A,
    actions]``; actions int64 ``[A]``; one reward for all. A train sample is a sequence of ``collect.unroll_len`` steps
    of one episode; what a short episode lacks is filled up and not learned. The value of a next observation is computed
    from the state after the first step; ``reference_numerics=True`` starts before it, and learns what is filled up, as
    the original API does.
    """

    learn_state = {
        "model": "_learn_model", "target_model": "_target_model", "optimizer": "_optimizer",
    }  # fmt: skip
    acting_kwargs: ClassVar[dict[str, Any]] = {}
    keeps_next_obs = True

    @functools.cached_property
    def _settings(self) -> TargetSettings:
        learn = self._cfg.learn
        return TargetSettings(learn.discount_factor, bool(learn.get("double_q", False)), self._reference_numerics)

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

    def _time_first(self, data: Samples, one_pass: bool = False) -> dict[str, Any]:
        """B sequences of T steps, as :meth:`_get_train_sample` makes them (or with a list for each field), as tensors:
        ``obs`` and ``next_obs`` ``[T, B, ...]``, ``action`` ``[T, B, A]``, ``reward`` ``[T, B]`` (``[n, T, B]`` of n
        steps), ``done``, ``null`` and ``weight`` ``[T, B]`` (and ``eps``, if transitions have it), and the
        ``prev_state`` before the first step.

        ``weight`` is 0 for what only fills up, and 1 on average over the rest where there are no importance weights.
        With ``one_pass``, where each step begins where the one before it ended, also ``all_obs`` ``[T + 1, B, ...]``,
        of which :func:`learner_values` and :func:`next_values` make one pass each.
        """
        if not isinstance(data, TransitionBatch) or isinstance(data.columns["done"], list):
            data = TransitionBatch.from_rows([self._stacked(row) for row in data])
        batch = self._tensors(data)
        rows, steps = batch["done"].shape[:2]
        for key in ("obs", "next_obs"):
            batch[key] = map_nested(lambda x: x.transpose(0, 1).contiguous(), batch[key])
        batch["action"] = batch["action"].transpose(0, 1)
        batch["reward"] = batch["reward"].float().reshape(rows, steps, -1).permute(2, 1, 0).squeeze(0)
        if self._reference_numerics or "null" not in batch:
            batch["null"] = torch.zeros_like(batch["done"])
        for key in ("done", "null", "value_gamma", "eps"):
            if key in batch:
                batch[key] = batch[key].reshape(rows, steps).t().float()
        real = 1 - batch["null"]
        weight = real / real.mean().clamp(min=1 / real.numel())
        batch["weight"] = weight if batch["weight"] is None else weight * batch["weight"].reshape(1, rows)
        if one_pass and not self._reference_numerics and _is_continuous(batch):
            batch["all_obs"] = {key: torch.cat([batch["obs"][key][:1], x]) for key, x in batch["next_obs"].items()}
        return batch

    def _data_preprocess_learn(self, data: Samples) -> dict[str, Any]:
        """For subclasses with a ``_forward_learn`` of their own: the batch of :meth:`_time_first`, whose ``prev_state``
        is a list: of the B states before the first step and, with ``double_q``, of those after it.
        """
        batch = self._time_first(data)
        states = [batch["prev_state"]]
        if self._settings.double_q:
            first = {"obs": map_nested(lambda x: x[0], batch["obs"]), "prev_state": states[0]}
            with torch.no_grad():
                states.append(self._model(first)["next_state"])
        rows = range(batch["done"].shape[1])
        return {**batch, "prev_state": [[row_at(state, row) for row in rows] for state in states]}

    def _limited_step(
        self, loss: torch.Tensor, optimizer: torch.optim.Optimizer, network: torch.nn.Module, limit: float
    ) -> torch.Tensor:
        """One optimiser step; returns the norm of the gradients before it was limited, 0-d."""
        norm = self._optimize(loss, optimizer, network, limit)
        assert norm is not None  # there is a limit
        return norm

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
        """A sequence with fields ``[T, ...]`` and the state before its first step; as the original API needs it, also
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
        # The original API stores no target network for some of them.
        super()._load_state_dict_learn(with_target(state_dict) if "target_model" in self.learn_state else state_dict)


def _stacked_state(state: Any) -> Any:
    """The state of a row of the original API, a list per agent or a list of such, as ``{'h', 'c'}`` of ``[A, layers, 1,
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


def next_values(
    network: JointNetwork,
    batch: Mapping[str, Any],
    action: torch.Tensor | None = None,
    nstep: int = 1,
    stored_state: str | None = None,
    **kwargs: Any,
) -> Mapping[str, Any]:
    """The output of ``network``, but for its state, for ``next_obs``, the observations ``nstep`` steps later: the
    values of ``action``, or of the best allowed ones.

    Args:
        stored_state: the field with the state to start from; by default that after the first ``nstep`` observations.
    """
    obs, next_obs, skipped = batch["obs"], batch["next_obs"], nstep if stored_state is None else 0
    data: dict[str, Any] = {"obs": batch.get("all_obs") if skipped == 1 else None}
    if data["obs"] is None:
        data["obs"] = {key: torch.cat([obs[key][:skipped], next_obs[key]]) for key in next_obs}
    data["prev_state"] = batch["prev_state" if stored_state is None else stored_state]
    if action is not None:
        data["action"] = torch.cat([batch["action"][:skipped], action])
    output = network(data, single_step=False, **kwargs)
    return {key: value[skipped:] for key, value in output.items() if key != "next_state"}


def taken_values(network: JointNetwork, batch: Mapping[str, Any], **kwargs: Any) -> Mapping[str, Any]:
    """The output of ``network`` for ``obs`` and the actions that were taken there."""
    data = {"obs": batch["obs"], "prev_state": batch["prev_state"], "action": batch["action"]}
    return network(data, single_step=False, **kwargs)


def learner_values(
    network: JointNetwork, batch: Mapping[str, Any], settings: TargetSettings, double_q: bool = True
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """The output of :func:`taken_values` and, with ``double_q``, that of ``network`` for ``next_obs``, without
    gradients.

    Where there are ``all_obs``, one pass over them gives both.
    """
    if not double_q:
        return taken_values(network, batch), None
    if "all_obs" not in batch:
        with torch.no_grad():
            stored = "second_state" if settings.reference_numerics else None
            following = next_values(network, batch, stored_state=stored)
        return taken_values(network, batch), following
    action = batch["action"]
    # For the last observation any action will do: its value is not used.
    data = {"obs": batch["all_obs"], "prev_state": batch["prev_state"], "action": torch.cat([action, action[-1:]])}
    output = {key: value for key, value in network(data, single_step=False).items() if key != "next_state"}
    return (
        {key: value[:-1] for key, value in output.items()},
        {key: value[1:].detach() for key, value in output.items()},
    )
