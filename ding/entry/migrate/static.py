"""The dicts of a config file, read from its syntax tree.

What a tree alone does not say (a call, a value from another module) is :data:`UNKNOWN`, and left out by :func:`known`.
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
    """A dict of a file; ``nodes`` has the expression of each value."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[str, ast.expr] = {}


def module_values(tree: ast.Module) -> dict[str, Any]:
    """What the names that the statements of a module set stand for, as far as the tree says it."""
    values: dict[str, Any] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            values[statement.targets[0].id] = _value(statement.value, values)
    return values


def _known(value: object) -> object:
    """A copy of a value without what is not known."""
    if isinstance(value, StaticDict):
        return known_section(value)
    if isinstance(value, list):
        return [_known(item) for item in value if item is not UNKNOWN]
    return value


def known_section(section: StaticDict) -> dict[str, Any]:
    """Return a copy of a section without what is not known."""
    return {key: _known(item) for key, item in section.items() if item is not UNKNOWN}


def is_whole(value: object) -> bool:
    """Whether all of a value is known."""
    items = value.values() if isinstance(value, StaticDict) else value if isinstance(value, list) else ()
    return value is not UNKNOWN and all(map(is_whole, items))


def sections(value: StaticDict, path: str = "") -> Iterator[tuple[str, StaticDict, str]]:
    """Path, dict and key of each value in a dict and those below."""
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
    """A dict, or a copy of one."""
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if name in ("deepcopy", "copy") and len(node.args) == 1:
        return _value(node.args[0], names)
    if name not in ("dict", "EasyDict"):
        return UNKNOWN
    given: list[tuple[Any, ast.expr]] = [(None, arg) for arg in node.args]
    return _dict([*given, *((keyword.arg, keyword.value) for keyword in node.keywords)], names)


def _dict(pairs: list[tuple[Any, ast.expr]], names: dict[str, Any]) -> object:
    """A dict of keys and expressions; without a key the expression is a dict whose items go into it."""
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
