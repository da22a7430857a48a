"""The docs name only files that exist, and `docs/architecture.md` only folders and functions that do, too."""

import ast
import re
from pathlib import Path

import pytest

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
