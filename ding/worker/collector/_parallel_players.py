"""Games as their players see them: one observation, action, reward and info per player."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch
from ding.torch_utils import to_ndarray


def player_obs(obs: Any, player: int, num_players: int) -> Any:
    """What one player of ``num_players`` sees; the observation of a game with one player may be his alone."""
    if num_players == 1 and not isinstance(obs, (list, tuple)):
        return obs
    return obs[player]


def obs_by_player(obs: Mapping[int, Any], num_players: int) -> list[Mapping[int, Any]]:
    """Per player a mapping env id -> what the player sees."""
    if isinstance(obs, EnvBatch) and isinstance(obs.columns, np.ndarray) and num_players > 1:
        columns = obs.columns
        return [EnvBatch.unchecked(obs.env_ids, columns[:, player]) for player in range(num_players)]
    rows = dict(obs)
    return [
        EnvBatch.from_dict({env_id: player_obs(value, player, num_players) for env_id, value in rows.items()})
        for player in range(num_players)
    ]


def joint_actions(outputs: list[Mapping[int, Any]]) -> dict[int, np.ndarray]:
    """Per environment one array: the players' actions stacked, axes of length one removed."""
    return {
        env_id: np.stack([to_ndarray(output[env_id]["action"]) for output in outputs]).squeeze()
        for env_id in outputs[0]
    }


def player_timesteps(timesteps: Mapping[int, Any], player: int, num_players: int) -> TimestepBatch:
    """The timesteps of one player: his observation and reward; ``done`` is shared, and ``info`` unless it is a list."""
    return TimestepBatch.from_dict(
        {env_id: _player_timestep(timestep, player, num_players) for env_id, timestep in timesteps.items()}
    )


def _player_timestep(timestep: Any, player: int, num_players: int) -> BaseEnvTimestep:
    info = timestep.info[player] if isinstance(timestep.info, (list, tuple)) else timestep.info
    reward = timestep.reward
    if num_players > 1 or isinstance(reward, (list, tuple)):
        reward = reward[player]
    obs = player_obs(timestep.obs, player, num_players)
    return BaseEnvTimestep(obs, np.atleast_1d(to_ndarray(reward)), bool(timestep.done), info)


def result_of(value: float) -> str:
    """``wins``, ``draws`` or ``losses``, by the sign of a return."""
    return "wins" if value > 0 else "losses" if value < 0 else "draws"
