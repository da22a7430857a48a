"""Names of a Python file: its imports, definitions and base classes, including other files of the user."""

import ast
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module:
    """Names of a file.

    Args:
        path: Path of the file, from which other files of the user are found.
        tree: Its syntax tree.
    """

    def __init__(self, path: Path, tree: ast.Module) -> None:
        self.path = path
        self.tree = tree
        #: Full name of each imported name: ``np`` -> ``numpy``, ``wrap`` -> ``.wrappers.wrap``.
        self.names: dict[str, str] = {}
        #: Import statement of each name.
        self.imports: dict[str, list[ast.Import | ast.ImportFrom]] = {}
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for name, full in _imported(node):
                    self.names[name] = full
                    self.imports.setdefault(name, []).append(node)
        self.functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}

    @property
    def packages(self) -> set[str]:
        """Return the imported packages."""
        return {full.partition(".")[0] for full in self.names.values()}

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Parent of each node."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """Return the class that contains a node."""
        return next((outer for outer in self._around(node) if isinstance(outer, ast.ClassDef)), None)

    def functions_of(self, node: ast.AST) -> list[Function]:
        """Return the functions that contain a node, innermost first."""
        return [outer for outer in self._around(node) if isinstance(outer, Function)]

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        outer = self.parents.get(node)
        while outer is not None:
            yield outer
            outer = self.parents.get(outer)

    def full_name(self, node: ast.AST) -> str:
        """Return the full name of an imported object, e.g. ``gym.wrappers.RecordVideo``; empty for other objects."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.names:
            return ""
        return ".".join([self.names[node.id], *reversed(parts)])

    def lineage(self, cls: ast.ClassDef) -> Iterator[tuple["Module", ast.ClassDef]]:
        """Yield a class and its base classes in the user's files."""
        seen: set[tuple[Path, str]] = set()
        todo: list[tuple[Module, ast.ClassDef]] = [(self, cls)]
        while todo:
            module, each = todo.pop(0)
            if (module.path, each.name) not in seen:
                seen.add((module.path, each.name))
                yield module, each
                todo += [found for base in each.bases if (found := module.own_class(base)) is not None]

    def bases(self, cls: ast.ClassDef) -> set[str]:
        """Return the full names of the bases of a class, including those of its bases in the user's files."""
        return {name for module, each in self.lineage(cls) for base in each.bases if (name := module.full_name(base))}

    def own_class(self, node: ast.AST) -> "tuple[Module, ast.ClassDef] | None":
        """Return the class in the user's files that an expression names."""
        module, name = self._home(node)
        return (module, module.classes[name]) if module is not None and name in module.classes else None

    def own_function(self, node: ast.AST) -> "tuple[Module, ast.FunctionDef] | None":
        """Return the function in the user's files that an expression names."""
        module, name = self._home(node)
        return (module, module.functions[name]) if module is not None and name in module.functions else None

    def _home(self, node: ast.AST) -> "tuple[Module | None, str]":
        """Return the user's file that defines the object of an expression, and its name there."""
        if isinstance(node, ast.Name) and node.id not in self.names:
            return self, node.id
        owner, _, name = self.full_name(node).rpartition(".")
        path = self.file_of(owner) if owner else None
        return (None if path is None else read(path)), name

    def file_of(self, name: str) -> Path | None:
        """Return the file of a user module: relative to this one, or in a neighbouring or parent folder."""
        parts = name.lstrip(".").split(".")
        dots = len(name) - len(name.lstrip("."))
        if not parts[0]:
            return None
        folders = self.path.absolute().parents
        for folder in folders[dots - 1 : dots] if dots else folders:
            for path in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py")):
                if path.is_file():
                    return path
        return None


def read(path: Path) -> Module | None:
    """Parse a file; return ``None`` if it is not Python."""
    try:
        return Module(path, ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return None


def return_values(function: ast.FunctionDef) -> list[ast.expr]:
    """Return the expression of each ``return`` of a function."""
    return [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield all calls below a node."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield the names that a statement imports, with their full names."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            owner = "." * node.level + (node.module or "")
            yield alias.asname or alias.name, f"{owner}{'' if owner.endswith('.') else '.'}{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name
        else:
            yield (top := alias.name.partition(".")[0]), top
