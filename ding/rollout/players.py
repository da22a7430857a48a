"""Players: one policy, or one per player of a game, and their views of a vector step."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch
from ding.data.roles import ByEnv, CollectMode, EvalMode, attribute_of
from ding.torch_utils import to_ndarray

Return: TypeAlias = float | Sequence[float] | np.ndarray | torch.Tensor
"""Return of an episode as reported by an env; in a game possibly one return per player, indexed by player."""

Mode = TypeVar("Mode", CollectMode, EvalMode)


class VectorStep(NamedTuple):
    """A vector step as one player sees it; all three have the same N env ids in the same order."""

    obs: ByEnv
    output: ByEnv
    timesteps: TimestepBatch

    def take(self, positions: np.ndarray) -> "VectorStep":
        """Return the rows at these positions (int64 ``[M]``, ascending)."""
        timesteps = self.timesteps.take(positions)
        kept = set(timesteps.env_ids.tolist())
        return VectorStep(select(self.obs, kept), select(self.output, kept), timesteps)


class Game:
    """Split environments among several players, and combine their actions.

    An observation and a reward are indexed by the player; ``done`` is shared, and so is ``info`` unless it is a list.

    Args:
        num_players: Number of players. With one player, env values may omit the player axis.
        joint_array: Whether an action is one array ``[num_players, ...]`` without axes of length one, instead of a list
            with one array per player.
    """

    def __init__(self, num_players: int, joint_array: bool = False) -> None:
        self.num_players = num_players
        self._joint_array = joint_array

    def observations(self, obs: ByEnv) -> list[ByEnv]:
        """Return per player a mapping env id -> observation."""
        players = range(self.num_players)
        if isinstance(obs, EnvBatch) and isinstance(obs.columns, np.ndarray) and self.num_players > 1:
            columns = obs.columns
            return [EnvBatch.unchecked(obs.env_ids, columns[:, player]) for player in players]
        rows = dict(obs)
        return [{env_id: self._seen(value, player) for env_id, value in rows.items()} for player in players]

    def actions(self, outputs: Sequence[ByEnv]) -> dict[int, Any]:
        """Return env id -> action from the policies' outputs."""
        joint = {env_id: [to_ndarray(output[env_id]["action"]) for output in outputs] for env_id in outputs[0]}
        if not self._joint_array:
            return joint
        return {env_id: np.stack(actions).squeeze() for env_id, actions in joint.items()}

    def timesteps(self, timesteps: Mapping[int, BaseEnvTimestep]) -> list[TimestepBatch]:
        """Return per player the timesteps with that player's observation, reward and info."""
        steps = list(timesteps.items())
        return [
            TimestepBatch.from_dict({env_id: self._timestep(timestep, player) for env_id, timestep in steps})
            for player in range(self.num_players)
        ]

    def _timestep(self, timestep: BaseEnvTimestep, player: int) -> BaseEnvTimestep:
        info = timestep.info[player] if isinstance(timestep.info, (list, tuple)) else timestep.info
        reward = timestep.reward
        if self.num_players > 1 or isinstance(reward, (list, tuple)):
            reward = reward[player]
        obs = self._seen(timestep.obs, player)
        return BaseEnvTimestep(obs, np.atleast_1d(to_ndarray(reward)), bool(timestep.done), info)

    def _seen(self, obs: Sequence[object] | np.ndarray, player: int) -> object:
        return obs if self.num_players == 1 and not isinstance(obs, (list, tuple)) else obs[player]


def as_policies(policy: "Mode | Sequence[Mode]") -> list[Mode]:
    """Return the policies of a list or tuple of them; one policy, which may be a named tuple, alone."""
    if isinstance(policy, (list, tuple)) and not hasattr(policy, "forward"):
        return list(policy)
    return [policy]  # type: ignore[list-item]


def records(policy: Mode) -> bool:
    """Return whether the steps of a policy are recorded, by its ``collect_data``; False for a scripted opponent."""
    return bool(getattr(policy, "collect_data", True))


def first_recorded(policies: Sequence[Mode]) -> Mode:
    """Return the policy whose settings apply to a battle: the first recorded one."""
    return next(filter(records, policies), policies[0])


def collect_setting(policy: Mode, name: str) -> Any:
    """Return a key of ``policy.collect``; ``None`` if missing."""
    return attribute_of(policy, "cfg", {}).get("collect", {}).get(name)


def select(mapping: ByEnv, env_ids: set[int]) -> ByEnv:
    """Return the part of a mapping that belongs to these environments."""
    if not isinstance(mapping, EnvBatch):
        return {env_id: value for env_id, value in mapping.items() if env_id in env_ids}
    positions = [i for i, env_id in enumerate(mapping.env_ids.tolist()) if env_id in env_ids]
    return mapping if len(positions) == len(mapping) else mapping.take(np.array(positions, dtype=np.int64))


def episode_return(info: object, env_id: int) -> Return:
    """Return ``info['eval_episode_return']`` of a finished episode.

    Raises:
        KeyError: The env did not report it.
    """
    if not isinstance(info, Mapping) or "eval_episode_return" not in info:
        raise KeyError(
            f"env {env_id} ended an episode without info['eval_episode_return']: "
            "add the wrapper EvalEpisodeReturnWrapper ('eval_episode_return'), or set it in the step of the env"
        )
    made: Return = info["eval_episode_return"]
    return made


def scalar(value: Return) -> float:
    """Convert a number, or an array or tensor with one element, to a Python number."""
    return float(value.item() if isinstance(value, (np.ndarray, torch.Tensor)) else value)  # type: ignore[arg-type]


def own_return(value: Return, player: int) -> Return:
    """Return a player's part of a return that may be one for all players."""
    if isinstance(value, (int, float)) or getattr(value, "ndim", 1) == 0:
        return value
    return value[player if len(value) > 1 else 0]
