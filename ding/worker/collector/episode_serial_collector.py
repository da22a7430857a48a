"""Collector of whole episodes."""

from collections.abc import Sequence
from typing import Any

from ding.data.roles import Samples, attribute_of
from ding.rollout import INF
from ding.utils import SERIAL_COLLECTOR_REGISTRY
from ding.worker.collector.base_serial_collector import SERIAL_CONFIG, SerialCollector, episodes_target


@SERIAL_COLLECTOR_REGISTRY.register("episode")
class EpisodeSerialCollector(SerialCollector):
    """Collects exactly ``n_episode`` episodes per call with one policy.

    It starts no more episodes than it returns, so no env step is wasted and no episode is left unfinished.
    """

    config = {
        **SERIAL_CONFIG,
        # Return training samples instead of raw episodes.
        "get_train_sample": False,
        # Call env.reward_shaping(env_id, transitions) at the end of each episode.
        "reward_shaping": False,
    }

    def _segment_lengths(self, env_num: int) -> Sequence[float | None]:
        (policy,) = self._policies
        self._default_n_episode = attribute_of(policy, "n_episode")
        return [INF]

    def check_target(self) -> None:
        """See :meth:`SerialCollector.check_target`."""
        episodes_target(None, self._default_n_episode, self._ready().stepper.env.env_num)

    def collect(
        self,
        n_episode: "int | None" = None,
        train_iter: int = 0,
        policy_kwargs: "dict[str, Any] | None" = None,
    ) -> "list[Samples] | Samples":
        """Collect episodes.

        Args:
            n_episode: Number of episodes, at least the number of environments (``None``: the policy's ``n_episode``).
            train_iter: Learner iteration, stored as ``collect_iter`` in each transition and used as the time axis of
                logs.
            policy_kwargs: Keyword arguments of ``policy.forward``.

        Returns:
            A list with one sequence of transitions per episode, in the order in which the episodes ended; with
            ``get_train_sample`` a flat sequence of samples (a :class:`~ding.data.TransitionBatch` if the policy is
            batched).

        Raises:
            RuntimeError: ``n_episode`` is unknown, env manager or policy is missing, or the manager is closed.
            TypeError: ``n_episode`` is not an int.
            AssertionError: ``n_episode`` is smaller than the number of environments.
        """
        rollout = self._ready()
        env = rollout.stepper.env
        n_episode = episodes_target(n_episode, self._default_n_episode, env.env_num)
        as_samples, shaped = self._cfg.get("get_train_sample", False), self._cfg.get("reward_shaping", False)
        result: list[Any] = []
        for ended in rollout.play(n_episode, [policy_kwargs or {}], [{"collect_iter": train_iter}]):
            if as_samples and not shaped:
                continue
            for (env_id, _), episode in zip(ended, rollout.take_segments()):
                if shaped:
                    episode = list(episode)
                    env.reward_shaping(env_id, episode)  # type: ignore[attr-defined]
                if as_samples:
                    result.extend(self._policies[0].get_train_sample(episode))
                else:
                    result.append(episode)
        samples = rollout.take_samples().samples if as_samples and not shaped else result
        self._report(train_iter)
        return samples
