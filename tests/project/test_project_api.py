"""Every class, method, parameter and default on the API pages of DI-engine 0.5 is here too.

``api/*.txt`` hold what the pages say, as facts: ``module`` is where the names below it are imported from; a line with
parentheses has the parameters and their defaults (``...``: any default), one without says only that the name is there;
an indented line belongs to the class above it. What is another way on purpose stands in ``DIFFERENT`` and in
docs/migration.md.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("worker", "comm", "middleware")
KINDS = ("abstract", "classmethod", "static", "property")

# "Class.method(parameter)" -> the default here. Each is a row of docs/migration.md.
DIFFERENT = {"InteractionSerialEvaluator.eval(policy_kwargs)": "None"}


def entries() -> Iterator[tuple[str, str, str]]:
    """Module, name of the class or "", and the line."""
    for page in PAGES:
        module = owner = ""
        for line in Path(__file__).with_name("api").joinpath(f"{page}.txt").read_text(encoding="utf-8").splitlines():
            if line.startswith("module "):
                module = line.removeprefix("module ")
            elif line.startswith("    "):
                yield module, owner, line.strip()
            elif line:
                owner = re.split(r"[ (]", line)[1] if line.startswith("class ") else ""
                yield module, "", line


def the_class(module: str, name: str) -> type:
    found = getattr(importlib.import_module(module), name)
    assert inspect.isclass(found)
    return found


def parameters_asked(line: str) -> list[tuple[str, str | None]]:
    """Names, ``*`` of a variadic one before it, and defaults of what a line asks for."""
    arguments = ast.parse(f"def {line}: ...").body[0].args  # type: ignore[attr-defined]
    positional = [*arguments.posonlyargs, *arguments.args]
    gap = [None] * (len(positional) - len(arguments.defaults))
    found = [
        *zip(positional, [*gap, *arguments.defaults], strict=True),
        *([(ast.arg(f"*{arguments.vararg.arg}"), None)] if arguments.vararg else []),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        *([(ast.arg(f"**{arguments.kwarg.arg}"), None)] if arguments.kwarg else []),
    ]
    return [(arg.arg, None if default is None else ast.unparse(default)) for arg, default in found]


def parameters_here(function: object, bound: bool) -> dict[str, inspect.Parameter]:
    """Parameters by name, ``*`` before a variadic one; without ``self``."""
    found = list(inspect.signature(function).parameters.values())  # type: ignore[arg-type]
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return {stars.get(each.kind, "") + each.name: each for each in found[bound:]}


def differences(where: str, line: str, function: object, bound: bool) -> list[str]:
    """What a call that fits DI-engine's signature would trip over."""
    asked, here = parameters_asked(line), parameters_here(function, bound)
    wrong = [f"{name} is missing" for name, _ in asked if name not in here]
    for name, default in asked:
        if name not in here or default in (None, "..."):
            continue
        expected = DIFFERENT.get(f"{where}({name})", default)
        if repr(here[name].default) != expected:
            wrong.append(f"{name}={here[name].default!r}, not {expected}")
    order = [name for name, _ in asked if name in here and not name.startswith("**")]
    if list(here)[: len(order)] != order:
        wrong.append(f"the order is {list(here)}")
    extra = set(here) - {name for name, _ in asked}
    needed = [name for name in extra if not name.startswith("*") and here[name].default is inspect.Parameter.empty]
    return wrong + [f"{name} is needed and new" for name in needed]


def grouped() -> dict[tuple[str, str], list[str]]:
    """(module, class or "") -> its lines."""
    found: dict[tuple[str, str], list[str]] = {}
    for module, owner, line in entries():
        found.setdefault((module, owner), []).append(line)
    return found


@pytest.mark.parametrize(("module", "owner"), grouped())
def test_it_is_here_too(module, owner) -> None:
    check = member_problems if owner else module_problems
    found = {line: check(module, owner, line) for line in grouped()[module, owner]}
    assert {line: problems for line, problems in found.items() if problems} == {}


def module_problems(module: str, _: str, line: str) -> list[str]:
    """What is not as a line on a class or a function of a module says."""
    if line.startswith("class "):
        name, base = re.fullmatch(r"class (\w+)(?:\((\w+)\))?", line).groups()  # type: ignore[union-attr]
        bases = {each.__name__ for each in the_class(module, name).__mro__}
        return [] if base is None or base in bases else [f"not a subclass of {base}"]
    name = line.partition("(")[0]
    function = getattr(importlib.import_module(module), name)
    return differences(name, line, function, bound=False) if "(" in line else []


def member_problems(module: str, owner: str, line: str) -> list[str]:
    """What is not as a line on a member of a class says."""
    kind, _, rest = line.partition(" ") if line.partition(" ")[0] in KINDS else ("", "", line)
    name = re.match(r"\w+", rest).group()  # type: ignore[union-attr]
    here = the_class(module, owner)
    attribute = inspect.getattr_static(here, name, None)
    if kind == "property":
        read_only = isinstance(attribute, property) and attribute.fset is None and rest.endswith(" writable")
        return ["not there"] * (attribute is None and not is_set_by(here, name)) + ["not writable"] * read_only
    if attribute is None:
        return ["not there"]
    if "(" not in line:
        return []
    wrong = []
    if not isinstance(attribute, {"classmethod": classmethod, "static": staticmethod}.get(kind, object)):
        wrong.append(f"not a {kind}")
    if kind == "abstract" and not getattr(attribute, "__isabstractmethod__", False):
        wrong.append("not abstract")
    bare = attribute is object.__init__
    function = here if bare else getattr(here, name)
    bound = not bare and kind not in ("classmethod", "static")
    return wrong + differences(f"{owner}.{name}", rest, function, bound)


def is_set_by(cls: type, name: str) -> bool:
    """Whether a method of the class sets this attribute of its objects."""
    return any(re.search(rf"self\.{name}\b[^=\n]*= ", inspect.getsource(each)) for each in cls.__mro__[:-1])


def test_what_is_different_on_purpose_is_documented() -> None:
    text = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    assert [name for name in DIFFERENT if name.partition("(")[0] not in text] == []
