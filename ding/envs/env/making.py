"""Building gymnasium envs by id, and around given ones."""

import contextlib
import difflib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from ding.envs.env.base_env import EnvConfigError
from ding.envs.env.default_wrapper import get_default_wrappers
from ding.envs.env.old_ids import spec_or_successor
from ding.envs.env_wrappers import EvalEpisodeReturnWrapper, GymToGymnasiumWrapper, create_env_wrapper
from ding.envs.env_wrappers._gym_api import OldGymView, is_of_gym, resets_as_gymnasium
from ding.envs.env_wrappers.video import FramesOnDemand
from ding.envs.gymnasium_types import AnyEnv
from ding.utils import MissingExtraError, import_module, install_line, require_extra
from ding.utils.signature import takes_argument

logger = logging.getLogger(__name__)

# Packages that register envs with gymnasium when asked: (part of the id, module, extra). Of an id with none of these
# parts (`Pong-v4`), all of them are tried before it is unknown.
_LATE_REGISTRATIONS = (
    ("ALE/", "ale_py", "atari"),
    ("NoFrameskip", "ale_py", "atari"),
    ("MiniGrid-", "minigrid", "minigrid"),
    ("Moving-", "ding.envs.zoo.hybrid_move", ""),
    ("Sliding-", "ding.envs.zoo.hybrid_move", ""),
)

# What gymnasium says is not installed -> the extra that installs it.
_EXTRAS = {"box2d": "box2d", "mujoco": "mujoco", "pygame": "video", "ale": "atari"}

# Envs of gymnasium whose step is slower where there is a render mode, and never gets faster again unless frames are
# drawn: LunarLander makes bodies for the fire of its engines, which age only in render().
_DRAW_IN_STEP = ("gymnasium.envs.box2d.lunar_lander:LunarLander",)


def make_gym_env(env_id: str, **kwargs: Any) -> AnyEnv:
    """``gymnasium.make``, for the ids of public configs too; the env can render to arrays where it is able to.

    An id that gymnasium no longer builds gives its successor, with a warning: the newest version
    (``LunarLander-v2``), and of MuJoCo version 4, which is like the old ones (``Hopper-v3``). Games of Atari,
    MiniGrid and gym-hybrid need no import before. There are no checks at each step: the caller resets
    before it steps.

    Args:
        env_id: id of a registered env; ``package.module:Env-v0`` imports the module first.
        kwargs: for the construction of the env. ``render_mode`` is ``rgb_array`` unless it is given, where the env has
            that mode.

    Raises:
        EnvConfigError: no env of that id is registered.
        MissingExtraError: the env needs a package that is not installed; the message names the extra.
    """
    try:
        return _make(find_spec(env_id), kwargs)
    except gymnasium.error.DependencyNotInstalled as error:
        extras = [extra for word, extra in _EXTRAS.items() if word in str(error).lower()]
        if not extras:
            raise
        raise MissingExtraError(
            f"env.env_id {env_id!r} needs a package that is not installed; install it with: {install_line(extras[0])}"
        ) from error


def _make(spec: EnvSpec, kwargs: dict[str, Any]) -> AnyEnv:
    # The callers keep to reset-before-step by themselves, so the guards would only cost time at every step.
    spec.disable_env_checker = True
    spec.order_enforce = False
    if "render_mode" not in kwargs and _draws_to_arrays(spec):
        kwargs["render_mode"] = "rgb_array"
        if spec.entry_point in _DRAW_IN_STEP:
            return FramesOnDemand(gymnasium.make(spec, **kwargs))
    return as_gymnasium(gymnasium.make(spec, **kwargs))


