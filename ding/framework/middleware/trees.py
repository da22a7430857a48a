"""Trees, which are dicts with attribute access, and policies that work on trees."""

from typing import Any, Protocol

import torch

from ding.data import EnvBatch, Row, TransitionBatch
from ding.data.columns import num_rows, row_list
from ding.data.roles import ByEnv, Samples, Transition
from ding.policy.common_utils import network_columns
from ding.torch_utils import to_tensor
from ding.utils.nested import Tree, map_leaves, map_together, plain_tree


class TreePolicy(Protocol):
    """Interface of a policy that works on trees, besides ``collect`` or ``eval``."""

    def process_transition(self, obs: Any, policy_output: Any, timestep: Any) -> object:
        """Return the transition of one environment, a tree."""

    def reset(self, data_id: list[int] | None = None) -> None:
        """Reset the state of these environments (``None``: all)."""


class TreeMode:
    """Collect or eval mode of a policy that is one object for all modes and works on trees, such as ``PPOF``.

    Args:
        policy: Object with ``reset``, ``process_transition`` (for collecting), an attribute ``_device``, and a method
            ``name`` that maps a tree of observations ``[N, ...]`` to a tree with ``action``.
        name: ``collect`` or ``eval``.
    """

    def __init__(self, policy: "TreePolicy", name: str) -> None:
        self._policy = policy
        self._act = getattr(policy, name)

    @property
    def normalization(self) -> "object":
        """Statistics of observations and rewards of the policy; ``None`` if it has none."""
        return getattr(self._policy, "normalization", None)

    def forward(self, data: ByEnv, **kwargs: Any) -> ByEnv:
        """Return the outputs by env id."""
        device = getattr(self._policy, "_device", "cpu")
        batch = EnvBatch.from_dict(data)
        obs = network_columns(batch.columns, device)
        output = as_dict(self._act(as_tree(obs), **kwargs))
        columns = map_leaves(lambda leaf: leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf, output)
        rows = row_list(columns, num_rows(columns))
        return {env_id: as_tree(row) for env_id, row in zip(batch, rows)}

    def process_transition(self, obs: Any, policy_output: Any, timestep: Any) -> Transition:
        """Return the transition of one environment."""
        values = to_tensor({"obs": timestep.obs, "reward": timestep.reward, "done": timestep.done})
        step = Row(values, info=timestep.info)
        made: Transition = as_dict(self._policy.process_transition(as_tree(to_tensor(obs)), policy_output, step))
        return made

    def get_train_sample(self, transitions: Any) -> object:
        """Return the transitions unchanged: such a policy prepares them itself."""
        return transitions

    def reset(self, data_id: list[int] | None = None) -> None:
        """Reset the state of these environments (``None``: all)."""
        self._policy.reset(data_id)


def as_tree(value: Any) -> Tree:
    """Convert a dict to one with attribute access; return other values unchanged."""
    return Row(value) if isinstance(value, dict) else value


def as_dict(tree: Any) -> Tree:
    """Convert a tree (a dict, or an object of ``treetensor``) to plain dicts."""
    return map_together(lambda leaf: leaf, plain_tree(tree))


def as_batch(rows: Samples) -> TransitionBatch:
    """Convert transitions (dicts, trees, or a batch) to columns."""
    return rows if isinstance(rows, TransitionBatch) else TransitionBatch.from_rows(map(as_dict, rows))
