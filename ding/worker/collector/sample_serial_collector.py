"""Collect a number of training samples per call."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ding.data import TransitionBatch
from ding.utils import SERIAL_COLLECTOR_REGISTRY, allreduce_data, one_time_warning
from ding.worker.collector._lifecycle import SerialCollectorBase, default_target, episode_return
from ding.worker.collector._rollout import Rollout, VectorStep, drop_abnormal
from ding.worker.collector._running_episodes import RunningEpisodes
from ding.worker.collector._transitions import Samples, Transitions, make_transitions
from ding.worker.collector.base_serial_collector import INF


@SERIAL_COLLECTOR_REGISTRY.register("sample")
class SampleSerialCollector(SerialCollectorBase):
    """Collects ``n_sample`` training samples per call with one policy.

    Trajectories are cut into pieces of ``max(unroll_len, ceil(n_sample / env_num))`` steps (whole episodes when
    ``policy.traj_len_inf``), and each piece goes through ``policy.get_train_sample``. Unfinished pieces wait for the
    next call when the policy is off-policy.
    """

    config = {
        # Keep copies of observations: for env managers that write into arrays which they have handed out.
        "deepcopy_obs": False,
        # Give the policy float32 tensors.
        "transform_obs": False,
        # Smallest distance between two logs, in train iterations.
        "collect_print_freq": 100,
    }

    _transitions: Transitions

    def _read_policy(self) -> None:
        get = self._policy.get_attribute
        self._policy_cfg = get("cfg")
        self._default_n_sample = get("n_sample")
        self._unroll_len = get("unroll_len")
        self._on_policy = get("on_policy")
        if self._default_n_sample is not None and not self._policy_cfg.traj_len_inf:
            self._traj_len: float = max(self._unroll_len, math.ceil(self._default_n_sample / self._env_num))
        else:
            self._traj_len = INF
        self._keep_surplus = not self._on_policy and not self._policy_cfg.get("reference_numerics", False)
        self._rollout = Rollout(self._env, self._policy, self._transform_obs, self._deepcopy_obs)
        transitions = make_transitions(self._policy, self._env_num, self._traj_len, self._deepcopy_obs)
        if hasattr(self, "_transitions"):
            # Pieces that another policy (e.g. the random one) began are finished by this one.
            transitions.adopt(self._transitions)
        self._transitions = transitions

    def _forget_trajectories(self) -> None:
        self._rollout.forget()
        self._drop_pieces()
        self._surplus: Samples = []

    def _drop_pieces(self) -> None:
        self._transitions.clear()
        self._episodes = RunningEpisodes(self._env_num)
        # Of each finished piece whose samples were not taken yet: the record of its episode.
        self._piece_records: list[dict[str, Any]] = []

    def collect(
        self,
        n_sample: "int | None" = None,
        train_iter: int = 0,
        drop_extra: bool = True,
        random_collect: bool = False,
        record_random_collect: bool = True,
        policy_kwargs: "dict[str, Any] | None" = None,
        level_seeds: "Sequence[Any] | Mapping[int, Any] | None" = None,
    ) -> Samples:
        """Collect training samples.

        Args:
            n_sample: number of samples (``None``: the policy's ``n_sample``).
            train_iter: learner iteration, stored as ``collect_iter`` in each transition and used as the time axis of
                logs.
            drop_extra: return exactly ``n_sample`` samples. What a call has beyond that is returned first by the next
                call (off-policy; dropped on-policy and under ``policy.reference_numerics``). ``False`` returns
                everything.
            random_collect: the samples come from a random policy (kept for policies that treat it differently).
            record_random_collect: ``False`` leaves the episodes of this call out of the logs.
            policy_kwargs: keyword arguments of ``policy.forward``, e.g. ``{'eps': 0.1}``.
            level_seeds: one seed per environment id, stored as ``seed`` in each transition.

        Returns:
            A sequence of samples (a :class:`~ding.data.TransitionBatch` when the policy is batched).

        Raises:
            RuntimeError: ``n_sample`` is unknown, env manager or policy is missing, or the manager is closed.
            TypeError: ``n_sample`` is not an int.
        """
        self._require_ready()
        n_sample = default_target(n_sample, self._default_n_sample, "n_sample")
        if n_sample % self._env_num != 0:
            one_time_warning(f"n_sample {n_sample} is not a multiple of env_num {self._env_num}")
        extra: dict[str, Any] = {"collect_iter": train_iter}
        if level_seeds is not None:
            extra["seed"] = [level_seeds[env_id] for env_id in range(self._env_num)]
        counts = {"step": 0, "episode": 0, "sample": 0}
        first_episode = len(self._episode_info)
        parts: list[Samples] = [self._surplus] if len(self._surplus) else []
        collected = len(self._surplus)
        self._surplus = []
        while collected < n_sample:
            self._collect_step(policy_kwargs or {}, extra, counts)
            if collected + self._transitions.samples_waiting >= n_sample:
                samples = self._take_samples()
                parts.append(samples)
                collected += len(samples)
                counts["sample"] += len(samples)
        self._count(counts, self._episode_info[first_episode:])
        if record_random_collect:
            self._log(train_iter, ("reward",), with_samples=True)
        else:
            self._episode_info.clear()
        if self._on_policy:
            self._drop_pieces()
        return self._cut(_joined(parts), n_sample, drop_extra)

    def _collect_step(self, policy_kwargs: dict[str, Any], extra: dict[str, Any], counts: dict[str, int]) -> None:
        """One vector step. The samples of the pieces that it finishes wait in the transitions."""
        start_s = time.perf_counter()
        step = self._rollout.step(policy_kwargs)
        if step.timesteps.infos:
            step, abnormal = drop_abnormal(step)
            if len(abnormal):
                self._restart(abnormal)
        env_ids, done = step.timesteps.env_ids, step.timesteps.done
        if not len(env_ids):
            return
        self._transitions.append(step, extra)
        counts["step"] += len(env_ids)
        self._finish_pieces(env_ids, done)
        self._episodes.step(env_ids, (time.perf_counter() - start_s) / len(env_ids))
        if np.count_nonzero(done):
            self._finish_episodes(step, counts)

    def _finish_pieces(self, env_ids: np.ndarray, done: np.ndarray) -> None:
        """Finish the pieces that have ended by their length or with their episode."""
        if self._traj_len != 1:
            # More, where a policy with longer pieces began them.
            ended = done | (self._transitions.counts[self._which(env_ids)] >= self._traj_len)
            num_ended = np.count_nonzero(ended)
            if not num_ended:
                return
            if num_ended < len(env_ids):
                env_ids = env_ids[ended]
        self._transitions.finish(env_ids)
        self._piece_records += map(self._episodes.record, env_ids.tolist())

    def _take_samples(self) -> Samples:
        samples, per_piece = self._transitions.take_samples()
        for record, count in zip(self._piece_records, per_piece.tolist(), strict=True):
            record["train_sample"] += count
        self._piece_records.clear()
        return samples

    def _restart(self, env_ids: np.ndarray) -> None:
        self._restart_envs(env_ids)
        self._transitions.clear(env_ids)
        self._rollout.forget(env_ids.tolist())

    def _clear_env_counters(self, env_ids: "np.ndarray | slice | int") -> None:
        super()._clear_env_counters(env_ids)
        for env_id in np.arange(self._env_num)[env_ids].reshape(-1).tolist():
            self._episodes.restart(env_id)

    def _finish_episodes(self, step: VectorStep, counts: dict[str, int]) -> None:
        timesteps = step.timesteps
        positions = timesteps.done.nonzero()[0]
        for position, env_id in zip(positions.tolist(), timesteps.env_ids[positions].tolist()):
            reward = episode_return(timesteps.info_at(position), env_id)
            self._episode_info.append(self._episodes.end(env_id, reward))
            self._policy.reset([env_id])
        counts["episode"] += len(positions)

    def _count(self, counts: dict[str, int], new_episodes: list[dict[str, Any]]) -> None:
        duration_s = sum(episode["time"] for episode in new_episodes)
        if self._world_size > 1:
            counts = {key: int(allreduce_data(value, "sum")) for key, value in counts.items()}
            duration_s = allreduce_data(duration_s, "sum")
        self._total_envstep_count += counts["step"]
        self._total_episode_count += counts["episode"]
        self._total_train_sample_count += counts["sample"]
        self._total_duration += duration_s

    def _cut(self, samples: Samples, n_sample: int, drop_extra: bool) -> Samples:
        if not drop_extra or len(samples) <= n_sample:
            return samples
        if self._keep_surplus:
            self._surplus = samples[n_sample:]
        return samples[:n_sample]


def _joined(parts: list[Samples]) -> Samples:
    if not parts:
        return []
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, TransitionBatch) for part in parts):
        return TransitionBatch.concat(parts)  # type: ignore[arg-type]
    return [sample for part in parts for sample in part]
