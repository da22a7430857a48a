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
    "row_stack": "np.vstack", "trapz": "np.trapezoid", "round_": "np.round", "bool8": "np.bool_", "int0": "np.intp",
    "cfloat": "np.complex128", "longfloat": "np.longdouble", "singlecomplex": "np.complex64",
}  # fmt: skip
_STEP = "env.step of gymnasium returns (obs, reward, terminated, truncated, info)"


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
    for call in _makes(script.tree, gym):
        _env_id(script, call)
    _steps(script, _envs(script.tree, gym))
    # What a run with --write left stays on the list.
    gymnasium_envs = _envs(script.tree, {name for name, module in bound.items() if module == "gymnasium"})
    for statement, method, _ in _method_calls(script.tree, gymnasium_envs):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if method == "step" and isinstance(target, ast.Tuple) and len(target.elts) == 4:
            script.leave(statement, _STEP)


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """All calls below a node."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _makes(tree: ast.AST, gym: set[str]) -> list[ast.Call]:
    """Calls of ``gym.make``, under the names that the package has."""
    makers = {f"{name}.make" for name in gym}
    return [call for call in calls(tree) if ast.unparse(call.func) in makers]


def _envs(tree: ast.AST, gym: set[str]) -> set[str]:
    """The expressions to which envs are assigned that ``gym.make`` returns."""
    made = {id(call) for call in _makes(tree, gym)}
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and id(node.value) in made]
    return {ast.unparse(node.targets[0]) for node in assigned}


def _method_calls(tree: ast.AST, envs: set[str]) -> Iterator[tuple[ast.Assign | ast.Expr, str, ast.Call]]:
    """Statements that call a method of one of these envs, or assign what it returns; its name, and the call."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Assign, ast.Expr)) or not isinstance(call := node.value, ast.Call):
            continue
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in envs:
            yield node, call.func.attr, call


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
    for statement, method, call in _method_calls(script.tree, envs):
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
        script.leave(statement, _STEP)
    elif len(target.elts) == 4:
        done = script.source(target.elts[2])
        # What is called for an index may have an effect, and is called once.
        again = next(calls(target.elts[2]), None) is None
        if done == "_" or (again and script.add_line_after(statement, f"{done} = {done} or truncated")):
            script.add_after(target.elts[2], ", _" if done == "_" else ", truncated")
        else:
            script.leave(statement, _STEP)
