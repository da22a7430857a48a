"""What the battle collectors share: several policies in the same environments, one transition per player and step."""

import time
from collections.abc import Iterable
from typing import Any

import torch

from ding.data import BaseEnvTimestep
from ding.torch_utils import to_ndarray, to_tensor
from ding.worker.collector._lifecycle import SerialCollectorBase, as_policies, scalar
from ding.worker.collector.base_serial_collector import CachePool, TrajBuffer, to_tensor_transitions


class BattleCollectorBase(SerialCollectorBase):
    """Steps environments in which player ``i`` is played by policy ``i``.

    An observation is indexable by player, an action is a list with one array per player, and ``timestep.info`` is a
    list with one dict per player. ``done`` is shared.
    """

    _policy_num = 0

    def _start_policies(self, records: list[bool]) -> None:
        """Take up the policies; ``records`` says of which of them transitions are recorded."""
        before, self._policy_num = self._policy_num, len(self._policy)
        self._records = records
        if self._policy_num != before:
            self._forget_trajectories()

    def _forget_trajectories(self) -> None:
        self._obs_pool = CachePool("obs", self._env_num, deepcopy=self._deepcopy_obs)
        self._output_pool = CachePool("policy_output", self._env_num)
        self._buffers = [
            [TrajBuffer(maxlen=None, deepcopy=self._deepcopy_obs) for _ in range(self._policy_num)]
            for _ in range(self._env_num)
        ]

    def _clear_env(self, env_id: int) -> None:
        self._obs_pool.reset(env_id)
        self._output_pool.reset(env_id)
        for buffer in self._buffers[env_id]:
            buffer.clear()
        self._clear_env_counters(env_id)

    def _battle_step(
        self, train_iter: int, policy_kwargs: dict[str, Any], allowed: "set[int] | None" = None
    ) -> list[tuple[int, BaseEnvTimestep]]:
        """One vector step; the transitions are recorded, the timesteps returned with their env ids."""
        start_s = time.perf_counter()
        obs = {env_id: obs for env_id, obs in self._env.ready_obs.items() if allowed is None or env_id in allowed}
        self._obs_pool.update(obs)
        if self._transform_obs:
            obs = {env_id: to_tensor(value, dtype=torch.float32) for env_id, value in obs.items()}
        outputs = [
            policy.forward({env_id: value[i] for env_id, value in obs.items()}, **policy_kwargs)
            for i, policy in enumerate(self._policy)
        ]
        self._output_pool.update(outputs)
        actions = {env_id: [to_ndarray(output[env_id]["action"]) for output in outputs] for env_id in obs}
        steps = list(self._env.step(actions).items())
        elapsed_s = (time.perf_counter() - start_s) / max(len(steps), 1)
        for env_id, timestep in steps:
            self._record(env_id, timestep, train_iter)
            self._env_step[env_id] += 1
            self._env_time_s[env_id] += elapsed_s
        return steps

    def _record(self, env_id: int, timestep: BaseEnvTimestep, train_iter: int) -> None:
        obs, outputs = self._obs_pool[env_id], self._output_pool[env_id]
        for i, policy in enumerate(self._policy):
            if self._records[i]:
                seen = player_timestep(timestep, i)
                transition = policy.process_transition(obs[i], outputs[i], seen)
                transition["collect_iter"] = train_iter
                self._buffers[env_id][i].append(transition)

    def _take_piece(self, env_id: int, policy_id: int) -> list[dict[str, Any]]:
        buffer = self._buffers[env_id][policy_id]
        piece = to_tensor_transitions(buffer, shallow_copy_next_obs=not self._deepcopy_obs)
        buffer.clear()
        return piece

    def _finish_episode(self, env_id: int, timestep: BaseEnvTimestep, infos: list[list[Any]]) -> None:
        record = {
            "time": float(self._env_time_s[env_id]),
            "step": int(self._env_step[env_id]),
            "train_sample": int(self._env_train_sample[env_id]),
        }
        for i, policy in enumerate(self._policy):
            info = player_timestep(timestep, i).info
            record[f"reward{i}"] = scalar(info["eval_episode_return"])
            infos[i].append(info)
            policy.reset([env_id])
        self._episode_info.append(record)
        self._total_episode_count += 1
        self._total_duration += record["time"]
        self._clear_env(env_id)

    def _reward_keys(self) -> tuple[str, ...]:
        return tuple(f"reward{i}" for i in range(self._policy_num))


def player_timestep(timestep: BaseEnvTimestep, player: int) -> BaseEnvTimestep:
    """The timestep as one player sees it: every field but ``done`` is indexed by the player."""
    infos: Any = timestep.info
    return BaseEnvTimestep(timestep.obs[player], timestep.reward[player], bool(timestep.done), infos[player])


def default_of(cfg: Any, name: str) -> Any:
    """``cfg.collect[name]`` or ``None``."""
    return cfg.get("collect", {}).get(name)


def require_policies(policies: Any, low: int, high: "int | None" = None) -> None:
    """Raise an ``AssertionError`` unless there is a list of ``low`` to ``high`` policies."""
    count = len(as_policies(policies))
    if count < low or (high is not None and count > high):
        expected = f"{low}" if high == low else f"at least {low}"
        raise AssertionError(f"a battle collector needs a list of {expected} policies, found {count}")


def empty_lists(count: int) -> list[list[Any]]:
    """``count`` empty lists."""
    return [[] for _ in range(count)]


def all_reach(lists: Iterable[list[Any]], target: int) -> bool:
    """Whether each list has at least ``target`` elements."""
    return all(len(items) >= target for items in lists)
