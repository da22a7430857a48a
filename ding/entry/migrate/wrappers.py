"""Wrappers of gym that a file defines: gymnasium has five values of ``step`` and two of ``reset``."""

import ast
from collections.abc import Iterator

from ding.entry.migrate.script import Script

_ENV = ("self.env", "super()")


def migrate_wrappers(script: Script, bound: dict[str, str]) -> None:
    """Replace what the methods ``step`` and ``reset`` of wrappers unpack and return.

    Args:
        script: the file.
        bound: what the names of imported packages stand for.
    """
    for cls in _wrappers(script.tree, bound):
        for method in cls.body:
            if isinstance(method, ast.FunctionDef) and method.name in ("step", "reset"):
                done = _step(script, method) if method.name == "step" else _reset(script, method)
                if not done:
                    text = "(obs, reward, terminated, truncated, info)" if method.name == "step" else "(obs, info)"
                    script.leave(method, f"{cls.name}.{method.name}: a wrapper of gymnasium returns {text}")


def _wrappers(tree: ast.AST, bound: dict[str, str]) -> Iterator[ast.ClassDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = (ast.unparse(base).partition(".") for base in node.bases)
            names = [f"{bound.get(first, '')}{dot}{rest}" for first, dot, rest in bases]
            if any(name.startswith("gym.") and name.endswith("Wrapper") for name in names):
                yield node


def _step(script: Script, method: ast.FunctionDef) -> bool:
    """``obs, reward, done, info = self.env.step(action)`` and ``return obs, reward, done, info``."""
    taken = [target for target in _taken(method) if isinstance(target, ast.Tuple) and len(target.elts) == 4]
    returned = [value for value in _returned(method) if not _is_call(value, "step")]
    if not returned:
        return True
    if len(taken) != 1 or not all(isinstance(value, ast.Tuple) and len(value.elts) == 4 for value in returned):
        return False
    done = taken[0].elts[2]
    script.add_after(done, ", truncated")
    for value in returned:
        script.add_after(value.elts[2], ", truncated")  # type: ignore[attr-defined]
    uses = [node for node in ast.walk(method) if isinstance(node, ast.Name) and ast.unparse(done) == node.id]
    if len(uses) > 1 + len(returned):
        script.note(
            done, f"{script.source(done)} no longer says that a time limit was met: {method.name} has truncated"
        )
    return True


def _reset(script: Script, method: ast.FunctionDef) -> bool:
    """``obs = self.env.reset()`` and ``return obs``."""
    taken = [target for target in _taken(method) if not isinstance(target, ast.Tuple)]
    returned = [value for value in _returned(method) if not _is_call(value, "reset")]
    if returned and len(taken) != 1:
        return False
    for node in (*taken, *returned) if returned else ():
        script.add_after(node, ", reset_info")
    return True


def _taken(method: ast.FunctionDef) -> list[ast.expr]:
    """Targets that get what the wrapped env's method of the same name returns."""
    assigned = [node for node in ast.walk(method) if isinstance(node, ast.Assign)]
    return [node.targets[0] for node in assigned if _is_call(node.value, method.name)]


def _returned(method: ast.FunctionDef) -> list[ast.expr]:
    return [node.value for node in ast.walk(method) if isinstance(node, ast.Return) and node.value is not None]


def _is_call(value: ast.expr, name: str) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) in [f"{env}.{name}" for env in _ENV]
