"""One call of ``learn.forward``, from samples to numbers in a log: the layer between a learner and an algorithm.

It is the same for all algorithms, and :meth:`Learning._learn` is all of it:

1. ``_learn_batch`` turns B samples into tensors that a loss can use as they are (the table at that method).
2. ``_update`` is the algorithm: target, loss, and a step by :meth:`Learning._optimize` for each of its networks. It
   returns tensors to log, and ``priority`` ``[B]``. It runs once, or several times on equal shares of the batch;
   ``policy.learn.compile`` makes one graph of these updates (:mod:`ding.policy.compiled_updates`).
3. What it returned becomes floats, in one transfer from the device. The learning rates join them.

An algorithm with epochs or minibatches calls ``_learn_batch`` and ``_run_updates`` in a ``_forward_learn`` of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from easydict import EasyDict

from ding.data.roles import Samples
from ding.policy._learning.distributed import average_gradients, backward_in_step
from ding.policy.common_utils import BUFFER_FIELDS, default_preprocess_learn, read_out
from ding.policy.compiled_updates import CompiledUpdates
from ding.policy.errors import PolicyDataError
from ding.rl_utils import discount_powers
from ding.torch_utils.graph.recordable_optimizer import RecordableOptimizer, record_step
from ding.torch_utils.graph.recording import current_recording

_UNWEIGHTED = (*BUFFER_FIELDS, "IS")


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

    def _learn(self, data: Samples, num_updates: int = 1, options: Sequence[Mapping[str, Any]] | None = None) -> Any:
        """Update ``num_updates`` times, each on an equal share of the samples.

        Args:
            data: ``num_updates * B`` samples, as a list of dicts or as columns.
            options: keyword arguments of each ``_update``.

        Returns:
            A dict of floats, and ``priority`` (B floats) of an algorithm that has priorities; a list of such dicts for
            several updates.
        """
        batch = self._learn_batch(data)
        if not self._model.training:
            self._model.train()
        rates = {name: getattr(self, part).param_groups[0]["lr"] for name, part in self.learn_rates.items()}
        logs = [{**rates, **numbers} for numbers in self._run_updates(batch, num_updates, options)]
        return logs if len(logs) > 1 else logs[0]

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
        ``weight``             weight in the loss, ``[B]``, or None for equal ones
        ``next_action_mask``   1 where an action is allowed in ``next_obs``, ``[B, N]``, or None
        =====================  ===================================================================================

        All but the first two are there for algorithms that bootstrap (``_gamma`` is set). For A agents
        (``policy.multi_agent``) what one value holds for all of them is ``[B, 1]``.

        Arguments and errors are those of :meth:`_tensors`.

        Raises:
            PolicyDataError: the samples have not the rewards of ``policy.nstep`` steps, or several rewards for one.
        """
        batch, own = self._tensors(data, weighted), vars(self)
        gamma, nstep = own.get("_gamma"), own.get("_nstep", 1)
        if gamma is None:
            return batch
        done = batch["done"]
        if nstep == 1 and batch["reward"].ndim > 1 + self._has_agent_axis:
            raise PolicyDataError(
                f"{type(self).__name__} learns from one reward per sample, found reward of shape "
                f"{tuple(batch['reward'].shape)}; rewards of several steps need policy.nstep"
            )
        if nstep > 1:
            batch["reward_1"] = batch["reward"][..., 0]
            batch["reward"] = discounted_sum(batch["reward"], gamma, nstep)
        discount = batch.pop("value_gamma", None)
        batch["discount"] = torch.full_like(done, gamma**nstep) if discount is None else discount
        batch["not_done"] = 1 - done
        if batch.get("next_action_mask") is None:
            next_obs = batch.get("next_obs")
            batch["next_action_mask"] = next_obs.get("action_mask") if isinstance(next_obs, Mapping) else None
        if self._has_agent_axis:
            for key in ("reward", "discount", "not_done", "weight"):
                if batch[key] is not None and batch[key].ndim == 1:
                    batch[key] = batch[key].unsqueeze(1)
        return batch

    def _tensors(self, data: Samples, weighted: bool | None = None) -> dict[str, Any]:
        """Return the fields of samples as tensors on the device, without those that only a buffer reads.

        Args:
            data: B samples, as a list of dicts or as columns.
            weighted: whether the importance weights of the samples weigh the loss; by default as
                ``policy.priority_IS_weight`` says.

        Returns:
            The fields as :func:`~ding.policy.common_utils.default_preprocess_learn` makes them, among them ``weight``.
        """
        weighted = self._priority_IS_weight if weighted is None else weighted
        return default_preprocess_learn(
            data,
            use_priority=self._priority,
            use_priority_IS_weight=weighted,
            ignore_done=self._cfg.learn.ignore_done,
            device=self._device,
            agent_axis=self._has_agent_axis,
            skip=BUFFER_FIELDS if weighted else _UNWEIGHTED,
        )

    def _update(self, batch: Mapping[str, Any], **options: Any) -> Mapping[str, torch.Tensor]:
        """Make one update on tensors; returns what is logged, 0-d, and ``priority`` ``[B]``."""
        raise NotImplementedError(f"{type(self).__name__} has no _update")

    def _run_updates(
        self, batch: Mapping[str, Any], num_updates: int = 1, options: Sequence[Mapping[str, Any]] | None = None
    ) -> list[dict[str, Any]]:
        """Run :meth:`_update` on ``num_updates`` equal shares of the rows of ``batch``, in one graph where there is
        one; returns for each what it returned, as floats, ``[B]`` as a list of floats. ``options`` are the keyword
        arguments of each update.
        """
        if num_updates == 1 and not self._compiled_updates.graphs.enabled:
            return [read_out(self._update(batch, **(options[0] if options else {})))]
        return self._compiled_updates.run(batch, options or [{}] * num_updates)

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
            model: whose gradients are averaged over the processes, and clipped.
            max_grad_norm: limit of the 2-norm of all gradients together; ``None`` leaves them as they are.

        Returns:
            The norm before it was limited, a 0-d tensor; ``None`` without a limit.
        """
        if current_recording.get() is not None:
            return record_step(optimizer, loss, max_grad_norm)
        optimizer.zero_grad()
        if self._multi_gpu and type(self).sync_gradients is Learning.sync_gradients:
            backward_in_step(loss, model.parameters())
        else:
            loss.backward()
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
