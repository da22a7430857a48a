"""Who plays: one policy alone, or one per player of a game, each of which sees its part of the environment."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch
from ding.data.roles import ByEnv, CollectMode, EvalMode
from ding.torch_utils import to_ndarray

Mode = TypeVar("Mode", CollectMode, EvalMode)


class Game:
    """How environments with several players are split among them, and their actions put together.

    An observation and a reward are indexed by the player; ``done`` is shared, and so is ``info`` unless it is a list.

    Args:
        num_players: number of players. What an environment with one player gives may be that player's alone.
        joint_array: an action is one array ``[num_players, ...]`` without axes of length one; else a list with one
            array per player.
    """

    def __init__(self, num_players: int, joint_array: bool = False) -> None:
        self.num_players = num_players
        self._joint_array = joint_array

    def observations(self, obs: ByEnv) -> list[ByEnv]:
        """Per player a mapping env id -> what the player sees."""
        players = range(self.num_players)
        if isinstance(obs, EnvBatch) and isinstance(obs.columns, np.ndarray) and self.num_players > 1:
            columns = obs.columns
            return [EnvBatch.unchecked(obs.env_ids, columns[:, player]) for player in players]
        rows = dict(obs)
        return [{env_id: self._seen(value, player) for env_id, value in rows.items()} for player in players]

    def actions(self, outputs: Sequence[ByEnv]) -> dict[int, Any]:
        """Env id -> action, from the policies' outputs."""
        joint = {env_id: [to_ndarray(output[env_id]["action"]) for output in outputs] for env_id in outputs[0]}
        if not self._joint_array:
            return joint
        return {env_id: np.stack(actions).squeeze() for env_id, actions in joint.items()}

    def timesteps(self, timesteps: Mapping[int, BaseEnvTimestep]) -> list[TimestepBatch]:
        """Per player the timesteps with the player's observation, reward and info."""
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

    def _seen(self, obs: Sequence[object] | np.ndarray, player: int) -> Any:
        return obs if self.num_players == 1 and not isinstance(obs, (list, tuple)) else obs[player]


def as_policies(policy: "Mode | Sequence[Mode]") -> list[Mode]:
    """The policies of a list or tuple of them; one policy, which may be a named tuple, alone."""
    if isinstance(policy, (list, tuple)) and not hasattr(policy, "forward"):
        return list(policy)
    return [policy]  # type: ignore[list-item]
