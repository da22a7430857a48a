"""Calls that gymnasium and numpy 2 no longer know.

Only envs that the file itself makes with ``gym.make`` are touched: a ``DingEnvWrapper`` returns four values from
``step`` and one from ``reset``, as DI-engine has it, also over an env of gymnasium. The file's own wrappers of gym are
in :mod:`ding.entry.migrate.wrappers`.
"""

import ast
import re
from collections.abc import Iterator

import gymnasium

from ding.entry.migrate.script import Script
from ding.envs.env.old_ids import spec_or_successor

# Aliases that numpy 2 does not have.
_NUMPY = {
    "float": "float", "int": "int", "object": "object", "str": "str", "complex": "complex",
    "float_": "np.float64", "complex_": "np.complex128", "unicode_": "np.str_", "string_": "np.bytes_",
    "Inf": "np.inf", "Infinity": "np.inf", "infty": "np.inf", "PINF": "np.inf", "NINF": "-np.inf", "NaN": "np.nan",
    "product": "np.prod", "cumproduct": "np.cumprod", "sometrue": "np.any", "alltrue": "np.all", "in1d": "np.isin",
    "row_stack": "np.vstack", "trapz": "np.trapezoid",
}  # fmt: skip


def migrate_calls(script: Script, bound: dict[str, str]) -> None:
    """Replace calls.

    Args:
        script: the file.
        bound: what the names of imported packages stand for.
    """
    numpy = {name for name, module in bound.items() if module == "numpy"}
    gym = {name for name, module in bound.items() if module == "gym"}
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Attribute) and node.attr in _NUMPY and ast.unparse(node.value) in numpy:
            script.replace(node, _NUMPY[node.attr].replace("np.", f"{ast.unparse(node.value)}."))
    makes = [call for call in calls(script.tree) if _is_make(call, gym)]
    for call in makes:
        _env_id(script, call)
    made = {id(call) for call in makes}
    assigned = [node for node in ast.walk(script.tree) if isinstance(node, ast.Assign) and id(node.value) in made]
    _steps(script, {ast.unparse(node.targets[0]) for node in assigned})


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """All calls below a node."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _is_make(call: ast.Call, gym: set[str]) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "make"
        and isinstance(function.value, ast.Name)
        and function.value.id in gym
    )


def _env_id(script: Script, call: ast.Call) -> None:
    """An id that gymnasium no longer builds becomes that of the newest version."""
    env_id = call.args[0] if call.args else None
    if not isinstance(env_id, ast.Constant) or not re.search(r"-v\d+$", str(env_id.value)):
        return  # without a version, gymnasium takes the newest, too
    name = str(env_id.value)
    try:
        newest = spec_or_successor(name).id
    except gymnasium.error.Error as reason:
        script.leave(env_id, f"{name}: {reason}")
        return
    if newest != name:
        quote = script.source(env_id)[-1]
        script.replace(env_id, f"{quote}{newest}{quote}")


def _steps(script: Script, envs: set[str]) -> None:
    """Calls of ``step``, ``reset`` and ``seed`` of envs, given by their expressions."""
    statements = [node for node in ast.walk(script.tree) if isinstance(node, (ast.Assign, ast.Expr))]
    for statement in statements:
        call = statement.value
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        method = call.func.attr
        if ast.unparse(call.func.value) not in envs:
            continue
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
            if method == "step":
                _step(script, statement, target)
            elif method == "reset" and isinstance(target, (ast.Name, ast.Attribute)):
                script.add_after(target, ", _")
        elif method == "seed":
            script.replace_in(call.func, r"seed$", "reset")
            if call.args:
                script.add_before(call.args[0], "seed=")


def _step(script: Script, statement: ast.Assign, target: ast.expr) -> None:
    """``obs, reward, done, info = env.step(action)``: gymnasium returns two flags for the end of an episode."""
    if not isinstance(target, ast.Tuple):
        script.leave(statement, "env.step of gymnasium returns (obs, reward, terminated, truncated, info)")
    elif len(target.elts) == 4:
        done = script.source(target.elts[2])
        if done == "_" or script.add_line_after(statement, f"{done} = {done} or truncated"):
            script.add_after(target.elts[2], ", _" if done == "_" else ", truncated")
        else:
            script.leave(statement, "env.step of gymnasium returns (obs, reward, terminated, truncated, info)")
