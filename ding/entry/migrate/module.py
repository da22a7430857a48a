"""A Python file as a place of names: what it imports, defines and derives from, with the user's files around it."""

import ast
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module:
    """The names of a file.

    Args:
        path: the file; other files of the user are looked for from here.
        tree: its syntax tree.
    """

    def __init__(self, path: Path, tree: ast.Module) -> None:
        self.path = path
        self.tree = tree
        #: What each imported name stands for: ``np`` -> ``numpy``, ``wrap`` -> ``.wrappers.wrap``.
        self.names: dict[str, str] = {}
        #: The statements that import it.
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
        """The packages that are imported."""
        return {full.partition(".")[0] for full in self.names.values()}

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node that each node is part of."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The class that a node is in."""
        return next((outer for outer in self._around(node) if isinstance(outer, ast.ClassDef)), None)

    def functions_of(self, node: ast.AST) -> list[Function]:
        """The functions that a node is in, innermost first."""
        return [outer for outer in self._around(node) if isinstance(outer, Function)]

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        outer = self.parents.get(node)
        while outer is not None:
            yield outer
            outer = self.parents.get(outer)

    def full_name(self, node: ast.AST) -> str:
        """The full name of an imported thing: ``gym.wrappers.RecordVideo``; empty for all else."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.names:
            return ""
        return ".".join([self.names[node.id], *reversed(parts)])

    def lineage(self, cls: ast.ClassDef) -> Iterator[tuple["Module", ast.ClassDef]]:
        """A class and its bases, as far as they are in the user's files."""
        seen: set[tuple[Path, str]] = set()
        todo: list[tuple[Module, ast.ClassDef]] = [(self, cls)]
        while todo:
            module, each = todo.pop(0)
            if (module.path, each.name) not in seen:
                seen.add((module.path, each.name))
                yield module, each
                todo += [found for base in each.bases if (found := module.own_class(base)) is not None]

    def bases(self, cls: ast.ClassDef) -> set[str]:
        """The full names of the bases of a class, and of those of its bases in the user's files."""
        return {name for module, each in self.lineage(cls) for base in each.bases if (name := module.full_name(base))}

    def own_class(self, node: ast.AST) -> "tuple[Module, ast.ClassDef] | None":
        """The class of the user's files that an expression names."""
        module, name = self._home(node)
        return (module, module.classes[name]) if module is not None and name in module.classes else None

    def own_function(self, node: ast.AST) -> "tuple[Module, ast.FunctionDef] | None":
        """The function of the user's files that an expression names."""
        module, name = self._home(node)
        return (module, module.functions[name]) if module is not None and name in module.functions else None

    def _home(self, node: ast.AST) -> "tuple[Module | None, str]":
        """The file of the user in which the thing is that an expression names, and its name there."""
        if isinstance(node, ast.Name) and node.id not in self.names:
            return self, node.id
        owner, _, name = self.full_name(node).rpartition(".")
        path = self.file_of(owner) if owner else None
        return (None if path is None else read(path)), name

    def file_of(self, name: str) -> Path | None:
        """The file of a module of the user: relative to this one, or in a folder beside or above it."""
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
    """The names of a file; ``None`` where it is no Python."""
    try:
        return Module(path, ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return None


def return_values(function: ast.FunctionDef) -> list[ast.expr]:
    """Return what a function returns, a value per ``return``."""
    return [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """All calls below a node."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """The names that a statement imports, and what they stand for."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            owner = "." * node.level + (node.module or "")
            yield alias.asname or alias.name, f"{owner}{'' if owner.endswith('.') else '.'}{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name
        else:
            yield (top := alias.name.partition(".")[0]), top
