"""``DingEnvWrapper``: a Gymnasium or old gym env as a :class:`~ding.envs.BaseEnv`."""

import sys
from collections.abc import Mapping, MutableMapping
from copy import deepcopy
from typing import Any, ClassVar

import gymnasium
import numpy as np
from easydict import EasyDict
from gymnasium.envs.registration import EnvSpec

from ding.data import BaseEnvTimestep
from ding.data.env_batch import is_abnormal, mark_truncated
from ding.envs.contract import Obs, copied, obs_reader, own_info, scalar
from ding.envs.env.action_parts import from_sample
from ding.envs.env.actions import ActionMapping
from ding.envs.env.base_env import BaseEnv, EnvConfigError, copy_cfg
from ding.envs.env.making import apply_wrappers, find_spec, make_gym_env, with_step_limit
from ding.envs.env.norms import deferred_norms, has_obs_norm
from ding.envs.env.spaces import float32_space, seed_spaces
from ding.envs.env.stepping import FastStep, RawStep
from ding.envs.env_wrappers import EvalEpisodeReturnWrapper, ObsNormWrapper
from ding.envs.env_wrappers.video import RecordEpisodes, require_video_writer
from ding.envs.gymnasium_types import AnyEnv
from ding.rl_utils.normalization import Norms
from ding.utils import ENV_REGISTRY, Configurable, one_time_warning

REWARD_FLOOR = -10.0


