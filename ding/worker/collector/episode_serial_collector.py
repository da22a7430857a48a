"""Collect a number of whole episodes per call."""

import time
from typing import Any

import numpy as np

from ding.utils import SERIAL_COLLECTOR_REGISTRY
from ding.worker.collector._lifecycle import SerialCollectorBase, default_target, episode_return
from ding.worker.collector._rollout import Rollout, drop_abnormal
from ding.worker.collector._transitions import Samples, Transitions, make_transitions
from ding.worker.collector.base_serial_collector import INF


@SERIAL_COLLECTOR_REGISTRY.register("episode")
class EpisodeSerialCollector(SerialCollectorBase):
    """Collects exactly ``n_episode`` episodes per call with one policy.

    As many episodes are started as are asked for, so that no env step is wasted and none is left half done.
    """

    config = {
        # Keep copies of observations: for env managers that write into arrays which they have handed out.
        "deepcopy_obs": False,
        # Give the policy float32 tensors.
        "transform_obs": False,
        # Smallest distance between two logs, in train iterations.
        "collect_print_freq": 100,
        # Return training samples instead of raw episodes.
        "get_train_sample": False,
        # Call env.reward_shaping(env_id, transitions) when an episode has ended.
        "reward_shaping": False,
    }

    _transitions: "Transitions"

    def _read_policy(self) -> None:
        get = self._policy.get_attribute
        self._default_n_episode = get("n_episode")
        self._unroll_len = get("unroll_len")
        self._on_policy = get("on_policy")
        self._rollout = Rollout(self._env, self._policy, self._transform_obs, self._deepcopy_obs)
        self._transitions = make_transitions(self._policy, self._env_num, INF, self._deepcopy_obs)

    def _forget_trajectories(self) -> None:
        self._rollout.forget()
        self._transitions.clear()

    def collect(
        self,
        n_episode: "int | None" = None,
        train_iter: int = 0,
        policy_kwargs: "dict[str, Any] | None" = None,
    ) -> "list[Samples] | list[dict[str, Any]]":
        """Collect episodes.

        Args:
            n_episode: number of episodes, at least the number of environments (``None``: the policy's ``n_episode``).
            train_iter: learner iteration, stored as ``collect_iter`` in each transition and used as the time axis of
                logs.
            policy_kwargs: keyword arguments of ``policy.forward``.

        Returns:
            A list with one sequence of transitions per episode, in the order in which they ended; with
            ``get_train_sample`` a flat list of samples.

        Raises:
            RuntimeError: ``n_episode`` is unknown, env manager or policy is missing, or the manager is closed.
            TypeError: ``n_episode`` is not an int.
            AssertionError: ``n_episode`` is smaller than the number of environments.
        """
        self._require_ready()
        n_episode = default_target(n_episode, self._default_n_episode, "n_episode")
        if n_episode < self._env_num:
            raise AssertionError(f"n_episode must be at least env_num {self._env_num}, found {n_episode}")
        admitted: set[int] = set()
        remaining = n_episode
        collected = 0
        result: list[Any] = []
        while collected < n_episode:
            start_s = time.perf_counter()
            for env_id in self._env.ready_obs:
                if remaining > 0 and env_id not in admitted:
                    admitted.add(env_id)
                    remaining -= 1
            step, abnormal = drop_abnormal(self._rollout.step(policy_kwargs or {}, allowed=admitted))
            if len(abnormal):
                self._restart(abnormal)
            env_ids = step.timesteps.env_ids
            if not len(env_ids):
                continue
            self._transitions.append(step, {"collect_iter": train_iter})
            index = self._which(env_ids)
            self._env_step[index] += 1
            self._total_envstep_count += len(env_ids)
            self._env_time_s[index] += (time.perf_counter() - start_s) / len(env_ids)
            for position in np.flatnonzero(step.timesteps.done).tolist():
                env_id = int(env_ids[position])
                self._finish_episode(env_id, step.timesteps.info_at(position), result)
                admitted.discard(env_id)
                collected += 1
        self._total_episode_count += collected
        self._log(train_iter, ("reward",), with_samples=False)
        return result

    def _restart(self, env_ids: np.ndarray) -> None:
        self._restart_envs(env_ids)
        self._transitions.clear(env_ids)
        self._rollout.forget(env_ids.tolist())

    def _finish_episode(self, env_id: int, info: dict[str, Any], result: list[Any]) -> None:
        if self._cfg.get("reward_shaping", False):
            (episode,) = self._transitions.pop_pieces(np.array([env_id]))
            episode = list(episode)
            self._env.reward_shaping(env_id, episode)
            if self._cfg.get("get_train_sample", False):
                result.extend(self._policy.get_train_sample(episode))
            else:
                result.append(episode)
        elif self._cfg.get("get_train_sample", False):
            samples, _ = self._transitions.pop_samples(np.array([env_id]))
            result.extend(samples)
        else:
            result.extend(self._transitions.pop_pieces(np.array([env_id])))
        duration_s = float(self._env_time_s[env_id])
        self._total_duration += duration_s
        self._episode_info.append(
            {"reward": episode_return(info, env_id), "time": duration_s, "step": int(self._env_step[env_id])}
        )
        self._policy.reset([env_id])
        self._clear_env_counters(env_id)
