"""Dicts of a config file, read from its syntax tree.

Values that the tree alone does not define (a call, a value of another module) are :data:`UNKNOWN`, and omitted by
:func:`known_section`.
"""

import ast
import operator
from collections.abc import Callable, Iterator
from typing import Any

UNKNOWN = object()

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


class StaticDict(dict[str, Any]):
    """Dict of a file; ``nodes`` contains the expression of each value."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, ast.expr] = {}


def module_values(tree: ast.Module) -> dict[str, Any]:
    """Return the values of the names set by the statements of a module, as far as the tree defines them."""
    values: dict[str, Any] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            values[statement.targets[0].id] = _value(statement.value, values)
    return values


def _known(value: object) -> object:
    """Copy a value without unknown parts."""
    if isinstance(value, StaticDict):
        return known_section(value)
    if isinstance(value, list):
        return [_known(item) for item in value if item is not UNKNOWN]
    return value


def known_section(section: StaticDict) -> dict[str, Any]:
    """Copy a section without unknown values."""
    return {key: _known(item) for key, item in section.items() if item is not UNKNOWN}


def is_whole(value: object) -> bool:
    """Return whether a value is completely known."""
    items = value.values() if isinstance(value, StaticDict) else value if isinstance(value, list) else ()
    return value is not UNKNOWN and all(map(is_whole, items))


def sections(value: StaticDict, path: str = "") -> Iterator[tuple[str, StaticDict, str]]:
    """Yield path, dict and key of each value in a dict and its sub-dicts."""
    for key, item in value.items():
        where = f"{path}.{key}" if path else key
        yield where, value, key
        if isinstance(item, StaticDict):
            yield from sections(item, where)


def _value(node: ast.expr, names: dict[str, Any]) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names.get(node.id, UNKNOWN)
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(item, names) for item in node.elts]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return _dict([(None if key is None else _value(key, names), value) for key, value in pairs], names)
    if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
        return _call(node, names)
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, names)
        return owner.get(node.attr, UNKNOWN) if isinstance(owner, StaticDict) else UNKNOWN
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _computed(operator.sub, 0, _value(node.operand, names))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _computed(_OPERATORS[type(node.op)], _value(node.left, names), _value(node.right, names))
    return UNKNOWN


def _call(node: ast.Call, names: dict[str, Any]) -> object:
    """Evaluate a call that creates or copies a dict."""
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name in ("deepcopy", "copy") and len(node.args) == 1:
        return _value(node.args[0], names)
    if name not in ("dict", "EasyDict"):
        return UNKNOWN
    given: list[tuple[Any, ast.expr]] = [(None, arg) for arg in node.args]
    return _dict([*given, *((keyword.arg, keyword.value) for keyword in node.keywords)], names)


def _dict(pairs: list[tuple[Any, ast.expr]], names: dict[str, Any]) -> object:
    """Evaluate a dict from keys and expressions; an expression without a key is a dict that is unpacked."""
    result = StaticDict()
    for key, node in pairs:
        value = _value(node, names)
        if key is not None:
            result[str(key)], result.nodes[str(key)] = value, node
        elif isinstance(value, StaticDict):
            result.update(value)
            result.nodes |= value.nodes
        else:
            return UNKNOWN
    return result


def _computed(function: Callable[[Any, Any], Any], left: Any, right: Any) -> object:
    if not all(isinstance(value, (int, float, str)) for value in (left, right)):
        return UNKNOWN
    try:
        return function(left, right)
    except (ArithmeticError, TypeError):
        return UNKNOWN
