"""Construction of Gymnasium envs by id, and adaptation of existing envs."""

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

# Packages that register envs with Gymnasium on request: (part of the id, module, extra). For an id without any of these
# parts (`Pong-v4`), all of them are tried before it counts as unknown.
_LATE_REGISTRATIONS = (
    ("ALE/", "ale_py", "atari"),
    ("NoFrameskip", "ale_py", "atari"),
    ("MiniGrid-", "minigrid", "minigrid"),
    ("Moving-", "ding.envs.zoo.hybrid_move", ""),
    ("Sliding-", "ding.envs.zoo.hybrid_move", ""),
)

# Name that Gymnasium reports as not installed -> extra that installs it.
_EXTRAS = {"box2d": "box2d", "mujoco": "mujoco", "pygame": "video", "ale": "atari"}

# Envs of Gymnasium that become permanently slower with a render mode unless frames are drawn: LunarLander creates
# bodies for the fire of its engines, which age only in render().
_DRAW_IN_STEP = ("gymnasium.envs.box2d.lunar_lander:LunarLander",)


def make_gym_env(env_id: str, **kwargs: Any) -> AnyEnv:
    """Call ``gymnasium.make`` with support for the ids of public configs; the env can render to arrays if possible.

    An id that Gymnasium no longer supports yields its successor, with a warning: the newest version
    (``LunarLander-v2``), or for MuJoCo version 4, which resembles the old ones (``Hopper-v3``). Games of Atari,
    MiniGrid and gym-hybrid need no prior import. Per-step checks are disabled: the caller resets before it steps.

    Args:
        env_id: Id of a registered env; ``package.module:Env-v0`` imports the module first.
        kwargs: Constructor arguments. ``render_mode`` defaults to ``rgb_array`` if the env supports it.

    Raises:
        EnvConfigError: The id is not registered.
        MissingExtraError: A package that the env needs is not installed; the message names the extra.
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
    # The callers reset before they step, so the guards would only cost time.
    spec.disable_env_checker = True
    spec.order_enforce = False
    if "render_mode" not in kwargs and _draws_to_arrays(spec):
        kwargs["render_mode"] = "rgb_array"
        if spec.entry_point in _DRAW_IN_STEP:
            return FramesOnDemand(gymnasium.make(spec, **kwargs))
    return as_gymnasium(gymnasium.make(spec, **kwargs))


def find_spec(env_id: str) -> EnvSpec:
    """Return a copy of the spec of a Gymnasium env; ``package.module:Env-v0`` imports the module first.

    An id that Gymnasium no longer supports (``LunarLander-v2``, ``Hopper-v3``) yields its newest version.

    Raises:
        EnvConfigError: The id is not registered.
        MissingExtraError: The package that registers it is not installed.
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
    """Make all packages register their envs; return the extras of the missing packages."""
    missing = []
    for package, extra in dict.fromkeys((package, extra) for _, package, extra in _LATE_REGISTRATIONS):
        try:
            gymnasium.register_envs(require_extra(package, extra))
        except MissingExtraError:
            missing.append(extra)
    return missing


def _draws_to_arrays(spec: EnvSpec) -> bool:
    """Return whether the env supports ``rgb_array`` and its constructor accepts a render mode."""
    creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    modes = (getattr(creator, "metadata", None) or {}).get("render_modes", ())
    return "rgb_array" in modes and takes_argument(creator, "render_mode")


def as_gymnasium(env: object) -> AnyEnv:
    """Return ``env`` if it uses the Gymnasium API, otherwise wrap it so that it does.

    If wrappers of Gymnasium's API enclose the innermost env, as after ``gymnasium.make``, the adapter is inserted
    around that env, so that the wrappers, such as a time limit, keep working.
    """
    if not isinstance(env, gymnasium.Env) or isinstance(env, GymToGymnasiumWrapper):
        return env if isinstance(env, GymToGymnasiumWrapper) else GymToGymnasiumWrapper(env)
    if getattr(env, "old_api", False):
        return GymToGymnasiumWrapper(env)
    wrappers, innermost = _taken_apart(env)
    if isinstance(innermost, GymToGymnasiumWrapper):
        return env
    if resets_as_gymnasium(innermost):
        # A class that was ported by changing only its import may return 4 fields: check each result.
        return env if innermost.spec is not None else GymToGymnasiumWrapper(env)
    if not wrappers or not all(map(resets_as_gymnasium, wrappers)):
        return GymToGymnasiumWrapper(env)
    wrappers[-1].env = GymToGymnasiumWrapper(innermost)
    return env


def _taken_apart(env: AnyEnv) -> tuple[list[Any], AnyEnv]:
    """Return the wrappers of an env, outermost first, and the innermost env."""
    wrappers = []
    while isinstance(env, gymnasium.Wrapper):
        wrappers.append(env)
        env = env.env
    return wrappers, env


def with_step_limit(env: AnyEnv, max_episode_steps: int) -> AnyEnv:
    """Limit the steps of an episode of ``env``, inside of a wrapper that sums the return."""
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
    """Wrap ``env`` in a named list of wrappers, or in a list of configs and callables, innermost first.

    A callable receives the env in the API that it wraps: an old gym env unchanged, and a Gymnasium env in an adapter
    with the gym API if the callable creates a gym wrapper.

    Raises:
        TypeError: An item is neither a config nor a callable.
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
        # Wrappers of Gymnasium accept only its envs.
        return wrap(as_gymnasium(env))
    env = as_gymnasium(env)
    if "gym" not in sys.modules:
        return wrap(env)
    if isinstance(wrap, type):
        return wrap(OldGymView(env) if is_of_gym(wrap) else env)
    try:
        wrapped = wrap(env)
    except Exception:
        # Perhaps a gym wrapper that did not find its API.
        with contextlib.suppress(Exception):
            view = OldGymView(env)
            wrapped = wrap(view)
            if _is_inside_of_gym(view, wrapped):
                return wrapped
        raise
    return wrap(OldGymView(env)) if _is_inside_of_gym(env, wrapped) else wrapped


def _is_inside_of_gym(env: object, wrapped: Any) -> bool:
    """Return whether one of the wrappers around ``env`` is a gym wrapper."""
    while wrapped is not env and wrapped is not None:
        if is_of_gym(type(wrapped)):
            return True
        wrapped = vars(wrapped).get("env") if hasattr(wrapped, "__dict__") else None
    return False
