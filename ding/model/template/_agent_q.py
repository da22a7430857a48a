"""Q values of several agents by one recurrent network whose rows are environments times agents."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ding.model.common.state_rows import StateRows
from ding.model.template._drqn import DRQN
from ding.utils.nested import Tree

# Value of a forbidden action in a greedy choice; finite, so that differences remain finite.
FORBIDDEN_VALUE = -9999999.0


class AgentValues(NamedTuple):
    """Result of :func:`agent_values`."""

    #: ``[T, B, A, actions]``.
    q: torch.Tensor
    #: A list of a state ``{'h', 'c'}``, each ``[layers, 1, H]``, for each agent of each row.
    next_state: StateRows
    #: ``[T, B, A, H]``: the hidden state after each step.
    hidden: torch.Tensor


def agent_values(network: DRQN, agent_state: torch.Tensor, prev_state: Any) -> AgentValues:
    """Return the values for ``agent_state`` ``[T, B, A, *obs_shape]``, starting from states of :func:`joint_state`."""
    rows, agents = agent_state.shape[1:3]
    output, state = network.unroll(agent_state.flatten(1, 2), joint_state(prev_state, agents))
    next_state = StateRows(
        {key: value.unflatten(1, (rows, agents)).permute(1, 2, 0, 3).unsqueeze(3) for key, value in state.items()},
        depth=2,
    )
    q, hidden = (output[key].unflatten(1, (rows, agents)) for key in ("logit", "hidden_state"))
    return AgentValues(q, next_state, hidden)


def joint_state(prev_state: Any, agent_num: int) -> object:
    """Return the state of B rows of A agents as one of ``B * A`` rows.

    Arguments:
        prev_state: None; ``{'h', 'c'}`` of ``[B, A, layers, 1, H]``, or a list with one entry per row: None (zeros),
            such a dict of ``[A, layers, 1, H]``, or a list of A states as ``DRQN`` takes them.

    Returns:
        None, ``{'h', 'c'}`` of ``[layers, B * A, H]``, or a list of ``B * A`` states.
    """
    prev_state = state_columns(prev_state)
    if isinstance(prev_state, Mapping):
        return {key: value.flatten(0, 1).squeeze(2).transpose(0, 1) for key, value in prev_state.items()}
    if prev_state is None or all(state is None for state in prev_state):
        return None
    if any(isinstance(state, Sequence) for state in prev_state):
        return [one for state in prev_state for one in _per_agent(state, agent_num)]
    zeros = {key: torch.zeros_like(value) for key, value in next(s for s in prev_state if s is not None).items()}
    filled = [zeros if state is None else state for state in prev_state]
    return joint_state({key: torch.stack([state[key] for state in filled]) for key in zeros}, agent_num)


def state_columns(prev_state: Any) -> Tree:
    """Return ``{'h', 'c'}`` of ``[B, agents, layers, 1, H]`` for states, or rows of them, that a network of agents
    returned; all else as it is.
    """
    states = StateRows.of(prev_state)
    if states is None and isinstance(prev_state, (list, tuple)):
        states = StateRows.joined(prev_state)
    return prev_state if states is None else states.agent_columns


def _per_agent(state: Any, agent_num: int) -> list[Any]:
    if state is None:
        return [None] * agent_num
    if isinstance(state, Mapping):
        return [{"h": h, "c": c} for h, c in zip(state["h"], state["c"])]
    return list(state)


def with_time(data: Mapping[str, Any], single_step: bool) -> tuple[dict[str, Any], torch.Tensor | None]:
    """Return ``obs`` and ``action`` (None if missing) of a network's input, always with a time axis."""
    obs, action = dict(data["obs"]), data.get("action")
    if single_step:
        obs = {key: value.unsqueeze(0) for key, value in obs.items()}
        action = None if action is None else action.unsqueeze(0)
    return obs, action


def chosen(
    q: torch.Tensor, action: torch.Tensor | None, mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the values ``[..., A]`` of the actions that were taken, or of the best allowed ones if there are none, and
    all values ``[..., A, actions]``, in the latter case with forbidden ones at :data:`FORBIDDEN_VALUE`.
    """
    if action is None:
        if mask is not None:
            q = q.masked_fill(mask == 0, FORBIDDEN_VALUE)
        action = q.argmax(-1)
    return q.gather(-1, action.long().unsqueeze(-1)).squeeze(-1), q


def joint_output(
    values: AgentValues,
    total_q: torch.Tensor,
    logit: torch.Tensor,
    obs: Mapping[str, Any],
    single_step: bool,
    **more: Any,
) -> dict[str, Any]:
    """Return the output of a joint network: ``total_q``, ``logit``, ``action_mask`` (if there is one) and what ``more``
    names, without the time axis for a single step; and ``next_state``.
    """
    output = {"total_q": total_q, "logit": logit, **more}
    if "action_mask" in obs:
        output["action_mask"] = obs["action_mask"]
    if single_step:
        output = {key: value.squeeze(0) for key, value in output.items()}
    return {**output, "next_state": values.next_state}
