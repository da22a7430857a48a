"""Walks over nested data: the one home of recursion over dicts, lists and tuples.

Two kinds of nesting occur:

* *containers*: mappings, lists and tuples, as envs, networks and configs give them (:func:`map_nested`,
  :func:`iter_nested`, :func:`mappings_in`);
* *columns*: nested dicts alone. A list is a leaf, because it is a column of objects with one entry per row
  (:func:`map_leaves`, :func:`map_together`, :func:`map_paths`, :func:`iter_paths`, :func:`iter_leaves`).

``None`` is a leaf everywhere. Which lists hold rows and which hold columns is decided by
:func:`ding.utils.rows.is_bundle`, which keys are not converted by :func:`is_ignored_key`.

Time per call with an identity function, on one core, for a transition of six entries and for one bare tensor:
``map_leaves`` 1.0 and 0.12 us, ``map_nested`` 2.3 and 0.29 us, ``optree.tree_map`` 3.3 and 1.4 us,
``torch.utils._pytree`` 7.6 and 1.8 us. In addition, optree and torch treat an ``EasyDict`` as a leaf and cannot exempt
keys from conversion, so they would need the rules of this module anyway.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

Tree: TypeAlias = Any
"""Nested mappings, lists and tuples, or a single leaf. The result of a walk has the form of its input."""

COLLATE_IGNORE = "collate_ignore"


def is_ignored_key(key: object) -> bool:
    """Return whether values under a key are neither batched nor converted: the key begins with ``collate_ignore``."""
    return isinstance(key, str) and key.startswith(COLLATE_IGNORE)


def map_nested(fn: Callable[[Any], Any], data: object) -> Tree:
    """Apply ``fn`` to every leaf of nested mappings (which become dicts), lists and tuples."""
    if isinstance(data, Mapping):
        return {key: map_nested(fn, value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return rebuilt(data, [map_nested(fn, value) for value in data])
    return fn(data)


def plain_tree(value: Any) -> Tree:
    """Convert a tree of another package, an object whose ``json()`` returns nested dicts (``treetensor``), to these
    dicts; return other objects unchanged.
    """
    if isinstance(value, Mapping) or not hasattr(value, "json"):
        return value
    tree = value.json()
    return tree if isinstance(tree, Mapping) else value


def iter_nested(data: object) -> Iterator[Any]:
    """Yield every leaf of nested mappings, lists and tuples."""
    if isinstance(data, (Mapping, list, tuple)):
        for value in data.values() if isinstance(data, Mapping) else data:
            yield from iter_nested(value)
    else:
        yield data


def iter_along(template: object, data: Any) -> Iterator[Any]:
    """Yield the values of ``data`` at the leaf positions of ``template``, nested mappings, lists and tuples."""
    if isinstance(template, Mapping):
        for key, part in template.items():
            yield from iter_along(part, data[key])
    elif isinstance(template, (list, tuple)):
        for part, entry in zip(template, data):
            yield from iter_along(part, entry)
    else:
        yield data


def with_leaves(template: object, leaves: Iterator[Any]) -> Tree:
    """Return ``template`` with its leaves replaced, in the order of :func:`iter_nested`."""
    return map_nested(lambda _: next(leaves), template)


def mappings_in(data: object) -> Iterator[Mapping[Any, Any]]:
    """Yield every mapping in nested mappings, lists and tuples, outer ones first."""
    if isinstance(data, Mapping):
        yield data
        data = list(data.values())
    if isinstance(data, (list, tuple)):
        for value in data:
            yield from mappings_in(value)


def map_leaves(fn: Callable[[Any], Any], columns: object) -> Tree:
    """Apply ``fn`` to every leaf of nested dicts."""
    if isinstance(columns, dict):
        return {key: map_leaves(fn, value) for key, value in columns.items()}
    return fn(columns)


def map_together(fn: Callable[..., Any], first: object, *others: Any) -> Tree:
    """Apply ``fn`` to the corresponding leaves of several nested dicts, using the keys of the first."""
    if isinstance(first, Mapping):
        return {key: map_together(fn, value, *[other[key] for other in others]) for key, value in first.items()}
    return fn(first, *others)


def map_paths(fn: Callable[[str, Any], Any], columns: object, path: str = "") -> Tree:
    """Apply ``fn(path, leaf)`` to every leaf of nested dicts; see :func:`iter_leaves` for the paths."""
    if isinstance(columns, dict):
        return {key: map_paths(fn, value, f"{path}.{key}" if path else str(key)) for key, value in columns.items()}
    return fn(path, columns)


def iter_paths(
    tree: object, empty: bool = False, sequences: tuple[type, ...] = (), path: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield ``(keys, leaf)`` for every leaf of nested mappings.

    Args:
        tree: nested mappings.
        empty: Whether an empty mapping counts as a leaf.
        sequences: Sequence types to descend into, with positions as keys.
        path: Keys that lead to ``tree``.
    """
    if isinstance(tree, Mapping) and (tree or not empty):
        items: Iterable[tuple[Any, Any]] = tree.items()
    elif isinstance(tree, sequences):
        items = enumerate(tree)  # type: ignore[arg-type]
    else:
        yield path, tree
        return
    for key, value in items:
        yield from iter_paths(value, empty, sequences, (*path, key))


def iter_leaves(columns: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield ``(path, leaf)`` for every leaf of nested dicts, keys joined by ``.``; a bare leaf has the path ``""``."""
    if isinstance(columns, dict):
        for key, value in columns.items():
            yield from iter_leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, columns


def dotted(tree: Mapping[str, Any], delimiter: str = ".", empty: bool = False) -> dict[str, Any]:
    """Return nested mappings as one dict with joined keys; with ``empty``, empty mappings are kept as values."""
    return {delimiter.join(map(str, keys)): leaf for keys, leaf in iter_paths(tree, empty=empty)} if tree else {}


def is_namedtuple(item: object) -> bool:
    """Return whether ``item`` is a named tuple, whose constructor takes its fields one by one."""
    return isinstance(item, tuple) and hasattr(item, "_fields")


def rebuilt(template: object, items: list[Any]) -> Tree:
    """Return ``items`` in the type of ``template``: a named tuple, a tuple, or a list for everything else."""
    if isinstance(template, tuple):
        return type(template)(*items) if is_namedtuple(template) else tuple(items)
    return items
