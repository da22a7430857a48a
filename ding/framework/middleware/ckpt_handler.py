"""Checkpoints of a task."""

import os
from typing import Protocol, runtime_checkable

from ding.data.roles import LearnMode, attribute_of, only_declared
from ding.framework.context import OfflineRLContext, OnlineRLContext
from ding.framework.middleware._roles import for_roles, plays
from ding.framework.task import Role, current_task
from ding.torch_utils.weight_checks import check_weights
from ding.utils.checkpoint import save_checkpoint


@runtime_checkable
class HasLearnMode(Protocol):
    """Policy with a learn mode."""

    @property
    def learn_mode(self) -> LearnMode:
        """Learn mode of the policy."""


@for_roles(Role.LEARNER, Role.EVALUATOR)
class CkptSaver:
    """Saves the learn state of a policy in ``save_dir/ckpt``: at intervals, at the best evaluation, and at the end.

    The learner writes ``iteration_<train_iter>.pth.tar`` and ``final.pth.tar``, the evaluating process
    ``eval.pth.tar``, each with its checkpoint folder next to it (`ding.utils.checkpoint`). Non-finite weights raise
    ``NonFiniteError`` instead.

    Args:
        policy: Policy or its learn mode.
        save_dir: Experiment directory, or a folder named ``ckpt``.
        train_freq: Interval of checkpoints in train iterations; ``None`` disables them.
        save_finish: Save a checkpoint at the end.
    """

    def __init__(
        self, policy: HasLearnMode | LearnMode, save_dir: str, train_freq: int | None = None, save_finish: bool = True
    ) -> None:
        policy = only_declared(policy, {"learn_mode"})
        self.policy = policy.learn_mode if isinstance(policy, HasLearnMode) else policy
        self.train_freq = train_freq
        self.save_finish = save_finish
        is_ckpt_dir = os.path.basename(os.path.normpath(save_dir)) == "ckpt"
        self.prefix = save_dir if is_ckpt_dir else os.path.join(save_dir, "ckpt")
        self.last_save_iter: int | None = None
        self.max_eval_value = -float("inf")
        self._learns, self._evaluates = plays(Role.LEARNER), plays(Role.EVALUATOR)
        os.makedirs(self.prefix, exist_ok=True)

    def __call__(self, ctx: OnlineRLContext | OfflineRLContext) -> None:
        if self._learns and self.train_freq and self._is_due(ctx.train_iter):
            self._save(f"iteration_{ctx.train_iter}", ctx)
            self.last_save_iter = ctx.train_iter
        if self._evaluates and ctx.eval_value is not None and ctx.eval_value > self.max_eval_value:
            self._save("eval", ctx)
            self.max_eval_value = ctx.eval_value
        if self._learns and self.save_finish and current_task().finish:
            self._save("final", ctx)

    def _is_due(self, train_iter: int) -> bool:
        if train_iter == 0:
            return self.last_save_iter is None
        return train_iter - (self.last_save_iter or 0) >= (self.train_freq or 0)

    def _save(self, name: str, ctx: OnlineRLContext | OfflineRLContext) -> None:
        path = os.path.join(self.prefix, f"{name}.pth.tar")
        state = self.policy.state_dict()
        check_weights(state.get("model"), attribute_of(self.policy, "model"), f"the checkpoint {path}")
        notes = {"train_iter": int(ctx.train_iter), "env_step": int(getattr(ctx, "env_step", 0))}
        save_checkpoint(path, state, notes)
