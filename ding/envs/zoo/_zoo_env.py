"""Base class of the env types in this folder: a :class:`DingEnvWrapper` with an id and wrappers."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

from easydict import EasyDict

from ding.envs.env.base_env import EnvConfigError
from ding.envs.env.default_wrapper import EVAL_RETURN, EVAL_RETURN_NUMBER, NAMES
from ding.envs.env.ding_env_wrapper import DingEnvWrapper
from ding.envs.env.making import apply_wrappers, as_gymnasium, make_gym_env, with_step_limit
from ding.envs.env_wrappers._gym_api import OldGymView
from ding.utils import deep_merge_dicts, did_you_mean


class ZooEnv(DingEnvWrapper):
    """Gymnasium env with the observations, actions and infos that public configs expect of a type.

    All other behaviour is that of :class:`DingEnvWrapper`: seeds, forms of actions and rewards, replays. Wrappers in
    ``env_wrapper`` are applied around those of the type.

    Args:
        cfg: Keys of the type, see :attr:`config`. ``replay_path`` is the folder of the videos of
            :func:`ding.entry.eval`; a type with this key saves a video of each episode, also in training.
        seed_api: Pass seeds to the env.
        caller: ``collector`` or ``evaluator``; a config with ``is_train=False`` creates an evaluator env.
    """

    config: ClassVar[dict[str, Any]] = {}

    def __init__(self, cfg: Mapping[str, Any] | None = None, seed_api: bool = True, caller: str = "collector") -> None:
        self._own_cfg = EasyDict(deep_merge_dicts(deepcopy(type(self).config), dict(cfg or {})))
        wrappers = self._env_wrappers(self._own_cfg, self._own_cfg.get("is_train", True) and caller == "collector")
        given = self._own_cfg.get("env_wrapper", "default")
        if not isinstance(given, str):
            wrappers += given
        elif given not in ("default", *NAMES):
            raise EnvConfigError(f"env.env_wrapper {given!r} is unknown.{did_you_mean(given, ('default', *NAMES))}")
        elif EVAL_RETURN not in wrappers:
            wrappers.append(EVAL_RETURN_NUMBER)
        kwargs = {**self._env_kwargs(self._own_cfg), **self._own_cfg.get("env_kwargs", {})}
        super().__init__(None, {**self._own_cfg, "env_kwargs": kwargs, "env_wrapper": wrappers}, seed_api, caller)
        if "replay_path" in type(self).config and self._own_cfg.replay_path is not None:
            self.enable_save_replay(self._own_cfg.replay_path)

    # For subclasses written for DI-engine's zoo that override reset and step.
    _init_flag = False

    def _make_env(self) -> Any:
        """Return the env with the wrappers of the type, and with the methods of the old gym.

        A subclass may return another env of either API, which then keeps its own wrappers.
        """
        assert self._env_id is not None
        env = make_gym_env(self._env_id, **self._made_with())
        env = apply_wrappers(env, self._cfg.env_wrapper, self._env_id, self.caller)
        self._take_spaces(env)
        limit = self._max_episode_steps
        return OldGymView(env if limit is None else with_step_limit(env, limit))

    def _build(self) -> None:
        if self._raw_env is None and type(self)._make_env is not ZooEnv._make_env:
            made = self._make_env()
            self._raw_env = made.env if isinstance(made, OldGymView) else as_gymnasium(made)
            self._cfg.env_wrapper = [] if isinstance(made, OldGymView) else [EVAL_RETURN]
        super()._build()

    @staticmethod
    def _env_kwargs(cfg: EasyDict) -> dict[str, Any]:
        """Return the constructor arguments of the Gymnasium env."""
        return {}

    @staticmethod
    def _env_wrappers(cfg: EasyDict, is_train: bool) -> list[Any]:
        """Return the wrappers of the type, innermost first; unless one of them sums the return, a wrapper is added."""
        return previous_step_wrappers(cfg)

    def clone(self, caller: str = "collector") -> "ZooEnv":
        """Create another env of the same kind."""
        return type(self)(self._own_cfg, self._seed_api, caller)


def previous_step_wrappers(cfg: Mapping[str, Any]) -> list[Any]:
    """Return the wrapper for ``obs_plus_prev_action_reward``, if it is set."""
    return [{"type": "obs_plus_prev_action_reward"}] if cfg.get("obs_plus_prev_action_reward") else []
