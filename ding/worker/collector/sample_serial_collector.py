"""Collector of training samples."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ding.data import is_batched
from ding.data.roles import Samples, StateDict, attribute_of
from ding.data.transition_batch import joined_samples
from ding.rollout import INF
from ding.utils import SERIAL_COLLECTOR_REGISTRY, one_time_warning
from ding.worker.collector.base_serial_collector import SERIAL_CONFIG, SerialCollector, target_of


@SERIAL_COLLECTOR_REGISTRY.register("sample")
class SampleSerialCollector(SerialCollector):
    """Collects ``n_sample`` training samples per call with one policy.

    Trajectories are cut into segments of ``max(unroll_len, ceil(n_sample / env_num))`` steps (whole episodes if
    ``policy.traj_len_inf``), and each segment is passed to ``policy.get_train_sample``. Off-policy, unfinished segments
    are kept for the next call. On-policy, they are cut once there are enough steps, so that no step is wasted, provided
    that ``get_train_sample`` is batched and accepts segments of any length (``unroll_len=1``). Otherwise, and under
    ``policy.reference_numerics``, they are dropped.
    """

    config = dict(SERIAL_CONFIG)

    _logs_samples = True
    # Samples of the last call beyond its `n_sample`.
    _surplus: Samples = ()

    def _segment_lengths(self, env_num: int) -> Sequence[float | None]:
        (policy,) = self._policies
        cfg, n_sample = attribute_of(policy, "cfg", {}), attribute_of(policy, "n_sample")
        unroll_len = attribute_of(policy, "unroll_len", 1)
        self._default_n_sample = n_sample
        self._on_policy = attribute_of(policy, "on_policy", False)
        corrected = not cfg.get("reference_numerics", False)
        self._keep_surplus = corrected and not self._on_policy
        whole_episodes = cfg.get("traj_len_inf", False)
        any_length = unroll_len == 1 and not whole_episodes
        self._cuts = corrected and self._on_policy and any_length and is_batched(policy.get_train_sample)
        if n_sample is None or whole_episodes:
            return [INF]
        return [max(unroll_len, math.ceil(n_sample / env_num))]

    def check_target(self) -> None:
        """See :meth:`SerialCollector.check_target`; warn of segments that are too short for ``policy.nstep``."""
        (policy,), env_num = self._policies, self._ready().stepper.env.env_num
        n_sample = target_of(None, self._default_n_sample, "n_sample")
        (length,), cfg = self._segment_lengths(env_num), attribute_of(policy, "cfg", {})
        nstep = cfg.get("nstep", 1) if cfg.get("nstep_return", True) else 1
        if length is not None and length < nstep:
            one_time_warning(
                f"policy.nstep is {nstep}, but returns have at most {length} step(s), because trajectories are cut "
                f"there: policy.collect.n_sample={n_sample} is shared by {env_num} envs. For {nstep} steps it must be "
                f"at least {nstep * env_num}; a larger one shortens fewer returns"
            )

    def _forget(self) -> None:
        super()._forget()
        self._surplus = []

    def ongoing_state(self) -> StateDict:
        """See :meth:`SerialCollector.ongoing_state`."""
        return {**super().ongoing_state(), "surplus": self._surplus}

    def load_ongoing_state(self, state_dict: StateDict) -> None:
        """See :meth:`SerialCollector.load_ongoing_state`."""
        super().load_ongoing_state(state_dict)
        self._surplus = state_dict["surplus"]

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
            n_sample: Number of samples (``None``: the policy's ``n_sample``).
            train_iter: Learner iteration, stored as ``collect_iter`` in each transition and used as the time axis of
                logs.
            drop_extra: Return exactly ``n_sample`` samples. Off-policy, the next call returns the surplus first;
                on-policy and under ``policy.reference_numerics`` it is dropped. ``False`` returns all samples.
            random_collect: Mark the samples as coming from a random policy (for policies that treat them differently).
            record_random_collect: ``False`` excludes the episodes of this call from the logs.
            policy_kwargs: Keyword arguments of ``policy.forward``, e.g. ``{'eps': 0.1}``.
            level_seeds: One seed per environment id, stored as ``seed`` in each transition.

        Returns:
            A sequence of samples (a :class:`~ding.data.TransitionBatch` if the policy is batched).

        Raises:
            RuntimeError: ``n_sample`` is unknown, env manager or policy is missing, or the manager is closed.
            TypeError: ``n_sample`` is not an int.
        """
        rollout = self._ready()
        env_num = rollout.stepper.env.env_num
        n_sample = target_of(n_sample, self._default_n_sample, "n_sample", multiple_of=env_num)
        extra: dict[str, Any] = {"collect_iter": train_iter}
        if level_seeds is not None:
            extra["seed"] = [level_seeds[env_id] for env_id in range(env_num)]
        segments, kwargs, extras = rollout.segments[0], [policy_kwargs or {}], [extra]
        assert segments is not None
        surplus, self._surplus = self._surplus, []
        parts: list[Samples] = [surplus] if len(surplus) else []
        missing = n_sample - len(surplus)
        while missing > 0:
            rollout.step(kwargs, extras)
            if self._cuts:
                rollout.cut_segments(missing)
            if segments.samples_waiting >= missing:
                parts.append(rollout.take_samples().samples)
                missing -= len(parts[-1])
        if not record_random_collect:
            self._episodes.finished.clear()
        self._report(train_iter)
        if self._on_policy and not self._cuts:
            rollout.forget_segments()
        samples = parts[0] if len(parts) == 1 else joined_samples(parts)
        if missing < 0 and drop_extra:
            if self._keep_surplus:
                self._surplus = samples[n_sample:]
            samples = samples[:n_sample]
        return samples
