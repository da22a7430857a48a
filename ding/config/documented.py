"""Meanings of config keys: the comment above the default in the source, or the shared meaning.

Each key is documented in one place, which the reference pages and ``ding new config`` read.
"""

import ast
import importlib
import inspect
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from ding.config.key_meanings import SHARED_MEANINGS
from ding.utils.nested import dotted


@dataclass(frozen=True)
class ConfigKey:
    """Key of a component's config: its dotted path, default, and meaning ("" if undocumented)."""

    path: str
    default: Any
    meaning: str


def documented_keys(cls: Any) -> list[ConfigKey]:
    """Return the keys of ``cls.default_config()`` in order, with their meanings.

    Args:
        cls: Class with a ``default_config``; the comments are those of its ``config`` or, for keys that it does not
            repeat, of its nearest base class that has them, or the shared meaning.
    """
    meanings: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if "config" in vars(base):
            meanings.update(_of_class(base))
    found = []
    for path, value in dotted(cls.default_config(), empty=True).items():
        if path.rpartition(".")[2] == "cfg_type":
            continue
        meaning = (
            meanings.get(path) or SHARED_MEANINGS.get(path) or SHARED_MEANINGS.get(path.removeprefix("league."), "")
        )
        found.append(ConfigKey(path, value, meaning))
    return found


def _of_class(cls: type, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and comment of each commented key in the ``config`` of a class."""
    source = _Source.of(cls.__module__)
    for name, value in _assigned(source.body_of(cls.__name__)):
        if name == "config":
            yield from source.keyed(value, prefix)


class _Source:
    """Source of a module: its statements, and the standalone comments by line."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        text = inspect.getsource(module)
        self.statements = ast.parse(text).body
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        self._comments = {
            token.start[0]: token.string.lstrip("# ")
            for token in tokens
            if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip()
        }

    @classmethod
    @cache
    def of(cls, module: str) -> "_Source":
        return cls(importlib.import_module(module))

    def keyed(self, node: ast.expr, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield path and meaning of each key of a dict literal, or of the variable that a node names."""
        match node:
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values):
                    if key is None:
                        yield from self.keyed(value, prefix)
                    elif isinstance(key, ast.Constant):
                        yield from self._item(f"{prefix}{key.value!s}", key.lineno, value)
            case ast.Call(func=ast.Name(id="dict"), args=arguments, keywords=keywords):
                for argument in arguments:
                    yield from self.keyed(argument, prefix)
                for keyword in keywords:
                    if keyword.arg is None:
                        yield from self.keyed(keyword.value, prefix)
                    else:
                        yield from self._item(f"{prefix}{keyword.arg}", keyword.lineno, keyword.value)
            case ast.Call(func=ast.Name(id="deep_merge_dicts"), args=arguments):
                for argument in arguments:
                    yield from self.keyed(argument, prefix)
            case ast.Name(id=name):
                source, named = self._named(name)
                if named is not None:
                    yield from source.keyed(named, prefix)
            case ast.Attribute(value=ast.Name(id=name), attr="config"):
                yield from _of_class(getattr(self._module, name), prefix)

    def _item(self, path: str, line: int, value: ast.expr) -> Iterator[tuple[str, str]]:
        lines = []
        while (line := line - 1) in self._comments:
            lines.append(self._comments[line])
        if lines:
            yield path, " ".join(reversed(lines))
        yield from self.keyed(value, f"{path}.")

    def body_of(self, name: str) -> Sequence[ast.stmt]:
        """Return the body of a class of this module."""
        return next(node.body for node in self.statements if isinstance(node, ast.ClassDef) and node.name == name)

    def _named(self, name: str) -> tuple["_Source", ast.expr | None]:
        """Return the value of a module variable, defined here or in the module that it is imported from."""
        for known, value in _assigned(self.statements):
            if known == name:
                return self, value
        for node in self.statements:
            if isinstance(node, ast.ImportFrom) and node.module and any(name == alias.name for alias in node.names):
                return _Source.of(node.module)._named(name)
        return self, None


def _assigned(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
