"""Calls of env methods: Gymnasium returns five values from ``step`` and two from ``reset``.

====================== ==============================================================================================
env of gym             rewritten, in a file that imports gym or only a helper that creates the env
attribute of a         rewritten if its ``reset`` and a ``step`` of four values are called and the file imports gym;
``BaseEnv``            with a note if the constructor of the env is unknown
env of another package unchanged, with a note in a ``BaseEnv``
``DingEnvWrapper``,    unchanged: they have DI-engine's API
other ``BaseEnv``
other objects          a ``step`` of four values is listed if the file imports gym
====================== ==============================================================================================

For the ``step`` and ``reset`` of wrappers see :mod:`ding.entry.migrate.wrappers`.
"""

import ast
from dataclasses import dataclass
from enum import Enum, auto

from ding.entry.migrate.module import Module, calls
from ding.entry.migrate.origins import GYM, UNKNOWN, is_base_env, is_wrapper, origin, wraps_env
from ding.entry.migrate.script import Script

_METHODS = ("step", "reset", "seed", "render")
_STEP = "env.step of gymnasium returns (obs, reward, terminated, truncated, info)"
_UNSURE = f"{_STEP}; a BaseEnv returns four values, as here"
_RENDER = "env.render of gymnasium has no arguments: the mode is that of the env (make_gym_env(..., render_mode=...))"
_SEED = "envs of gymnasium have no seed(): reset(seed=...)"
_NO_RANGE = "(-float('inf'), float('inf'))"


class _Do(Enum):
    """Treatment of the calls of an env."""

    REWRITE = auto()
    LIST = auto()
    NOTHING = auto()


@dataclass(frozen=True)
class _Use:
    """Call of an env method, and the statement that uses its value."""

    call: ast.Call
    method: str
    env: ast.expr
    statement: ast.stmt | None

    @property
    def target(self) -> ast.expr | None:
        """Target of the assignment of the value, if there is exactly one."""
        assigns = isinstance(self.statement, ast.Assign) and len(self.statement.targets) == 1
        return self.statement.targets[0] if assigns else None  # type: ignore[union-attr]

    def unpacks(self, count: int) -> bool:
        """Return whether the value is unpacked into ``count`` names."""
        return isinstance(self.target, ast.Tuple) and len(self.target.elts) == count


def migrate_envs(script: Script, module: Module) -> None:
    """Replace and report calls of ``step``, ``reset``, ``seed`` and ``render``, and uses of ``reward_range``."""
    uses = [use for call in calls(script.tree) if (use := _use(module, call)) is not None]
    for use in uses:
        do = _what_to_do(script, module, use, uses)
        if do is _Do.REWRITE:
            _REWRITE[use.method](script, use)
        elif do is _Do.LIST and use.method == "step" and use.unpacks(4):
            script.leave(use.call, _STEP if origin(module, use.env) == GYM else _UNSURE)
    if module.packages & {"gym", "gymnasium"}:
        _reward_ranges(script)


def _use(module: Module, call: ast.Call) -> _Use | None:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _METHODS:
        return None
    env, method, parent = call.func.value, call.func.attr, module.parents[call]
    if ast.unparse(env) in ("self", "super()") or module.full_name(env):
        return None
    cls, function = module.class_of(call), next(iter(module.functions_of(call)), None)
    own = cls is not None and is_wrapper(module, cls) and ast.unparse(env) == "self.env"
    if own and function is not None and function.name == method and method in ("step", "reset"):
        return None
    return _Use(call, method, env, parent if isinstance(parent, ast.stmt) else None)


def _what_to_do(script: Script, module: Module, use: _Use, uses: list[_Use]) -> _Do:
    cls, packages = module.class_of(use.call), module.packages
    old = "gym" in packages
    same = [each for each in uses if _same_env(module, use, each)]
    if any(each.method == "step" and each.unpacks(5) for each in same):
        # Its step has the new API already; reset of PettingZoo got it later.
        zoo = "pettingzoo" in packages and use.method == "reset" and not _is_indexed(module, use)
        return _Do.REWRITE if zoo else _Do.NOTHING
    wraps = cls is not None and wraps_env(module, cls) and ast.unparse(use.env) == "self.env"
    where = GYM if wraps else origin(module, use.env)
    steps = any(each.method == "step" and each.unpacks(4) for each in same)
    if where == GYM:
        return _Do.REWRITE if old or "gymnasium" not in packages else _Do.LIST
    inside = cls is not None and is_base_env(module, cls) and isinstance(use.env, ast.Attribute)
    full = steps and any(each.method == "reset" for each in same)
    if where != UNKNOWN:
        if inside and full and old and use.method == "step":
            script.note(use.call, f"{ast.unparse(use.env)} comes from {where}, whose API is taken to be as it was")
        return _Do.NOTHING
    if inside and full and old:
        if use.method == "step":
            script.note(use.call, f"{ast.unparse(use.env)} is taken to be an env of gym")
        return _Do.REWRITE
    return _Do.LIST if old else _Do.NOTHING


