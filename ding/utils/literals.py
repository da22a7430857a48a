"""Read config files as data, without executing them."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

Code = Callable[[ast.expr, str], Any]
"""Handler of a non-literal expression, called with it and its path; returns a replacement value or raises."""


def assignments(path: Path) -> dict[str, ast.expr]:
    """Return the variables of a file, each with the last expression assigned to it.

    Raises:
        OSError: The file cannot be read.
        SyntaxError, UnicodeDecodeError: The file is not Python.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def literal_value(node: ast.expr, code: Code, where: str = "") -> object:
    """Return the value of an expression.

    Literals are Python's own, ``float('inf')`` and the like, and calls of ``EasyDict`` and ``dict`` on a literal.

    Args:
        node: The expression.
        code: Handler of non-literal parts.
        where: Dotted path of the expression, from which the paths passed to ``code`` are built.
    """
    match node:
        case ast.Constant(value=constant):
            return constant
        case ast.Dict(keys=keys, values=values) if None not in keys:
            found = {}
            for key_node, value in zip(keys, values):
                key = literal_value(key_node, code, where)  # type: ignore[arg-type]
                found[key] = literal_value(value, code, f"{where}.{key}")
            return found
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            items = [literal_value(item, code, f"{where}[{number}]") for number, item in enumerate(elements)]
            return items if isinstance(node, ast.List) else tuple(items)
        case ast.Call(func=ast.Name(id="EasyDict" | "dict"), args=[only], keywords=[]):
            return literal_value(only, code, where)
        case ast.Call(
            func=ast.Name(id="float"), args=[ast.Constant(value="inf" | "-inf" | "nan" as text)], keywords=[]
        ):
            return float(text)
    try:
        return ast.literal_eval(node)
    except ValueError:
        return code(node, where)
