"""Collect a number of whole episodes of two players."""

from typing import Any

from ding.utils import SERIAL_COLLECTOR_REGISTRY
from ding.worker.collector._battle import BattleCollectorBase, default_of, empty_lists, require_policies
from ding.worker.collector._lifecycle import default_target


@SERIAL_COLLECTOR_REGISTRY.register("episode_1v1")
class BattleEpisodeSerialCollector(BattleCollectorBase):
    """Collects exactly ``n_episode`` episodes of two policies that play against each other.

    The transitions of both are recorded.
    """

    config = {
        # Keep copies of observations: for env managers that write into arrays which they have handed out.
        "deepcopy_obs": False,
        # Give the policies float32 tensors.
        "transform_obs": False,
        # Smallest distance between two logs, in train iterations.
        "collect_print_freq": 100,
        # Return training samples instead of raw episodes.
        "get_train_sample": False,
    }

    def _read_policy(self) -> None:
        require_policies(self._policy, 2, 2)
        cfg = self._policy[0].get_attribute("cfg")
        self._default_n_episode = default_of(cfg, "n_episode")
        self._unroll_len = self._policy[0].get_attribute("unroll_len")
        self._on_policy = cfg.on_policy
        self._start_policies([True, True])

    def collect(
        self,
        n_episode: "int | None" = None,
        train_iter: int = 0,
        policy_kwargs: "dict[str, Any] | None" = None,
    ) -> tuple[list[list[Any]], list[list[Any]]]:
        """Collect episodes.

        Args:
            n_episode: number of episodes, at least the number of environments (``None``: the default of policy 0).
            train_iter: learner iteration, stored as ``collect_iter`` and used as the time axis of logs.
            policy_kwargs: keyword arguments of each ``policy.forward``.

        Returns:
            ``(episodes, infos)``: per policy a list of episodes (with ``get_train_sample`` a flat list of samples),
            and per policy the infos.

        Raises:
            RuntimeError: ``n_episode`` is unknown, env manager or policies are missing, or the manager is closed.
            TypeError: ``n_episode`` is not an int.
            AssertionError: ``n_episode`` is smaller than the number of environments.
        """
        self._require_ready()
        n_episode = default_target(n_episode, self._default_n_episode, "n_episode")
        if n_episode < self._env_num:
            raise AssertionError(f"n_episode must be at least env_num {self._env_num}, found {n_episode}")
        episodes, infos = empty_lists(self._policy_num), empty_lists(self._policy_num)
        admitted: set[int] = set()
        remaining, collected = n_episode, 0
        while collected < n_episode:
            for env_id in self._env.ready_obs:
                if remaining > 0 and env_id not in admitted:
                    admitted.add(env_id)
                    remaining -= 1
            for env_id, timestep in self._battle_step(train_iter, policy_kwargs or {}, allowed=admitted):
                self._total_envstep_count += 1
                if timestep.done:
                    self._take_episodes(env_id, episodes)
                    self._finish_episode(env_id, timestep, infos)
                    admitted.discard(env_id)
                    collected += 1
        self._log(train_iter, self._reward_keys(), with_samples=False)
        return episodes, infos

    def _take_episodes(self, env_id: int, episodes: list[list[Any]]) -> None:
        for i, policy in enumerate(self._policy):
            episode = self._take_piece(env_id, i)
            if self._cfg.get("get_train_sample", False):
                episodes[i].extend(policy.get_train_sample(episode))
            else:
                episodes[i].append(episode)
