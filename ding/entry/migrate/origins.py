"""Origin of an env, which determines the API of its ``step`` and ``reset``.

An expression is traced through the assignments of its function or class, through methods, and through the functions and
classes of the user's other files.
"""

import ast
from collections.abc import Iterable, Iterator

from ding.entry.migrate.module import Function, Module, return_values

#: The env belongs to gym: created by ``gym.make``, or a wrapper.
GYM = "gym"
#: The origin is unknown. Any other origin is the name of the package or class that defines the API.
UNKNOWN = ""
MAKERS = ("gym.make", "gym.envs.registration.make", "gymnasium.make", "gymnasium.envs.registration.make")
_DEPTH = 8


def origin(module: Module, node: ast.expr, depth: int = _DEPTH) -> str:
    """Return the origin of the env of an expression: :data:`GYM`, :data:`UNKNOWN` or a package.

    Args:
        module: The file.
        node: Expression in the tree of the file.
        depth: Maximum number of assignments and calls to trace.
    """
    if depth == 0:
        return UNKNOWN
    if isinstance(node, ast.Call):
        return _of_call(module, node, depth - 1)
    if isinstance(node, (ast.IfExp, ast.BoolOp)):
        parts = node.values if isinstance(node, ast.BoolOp) else [node.body, node.orelse]
        return _combined(origin(module, part, depth - 1) for part in parts)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _combined(origin(where, value, depth - 1) for where, value in _assigned(module, node))
    return UNKNOWN


def is_base_env(module: Module, cls: ast.ClassDef) -> bool:
    """Return whether a class derives from ``BaseEnv``, or from another env of ding or dizoo."""
    return any(name.startswith(("ding.", "dizoo.")) and name.endswith("Env") for name in module.bases(cls))


def wraps_env(module: Module, cls: ast.ClassDef, packages: tuple[str, ...] = ("gym.", "gymnasium.")) -> bool:
    """Return whether a class derives from a gym wrapper, so that ``self.env`` is a gym env."""
    names = [name for name in module.bases(cls) if name.startswith(packages)]
    return any(name.endswith("Wrapper") or ".wrappers." in name for name in names)


def is_wrapper(module: Module, cls: ast.ClassDef, packages: tuple[str, ...] = ("gym.", "gymnasium.")) -> bool:
    """Return whether a class is a gym wrapper for its callers, too: one that returns timesteps has DI-engine's API,
    unless it is listed in an ``env_wrapper``.
    """
    steps = [node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name == "step"]
    values = [value for step in steps for value in return_values(step) if isinstance(value, ast.Call)]
    timesteps = any(ast.unparse(value.func).endswith("BaseEnvTimestep") for value in values)
    return wraps_env(module, cls, packages) and not (timesteps and not _is_listed(module, cls))


def _is_listed(module: Module, cls: ast.ClassDef) -> bool:
    """Return whether the file has an ``env_wrapper`` with this class."""
    listed: list[ast.expr] = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.keyword) and node.arg == "env_wrapper":
            listed.append(node.value)
        elif isinstance(node, ast.Dict):
            keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
            listed += [value for key, value in zip(keys, node.values) if key == "env_wrapper"]
    names = [node.id for value in listed for node in ast.walk(value) if isinstance(node, ast.Name)]
    return cls.name in names


def _of_call(module: Module, call: ast.Call, depth: int) -> str:
    """Return the origin of the result of a call."""
    name = module.full_name(call.func)
    package = name.partition(".")[0]
    if package in ("gym", "gymnasium"):
        return GYM if name in MAKERS or name.endswith(("Wrapper", "Env")) or ".wrappers." in name else name
    if name == "ding.envs.make_gym_env":
        return GYM
    if package == "ding":
        return GYM if name.endswith("Wrapper") and not name.endswith(".DingEnvWrapper") else name
    for where, function in _functions(module, call.func):
        return _combined(origin(where, value, depth) for value in return_values(function))
    found = module.own_class(call.func)
    if found is not None:
        where, cls = found
        wraps = is_wrapper(where, cls) or is_wrapper(where, cls, ("ding.",))
        return GYM if wraps and not is_base_env(where, cls) else cls.name
    if package and package.strip("."):
        # A wrapper of another package over a gym env.
        inner = [origin(module, arg, depth) for arg in call.args[:1]]
        return GYM if GYM in inner else package
    return UNKNOWN


def _functions(module: Module, func: ast.expr) -> Iterator[tuple[Module, ast.FunctionDef]]:
    """Yield the user's functions that an expression names, with their files; includes methods of ``self``."""
    cls = module.class_of(func)
    if isinstance(func, ast.Attribute) and ast.unparse(func.value) == "self" and cls is not None:
        for where, each in module.lineage(cls):
            yield from ((where, m) for m in each.body if isinstance(m, ast.FunctionDef) and m.name == func.attr)
    elif (found := module.own_function(func)) is not None:
        yield found


def _assigned(module: Module, node: ast.Name | ast.Attribute) -> list[tuple[Module, ast.expr]]:
    """Return the values assigned to a name in the enclosing function or file, or to an attribute of ``self``."""
    text = ast.unparse(node)
    if isinstance(node, ast.Name):
        scopes: Iterable[tuple[Module, ast.AST]] = [
            (module, scope) for scope in (*module.functions_of(node), module.tree)
        ]
    elif text.startswith("self.") and (cls := module.class_of(node)) is not None:
        scopes = module.lineage(cls)
    else:
        return []
    for where, scope in scopes:
        if isinstance(scope, Function) and any(arg.arg == text for arg in ast.walk(scope) if isinstance(arg, ast.arg)):
            return []
        values = [(where, value) for value in _values(scope, text)]
        if values:
            return values
    return []


def _values(scope: ast.AST, text: str) -> Iterator[ast.expr]:
    """Yield the values assigned to a target below a node, except for wrappers around its previous value."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and text in [ast.unparse(target) for target in node.targets]:
            inner = node.value.args if isinstance(node.value, ast.Call) else []
            if text not in [ast.unparse(arg) for arg in inner]:
                yield node.value


def _combined(origins: Iterable[str]) -> str:
    """Combine several origins of an env; return a known one if there is any."""
    found = list(origins)
    return GYM if GYM in found else next(filter(None, found), UNKNOWN)
