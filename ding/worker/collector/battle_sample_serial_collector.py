"""Collect a number of training samples per policy from environments with several players."""

import math
from typing import Any

from ding.utils import SERIAL_COLLECTOR_REGISTRY
from ding.worker.collector._battle import BattleCollectorBase, all_reach, default_of, empty_lists, require_policies
from ding.worker.collector._lifecycle import default_target
from ding.worker.collector.base_serial_collector import INF


@SERIAL_COLLECTOR_REGISTRY.register("sample_1v1")
class BattleSampleSerialCollector(BattleCollectorBase):
    """Collects ``n_sample`` training samples for each of two or more policies that play against each other.

    A policy with ``collect_data = False`` plays but its transitions are not recorded. Pieces of trajectories that have
    begun wait for the next call, also on-policy.
    """

    config = {
        # Keep copies of observations: for env managers that write into arrays which they have handed out.
        "deepcopy_obs": False,
        # Give the policies float32 tensors.
        "transform_obs": False,
        # Smallest distance between two logs, in train iterations.
        "collect_print_freq": 100,
    }

    def _read_policy(self) -> None:
        require_policies(self._policy, 2)
        cfg = self._policy[0].get_attribute("cfg")
        self._default_n_sample = default_of(cfg, "n_sample")
        self._unroll_len = self._policy[0].get_attribute("unroll_len")
        self._on_policy = cfg.on_policy
        self._traj_len: float = INF
        if self._default_n_sample is not None:
            self._traj_len = max(self._unroll_len, math.ceil(self._default_n_sample / self._env_num))
        self._start_policies([bool(getattr(policy, "collect_data", True)) for policy in self._policy])

    def collect(
        self,
        n_sample: "int | None" = None,
        train_iter: int = 0,
        drop_extra: bool = True,
        policy_kwargs: "dict[str, Any] | None" = None,
    ) -> tuple[list[list[Any]], list[list[Any]]]:
        """Collect at least ``n_sample`` samples for each policy that records data.

        Args:
            n_sample: number of samples per policy (``None``: the default of policy 0).
            train_iter: learner iteration, stored as ``collect_iter`` and used as the time axis of logs.
            drop_extra: cut each policy's list to ``n_sample``.
            policy_kwargs: keyword arguments of each ``policy.forward``.

        Returns:
            ``(samples, infos)``: per policy a list of samples, and per policy the infos of the finished episodes.

        Raises:
            RuntimeError: ``n_sample`` is unknown, env manager or policies are missing, or the manager is closed.
            TypeError: ``n_sample`` is not an int.
        """
        self._require_ready()
        n_sample = default_target(n_sample, self._default_n_sample, "n_sample")
        samples, infos = empty_lists(self._policy_num), empty_lists(self._policy_num)
        recorded = [samples[i] for i in range(self._policy_num) if self._records[i]]
        while not all_reach(recorded, n_sample):
            for env_id, timestep in self._battle_step(train_iter, policy_kwargs or {}):
                self._total_envstep_count += 1
                self._flush(env_id, bool(timestep.done), samples)
                if timestep.done:
                    self._finish_episode(env_id, timestep, infos)
        self._log(train_iter, self._reward_keys(), with_samples=False)
        return ([items[:n_sample] for items in samples] if drop_extra else samples), infos

    def _flush(self, env_id: int, done: bool, samples: list[list[Any]]) -> None:
        for i, policy in enumerate(self._policy):
            if self._records[i] and (done or len(self._buffers[env_id][i]) >= self._traj_len):
                new = policy.get_train_sample(self._take_piece(env_id, i))
                samples[i].extend(new)
                self._total_train_sample_count += len(new)
                self._env_train_sample[env_id] += len(new)
