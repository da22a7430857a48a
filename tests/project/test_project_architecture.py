"""The docs name only files that exist, and `docs/architecture.md` only folders and functions that do, too.

Its tables of floors, and of strings that point up, are those of the code and of import-linter.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project.test_project_house import Module, import_nodes, imported, modules

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
# `ding/x/y.py`, and behind `::` the qualified name of a function or class in it.
NAMED = re.compile(r"(ding/[\w/]+\.py)(?:::([\w.]+))?")
# A file in backticks; one with a part in capitals or braces stands for many.
FILE = re.compile(r"`((?:ding|tests|configs|benchmarks|docs|examples)/[\w/.]+\.\w+)(?:::[\w.]+)?`")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = re.compile(r"`((?:ding|tests|configs|benchmarks|docs|examples)(?:/\w+)*)/?`")


def defined_in(tree: ast.AST, prefix: str = "") -> set[str]:
    names: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names |= {prefix + node.name, *defined_in(node, f"{prefix}{node.name}.")}
    return names


def test_both_flows_are_drawn() -> None:
    serial, parallel = re.findall(r"```mermaid\n(.*?)```", PAGE, re.S)
    assert len(NAMED.findall(serial)) >= 8
    assert len(NAMED.findall(parallel)) >= 8


@pytest.mark.parametrize(("file", "name"), sorted(set(NAMED.findall(PAGE))))
def test_every_file_and_function_exists(file: str, name: str) -> None:
    assert (ROOT / file).is_file()
    if name:
        assert name in defined_in(ast.parse((ROOT / file).read_text(encoding="utf-8")))


@pytest.mark.parametrize("folder", sorted(set(FOLDERS.findall(PAGE))))
def test_every_folder_exists(folder: str) -> None:
    assert (ROOT / folder).is_dir()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    named = set(FILE.findall(page.read_text(encoding="utf-8"))) - {"examples/NAME.py"}
    assert [file for file in sorted(named) if not (ROOT / file).is_file()] == []


# Floors

FLOORS = {
    name: int(floor)
    for floor, packages in re.findall(r"^\| (\d+) \| (`ding/.*?) \|", PAGE, re.M)
    for name in re.findall(r"ding/(\w+)", packages)
}


def package_of(module: str) -> str:
    """The package of a full name, as ``worker``; nothing for ``ding`` itself."""
    return "".join(module.split(".")[1:2])


def test_every_package_has_one_floor_which_import_linter_knows() -> None:
    packages = {path.parent.name for path in (ROOT / "ding").glob("*/__init__.py")}
    assert set(FLOORS) == packages
    layers = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("\nlayers = [")[1].split("\n]")[0]
    listed = [re.findall(r"ding\.(\w+)", layer) for layer in reversed(layers.strip().splitlines())]
    assert {name for layer in listed for name in layer} == packages
    floors = [{FLOORS[name] for name in layer} for layer in listed]
    assert all(len(floor) == 1 for floor in floors), "a layer is on one floor"
    assert [floor.pop() for floor in floors] == sorted(FLOORS[layer[0]] for layer in listed)


def test_a_package_has_the_lowest_floor_that_its_imports_allow() -> None:
    below: dict[str, set[int]] = defaultdict(set)
    for name, module in modules().items():
        own = package_of(name)
        for node, _ in import_nodes(module.tree):
            below[own] |= {FLOORS[package_of(target)] for target in imported(node) if package_of(target) in FLOORS}
    lowest = {name: 1 + max((floor for floor in below[name] if floor < FLOORS[name]), default=0) for name in FLOORS}
    assert lowest == FLOORS


def names_above(module: Module) -> Iterator[str]:
    """Packages of a floor above that a module names in strings; docstrings and names of loggers left out."""
    own = package_of(module.name)
    calls = (node for node in ast.walk(module.tree) if isinstance(node, ast.Call))
    skipped = {argument for call in calls if ast.unparse(call.func).endswith("getLogger") for argument in call.args}
    skipped |= {node.value for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            for name in re.findall(r"\bding\.(\w+)", node.value):
                if FLOORS.get(name, 0) > FLOORS.get(own, 99):
                    yield f"ding.{name}"


def test_strings_that_point_up_are_listed() -> None:
    table = PAGE.split("| in | named | for |")[1].split("\n\n")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if "`" in line]
    files = [re.findall(r"`(.*?)`", row[0]) for row in rows]
    found = {module.path: {*names_above(module)} for module in modules().values()}
    assert sorted(file for row in files for file in row) == sorted(path for path, names in found.items() if names)
    for row, (_, named) in zip(files, rows):
        assert set().union(*(found[file] for file in row)) == set(re.findall(r"`(.*?)`", named)), row