@ENV_REGISTRY.register("gymnasium")
class DingEnvWrapper(Configurable, BaseEnv):
    """Env for the workers around a Gymnasium env.

    A step ends the episode (``done``) if it terminates or truncates; on truncation the info contains
    ``TimeLimit.truncated=True``. Rewards are float32 ``(1,)``, float observations float32. An
    :class:`~ding.envs.env.actions.ActionMapping` converts the policy's actions to those of the env.

    Args:
        env: Env to wrap, or ``None`` to create one from ``cfg.env_id`` on first use.
        cfg: ``env_id``; ``env_kwargs``, its constructor arguments; ``env_wrapper``, a list name (see
            :func:`get_default_wrappers`) or a list of configs and callables; ``act_scale``, scale actions from [-1, 1]
            to the bounds of the action space (``'auto'``: if it is bounded; without a value only in a run whose policy
            acts in [-1, 1]), otherwise actions are clipped to the bounds; ``check_actions``, number of steps in which
            actions are checked against the action space (``True``: always); ``rew_clip``, raise rewards below -10 to
            -10; ``shared_norm``, share the statistics of ``obs_norm`` and ``reward_norm`` among all envs of a run.
        seed_api: Pass seeds to the env.
        caller: ``collector`` or ``evaluator``; a config with ``is_train=False`` creates an evaluator env.
        is_gymnasium: Ignored; the API of ``env`` is detected. Accepted for compatibility.

    Raises:
        EnvConfigError: Neither ``env`` nor ``cfg.env_id`` is given, or the id is unknown (then also a `ValueError`).
    """

    #: Whether ``check_actions`` is among the keys of the config.
    checks_actions: ClassVar[bool] = True

    config: ClassVar[dict[str, Any]] = {
        "env_id": None,
        "env_kwargs": {},
        "env_wrapper": "default",
        "act_scale": None,
        "check_actions": 100,
        "rew_clip": False,
        "max_episode_steps": None,
        "shared_norm": True,
    }

    def __init__(
        self,
        env: object = None,
        cfg: Mapping[str, Any] | None = None,
        seed_api: bool = True,
        caller: str = "collector",
        is_gymnasium: bool = False,
    ) -> None:
        if isinstance(env, Mapping) and cfg is None:
            env, cfg = None, env
        # Wrapper callables may hold objects that cannot be copied, so the config is copied only one level deep.
        self._cfg = EasyDict({**deepcopy(DingEnvWrapper.config), **(cfg or {})})
        self._env_id: str | None = self._cfg.env_id
        if env is None and self._env_id is None:
            raise EnvConfigError("env.env_id is missing: DingEnvWrapper needs it, or an env")
        self._builds_env = env is None
        self._seed_api = seed_api
        self.caller = "evaluator" if self._cfg.get("is_train", True) is False else caller
        self.act_scale = self._cfg.act_scale
        self.steps_to_check = _checked_steps(self._cfg.check_actions)
        self.rew_clip = bool(self._cfg.rew_clip)
        limit = self._cfg.max_episode_steps
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise EnvConfigError(f"env.max_episode_steps must be a whole number of at least 1, not {limit!r}")
        self._max_episode_steps: int | None = limit
        self._seed: int | None = None
        self._dynamic_seed = True
        self._seed_waits = False
        self._replay_path: str | None = None
        self._in_episode = False
        self._defers_norms = False
        self._raw_env: Any = env
        self._env: Any = None
        self._observation_space: Any = None
        self._action_space: Any = None
        self._actions: Any = None
        self._reward_space: Any = None
        if self._raw_env is not None:
            self._build()

    # queries of managers about the config

    @property
    def env_id(self) -> str | None:
        """Id that the env is created from; ``None`` if the env was passed in."""
        return self._env_id if self._builds_env else None

    @property
    def env_kwargs(self) -> dict[str, Any]:
        """Constructor arguments, also for a vector env."""
        limit = {} if self._max_episode_steps is None else {"max_episode_steps": self._max_episode_steps}
        return {**self._cfg.env_kwargs, **limit}

    def _made_with(self) -> dict[str, Any]:
        """Constructor arguments of a single env."""
        kwargs, limit = dict(self._cfg.env_kwargs), self._max_episode_steps
        if limit is not None:
            # If wrappers repeat actions, the inner limit counts other steps: it is removed only if it is too low.
            inside = kwargs.get("max_episode_steps") or find_spec(str(self._env_id)).max_episode_steps
            kwargs["max_episode_steps"] = -1 if inside is not None and inside < limit else inside
        return kwargs

    def limit_episodes(self, max_episode_steps: int) -> None:
        """Truncate episodes after this number of steps, from the next reset on, unless the config has a limit."""
        if self._max_episode_steps is None:
            self._max_episode_steps = max_episode_steps
            if self._env is not None:
                self._env = with_step_limit(self._env, max_episode_steps)

    @property
    def wraps_plainly(self) -> bool:
        """Whether the only configured wrapper, if any, sums the return."""
        wrappers = self._cfg.env_wrapper
        names = [item.get("type") if isinstance(item, Mapping) else item for item in wrappers]
        return wrappers in ("default", "mujoco_default") or names in ([], ["eval_episode_return"])

    @property
    def gym_env(self) -> gymnasium.Env[Any, Any]:
        """Gymnasium env with its wrappers, without the outermost one if that only sums the return."""
        env = self._built()
        return env.env if type(env) is EvalEpisodeReturnWrapper else env

    def defer_norms(self) -> Norms | None:
        """See :func:`ding.envs.env.norms.defer_norms`."""
        if not self._cfg.shared_norm:
            return None
        self._defers_norms = True
        return deferred_norms(self._built())

    # spaces

    @property
    def observation_space(self) -> gymnasium.Space[Any]:  # type: ignore[override]
        """Observation space, with float64 parts as float32."""
        self._built()
        space: gymnasium.Space[Any] = self._observation_space
        return space

    @property
    def action_space(self) -> gymnasium.Space[Any]:  # type: ignore[override]
        """Action space for a policy: ints count from 0, and with ``act_scale`` Boxes are in [-1, 1]."""
        self._built()
        space: gymnasium.Space[Any] = self._action_space
        return space

    @property
    def action_mapping(self) -> ActionMapping:
        """Mapping from actions of a policy to those of the wrapped env."""
        self._built()
        mapping: ActionMapping = self._actions
        return mapping

    @property
    def inner_action_space(self) -> gymnasium.Space[Any] | None:
        """Action space of the wrapped env."""
        return self.action_mapping.space

    @property
    def reward_space(self) -> gymnasium.Space[Any]:  # type: ignore[override]
        """Box ``(1,)`` with the reward bounds of the env, if any."""
        self._built()
        space: gymnasium.Space[Any] = self._reward_space
        return space

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]
        """Spec of the Gymnasium env."""
        return self._built().spec

    @property
    def unwrapped(self) -> gymnasium.Env[Any, Any]:
        """Innermost env."""
        return self._built().unwrapped

    def _built(self) -> gymnasium.Env[Any, Any]:
        if self._env is None:
            self._build()
        env: gymnasium.Env[Any, Any] = self._env
        return env

    def _build(self) -> None:
        if self._raw_env is None:
            assert self._env_id is not None
            self._raw_env = make_gym_env(self._env_id, **self._made_with())
        env = apply_wrappers(self._raw_env, self._cfg.env_wrapper, self._env_id, self.caller)
        if self._cfg.get("norm_obs", {}).get("use_norm") and not has_obs_norm(env):
            env = ObsNormWrapper(env)
        if self._defers_norms:
            deferred_norms(env)
        self._env = env
        self._take_spaces(env)
        if self._max_episode_steps is not None:
            self._env = with_step_limit(self._env, self._max_episode_steps)

    def _take_spaces(self, env: AnyEnv) -> None:
        """Copy the spaces of the Gymnasium env with its wrappers."""
        self._observation_space = float32_space(env.observation_space)
        # A user's wrapper may change observations without changing the space.
        own = [item for item in self._cfg.env_wrapper if callable(item)]
        self._read_obs = obs_reader(self._observation_space, strict=not own)
        self._actions = ActionMapping(env.action_space, self.act_scale)
        # A copy, because the env may sample its own space, e.g. for actions of an opponent.
        self._action_space = deepcopy(self._actions.given_space)
        self._action_space.seed(0 if self._seed is None else self._seed)
        self.render_mode = env.render_mode
        self.metadata = env.metadata
        low, high = getattr(env.unwrapped, "reward_range", (-np.inf, np.inf))
        self._reward_space = gymnasium.spaces.Box(low, high, (1,), np.float32)

    # episodes

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """Seed the env from the next reset on.

        Args:
            seed: Seed.
            dynamic_seed: Seed once, so that the episodes differ; otherwise every episode starts from ``seed``.
        """
        self._seed = int(seed)
        self._dynamic_seed = dynamic_seed
        self._seed_waits = True
        if self._env is not None:
            self._action_space.seed(self._seed)

    def reset(self, **kwargs: Any) -> Obs:
        """Start an episode and return its first observation.

        Args:
            kwargs: ``options`` of the env's reset.
        """
        env = self._built()
        if self._replay_path is not None:
            env = self._env = RecordEpisodes(env, self._replay_path, self._replay_prefix())
            self._replay_path = None
        if self._seed_api and self._seed is not None and (self._seed_waits or not self._dynamic_seed):
            kwargs.setdefault("seed", self._seed)
        self._seed_waits = False
        if kwargs.get("seed") is not None:
            seed_spaces(env, kwargs["seed"])
        obs, info = env.reset(**kwargs)
        if isinstance(info, Mapping) and "action_mask" in info:
            _warn_of_unread_mask(self.observation_space)
        self._in_episode = True
        return copied(self._read_obs(obs))

    def step(self, action: object) -> BaseEnvTimestep:  # type: ignore[override]
        """Make one step; see :meth:`BaseEnv.step`.

        Args:
            action: An int, an array, a tensor, or a dict or tuple of them, in the form of the action space or of a
                network, see :class:`~ding.envs.env.actions.ActionMapping`.

        Raises:
            TypeError: The action has another type or shape.
            ActionSpaceError: The action is not in the env's space (checked in the first steps; a `ValueError`).
            RuntimeError: There was no reset before.
            DataProblem: The env returned a value outside of the contract, see :mod:`ding.envs.contract`.
        """
        if not self._in_episode:
            raise RuntimeError("step() before reset()")
        obs, reward, terminated, truncated, info = self._env.step(self._checked_action(action))
        info = own_info(info)
        mark_truncated(info, bool(truncated and not terminated))
        if is_abnormal(info) and (obs is None or reward is None):
            return BaseEnvTimestep(obs, reward, bool(terminated or truncated), info)
        number = max(scalar(reward), REWARD_FLOOR) if self.rew_clip else scalar(reward)
        paid = np.array([number], dtype=np.float32)
        return BaseEnvTimestep(copied(self._read_obs(obs)), paid, bool(terminated or truncated), info)

    def env_action(self, action: object) -> object:
        """Convert an action of a policy to the form of the wrapped env.

        Raises:
            TypeError: See :meth:`step`.
        """
        return self.action_mapping.to_env(action)

    def _checked_action(self, action: object) -> object:
        action = self._actions.to_env(action)
        if self.steps_to_check > 0:
            self.steps_to_check -= 1
            self._actions.check(action, repr(self))
        return action

    @property
    def has_fast_step(self) -> bool:
        """Whether :meth:`fast_step` is equivalent to :meth:`step`: no subclass overrides :meth:`step`."""
        return type(self).step is DingEnvWrapper.step

    def fast_step(self) -> FastStep | None:
        """Return direct access to the current episode for a manager; ``None`` without :attr:`has_fast_step`."""
        if not self.has_fast_step:
            return None
        # The manager sums the returns of all its envs at once, so skip this wrapper if it is the outermost.
        sums_return = type(self._env) is EvalEpisodeReturnWrapper and not self.rew_clip
        step, form = (self._env.env.step, self._env.form) if sums_return else (self._env.step, None)
        box = isinstance(self._observation_space, gymnasium.spaces.Box)
        as_given = self._actions.passes_ints and not self.steps_to_check
        if as_given and box and not self.rew_clip:
            return FastStep(step, form)
        read = self._read_obs

        def converted(action: object) -> RawStep:
            obs, reward, terminated, truncated, info = step(self._checked_action(action))
            if info and is_abnormal(info) and (obs is None or reward is None):
                return obs, reward, terminated, truncated, info
            if self.rew_clip:
                reward = max(scalar(reward), REWARD_FLOOR)
            return read(obs), reward, terminated, truncated, info

        return FastStep(converted, form)

    def random_action(self) -> object:
        """Return a sample of the action space; ints become int64 ``(1,)``."""
        return from_sample(self.action_space.sample())

    # other methods

    def render(self) -> Any:
        """Return the current frame, uint8 ``[H, W, 3]``."""
        return self._built().render()

    def close(self) -> None:
        """Close the wrapped env; an env with ``env_id`` is recreated on next use."""
        env, self._env = self._env, None
        self._in_episode = False
        if self._builds_env:
            self._raw_env = None
        if env is not None:
            env.close()

    def enable_save_replay(self, replay_path: "str | None" = None) -> None:
        """Save a video of each episode from the next reset on, in ``replay_path`` (default ``./video``).

        Raises:
            MissingExtraError: No package that writes videos is installed.
            ValueError: (at that reset) The env does not render to arrays.
        """
        require_video_writer()
        self._replay_path = "./video" if replay_path is None else replay_path

    def _replay_prefix(self) -> str:
        return (self._env_id or "rl-video").replace("/", "-").replace(":", "-")

    def clone(self, caller: str = "collector") -> "DingEnvWrapper":
        """Create another env of the same kind.

        Raises:
            TypeError: The wrapped env was passed in as an object and cannot be copied.
        """
        raw = None if self._builds_env else deepcopy(self._raw_env)
        return type(self)(raw, self._cfg, self._seed_api, caller)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._env_id or self._raw_env!r})"

    @staticmethod
    def create_collector_env_cfg(cfg: MutableMapping[str, Any]) -> list[Any]:
        """Return one config per collector env, with ``is_train=True``."""
        return copy_cfg(cfg, "collector_env_num", is_train=True)

    @staticmethod
    def create_evaluator_env_cfg(cfg: MutableMapping[str, Any]) -> list[Any]:
        """Return one config per evaluator env, with ``is_train=False``."""
        return copy_cfg(cfg, "evaluator_env_num", is_train=False)


def _warn_of_unread_mask(space: object) -> None:
    """Warn that a mask in an info has no effect, unless observations bring one."""
    if not isinstance(space, gymnasium.spaces.Dict) or "action_mask" not in space.spaces:
        one_time_warning(
            "the env gives info['action_mask'], which policies do not read, so they take masked actions, too: let a "
            "wrapper put it into the observation, a dict of 'observation' and 'action_mask' (docs/howto/masks.md)"
        )


def _checked_steps(value: "int | bool") -> int:
    """Return the number of steps in which actions are checked, from ``check_actions``.

    Raises:
        EnvConfigError: The value is neither a bool nor a non-negative int.
    """
    if not isinstance(value, int) or value < 0:
        raise EnvConfigError(f"env.check_actions must be a number of steps, True or False, not {value!r}")
    return (sys.maxsize if value else 0) if isinstance(value, bool) else value
