"""``docs/howto/read_an_algorithm.md`` names the update of each policy type, and each update fits on a page."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ding.policy  # noqa: F401 - registers
from ding.utils import POLICY_REGISTRY

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/howto/read_an_algorithm.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([\w-]+)` \| [^|]+ \| (`ding/policy/[^|]+) \|$", re.M)
NAMED = re.compile(r"`(ding/[\w/]+\.py)::([\w.]+)`")
UPDATES = {kind: NAMED.findall(update) for kind, update in ROW.findall(PAGE)}
MAX_LINES = 45


def functions(file: str) -> dict[str, ast.FunctionDef]:
    """Those of a file, by qualified name."""

    def found(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                yield prefix + child.name, child
            elif isinstance(child, ast.ClassDef):
                yield from found(child, f"{prefix}{child.name}.")

    return dict(found(ast.parse((ROOT / file).read_text(encoding="utf-8"))))


def test_the_table_names_every_policy_type() -> None:
    shipped = [kind for kind, cls in POLICY_REGISTRY.items() if cls.__module__.startswith("ding.")]
    assert sorted(UPDATES) == sorted(kind for kind in shipped if not kind.endswith("_command"))


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED.findall(PAGE))))
def test_each_function_exists(file: str, name: str) -> None:
    assert name in functions(file)


@pytest.mark.parametrize("kind", UPDATES)
def test_an_update_is_that_of_the_type_and_fits_on_a_page(kind: str) -> None:
    assert UPDATES[kind]
    for file, name in UPDATES[kind]:
        first, *method = name.split(".")
        if method:
            used = inspect.unwrap(getattr(POLICY_REGISTRY[kind], method[0]))
            assert (used.__qualname__, used.__module__) == (name, file.removesuffix(".py").replace("/", "."))
        function = functions(file)[name]
        start = function.body[1 if ast.get_docstring(function) else 0].lineno
        assert (function.end_lineno or 0) - start + 1 <= MAX_LINES, first
