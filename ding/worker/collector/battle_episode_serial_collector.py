"""Collector of whole episodes of two players."""

from collections.abc import Sequence
from typing import Any

from ding.data.roles import Samples
from ding.rollout import INF, collect_setting, records
from ding.utils import SERIAL_COLLECTOR_REGISTRY
from ding.worker.collector.base_serial_collector import (
    SERIAL_CONFIG,
    SerialCollector,
    episodes_target,
    require_policies,
)


@SERIAL_COLLECTOR_REGISTRY.register("episode_1v1")
class BattleEpisodeSerialCollector(SerialCollector):
    """Collects exactly ``n_episode`` episodes of two policies that play against each other.

    The environments are those of :class:`BattleSampleSerialCollector`. The transitions of both policies are recorded,
    except for a scripted policy without transitions (``collect_data = False`` and no ``process_transition``).
    """

    config = {
        **SERIAL_CONFIG,
        # Return training samples instead of raw episodes.
        "get_train_sample": False,
    }

    def _segment_lengths(self, env_num: int) -> Sequence[float | None]:
        require_policies(self._policies, 2, 2)
        self._default_n_episode = next(filter(None, (collect_setting(p, "n_episode") for p in self._policies)), None)
        # As in DI-engine, which reads `collect_data` only when it collects samples.
        makes_transitions = (records(policy) or hasattr(policy, "process_transition") for policy in self._policies)
        return [INF if makes else None for makes in makes_transitions]

    def check_target(self) -> None:
        """See :meth:`SerialCollector.check_target`."""
        episodes_target(None, self._default_n_episode, self._ready().stepper.env.env_num)

    def collect(
        self,
        n_episode: "int | None" = None,
        train_iter: int = 0,
        policy_kwargs: "dict[str, Any] | None" = None,
    ) -> tuple[Sequence[list[Samples] | Samples], list[list[dict[str, Any]]]]:
        """Collect episodes.

        Args:
            n_episode: Number of episodes, at least the number of environments (``None``: the default of policy 0).
            train_iter: Learner iteration, stored as ``collect_iter`` and used as the time axis of logs.
            policy_kwargs: Keyword arguments of each ``policy.forward``.

        Returns:
            ``(episodes, infos)``: for each policy a list of episodes (with ``get_train_sample`` its samples, as a
            :class:`~ding.data.TransitionBatch` if the policy is batched), and for each policy the infos.

        Raises:
            RuntimeError: ``n_episode`` is unknown, env manager or policies are missing, or the manager is closed.
            TypeError: ``n_episode`` is not an int.
            AssertionError: ``n_episode`` is smaller than the number of environments.
        """
        rollout = self._ready()
        n_episode = episodes_target(n_episode, self._default_n_episode, rollout.stepper.env.env_num)
        as_samples = self._cfg.get("get_train_sample", False)
        episodes: list[list[Samples]] = [[], []]
        infos: list[list[dict[str, Any]]] = [[], []]
        for ended in rollout.play(n_episode, [policy_kwargs or {}] * 2, [{"collect_iter": train_iter}] * 2):
            for player in range(2):
                infos[player].extend(of_players[player] for _, of_players in ended)
                if not as_samples and rollout.segments[player] is not None:
                    episodes[player] += rollout.take_segments(player)
        self._report(train_iter)
        if not as_samples:
            return episodes, infos
        recorded = [segments is not None for segments in rollout.segments]
        return [rollout.take_samples(player).samples if recorded[player] else [] for player in range(2)], infos
