"""One call of ``learn.forward``, from samples to numbers in a log: the layer between a learner and an algorithm.

It is the same for all algorithms, and :meth:`Learning._learn` is all of it:

1. ``_learn_batch`` turns B samples into tensors that a loss can use as they are (the table at that method).
2. ``_update`` is the algorithm: target, loss, and a step by :meth:`Learning._optimize` for each of its networks. It
   returns tensors to log, and ``priority`` ``[B]``. It runs once, or several times on equal shares of the batch;
   ``policy.learn.compile`` makes one graph of these updates (:mod:`ding.policy.compiled_updates`).
3. What it returned becomes floats, in one transfer from the device. The learning rates join them.

An algorithm with epochs or minibatches has a ``_forward_learn`` of its own, which calls ``_learn_batch`` and the
``run`` of :class:`~ding.policy.compiled_updates.CompiledUpdates`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import torch
from easydict import EasyDict

from ding.data import TransitionBatch, batched
from ding.data.columns import stack_rows
from ding.data.roles import Samples
from ding.policy._acting.observations import network_columns
from ding.policy._learning.distributed import average_gradients, backward_in_step
from ding.policy.errors import PolicyDataError, PolicyUsageError
from ding.rl_utils import discount_powers
from ding.torch_utils.data_helper import FIELD_DTYPES, OBSERVATION_DTYPES, network_tensor, to_device
from ding.torch_utils.graph.recordable_optimizer import RecordableOptimizer, record_step
from ding.torch_utils.graph.recording import current_recording
from ding.torch_utils.network.nn_module import renew_noise
from ding.utils.data import default_collate
from ding.utils.rows import minibatch_rows, take_rows

if TYPE_CHECKING:
    from ding.policy._samples.histories import Histories
    from ding.policy.compiled_updates import CompiledUpdates

_Name = TypeVar("_Name")

Logs: TypeAlias = dict[str, Any] | list[dict[str, Any]]
"""What learning returns to log: of one update, or a list of several."""

# What collectors and buffers note about a sample, and learning does not look at.
_BUFFER_FIELDS = (
    "collect_iter",
    "collect_train_iter",
    "env_data_id",
    "replay_unique_id",
    "replay_buffer_idx",
    "priority",
    "staleness",
    "use",
)
# Whether samples are weighted -> the fields that learning skips.
_SKIPPED = {True: _BUFFER_FIELDS, False: (*_BUFFER_FIELDS, "IS")}
# What a network sees. They keep a feature axis of size one; of any other field `[B, 1]` is the same as `[B]`.
_OBSERVATIONS = frozenset({"obs", "next_obs", "next_obs_1"})
_ALWAYS_FLAT = frozenset({"value", "adv", "return", "done", "value_gamma", "priority_IS", "IS"})
# With an entry for each discrete action, of which there may be only one.
_BY_ACTION = frozenset({"logit", "action_mask"})
# Fields ``[B, A, ...]`` of a policy for A agents.
_OF_AGENTS = frozenset({"action", "value", "adv"})
_WHOLE_EPISODES = (
    "the samples are whole episodes, but this policy learns from transitions: an episode buffer needs a loop that "
    "makes transitions of what it samples, as with hindsight relabelling; else take another replay_buffer"
)


class Learning:
    """What a policy learns with."""

    #: The learning rates to log: name -> the attribute that holds the optimiser.
    learn_rates: ClassVar[dict[str, str]] = {"cur_lr": "_optimizer"}

    _cfg: EasyDict
    _model: torch.nn.Module
    _device: Any
    _priority: bool
    _priority_IS_weight: bool
    _has_agent_axis: bool
    _multi_gpu: bool
    _compiled_updates: CompiledUpdates

    # Discount of a step, and number of steps from ``obs`` to ``next_obs`` of a sample: ``_init_learn`` of an algorithm
    # that bootstraps sets the first, and the second where it can be more than 1.
    _gamma: float
    _nstep: int

    #: Whether samples are transitions to bootstrap from, not parts of trajectories or sequences.
    _learns_from_transitions: ClassVar[bool] = True

    #: Whether learning gave priorities, where ``policy.priority`` asks for them; None before the first time.
    _gives_priorities: bool | None = None
    #: Networks whose noise is drawn before each update.
    _noisy_networks: Sequence[torch.nn.Module] = ()
    #: How a recurrent network learns from the steps of a collection; None for others.
    _histories: Histories | None = None

    @batched
    def _learn(self, data: Samples, num_updates: int = 1, options: Sequence[Mapping[str, Any]] | None = None) -> Logs:
        """Update ``num_updates`` times, each on an equal share of the samples.

        Args:
            data: ``num_updates * B`` samples, as a list of dicts or as columns.
            options: keyword arguments of each ``_update``; by default those of :attr:`_turns`.

        Returns:
            A dict of floats, and ``priority`` (B floats) of an algorithm that has priorities; a list of such dicts for
            several updates.
        """
        batch = self._learn_batch(data if self._prepared is None else self._prepared(data))
        if not self._model.training:
            self._model.train()
        for network in self._noisy_networks:
            renew_noise(network)
        rates = {name: getattr(self, part).param_groups[0]["lr"] for name, part in self.learn_rates.items()}
        if options is None:
            options = [{}] * num_updates if self._turns is None else self._turns(num_updates)
        if num_updates == 1 and not self._compiled_updates.graphs.enabled:
            logs = [rates | read_out(self._update(batch, **options[0]))]
        else:
            logs = [rates | numbers for numbers in self._compiled_updates.run(batch, options)]
        if self._after_learning is not None:
            self._after_learning()
        return logs if len(logs) > 1 else logs[0]

    #: Makes of the samples what an update learns from, and follows the updates of a call; None: nothing does.
    _prepared: Callable[[Samples], Samples] | None = None
    _after_learning: Callable[[], None] | None = None

    #: What learns: this call, or an algorithm's own.
    _forward_learn: Callable[..., Any] = _learn

    def _learn_batch(self, data: Samples, weighted: bool | None = None) -> dict[str, Any]:
        """Return the fields of B samples as tensors on the device.

        Whatever else samples hold is there under its name. These are ready to use:

        =====================  ===================================================================================
        ``obs``, ``next_obs``  as the network takes them, ``[B, ...]``
        ``action``             int64 ``[B]``, float32 ``[B, D]``, or a dict or list of such
        ``reward``             sum of the rewards of ``n`` steps, discounted: ``[B]`` (``[B, A]`` for A agents)
        ``reward_1``           the first of these rewards, ``[B]``; where n is more than 1
        ``discount``           ``gamma`` to the number of steps until ``next_obs``: ``[B]``
        ``done``, ``not_done`` 1.0 where the episode is over, or is not: ``[B]``; see ``learn.ignore_done``
        ``weight``             weight in the loss, ``[B]``; 1.0 without importance weights
        ``next_action_mask``   1 where an action is allowed in ``next_obs``, ``[B, N]``, or None
        =====================  ===================================================================================

        All but the first two are there for algorithms that bootstrap from a transition (``_gamma`` is set). Of A agents
        (``policy.multi_agent``) what one value holds for all of them is ``[B, 1]``.

        Args:
            data: B samples, as a list of dicts or as columns.
            weighted: whether importance weights weigh the loss; by default as ``policy.priority_IS_weight`` says.

        Raises:
            PolicyDataError: the samples have not the rewards of ``policy.nstep`` steps, or several rewards for one.
        """
        weighted = self._priority_IS_weight if weighted is None else weighted
        batch = default_preprocess_learn(
            data,
            use_priority=self._priority,
            use_priority_IS_weight=weighted,
            ignore_done=self._cfg.learn.ignore_done,
            device=self._device,
            agent_axis=self._has_agent_axis,
            skip=_SKIPPED[weighted],
        )
        gamma, nstep = vars(self).get("_gamma"), vars(self).get("_nstep", 1)
        if gamma is None or not self._learns_from_transitions:
            return batch
        if nstep == 1 and batch["reward"].ndim > 1 + self._has_agent_axis:
            raise PolicyDataError(
                f"{type(self).__name__} learns from one reward per sample, found reward of shape "
                f"{tuple(batch['reward'].shape)}; rewards of several steps need policy.nstep"
            )
        if nstep > 1:
            batch["reward_1"] = batch["reward"][..., 0].contiguous()  # of one form for all n, so that one graph serves
            batch["reward"] = discounted_sum(batch["reward"], gamma, nstep)
        discount = batch.pop("value_gamma", None)
        batch["discount"] = torch.full_like(batch["done"], gamma**nstep) if discount is None else discount
        batch["not_done"] = 1 - batch["done"]
        if batch["weight"] is None:
            batch["weight"] = torch.ones_like(batch["done"])
        if batch.get("next_action_mask") is None:
            next_obs = batch.get("next_obs")
            batch["next_action_mask"] = next_obs.get("action_mask") if isinstance(next_obs, Mapping) else None
        if self._has_agent_axis:
            for key in ("reward", "discount", "not_done", "weight"):
                if batch[key].ndim == 1:
                    batch[key] = batch[key].unsqueeze(1)
        return batch

    def _update(self, batch: Mapping[str, Any], **options: Any) -> Mapping[str, torch.Tensor]:
        """Make one update on tensors; returns what is logged, 0-d, and ``priority`` ``[B]``."""
        raise NotImplementedError(f"{type(self).__name__} has no _update")

    #: Returns the keyword arguments of each of the next updates, such as whether the actor has its turn.
    _turns: Callable[[int], Sequence[Mapping[str, Any]]] | None = None

    def _run_minibatches(self, batch: Mapping[str, Any], fields: Sequence[str], size: int) -> list[dict[str, float]]:
        """An update on each of the shuffled minibatches of ``size`` rows, of a recurrent network in whole sequences;
        returns what each is logged with.
        """
        kept = {key: batch[key] for key in fields if key in batch}
        if self._histories is not None:
            kept, size = self._histories.sequences(batch, kept), self._histories.minibatch_size(size)
        parts = minibatch_rows(kept, size)
        rows = np.concatenate(parts)
        shuffled = {key: take_rows(column, rows, key) for key, column in kept.items()}
        return self._compiled_updates.run(shuffled, [{}] * len(parts), joins=self._histories is None)

    def _may_join_updates(self) -> bool:
        """Whether an update changes nothing that the batch of the next one depends on."""
        return False

    def _get_updates_per_call(self) -> int:
        """How many updates a call of ``learn.forward`` may make, by its argument ``num_updates``."""
        return self._compiled_updates.limit

    def _optimize(
        self,
        loss: torch.Tensor,
        optimizer: torch.optim.Optimizer,
        model: torch.nn.Module,
        max_grad_norm: float | None = None,
    ) -> torch.Tensor | None:
        """One optimiser step on ``loss``. The one place where gradients of several processes meet.

        Args:
            model: whose gradients are averaged over the processes, and clipped. Given a part of the policy's network,
                such as its actor, only the parameters of ``optimizer`` get gradients.
            max_grad_norm: limit of the 2-norm of all gradients together; ``None`` leaves them as they are.

        Returns:
            The norm before it was limited, a 0-d tensor; ``None`` without a limit.
        """
        if current_recording.get() is not None:
            return record_step(optimizer, loss, max_grad_norm)
        optimizer.zero_grad()
        own = None
        if model is not self._model:
            own = [part for group in optimizer.param_groups for part in group["params"] if part.requires_grad]
        if self._multi_gpu and type(self).sync_gradients is Learning.sync_gradients:
            backward_in_step(loss, model.parameters(), own or None)
        else:
            loss.backward(inputs=own or None)
            if self._multi_gpu:
                self.sync_gradients(model)
        if max_grad_norm is None:
            optimizer.step()
            return None
        if isinstance(optimizer, RecordableOptimizer):
            optimizer.step(max_grad_norm=max_grad_norm)
            return optimizer.grad_norm
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
        optimizer.step()
        return norm

    def sync_gradients(self, model: torch.nn.Module) -> None:
        """Average the gradients of ``model`` over all processes; nothing to do in a single one."""
        average_gradients(model.parameters())


def discounted_sum(reward: torch.Tensor, gamma: float | torch.Tensor, nstep: int) -> torch.Tensor:
    """Return the discounted sum of the rewards of ``nstep`` steps: ``[..., n]`` to ``[...]``.

    Args:
        gamma: discount of a step, or one for each row, ``[B]``, of rewards ``[..., B, n]``.

    Raises:
        PolicyDataError: there are not ``nstep`` of them.
    """
    if reward.ndim < 2 or reward.shape[-1] != nstep:
        raise PolicyDataError(
            f"policy.nstep={nstep} needs the rewards of {nstep} steps in each sample, found reward of shape "
            f"{tuple(reward.shape)}; _get_train_sample adds them (get_nstep_return_data)"
        )
    if isinstance(gamma, torch.Tensor):
        return (reward * gamma.unsqueeze(-1) ** torch.arange(nstep, device=gamma.device)).sum(-1)
    powers = discount_powers(gamma, nstep, torch.float32, reward.device)
    return reward.to(powers.dtype) @ powers


def default_preprocess_learn(
    data: TransitionBatch | Sequence[Mapping[str, Any]],
    use_priority_IS_weight: bool = False,
    use_priority: bool = False,
    use_nstep: bool = False,
    ignore_done: bool = False,
    device: torch.device | str = "cpu",
    agent_axis: bool = False,
    skip: Collection[str] = (),
) -> dict[str, Any]:
    """A batch of samples as a dict of contiguous tensors on ``device``.

    Args:
        data: B samples, as a list of dicts or as columns (then no work is done per sample).
        use_priority_IS_weight: take the loss weight from the field ``priority_IS``, else ``IS``.
        use_priority: whether samples are drawn by priority.
        use_nstep: bring rewards ``[B, ...]`` into the shape ``[n, B, ...]``; else a reward ``[B, 1]`` becomes ``[B]``.
        ignore_done: treat all samples as not done.
        device: where the tensors go.
        agent_axis, skip: whether actions, values and advantages are ``[B, A, ...]``; fields to leave out.

    Returns:
        The fields with leading axis B: float64 as float32, uint8 of observations, too; ``done`` and ``weight`` (which
        may be None) float32 ``[B]``. With an int64 ``action`` all fields ``[B, 1]`` but observations become ``[B]``.

    Raises:
        PolicyUsageError: importance weights without priorities (an ``AssertionError``).
        PolicyDataError, SchemaError (ValueError): no samples, samples that do not fit together, no weights where they
            are needed, or a reward of a wrong rank.
    """
    if use_priority_IS_weight and not use_priority:
        raise PolicyUsageError("priority_IS_weight=True needs priority=True: the weights correct a draw by priority")
    if len(data) == 0 or (not isinstance(data, TransitionBatch) and isinstance(data[0], list)):
        raise PolicyDataError(_WHOLE_EPISODES if data else "cannot learn from a batch of zero samples")
    columns: Any = data.columns if isinstance(data, TransitionBatch) else stack_rows(list(data))
    batch: dict[str, Any] = {}
    for key in (key for key in columns if key not in skip):
        value, seen = columns[key], key in _OBSERVATIONS
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(value if value.flags.carray else value.copy())
        if isinstance(value, torch.Tensor):
            dtype = (OBSERVATION_DTYPES if seen else FIELD_DTYPES).get(value.dtype, value.dtype)
            batch[key] = value.to(device, dtype, non_blocking=True).contiguous()
        else:
            batch[key] = (network_columns if seen else _nested_tensors)(value, device)
    discrete = getattr(batch.get("action"), "dtype", None) is torch.int64
    flat = batch.keys() - _OBSERVATIONS - _BY_ACTION if discrete else batch.keys() & _ALWAYS_FLAT
    if agent_axis:
        flat = flat - _OF_AGENTS
        batch |= {key: one.unsqueeze(1) for key in _OF_AGENTS & batch.keys() if (one := batch[key]).ndim == 1}
    for key in flat if use_nstep else flat | (batch.keys() & {"reward"}):
        value = batch[key]
        if isinstance(value, torch.Tensor) and value.ndim == 2 and value.shape[1] == 1:
            batch[key] = value.squeeze(1)
    if "done" in batch:
        batch["done"] = batch["done"].float() * (not ignore_done)
    batch["weight"] = _importance_weight(batch) if use_priority_IS_weight else batch.get("weight")
    if use_nstep and "reward" in batch:
        batch["reward"] = _nstep_reward(batch["reward"])
    return batch


def _nested_tensors(column: object, device: torch.device | str) -> Any:
    """A column as contiguous tensors; what has no tensor form (texts, None) stays a list."""
    if isinstance(column, dict):
        return {key: _nested_tensors(value, device) for key, value in column.items()}
    if isinstance(column, list):
        return to_device(default_collate(column), device) if _is_numeric(column[0]) else column
    assert isinstance(column, (torch.Tensor, np.ndarray))
    return network_tensor(column, device, bytes_as_floats=False)


def _is_numeric(item: object) -> bool:
    while isinstance(item, (list, tuple)) and item:
        item = item[0]
    return isinstance(item, (torch.Tensor, np.ndarray, np.number, int, float, Mapping))


def _nstep_reward(reward: torch.Tensor) -> torch.Tensor:
    """``[B]``, ``[B, n]`` or ``[B, agents, n]`` with the steps in front."""
    if not 1 <= reward.ndim <= 3:
        raise PolicyDataError(
            f"an n-step reward must be [B], [B, n] or [B, agents, n], found shape {tuple(reward.shape)}"
        )
    return reward.unsqueeze(0) if reward.ndim == 1 else reward.movedim(-1, 0).contiguous()


def _importance_weight(batch: Mapping[str, Any]) -> torch.Tensor:
    for key in ("priority_IS", "IS"):
        if key in batch:
            output: torch.Tensor = batch[key]
            return output
    raise PolicyDataError(
        f"priority_IS_weight=True needs the field 'IS' (or 'priority_IS') in each sample, found {sorted(batch)}; "
        "a buffer adds it when it samples by priority"
    )


def read_out(values: Mapping[_Name, torch.Tensor]) -> dict[_Name, Any]:
    """Python numbers out of tensors, with one transfer from their device, which would wait for each.

    Args:
        values: tensors by name, 0-d or ``[B]``; of any device, but the same.

    Returns:
        A float for a 0-d tensor, a list of B floats for others.
    """
    numbers = torch.cat([value.detach().reshape(-1) for value in values.values()]).tolist()
    result: dict[_Name, Any] = {}
    start = 0
    for name, value in values.items():
        stop = start + value.numel()
        result[name] = numbers[start:stop] if value.ndim else numbers[start]
        start = stop
    return result
