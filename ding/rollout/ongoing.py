"""Save the ongoing episodes of a rollout, and resume them in a rollout of the same kind.

They consist of the states of the envs (:mod:`ding.envs.env.state`), the policies' memory of them, the growing segments
and the running episodes without their durations.
"""

from typing import Any

from ding.data.roles import StateDict
from ding.envs.env.state import EnvStateError
from ding.policy.collect_memory import collect_memory, set_collect_memory
from ding.rollout.rollout import Rollout


def ongoing_state(rollout: Rollout) -> StateDict:
    """Return the ongoing episodes; they share memory with the rollout.

    Raises:
        EnvStateError: The env manager or an env has no state that can be saved, or steps or finished segments are
            waiting.
        NotImplementedError: A policy does not expose its memory.
    """
    stepper, episodes = rollout.stepper, rollout.episodes
    # A manager without the method would delegate to that of its envs.
    get_state = getattr(type(stepper.env), "get_state", None)
    if get_state is None:
        raise EnvStateError(f"{type(stepper.env).__name__} cannot save the states of its envs")
    if stepper.is_waiting or any(one.samples_waiting for one in rollout.segments if one is not None):
        raise EnvStateError("steps or finished segments wait")
    return {
        "envs": get_state(stepper.env),
        "policies": [collect_memory(policy) for policy in stepper.policies],
        "segments": [None if segments is None else segments.state_dict() for segments in rollout.segments],
        "episodes": {"numbers": episodes.numbers, "steps": episodes.steps, "running": episodes.running},
    }


def load_ongoing_state(rollout: Rollout, state: StateDict) -> None:
    """Resume the episodes of an :func:`ongoing_state`.

    Raises:
        EnvStateError: The envs differ.
    """
    env: Any = rollout.stepper.env
    env.set_state(state["envs"])
    for policy, memory in zip(rollout.stepper.policies, state["policies"], strict=True):
        set_collect_memory(policy, memory)
    for segments, saved in zip(rollout.segments, state["segments"], strict=True):
        if segments is not None:
            segments.load_state_dict(saved)
    episodes, running = rollout.episodes, state["episodes"]
    episodes.numbers, episodes.steps = running["numbers"].copy(), running["steps"].copy()
    episodes.running = [dict(episode) for episode in running["running"]]