def _is_indexed(module: Module, use: _Use) -> bool:
    """Return whether only the first value of a call is used: ``result[0]``."""
    text = "" if use.target is None else f"{ast.unparse(use.target)}[0]"
    function = next(iter(module.functions_of(use.call)), module.tree)
    return any(ast.unparse(node) == text for node in ast.walk(function) if isinstance(node, ast.Subscript))


def _same_env(module: Module, one: _Use, other: _Use) -> bool:
    """Return whether two calls use the same env: an attribute of a class and its bases, or a name of a function."""
    text = ast.unparse(one.env)
    if ast.unparse(other.env) != text:
        return False
    if text.startswith("self."):
        classes = [module.class_of(use.call) for use in (one, other)]
        lines = [{each.name for _, each in module.lineage(cls)} for cls in classes if cls is not None]
        return len(lines) == 2 and bool(lines[0] & lines[1])
    return module.functions_of(one.call)[:1] == module.functions_of(other.call)[:1]


def _step(script: Script, use: _Use) -> None:
    """Rewrite ``obs, reward, done, info = env.step(action)``: Gymnasium returns two flags for the end of an episode."""
    target = use.target
    if isinstance(use.statement, ast.Expr):
        return
    if not isinstance(target, ast.Tuple) or any(isinstance(each, ast.Starred) for each in target.elts):
        script.leave(use.call, _STEP)
    elif len(target.elts) == 4:
        done, info = (script.source(each) for each in target.elts[2:])
        if done == "_":
            script.add_after(target.elts[2], ", _")
            return
        lines = [f"{done} = {done} or truncated"]
        if info != "_":
            # Collectors use it for bootstrapping.
            lines = [f"if truncated and not {done}:", f"    {info}['TimeLimit.truncated'] = True", *lines]
        # A call inside of an index may have side effects, so call it only once.
        again = next(calls(ast.Tuple(target.elts[2:])), None) is None
        assert use.statement is not None
        if again and script.add_lines_after(use.statement, *lines):
            script.add_after(target.elts[2], ", truncated")
        else:
            script.leave(use.call, _STEP)


def _reset(script: Script, use: _Use) -> None:
    """Rewrite ``obs = env.reset()``: Gymnasium also returns the info."""
    if isinstance(use.target, (ast.Name, ast.Attribute)):
        script.add_after(use.target, ", _")
    elif not isinstance(use.statement, ast.Expr) and not use.unpacks(2):
        script.add_after(use.call, "[0]")


def _seed(script: Script, use: _Use) -> None:
    """Rewrite ``env.seed(seed)``, which is now an argument of ``reset``."""
    if not isinstance(use.statement, ast.Expr):
        script.leave(use.call, _SEED)
        return
    script.replace_in(use.call.func, r"seed$", "reset")
    if use.call.args:
        script.add_before(use.call.args[0], "seed=")


def _render(script: Script, use: _Use) -> None:
    """Rewrite ``env.render(mode='rgb_array')``: the mode is now a constructor argument."""
    given = [*use.call.args, *(keyword.value for keyword in use.call.keywords)]
    if [ast.unparse(each) for each in given] == ["'rgb_array'"]:
        script.replace_arguments(use.call, "")
    elif given:
        script.leave(use.call, _RENDER)
    elif isinstance(use.statement, ast.Expr):
        script.note(use.call, "render() returns an array; a window needs make_gym_env(..., render_mode='human')")


def _reward_ranges(script: Script) -> None:
    """Report ``reward_range``, which Gymnasium lacks; in old gym it was infinite unless defined."""
    uses = [node for node in ast.walk(script.tree) if isinstance(node, ast.Attribute) and node.attr == "reward_range"]
    own = any(not isinstance(node.ctx, ast.Load) for node in uses)
    for node in uses:
        env = script.source(node.value)
        if isinstance(node.ctx, ast.Load) and not (own and env == "self"):
            script.replace(node, f"getattr({env}, 'reward_range', {_NO_RANGE})")


_REWRITE = {"step": _step, "reset": _reset, "seed": _seed, "render": _render}
