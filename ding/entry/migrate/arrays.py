"""Incompatibilities with NumPy 2: removed names, and one-element arrays used as numbers."""

import ast
from collections.abc import Iterator

from ding.entry.migrate.module import Function, Module, calls
from ding.entry.migrate.origins import is_base_env
from ding.entry.migrate.script import Script

# Aliases that NumPy 2 has removed.
_NAMES = {
    "float": "float", "int": "int", "object": "object", "str": "str", "complex": "complex",
    "float_": "np.float64", "complex_": "np.complex128", "unicode_": "np.str_", "string_": "np.bytes_",
    "Inf": "np.inf", "Infinity": "np.inf", "infty": "np.inf", "PINF": "np.inf", "NINF": "-np.inf", "NaN": "np.nan",
    "product": "np.prod", "cumproduct": "np.cumprod", "sometrue": "np.any", "alltrue": "np.all", "in1d": "np.isin",
    "row_stack": "np.vstack", "trapz": "np.trapezoid", "round_": "np.round", "bool8": "np.bool_", "int0": "np.intp",
    "cfloat": "np.complex128", "longfloat": "np.longdouble", "singlecomplex": "np.complex64",
}  # fmt: skip


def migrate_arrays(script: Script, module: Module) -> None:
    """Replace NumPy names, ``isinstance(sample, int)``, and ``int`` and ``float`` of arrays in ``step``."""
    names = [name for name, full in module.names.items() if full == "numpy"]
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Attribute) and node.attr in _NAMES and ast.unparse(node.value) in names:
            script.replace(node, _NAMES[node.attr].replace("np.", f"{ast.unparse(node.value)}."))
        elif isinstance(node, Function):
            _samples(script, node, names)
            cls = module.class_of(node)
            if node.name == "step" and cls is not None and is_base_env(module, cls):
                _scalars(script, node, names)


def _samples(script: Script, function: ast.FunctionDef | ast.AsyncFunctionDef, numpy: list[str]) -> None:
    """Replace ``isinstance(action, int)`` for samples of a Gymnasium space, which are ``np.int64``."""
    sampled = _sampled(function)
    for call in calls(function):
        if ast.unparse(call.func) != "isinstance" or len(call.args) != 2 or _root(call.args[0]) not in sampled:
            continue
        kinds = call.args[1].elts if isinstance(call.args[1], ast.Tuple) else [call.args[1]]
        texts = [ast.unparse(kind) for kind in kinds]
        if "int" not in texts or any(text.endswith((".integer", ".int64")) for text in texts):
            continue
        integer = kinds[texts.index("int")]
        if not numpy:
            script.leave(call, "spaces of gymnasium sample np.int64, which is no int")
        elif len(kinds) > 1:
            script.add_after(integer, f", {numpy[0]}.integer")
        else:
            script.replace(integer, f"(int, {numpy[0]}.integer)")


def _sampled(function: ast.AST) -> set[str]:
    """Return the names to which a function assigns ``space.sample()``, and those of loops over it."""
    names: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and _is_sample(node.value):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    for node in ast.walk(function):
        if isinstance(node, ast.For) and {each.id for each in _names(node.iter)} & names:
            names |= {each.id for each in _names(node.target)}
    return names


def _is_sample(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sample"


def _scalars(script: Script, function: ast.FunctionDef | ast.AsyncFunctionDef, numpy: list[str]) -> None:
    """Replace ``int(action)`` and ``float(reward)``: NumPy no longer converts arrays ``(1,)`` to numbers."""
    given = {arg.arg for arg in (*function.args.posonlyargs, *function.args.args)} - {"self"}
    for call in calls(function):
        if ast.unparse(call.func) not in ("int", "float") or [type(arg) for arg in call.args] != [ast.Name]:
            continue
        text = ast.unparse(call.args[0])
        if text not in given and text not in _computed(function, call.lineno):
            continue
        if numpy:
            script.replace(call.args[0], f"{numpy[0]}.asarray({text}).item()")
        else:
            script.leave(call, f"{ast.unparse(call)}: an array (1,) is no number for numpy; {text}.item() is one")


def _computed(function: ast.AST, line: int) -> set[str]:
    """Return the names that a function assigns by calls before a line, which may be arrays."""
    before = [node for node in ast.walk(function) if isinstance(node, ast.Assign) and node.lineno < line]
    made = [node for node in before if isinstance(node.value, ast.Call) and not _is_number(node.value)]
    return {target.id for node in made for target in node.targets if isinstance(target, ast.Name)}


def _is_number(call: ast.Call) -> bool:
    return ast.unparse(call.func) in ("int", "float", "len", "sum")


def _names(node: ast.AST) -> Iterator[ast.Name]:
    return (each for each in ast.walk(node) if isinstance(each, ast.Name))


def _root(node: ast.expr) -> str:
    """Return the base name of an expression with indices."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
