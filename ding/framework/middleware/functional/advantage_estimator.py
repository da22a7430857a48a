"""Advantages and returns of collected trajectories."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from easydict import EasyDict

from ding.data import Buffer, TransitionBatch
from ding.data.roles import CollectMode
from ding.data.transition_batch import joined_samples
from ding.framework.context import OnlineRLContext
from ding.framework.middleware._roles import for_roles
from ding.framework.middleware.functional.data_processor import push_rows
from ding.framework.middleware.functional.enhancer import segment_end_flags
from ding.framework.middleware.trees import as_batch
from ding.framework.task import Role
from ding.policy.base_policy import Policy
from ding.policy.common_utils import network_columns
from ding.rl_utils import gae, gae_data
from ding.torch_utils import to_tensor
from ding.utils.nested import map_leaves

Estimator = Callable[[OnlineRLContext], None]


@for_roles(Role.LEARNER)
def gae_estimator(cfg: EasyDict, policy: CollectMode, buffer_: Buffer | None = None) -> Estimator:
    """Return a middleware that adds ``value``, ``traj_flag`` and ``adv`` to ``ctx.trajectories``, and clears them.

    GAE, Schulman et al. 2016, https://arxiv.org/abs/1506.02438. The result is written to ``ctx.train_data`` (columns of
    B rows), or pushed to the buffer row by row. Without trajectories there is no train data.

    Args:
        cfg: ``policy.collect.discount_factor`` and ``policy.collect.gae_lambda``.
        policy: Collect mode of a policy with a critic.
        buffer_: Destination of the rows instead of the context.
    """
    model = policy.get_attribute("model")
    gamma, gae_lambda = cfg.policy.collect.discount_factor, cfg.policy.collect.gae_lambda

    def estimate(ctx: OnlineRLContext) -> None:
        if not ctx.trajectories:
            return
        columns = train_columns(ctx.trajectories)
        device = next(model.parameters()).device
        with torch.no_grad():
            value, next_value = (_critic(model, columns[key], device) for key in ("obs", "next_obs"))
        done = columns["done"].float()
        traj_flag = torch.from_numpy(segment_end_flags(TransitionBatch(columns), ctx.trajectory_end_idx))
        data = gae_data(value, next_value.clone(), columns["reward"], done, traj_flag.float())
        columns |= {"value": value, "traj_flag": traj_flag, "adv": gae(data, gamma, gae_lambda)}
        if buffer_ is None:
            ctx.train_data = TransitionBatch(columns)
        else:
            push_rows(buffer_, TransitionBatch({key: _with_axis(column) for key, column in columns.items()}))
        ctx.trajectories = None

    return estimate


def _critic(model: Any, obs: Any, device: torch.device) -> torch.Tensor:
    output: torch.Tensor = model.forward(network_columns(obs, device), mode="compute_critic")["value"].cpu()
    return output


@for_roles(Role.LEARNER)
def ppof_adv_estimator(policy: object) -> Estimator:
    """Return a middleware that moves ``ctx.trajectories`` with their ``traj_flag`` to ``ctx.train_data``.

    The policy computes the advantages itself.

    Args:
        policy: Ignored.
    """

    def estimate(ctx: OnlineRLContext) -> None:
        if not ctx.trajectories:
            return
        columns = train_columns(ctx.trajectories)
        columns["traj_flag"] = torch.from_numpy(segment_end_flags(TransitionBatch(columns), ctx.trajectory_end_idx))
        ctx.train_data = TransitionBatch(columns)
        ctx.trajectories = None

    return estimate


@for_roles(Role.LEARNER)
def montecarlo_return_estimator(policy: Policy) -> Estimator:
    """Return a middleware that moves the transitions of ``ctx.episodes``, with ``return``, to ``ctx.train_data``.

    Args:
        policy: Policy whose ``discount_factor`` and ``get_train_sample`` are used.

    Raises:
        ValueError: (by the middleware) An episode does not end with ``done``.
    """
    gamma, collect_mode = policy.collect_mode.get_attribute("gamma"), policy.collect_mode

    def estimate(ctx: OnlineRLContext) -> None:
        if not ctx.episodes:
            return
        parts = []
        for episode in ctx.episodes:
            columns = train_columns(episode)
            if not bool(columns["done"][-1]):
                raise ValueError("montecarlo_return_estimator: an episode does not end with done=True")
            parts.append(TransitionBatch({**columns, "return": discounted_returns(columns["reward"], gamma)}))
        if parts:
            ctx.train_data = joined_samples([collect_mode.get_train_sample(part) for part in parts])
        ctx.episodes = None

    return estimate


def discounted_returns(reward: torch.Tensor, gamma: float) -> torch.Tensor:
    """Return the discounted sum of future rewards at each step; input and output are float32 ``[T]``."""
    returns, total = reward.clone(), torch.zeros(())
    for step in range(len(reward) - 1, -1, -1):
        total = reward[step] + gamma * total
        returns[step] = total
    return returns


def train_columns(rows: Any) -> dict[str, Any]:
    """Convert L transitions to columns of tensors: leaves ``[L, 1]`` become ``[L]``, except one-dimensional actions."""
    batch = as_batch(rows)
    columns = {key: map_leaves(_tensor_column, column) for key, column in batch.columns.items()}
    action = columns.get("action")
    if isinstance(action, torch.Tensor) and action.is_floating_point() and action.dim() == 1:
        columns["action"] = action.unsqueeze(1)
    return columns


def _tensor_column(column: Any) -> torch.Tensor | list[Any]:
    if isinstance(column, list):
        if not isinstance(column[0], (int, float, np.generic)):
            return column  # a row is not a number: parts of an observation or of a multi-discrete action, or a string
        column = np.asarray(column)
    return _squeezed(to_tensor(column))


def _squeezed(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.squeeze(1) if leaf.dim() == 2 and leaf.shape[1] == 1 else leaf


def _with_axis(column: Any) -> object:
    """Return the column in the format of a buffer: scalar rows have the shape ``(1,)``."""
    if isinstance(column, list):
        return column
    return map_leaves(lambda leaf: leaf.unsqueeze(1) if leaf.dim() == 1 else leaf, column)
