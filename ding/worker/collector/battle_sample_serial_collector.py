"""Collector of training samples for each policy of an environment with several players."""

import math
from collections.abc import Sequence
from typing import Any

from ding.data.roles import Samples, attribute_of
from ding.data.transition_batch import joined_samples
from ding.rollout import INF, collect_setting, first_recorded, records
from ding.utils import SERIAL_COLLECTOR_REGISTRY
from ding.worker.collector.base_serial_collector import (
    SERIAL_CONFIG,
    SerialCollector,
    require_policies,
    target_of,
)


@SERIAL_COLLECTOR_REGISTRY.register("sample_1v1")
class BattleSampleSerialCollector(SerialCollector):
    """Collects ``n_sample`` training samples for each of two or more policies that play against each other.

    An observation is indexable by player, an action is a list with one array per player, and ``timestep.info`` is a
    list with one dict per player. ``done`` is shared. A policy with ``collect_data = False`` plays, but its transitions
    are not recorded. Unfinished segments are kept for the next call, also on-policy.
    """

    config = dict(SERIAL_CONFIG)

    def _segment_lengths(self, env_num: int) -> Sequence[float | None]:
        require_policies(self._policies, 2)
        first = first_recorded(self._policies)
        n_sample = self._default_n_sample = collect_setting(first, "n_sample")
        length: float = INF
        if n_sample is not None:
            length = max(attribute_of(first, "unroll_len", 1), math.ceil(n_sample / env_num))
        return [length if records(policy) else None for policy in self._policies]

    def check_target(self) -> None:
        """See :meth:`SerialCollector.check_target`."""
        target_of(None, self._default_n_sample, "n_sample")

    def collect(
        self,
        n_sample: "int | None" = None,
        train_iter: int = 0,
        drop_extra: bool = True,
        policy_kwargs: "dict[str, Any] | None" = None,
    ) -> tuple[list[Samples], list[list[dict[str, Any]]]]:
        """Collect at least ``n_sample`` samples for each policy that records data.

        Args:
            n_sample: Number of samples per policy (``None``: the default of policy 0).
            train_iter: Learner iteration, stored as ``collect_iter`` and used as the time axis of logs.
            drop_extra: Truncate each policy's samples to ``n_sample``.
            policy_kwargs: Keyword arguments of each ``policy.forward``.

        Returns:
            ``(samples, infos)``: for each policy its samples (a :class:`~ding.data.TransitionBatch` if the policy is
            batched), and for each policy the infos of the finished episodes.

        Raises:
            RuntimeError: ``n_sample`` is unknown, env manager or policies are missing, or the manager is closed.
            TypeError: ``n_sample`` is not an int.
        """
        rollout = self._ready()
        n_sample = target_of(n_sample, self._default_n_sample, "n_sample")
        num_players = len(self._policies)
        parts: list[list[Samples]] = [[] for _ in range(num_players)]
        infos: list[list[dict[str, Any]]] = [[] for _ in range(num_players)]
        recorded = [player for player in range(num_players) if rollout.segments[player] is not None]
        kwargs, extras = [policy_kwargs or {}] * num_players, [{"collect_iter": train_iter}] * num_players
        while any(sum(map(len, parts[player])) < n_sample for player in recorded):
            for _, of_players in rollout.step(kwargs, extras):
                for seen, info in zip(infos, of_players):
                    seen.append(info)
            for player in recorded:
                taken = rollout.take_samples(player).samples
                parts[player] += [taken] if len(taken) else []
        self._report(train_iter)
        samples = [joined_samples(of_player) for of_player in parts]
        return [items[:n_sample] if drop_extra else items for items in samples], infos