def find_spec(env_id: str) -> EnvSpec:
    """A copy of the spec of a gymnasium env; ``package.module:Env-v0`` imports the module first.

    An id that gymnasium no longer builds (``LunarLander-v2``, ``Hopper-v3``) gives its newest version.

    Raises:
        EnvConfigError: no env of that id is registered.
        MissingExtraError: the package that registers it is not installed.
    """
    module, _, name = env_id.rpartition(":")
    if module:
        import_module([module])
    for part, package, extra in _LATE_REGISTRATIONS:
        if part in name and name not in gymnasium.registry:
            gymnasium.register_envs(require_extra(package, extra))
    try:
        return deepcopy(spec_or_successor(name))
    except gymnasium.error.Error:
        missing = _register_all()
    try:
        return deepcopy(spec_or_successor(name))
    except gymnasium.error.Error as error:
        near = difflib.get_close_matches(name, gymnasium.registry, n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        hint += f"; more envs come with extras that are not installed: {', '.join(missing)}" if missing else ""
        raise EnvConfigError(f"env.env_id: no gymnasium env is registered as {env_id!r}{hint}") from error


def _register_all() -> list[str]:
    """Let all packages register their envs; returns the extras of those that are not installed."""
    missing = []
    for package, extra in dict.fromkeys((package, extra) for _, package, extra in _LATE_REGISTRATIONS):
        try:
            gymnasium.register_envs(require_extra(package, extra))
        except MissingExtraError:
            missing.append(extra)
    return missing


def _draws_to_arrays(spec: EnvSpec) -> bool:
    """Whether the env has the render mode ``rgb_array`` and its constructor takes a render mode."""
    creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    modes = (getattr(creator, "metadata", None) or {}).get("render_modes", ())
    return "rgb_array" in modes and takes_argument(creator, "render_mode")


def as_gymnasium(env: object) -> AnyEnv:
    """``env`` itself when it is known to speak the gymnasium API, else with a wrapper that makes it.

    The wrapper comes around the innermost env where wrappers of gymnasium's API are around that, as after
    ``gymnasium.make``: they go on to work, a time limit among them. The innermost env of the wrappers is replaced then.
    """
    if not isinstance(env, gymnasium.Env) or isinstance(env, GymToGymnasiumWrapper):
        return env if isinstance(env, GymToGymnasiumWrapper) else GymToGymnasiumWrapper(env)
    if getattr(env, "old_api", False):
        return GymToGymnasiumWrapper(env)
    wrappers, innermost = _taken_apart(env)
    if isinstance(innermost, GymToGymnasiumWrapper):
        return env
    if resets_as_gymnasium(innermost):
        # An env class that was ported by changing only its import may step with 4 fields: each result shows its form.
        return env if innermost.spec is not None else GymToGymnasiumWrapper(env)
    if not wrappers or not all(map(resets_as_gymnasium, wrappers)):
        return GymToGymnasiumWrapper(env)
    wrappers[-1].env = GymToGymnasiumWrapper(innermost)
    return env


def _taken_apart(env: AnyEnv) -> tuple[list[Any], AnyEnv]:
    """The wrappers of an env, the outermost first, and what is inside."""
    wrappers = []
    while isinstance(env, gymnasium.Wrapper):
        wrappers.append(env)
        env = env.env
    return wrappers, env


def with_step_limit(env: AnyEnv, max_episode_steps: int) -> AnyEnv:
    """Return ``env`` with a limit of the steps of an episode, which a wrapper that sums the return sees."""
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, EvalEpisodeReturnWrapper):
            layer.env = gymnasium.wrappers.TimeLimit(layer.env, max_episode_steps)
            return env
        layer = layer.env
    return gymnasium.wrappers.TimeLimit(env, max_episode_steps)


def apply_wrappers(
    env: object, wrappers: "str | Sequence[Mapping[str, Any] | Callable[[Any], Any]]", env_id: str | None, caller: str
) -> AnyEnv:
    """Wrap ``env`` in a named list of wrappers, or in each of a list of configs and callables, innermost first.

    A callable gets the env with the API that it wraps: an env of gym as it is, and where it makes a wrapper of gym
    around one of gymnasium, a view of that with the API of gym.

    Raises:
        TypeError: an item is neither a config nor a callable.
    """
    items = get_default_wrappers(wrappers, env_id, caller) if isinstance(wrappers, str) else wrappers
    for item in items:
        if isinstance(item, Mapping):
            env = create_env_wrapper(as_gymnasium(env), item)
        elif callable(item):
            env = _wrapped_by(item, env)
        else:
            raise TypeError(f"an item of env.env_wrapper must be a config or a callable, not {type(item).__name__}")
    return as_gymnasium(env)


def _wrapped_by(wrap: Callable[[Any], Any], env: object) -> Any:
    if not isinstance(env, gymnasium.Env):
        try:
            return wrap(env)
        except (TypeError, AssertionError) as error:
            logger.debug("%r takes no env of gym: %r", wrap, error)
        # Wrappers of gymnasium take its envs only.
        return wrap(as_gymnasium(env))
    env = as_gymnasium(env)
    if "gym" not in sys.modules:
        return wrap(env)
    if isinstance(wrap, type):
        return wrap(OldGymView(env) if is_of_gym(wrap) else env)
    try:
        wrapped = wrap(env)
    except Exception:
        # Perhaps a wrapper of gym, which did not find what it knows.
        with contextlib.suppress(Exception):
            view = OldGymView(env)
            wrapped = wrap(view)
            if _is_inside_of_gym(view, wrapped):
                return wrapped
        raise
    return wrap(OldGymView(env)) if _is_inside_of_gym(env, wrapped) else wrapped


def _is_inside_of_gym(env: object, wrapped: Any) -> bool:
    """Whether a wrapper of gym is among those around ``env``."""
    while wrapped is not env and wrapped is not None:
        if is_of_gym(type(wrapped)):
            return True
        wrapped = vars(wrapped).get("env") if hasattr(wrapped, "__dict__") else None
    return False
