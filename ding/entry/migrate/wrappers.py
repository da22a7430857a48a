"""Gym wrappers defined in a file: adapts ``step`` to five values, ``reset`` to two, and their arguments."""

import ast

from ding.entry.migrate.module import Module, calls, return_values
from ding.entry.migrate.origins import is_wrapper
from ding.entry.migrate.script import Script


def migrate_wrappers(script: Script, module: Module) -> None:
    """Rewrite the values that the methods ``step`` and ``reset`` of wrappers unpack, pass on and return.

    Args:
        script: The file.
        module: Its names.
    """
    for cls in [node for node in ast.walk(script.tree) if isinstance(node, ast.ClassDef)]:
        if not is_wrapper(module, cls, ("gym.",)):
            continue
        for method in cls.body:
            if isinstance(method, ast.FunctionDef) and method.name in ("step", "reset"):
                done = _step(script, method) if method.name == "step" else _reset(script, method)
                if not done:
                    text = "(obs, reward, terminated, truncated, info)" if method.name == "step" else "(obs, info)"
                    script.leave(method, f"{cls.name}.{method.name}: a wrapper of gymnasium returns {text}")
                elif method.name == "reset":
                    _take_arguments(script, method)


def _step(script: Script, method: ast.FunctionDef) -> bool:
    """Rewrite ``obs, reward, done, info = self.env.step(action)`` and ``return obs, reward, done, info``."""
    taken = [target for target in _taken(method) if isinstance(target, ast.Tuple) and len(target.elts) == 4]
    returned = [value for value in return_values(method) if not _is_call(value, "step")]
    if not returned:
        return True
    if len(taken) != 1 or not all(len(_fields(value)) == 4 for value in returned):
        return False
    done = taken[0].elts[2]
    script.add_after(done, ", truncated")
    for value in returned:
        if isinstance(value, ast.Tuple):
            script.add_after(value.elts[2], ", truncated")
        else:
            obs, reward, end, info = map(script.source, _fields(value))
            script.replace(value, f"{obs}, {reward}, {end}, truncated, {info}")
    uses = [node for node in ast.walk(method) if isinstance(node, ast.Name) and ast.unparse(done) == node.id]
    if len(uses) > 1 + len(returned):
        script.note(
            done, f"{script.source(done)} no longer says that a time limit was met: {method.name} has truncated"
        )
    return True


def _fields(value: ast.expr) -> list[ast.expr]:
    """Return the fields of a tuple, or of a ``BaseEnvTimestep(obs, reward, done, info)``."""
    if isinstance(value, ast.Tuple):
        return value.elts
    if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("BaseEnvTimestep"):
        return [*value.args, *(keyword.value for keyword in value.keywords)]
    return []


def _reset(script: Script, method: ast.FunctionDef) -> bool:
    """Rewrite ``obs = self.env.reset()`` and ``return obs``."""
    taken = [target for target in _taken(method) if not isinstance(target, ast.Tuple)]
    returned = [value for value in return_values(method) if not _is_call(value, "reset")]
    if returned and len(taken) != 1:
        return False
    for node in (*taken, *returned) if returned else ():
        script.add_after(node, ", reset_info")
    return True


def _take_arguments(script: Script, method: ast.FunctionDef) -> None:
    """Rewrite ``def reset(self)``: Gymnasium passes a seed and options, which the wrapper forwards to the env."""
    args = method.args
    last = [*args.posonlyargs, *args.args, *args.defaults, args.vararg, *args.kwonlyargs, *args.kw_defaults]
    nodes = sorted((node for node in last if node is not None), key=script.span)
    if args.kwarg is not None or not nodes:
        return
    inner = [call for call in calls(method) if _is_call(call, "reset")]
    if any(keyword.arg in ("seed", None) for call in inner for keyword in call.keywords):
        return  # it has its own way to take a seed
    script.add_after(nodes[-1], ", **kwargs")
    for call in inner:
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if given:
            script.add_after(max(given, key=script.span), ", **kwargs")
        else:
            script.replace_arguments(call, "**kwargs")


def _taken(method: ast.FunctionDef) -> list[ast.expr]:
    """Return the targets of the values that the wrapped env's method of the same name returns."""
    assigned = [node for node in ast.walk(method) if isinstance(node, ast.Assign)]
    return [node.targets[0] for node in assigned if _is_call(node.value, method.name)]


def _is_call(value: ast.expr, name: str) -> bool:
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.func.attr != name:
        return False
    owner = value.func.value
    is_super = isinstance(owner, ast.Call) and ast.unparse(owner.func) == "super"
    return is_super or ast.unparse(owner) == "self.env"
