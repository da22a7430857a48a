"""Interface, factories and base class of the serial collectors."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

from easydict import EasyDict

from ding.config import ConfigValueError
from ding.data.roles import CollectMode, EnvManager, StateDict, Writer
from ding.rollout import INF, EpisodeRecord, Game, Rollout, as_float_tensors, as_policies, ongoing
from ding.torch_utils.data_helper import to_tensor_transitions
from ding.utils import SERIAL_COLLECTOR_REGISTRY, Configurable, one_time_warning
from ding.worker._component import EnvWorker, required_key

__all__ = [
    "INF",
    "CachePool",
    "ISerialCollector",
    "SerialCollector",
    "TrajBuffer",
    "create_serial_collector",
    "get_serial_collector_cls",
    "to_tensor_transitions",
]

Policies = CollectMode | Sequence[CollectMode]

SERIAL_CONFIG: dict[str, Any] = {
    # Copy observations; needed for env managers that write into arrays they have returned.
    "deepcopy_obs": False,
    # Convert the policy's input to float32 tensors.
    "transform_obs": False,
    # Minimum number of train iterations between two logs.
    "collect_print_freq": 100,
}


class ISerialCollector(Configurable, ABC):
    """Interface of serial collectors: step an env manager with a policy and return training samples."""

    @abstractmethod
    def reset_env(self, _env: EnvManager | None = None) -> None:
        """Reset the env manager, or replace and launch it."""

    @abstractmethod
    def reset_policy(self, _policy: Policies | None = None) -> None:
        """Reset the policy, or replace it."""

    @abstractmethod
    def reset(self, _policy: Policies | None = None, _env: EnvManager | None = None) -> None:
        """Reset or replace policy and env, discard trajectories and zero the counters."""

    @abstractmethod
    def collect(self, per_collect_target: int | None = None) -> Sequence[Any]:
        """Collect ``per_collect_target`` samples or episodes (``None``: the policy's default)."""

    @property
    @abstractmethod
    def envstep(self) -> int:
        """Total number of env steps so far."""


class SerialCollector(EnvWorker, ISerialCollector):
    """Base class of serial collectors, with env manager, policies, counters and logs.

    A :class:`~ding.rollout.Rollout` makes the steps.

    Args:
        cfg: Collector config (see the subclass's ``config``).
        env: Env manager, launched here. ``None``: set it later with :meth:`reset_env` or :meth:`reset`.
        policy: Collect mode of a policy (a list of modes for battle collectors). ``None``: set it later with
            :meth:`reset_policy`.
        tb_logger: TensorBoard writer to share; ``None``: create one and close it in :meth:`close`.
        exp_name: Experiment directory.
        instance_name: Name of the log files and prefix of the TensorBoard tags.

    Raises:
        KeyError: A required config key is missing.
        TypeError: ``env`` is not an env manager, or ``policy`` is not a policy.
    """

    # Log statistics per train sample (otherwise times).
    _logs_samples = False

    def __init__(
        self,
        cfg: EasyDict,
        env: EnvManager | None = None,
        policy: Policies | None = None,
        tb_logger: Writer | None = None,
        exp_name: str = "default_experiment",
        instance_name: str = "collector",
    ) -> None:
        self._policies: list[CollectMode] = []
        self._rollout: Rollout | None = None
        self._print_freq = required_key(cfg, "collect_print_freq", "collector")
        self._copy_obs = required_key(cfg, "deepcopy_obs", "collector")
        self._transform_obs = required_key(cfg, "transform_obs", "collector")
        self._episodes = EpisodeRecord()
        super().__init__(cfg, tb_logger, exp_name, instance_name)
        self.reset(policy, env)

    # ------------------------------------------------------------------ life cycle

    def reset_env(self, _env: EnvManager | None = None) -> None:
        """Reset the env manager, or store and launch a new one. Replacing it discards unfinished trajectories."""
        super().reset_env(_env)
        if _env is None:
            return
        self._rollout = None
        if self._policies:
            self._start()

    def reset_policy(self, _policy: Policies | None = None) -> None:
        """Reset the policy, or replace it with the collect mode of another policy.

        Unfinished trajectories are kept if both policies are batched or neither is.

        Raises:
            AssertionError: No env manager was set before, or there is no policy to reset.
            TypeError: ``_policy`` is not the collect mode of a policy (or a list of modes).
        """
        if self._env is None:
            raise AssertionError(f"{self._instance_name}: set an env manager before the policy")
        if _policy is not None:
            policies = as_policies(_policy)
            for policy in policies:
                missing = [name for name in ("forward", "reset") if not hasattr(policy, name)]
                if missing:
                    found = f"{type(policy).__name__}, which has no {' and no '.join(missing)}"
                    raise TypeError(f"{self._instance_name}: expected policy.collect_mode, found an object {found}")
            self._policies = policies
            self._start()
        if not self._policies:
            raise AssertionError(f"{self._instance_name}: there is no policy to reset; pass one")
        for policy in self._policies:
            policy.reset()

    def reset(self, _policy: Policies | None = None, _env: EnvManager | None = None) -> None:
        """Replace env and policy if given, discard all trajectories and zero the counters.

        If both arguments are ``None``, neither env nor policy is reset.
        """
        if _env is not None:
            self.reset_env(_env)
        if _policy is not None:
            self.reset_policy(_policy)
        self._last_train_iter = 0
        self._end_flag = False
        self._episodes.zero_totals()
        self._forget()

    def restart_envs(self, seed: int | Sequence[int], dynamic_seed: bool = True) -> None:
        """Start new episodes in all environments from ``seed`` and discard unfinished trajectories. Counters are kept.

        Call this at the same point in a run that is saved and in the run that resumes from it, so that both continue
        alike even without an :meth:`ongoing_state`.

        Args:
            seed: One seed for all environments, or one per environment.
            dynamic_seed: Passed to the seeding of the env manager.
        """
        env = self._ready().stepper.env
        env.seed(seed, dynamic_seed=dynamic_seed)
        env.reset()
        for policy in self._policies:
            policy.reset()
        self._forget()

    def ongoing_state(self) -> StateDict:
        """Return the unfinished episodes: states of envs and policies, segments, and counters.

        Raises:
            EnvStateError: An env does not support saving its state.
            NotImplementedError: A policy does not expose its internal state.
        """
        return ongoing.ongoing_state(self._ready())

    def load_ongoing_state(self, state_dict: StateDict) -> None:
        """Continue the episodes of an :meth:`ongoing_state`.

        Raises:
            EnvStateError: The envs do not match; call :meth:`restart_envs` instead.
        """
        ongoing.load_ongoing_state(self._ready(), state_dict)

    def state_dict(self) -> StateDict:
        """Return the counters and the episodes not logged yet. Trajectories and env states are not included."""
        return {**self._episodes.state_dict(), "last_train_iter": self._last_train_iter}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore the counters of a :meth:`state_dict`."""
        self._episodes.load_state_dict(state_dict)
        self._last_train_iter = state_dict["last_train_iter"]

    @property
    def envstep(self) -> int:
        """Total number of env steps so far, over all ranks."""
        return self._episodes.envstep

    @envstep.setter
    def envstep(self, value: int) -> None:
        self._episodes.set_envstep(value)

    def check_target(self) -> None:
        """Check that a call of :meth:`collect` without a number knows how much to collect; here nothing is known of it.

        Raises:
            ConfigValueError: the policy does not say so, or there are more environments than episodes.
        """
        return

    # ------------------------------------------------------------------ for subclasses

    @abstractmethod
    def _segment_lengths(self, env_num: int) -> Sequence[float | None]:
        """Read the settings of new policies.

        Returns:
            Length of the segments of each policy; ``None``: its steps are not recorded.
        """

    def _start(self) -> None:
        """Create the rollout of the current env manager and policies, and continue unfinished trajectories."""
        assert self._env is not None
        assert self._log is not None
        lengths, previous = self._segment_lengths(self._env.env_num), self._rollout
        self._rollout = Rollout(
            self._env,
            self._policies,
            lengths,
            self._episodes,
            Game(len(self._policies)) if len(self._policies) > 1 else None,
            as_float_tensors if self._transform_obs else None,
            self._copy_obs,
            self._log.text.info,
        )
        if previous is None:
            self._episodes.begin(self._env.env_num)
            self._forget()
        else:
            self._rollout.take_over(previous)

    def _forget(self) -> None:
        """Discard all unfinished trajectories."""
        if self._rollout is not None:
            self._rollout.forget()

    def _ready(self) -> Rollout:
        if self._rollout is None:
            missing = "an env manager" if self._env is None else "a policy"
            raise RuntimeError(f"{self._instance_name}: collect needs {missing}; call reset(policy, env) first")
        if getattr(self._env, "closed", False) is True:
            raise RuntimeError(
                f"{self._instance_name}: the env manager is closed, by close() or because an env failed; "
                "launch it again or pass another one to reset_env"
            )
        return self._rollout

    def _report(self, train_iter: int) -> None:
        """Sum the counters over all ranks; every ``collect_print_freq`` train iterations log and clear the episodes."""
        episodes, log = self._episodes, self._log
        assert log is not None
        if episodes.is_distributed:
            episodes.sync()
        due = train_iter - self._last_train_iter >= self._print_freq
        if not due or not episodes.finished or not log.is_first_rank:
            return
        self._last_train_iter = train_iter
        info = episodes.summary(self._logs_samples)
        episodes.finished.clear()
        log.text.info("collect end:\n" + "\n".join(f"{key}: {value}" for key, value in info.items()))
        # Over env steps their number would be a straight line.
        by_step = {key: value for key, value in info.items() if key != "total_envstep_count"}
        log.scalars(info, train_iter, by_step, episodes.envstep)


class CollectTargetError(ConfigValueError, RuntimeError):
    """The number of samples or episodes to collect is unknown."""


def target_of(given: int | None, default: int | None, name: str, multiple_of: int = 1) -> int:
    """Return ``given``, or the policy's default; warn unless it is a multiple of the number of environments.

    Raises:
        CollectTargetError: Both are missing.
        TypeError: The target is not an integer.
    """
    target = default if given is None else given
    if target is None:
        kind, other = ("episode", "n_episode") if name == "n_sample" else ("sample", "n_sample")
        raise CollectTargetError(
            f"how much to collect is unknown: pass {name}, or set policy.collect.{name} in the config "
            f"(with create_config.collector.type={kind!r}, {other} counts instead)"
        )
    if not isinstance(target, Integral):
        raise TypeError(f"{name} must be an int, found {target!r}")
    if target % multiple_of != 0:
        one_time_warning(f"{name} {target} is not a multiple of env_num {multiple_of}")
    return target


def episodes_target(given: int | None, default: int | None, env_num: int) -> int:
    """Apply :func:`target_of` to episodes.

    Raises:
        ConfigValueError: There are more environments than episodes (an ``AssertionError``, too).
    """
    n_episode = target_of(given, default, "n_episode")
    if n_episode < env_num:
        name = "n_episode" if given is not None else "policy.collect.n_episode"
        raise ConfigValueError(
            f"{name} is {n_episode}, but env.collector_env_num is {env_num}: each env plays an episode at least; "
            "raise the first or lower the second"
        )
    return n_episode


def require_policies(policies: Sequence[CollectMode], low: int, high: int | None = None) -> None:
    """Raise an ``AssertionError`` unless there are ``low`` to ``high`` policies."""
    if len(policies) < low or (high is not None and len(policies) > high):
        expected = f"{low}" if high == low else f"at least {low}"
        raise AssertionError(f"a battle collector needs a list of {expected} policies, found {len(policies)}")


def create_serial_collector(cfg: EasyDict, **kwargs: Any) -> ISerialCollector:
    """Build the collector registered under ``cfg.type`` after importing ``cfg.import_names``.

    Raises:
        KeyError: ``cfg.type`` is not registered; the message names the nearest type.
    """
    collector: ISerialCollector = SERIAL_COLLECTOR_REGISTRY.create(cfg, **kwargs)
    return collector


def get_serial_collector_cls(cfg: EasyDict) -> type:
    """Return the collector class registered under ``cfg.type``.

    Raises:
        AssertionError: ``cfg`` has no ``type``.
        KeyError: ``cfg.type`` is not registered.
    """
    return SERIAL_COLLECTOR_REGISTRY.class_of(cfg, AssertionError)


class CachePool:
    """Cache with one slot per environment, for data that waits for the environment's next timestep.

    Args:
        name: Name of the cached data, used in messages.
        env_num: Number of environments.
        deepcopy: Store deep copies.
    """

    def __init__(self, name: str, env_num: int, deepcopy: bool = False) -> None:
        self.name = name
        self._slots: list[Any] = [None] * env_num
        self._deepcopy = deepcopy

    def update(self, data: "Mapping[int, Any] | list[Mapping[int, Any]]") -> None:
        """Store values by env id. A list of mappings (one per battle policy) makes each slot a list."""
        if isinstance(data, Mapping):
            data = [data]
        for i, values in enumerate(data):
            for env_id, value in values.items():
                value = copy.deepcopy(value) if self._deepcopy else value
                if i == 0:
                    self._slots[env_id] = [value]
                else:
                    self._slots[env_id].append(value)

    def __getitem__(self, env_id: int) -> object:
        slot = self._slots[env_id]
        return slot[0] if slot is not None and len(slot) == 1 else slot

    def reset(self, env_id: int) -> None:
        """Clear the slot of an environment."""
        self._slots[env_id] = None


class TrajBuffer(list[Any]):
    """List of transitions that drops its oldest element when full.

    Args:
        maxlen: Maximum length; ``None`` for no limit.
        items: Initial elements.
        deepcopy: Append deep copies.
    """

    def __init__(self, maxlen: "int | float | None", items: Iterable[Any] = (), deepcopy: bool = False) -> None:
        super().__init__(items)
        self._maxlen = maxlen
        self._deepcopy = deepcopy

    def append(self, data: object) -> None:
        """Append ``data`` and drop the oldest elements beyond ``maxlen``."""
        if self._maxlen is not None:
            while self and len(self) >= self._maxlen:
                del self[0]
        super().append(copy.deepcopy(data) if self._deepcopy else data)
