"""Base class of all env managers, wherever their envs run."""

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MethodType
from typing import Any, ClassVar, TypeAlias, TypeVar

import gymnasium

from ding.data.roles import EnvManager
from ding.envs.env.actions import ActionMapping
from ding.envs.env.norms import defer_norms, watched_norms, without_norms
from ding.envs.env_manager._errors import (
    ENV_FAULTS,
    build_failed,
    describe,
    raise_wish,
    reset_failed,
    traceback_text,
)
from ding.envs.env_manager._lifecycle import METHOD_NAME_LIST, EnvLifecycle, EnvState, ResetParam, SeedLike
from ding.envs.env_manager._made_envs import StepRetryEnv, limited_env
from ding.envs.env_manager._normalized import NormalizedEnvManager
from ding.utils import Configurable
from ding.utils.names import check_choice

logger = logging.getLogger(__name__)

Obs = TypeVar("Obs")
EnvFn: TypeAlias = Callable[[], Any]
"""Constructor of an env."""


class AbstractEnvManager(Configurable, ABC):
    """Config, spaces, seeds, states and attribute access of an env manager; subclasses run the envs.

    Args:
        env_fn: One callable without arguments per env. The first is called at once, for :attr:`env_ref` and the spaces.
        cfg: Manager config; missing keys take the defaults of :meth:`default_config`.

    Attributes:
        env_num: Number of envs.
        env_ref: Env of the same kind that the manager never steps.
        observation_space, action_space, reward_space: Spaces of one env; the reward space may be missing.
        action_mapping: Mapping from actions of a policy to those of an env; ``None`` if the envs map actions
            themselves.
        closed: Whether the manager holds no envs: before :meth:`launch` and after :meth:`close`.

    Raises:
        ValueError: There are no env functions, or a config value is out of range.
    """

    # Whether `step` requires an action for each env of `ready_obs`; otherwise it accepts any subset.
    steps_together = False

    config: ClassVar[dict[str, Any]] = {
        # Number of episodes per env after which it is DONE.
        "episode_num": math.inf,
        # Number of retries after a failed reset. Above 1, envs that raise while stepping are recovered too.
        "max_retry": 1,
        # With max_retry above 1: repeat a failed step, up to max_retry times in total, although it may have had an
        # effect, and close if none succeeds, as DI-engine does. False: the env waits for a reset.
        "retry_step": False,
        # 'reset' retries the same env, 'renew' first creates and seeds a new one.
        "retry_type": "reset",
        # Reaction to an env that raises, hangs or dies: 'raise' ends the run; 'restart' replaces the env, drops its
        # episode and counts the failure, like retry_type 'renew' above.
        "on_env_failure": "raise",
        # With 'restart': maximum number of failures of an env without a finished episode in between.
        "max_env_failures": 10,
        # Steps after which an episode is truncated; None: only the env's own limit. Set by env.max_episode_steps.
        "max_episode_steps": None,
        # Reset a finished env at once.
        "auto_reset": True,
        # Time-out of one env in seconds; None: no limit (with subprocesses, connect_timeout limits the first reset).
        "step_timeout": None,
        "reset_timeout": None,
        # Seconds between two attempts to reset.
        "retry_waiting_time": 0.1,
    }

    def __init__(self, env_fn: Sequence[EnvFn], cfg: Mapping[str, Any] | None = None) -> None:
        if not env_fn:
            raise ValueError("an env manager needs at least one env function")
        self._cfg = self.default_config()
        self._cfg.update(cfg or {})
        self._env_fn = list(env_fn)
        self.env_num = len(self._env_fn)
        self.closed = True
        self._read_config()
        self._life = EnvLifecycle(self.env_num, self._episode_num)
        if self._cfg.max_episode_steps is not None:
            self._env_fn = [partial(limited_env, fn, self._cfg.max_episode_steps) for fn in self._env_fn]
        if self._cfg.retry_step:
            tries, wait_s = self._max_retry, self._retry_waiting_time
            self._env_fn = [partial(StepRetryEnv, fn, tries, wait_s) for fn in self._env_fn]
        # Video folders of the episodes from the next reset on.
        self._replay_paths: dict[int, str] = {}
        self._asked_norms = False
        self._run_view: NormalizedEnvManager | None = None
        self.env_ref = self._built(0)
        self._read_spaces()

    def _read_config(self) -> None:
        cfg = self._cfg
        self._episode_num: float = cfg.episode_num
        self._max_retry: int = cfg.max_retry
        self._retry_type: str = cfg.retry_type
        self._auto_reset: bool = cfg.auto_reset
        self._step_timeout: float | None = cfg.step_timeout
        self._reset_timeout: float | None = cfg.reset_timeout
        self._retry_waiting_time: float = cfg.retry_waiting_time
        check_choice("env.manager.on_env_failure", cfg.on_env_failure, ("raise", "restart"))
        if cfg.on_env_failure == "restart":
            if not isinstance(cfg.max_env_failures, int) or cfg.max_env_failures < 1:
                raise ValueError(
                    f"env.manager.max_env_failures must be an int of 1 or more, not {cfg.max_env_failures!r}"
                )
            # From 2 on, a single failure is tolerated.
            cfg.max_retry = self._max_retry = max(2, cfg.max_env_failures)
            cfg.retry_type = self._retry_type = "renew"
        if self._retry_type not in ("reset", "renew"):
            raise ValueError(f"env.manager.retry_type must be 'reset' or 'renew', not {self._retry_type!r}")
        if self._max_retry < 0:
            raise ValueError(f"env.manager.max_retry must be 0 or more, not {self._max_retry}")
        for key, value in (("step_timeout", self._step_timeout), ("reset_timeout", self._reset_timeout)):
            if value is not None and value <= 0:
                raise ValueError(f"env.manager.{key} must be above 0 seconds or None, not {value}")

    def _read_spaces(self) -> None:
        ref = self.env_ref
        if getattr(ref, "observation_space", None) is None or getattr(ref, "action_space", None) is None:
            # Lazily built envs know their spaces only after a reset.
            ref.reset()
        self.observation_space: gymnasium.Space[Any] = ref.observation_space
        self.action_space: gymnasium.Space[Any] = ref.action_space
        self.reward_space: gymnasium.Space[Any] | None = getattr(ref, "reward_space", None)
        self.action_mapping: ActionMapping | None = getattr(ref, "action_mapping", None)

    # properties for the workers

    @property
    def method_name_list(self) -> list[str]:
        """Names of the env methods available by attribute access."""
        return list(METHOD_NAME_LIST)

    @property
    def done(self) -> bool:
        """Whether every env has played ``episode_num`` episodes."""
        return self._life.all_done

    @property
    def ready_obs_id(self) -> list[int]:
        """Ids of the envs that wait for an action."""
        return list(self._life.ready_ids)

    def env_state_done(self, env_id: int) -> bool:
        """Return whether this env has played ``episode_num`` episodes."""
        return self._life.states[env_id] is EnvState.DONE

    def random_action(self) -> dict[int, Any]:
        """Return a sample of the action space for each env that waits for an action."""
        return {env_id: self.action_space.sample() for env_id in self.ready_obs_id}

    # life cycle

    def seed(self, seed: SeedLike, dynamic_seed: bool | None = None) -> None:
        """Set the seeds of the envs from their next reset on; see :meth:`EnvLifecycle.set_seed`."""
        first = self._life.set_seed(seed, dynamic_seed)
        if hasattr(self.action_space, "seed"):
            self.action_space.seed(first)

    @property
    def seeds_each_episode(self) -> bool:
        """Whether every episode can have its own seed, not only the first one of each env."""
        return True

    def seed_episodes(self, seed_of: Callable[[int], int] | None = None) -> None:
        """Make evaluations comparable: each episode since a reset of all envs has its own fixed seed.

        In vector envs that reset their envs themselves, only the first episode of each env gets a seed; later episodes
        follow from it.

        Args:
            seed_of: Maps an episode index to a seed; see :meth:`EnvLifecycle.seed_episodes`.
        """
        self._life.seed_episodes(seed_of)

    def enable_save_replay(self, replay_path: "list[str] | str | None") -> None:
        """Record episodes from the next launch or reset on: in one folder, or in one per env; None disables recording.

        Raises:
            ValueError: The list does not have one entry per env.
        """
        paths = [replay_path] * self.env_num if isinstance(replay_path, str) else list(replay_path or ())
        if replay_path is not None and len(paths) != self.env_num:
            raise ValueError(f"{len(paths)} replay paths for {self.env_num} envs; give one per env")
        self._replay_paths.clear()  # processes of envs read this very dict
        self._replay_paths.update(enumerate(paths))

    def _built(self, env_id: int) -> Any:
        """Create an env with its function.

        Raises:
            EnvManagerError: The function called ``sys.exit``; other exceptions propagate.
        """
        try:
            return self._env_fn[env_id]()
        except SystemExit as error:
            raise_wish(error)
            raise build_failed(env_id, describe(error), traceback_text(error)) from error

    def _retried_reset(self, env_id: int, reset: Callable[[int], Obs]) -> Obs:
        """Call ``reset(attempt)`` for 1, 2, ... until it succeeds; after the last failure the manager closes.

        Raises:
            EnvResetError: All ``max_retry + 1`` attempts failed.
        """
        attempt = 1
        while True:
            try:
                return reset(attempt)
            except ENV_FAULTS as error:
                raise_wish(error)
                env_id = getattr(error, "env_id", None) or env_id
                if attempt > self._max_retry:
                    self.close()
                    seed = self._life.last_seeds[env_id]
                    raise reset_failed(env_id, attempt, describe(error), seed, traceback_text(error)) from error
                logger.warning("env %d: reset failed (%r), trying again", env_id, error)
            time.sleep(self._retry_waiting_time)
            attempt += 1

    def _check_open(self) -> None:
        if self.closed:
            raise AssertionError("the env manager is closed; call launch() first")

    def _check_reset_param(self, reset_param: ResetParam) -> None:
        if not self.closed:
            raise AssertionError("launch() needs a closed env manager; call close() first")
        if reset_param is not None and len(reset_param) != self.env_num:
            raise AssertionError(f"reset_param has {len(reset_param)} entries for {self.env_num} envs")

    def run_view(self) -> NormalizedEnvManager | None:
        """Return this manager as used by workers, with ``obs_norm`` and ``reward_norm`` of its envs applied by the run.

        Called before :meth:`launch`; always returns the same object.

        Returns:
            ``None`` if the envs do not normalise, or if the manager is open already and each env normalises by itself.
        """
        if not self._asked_norms:
            self._asked_norms = True
            norms = defer_norms(self.env_ref)
            if norms is None:
                self._env_fn = [partial(watched_norms, fn) for fn in self._env_fn]
            elif not self.closed:
                logger.warning(
                    "the env manager was launched before a worker got it: obs_norm and reward_norm have statistics per "
                    "env, which no checkpoint holds; leave launch() to the worker"
                )
            else:
                self._env_fn = [partial(without_norms, fn) for fn in self._env_fn]
                self._run_view = NormalizedEnvManager(self._v1(), norms)
        return self._run_view

    def _v1(self) -> EnvManager:
        """This manager with the v1 interface."""
        return self

    @abstractmethod
    def launch(self, reset_param: ResetParam = None) -> None:
        """Create the envs and reset all of them."""

    def relaunch(self) -> None:
        """Reset the existing envs, and count their episodes from 0.

        Raises:
            AssertionError: The manager is closed.
            EnvResetError: An env cannot be reset.
        """
        self._check_open()
        self._life.mark_all(EnvState.INIT)
        self.reset()

    @abstractmethod
    def reset(self, reset_param: ResetParam = None) -> None:
        """Reset all envs, or those in ``reset_param`` with the given keyword arguments."""

    @property
    @abstractmethod
    def ready_obs(self) -> Any:
        """Observations of the envs that wait for an action."""

    @abstractmethod
    def step(self, actions: Any) -> Any:
        """Send one action to each of the given envs and return their timesteps."""

    @abstractmethod
    def close(self) -> None:
        """Close all envs. Repeated calls have no effect."""

    @abstractmethod
    def _collect_attribute(self, name: str) -> list[Any]:
        """Return the attribute of every env, in order of ids."""

    @property
    def _env_ref(self) -> object:
        """:attr:`env_ref` under DI-engine's name, which scripts read."""
        return self.env_ref

    def __getattr__(self, name: str) -> list[Any]:
        # Only reached for names that the manager lacks. Private names are never forwarded to envs; otherwise a
        # partially constructed manager would recurse for its own attributes.
        if name.startswith("_") or "env_ref" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        ref = self.env_ref
        if not hasattr(ref, name):
            raise AttributeError(
                f"neither {type(self).__name__} nor its env {type(ref).__name__} has an attribute {name!r}"
            )
        if isinstance(getattr(ref, name), MethodType) and name not in METHOD_NAME_LIST:
            raise RuntimeError(
                f"env method {name!r} is not forwarded by {type(self).__name__}; forwarded are {METHOD_NAME_LIST}"
            )
        self._check_open()
        return self._collect_attribute(name)
