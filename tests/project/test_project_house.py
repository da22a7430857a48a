"""The house stays in order: how big its rooms are, what imports what, how typed it is, what tests may look at.

Everything is read from syntax trees; a failure names what breaks the rule. ``BOUNDS`` has the numbers.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BOUNDS = {
    "folders with more than 15 modules": 0,
    "files of more than 500 lines": 0,
    "functions of more than 60 lines": 0,
    "import circles": 0,
    "bare Any, % of parameters": 4.0,
    "bare Any for a role": 0,
    # Observations, actions and trees of them are anything; 647 and 149 before mypy was strict.
    "functions that return a bare Any": 152,
    "local variables of a bare Any": 48,
    "private names shared by modules": 0,
    "private attributes read in tests": 40,
    "private modules imported in tests": 20,
    "imports in functions without a reason": 0,
}
# Folders that list one kind of thing may hold any number of modules.
LISTS = {
    "policy", "template", "rl_utils", "wrapper", "wrappers", "utils", "reward_model", "loss", "losses", "functional",
    "middleware", "network", "zoo",
}  # fmt: skip
# Parameters of these names are roles: ding/data/roles.py has their types.
ROLES = {"env", "env_manager", "policy", "buffer", "logger", "tb_logger", "writer"}

# What may be imported inside a function, because few runs need it, or because it is slow to import.
LAZY_PACKAGES = {
    "cloudpickle": "start-up time: only a parent of processes needs it",
    "fcntl": "not there on Windows",
    "flask": "start-up time: only a process that serves needs it",
    "matplotlib": "optional: the extra 'plot'",
    "tensorboardX": "start-up time: only a process that writes or reads event files needs it",
}
# Modules of ding that a file may import inside a function. test_import_circles counts these imports too.
LAZY_MODULES = {
    ("ding/utils/file_helper.py", "ding.utils"): "start-up time: brings torch, which files of texts do not need",
    ("ding/entry/cli.py", "ding"): "start-up time: the command line imports what the chosen command needs",
    ("ding/entry/commands/", "ding"): "start-up time: a command imports what it runs",
    ("ding/bonus/commands/", "ding"): "start-up time: a command imports what it runs",
    ("ding/entry/commands/modes.py", "ding"): "start-up time: a mode imports what it runs",
    ("ding/entry/view/views.py", "ding.entry.view.live"): "start-up time: brings rich, which a terminal alone needs",
    (
        "ding/entry/view/access_file.py",
        "ding.interaction",
    ): "start-up time: only the reader of a status needs it",
    ("ding/worker/learner/saving.py", "ding.policy"): "start-up time: only a checkpoint that does not fit needs it",
    ("ding/entry/distributed/replicas.py", "ding.worker"): "start-up time: only runs under an operator need it",
    ("ding/torch_utils/graph/recording.py", "torch"): "start-up time: few runs compile their updates",
    ("ding/torch_utils/graph/compiled_graphs.py", "torch"): "start-up time: few runs compile their updates",
    ("ding/interaction/base/http.py", "ding.interaction.base.server"): "start-up time: brings waitress",
    ("ding/interaction/base/http.py", "ding.interaction.base.tls_server"): "optional: the extra 'tls'",
    ("ding/interaction/base/http.py", "ding.interaction.base.wsgi"): "start-up time: brings Flask",
    ("ding/interaction/base/inproc.py", "ding.interaction.base.wsgi"): "start-up time: brings Flask",
    ("ding/interaction/base/transports.py", "ding.interaction.base.http"): "start-up time: brings requests",
}
# Packages that come with another one that is declared.
COMES_WITH = {"werkzeug": "flask", "urllib3": "requests"}
# Declared names of packages whose import name is another.
IMPORT_NAMES = {"opencv-python-headless": "cv2", "ale-py": "ale_py", "imageio-ffmpeg": "imageio_ffmpeg"}

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Module:
    """A parsed file. ``name`` is dotted; a package has the name of its folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.relative_to(ROOT).as_posix()
        self.is_package = path.stem == "__init__"
        self.name = ".".join((path.parent if self.is_package else path.with_suffix("")).relative_to(ROOT).parts)
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)


@cache
def modules(folder: str = "ding") -> dict[str, Module]:
    found = [Module(path) for path in sorted((ROOT / folder).rglob("*.py"))]
    return {module.name: module for module in found}


@cache
def exports(package: str) -> dict[str, str]:
    """Exported name -> module, as the stub of a package or module says."""
    base = ROOT.joinpath(*package.split("."))
    stub = base / "__init__.pyi" if base.is_dir() else base.with_suffix(".pyi")
    homes: dict[str, str] = {}
    if stub.exists():
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not stub.stem.startswith("__"):
                continue  # made by the module from a table
            assert isinstance(node, ast.ImportFrom), f"{stub}: only 'from ... import ...' belongs into a stub"
            for alias in node.names:
                if alias.name == "*":
                    homes |= exports(node.module)
                else:
                    homes[alias.name] = node.module
    return homes


def home_of(module: str, name: str) -> str:
    """The module that ``from module import name`` needs; stubs are followed."""
    if f"{module}.{name}" in modules() and name not in exports(module):
        return f"{module}.{name}"
    home = exports(module).get(name)
    return module if home is None else home_of(home, name)


def import_nodes(node: ast.AST, in_function: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Imports below a node, those under ``TYPE_CHECKING`` left out, and whether each is inside a function."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield node, in_function
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for child in node.orelse:
            yield from import_nodes(child, in_function)
    else:
        for child in ast.iter_child_nodes(node):
            yield from import_nodes(child, in_function or isinstance(node, FUNCTIONS))


def imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    """Full names of the modules that an import statement needs."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    assert node.level == 0, "relative imports are not used here"
    return {home_of(str(node.module), alias.name) for alias in node.names}


def check(rule: str, offenders: list[str], count: float | None = None) -> None:
    """Fail with the names of the offenders where there are more of them than ``BOUNDS`` allows."""
    count = len(offenders) if count is None else count
    listed = "\n  ".join(sorted(offenders)[:40])
    assert count <= BOUNDS[rule], f"{rule}: {count:g}, at most {BOUNDS[rule]:g} are allowed:\n  {listed}"


# Sizes


def test_modules_of_a_folder() -> None:
    counts = Counter(Path(module.path).parent for module in modules().values() if not module.is_package)
    over = [f"{folder}: {count}" for folder, count in counts.items() if count > 15 and folder.name not in LISTS]
    check("folders with more than 15 modules", over)


def test_lines_of_a_file() -> None:
    counts = {module.path: module.text.count("\n") for module in modules().values()}
    check("files of more than 500 lines", [f"{path}: {count}" for path, count in counts.items() if count > 500])


def test_lines_of_a_function() -> None:
    over = [
        f"{module.path}:{node.lineno} {node.name}: {node.end_lineno - node.lineno + 1}"
        for module in modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, FUNCTIONS) and node.end_lineno - node.lineno + 1 > 60
    ]
    check("functions of more than 60 lines", over)


def test_no_two_private_modules_of_one_name() -> None:
    places = defaultdict(list)
    for module in modules().values():
        stem = Path(module.path).stem
        if stem.startswith("_") and not stem.startswith("__"):
            places[stem].append(module.path)
    check("private names shared by modules", [", ".join(paths) for paths in places.values() if len(paths) > 1])


# Imports


def test_import_circles() -> None:
    graph = {
        name: {target for node, _ in import_nodes(module.tree) for target in imported(node) if target in modules()}
        - {name}
        for name, module in modules().items()
    }
    check("import circles", [", ".join(group) for group in circles(graph)])


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that reach one another."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for target in graph[waiting.pop()] - seen:
                seen.add(target)
                waiting.append(target)
        return seen

    closure = {name: reached(name) for name in graph}
    groups = {
        tuple(sorted(other for other in seen if name in closure[other]))
        for name, seen in closure.items()
        if name in seen
    }
    return [list(group) for group in sorted(groups)]


def test_imports_inside_functions() -> None:
    """Allowed are optional packages and what costs start-up time; never an import that breaks a circle."""
    over: list[str] = []
    used: set[object] = set()
    for module in modules().values():
        for node, in_function in import_nodes(module.tree):
            for target in imported(node) if in_function else ():
                package = target.partition(".")[0]
                reasons = [
                    key
                    for key in LAZY_MODULES
                    if module.path.startswith(key[0]) and f"{target}.".startswith(f"{key[1]}.")
                ]
                used |= {package, *reasons}
                if package not in LAZY_PACKAGES and not reasons:
                    over.append(f"{module.path}:{node.lineno} {target}")
    check("imports in functions without a reason", over)
    assert {*LAZY_PACKAGES, *LAZY_MODULES} - used == set(), "reasons that no import needs"


# Requirements


@cache
def requirements() -> tuple[list[str], dict[str, list[str]]]:
    """Core requirements of ``setup.py`` and those of the extras, by their import names."""
    found: dict[str, ast.expr] = {}
    extras: dict[str, list[str]] = {}
    for node in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
    for name, listed in ast.literal_eval(found["EXTRAS"]).items():
        extras[name] = [import_name(text) for text in listed]
    return [import_name(text) for text in ast.literal_eval(found["CORE"])], extras


def import_name(requirement: str) -> str:
    name = re.split(r"[\[<>=;~! ]", requirement)[0]
    return IMPORT_NAMES.get(name, name)


@cache
def third_party() -> dict[str, set[str]]:
    """Packages that ding imports, or names in ``require_extra``, and the files that do."""
    import sys

    used = defaultdict(set)
    for module in modules().values():
        for node, _ in import_nodes(module.tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [str(node.module)]
            for name in names:
                used[name.partition(".")[0]].add(module.path)
    return {name: files for name, files in used.items() if name not in sys.stdlib_module_names and name != "ding"}


def test_every_core_requirement_is_imported_and_every_import_is_declared() -> None:
    core, extras = requirements()
    assert len(core) <= 13, f"{len(core)} core requirements, at most 13: {core}"
    assert set(core) - set(third_party()) == set(), "declared as core requirements, but not imported"
    declared = {*core, *(name for listed in extras.values() for name in listed)}
    undeclared = {
        name: sorted(files) for name, files in third_party().items() if COMES_WITH.get(name, name) not in declared
    }
    assert undeclared == {}, "imported, but not declared in setup.py"


def test_every_extra_has_code_behind_it() -> None:
    text = "\n".join(module.text for module in modules().values())
    _, extras = requirements()
    unused = [
        f"{extra}: {names}"
        for extra, names in extras.items()
        if not any(re.search(rf"\b{name}\b", text) for name in names) or not re.search(rf"\"{extra}\"", text)
    ]
    assert unused == [], "extras that no code asks for"


# Types


def parameters() -> Iterator[tuple[str, ast.arg]]:
    """Every parameter with a name of its own, and where it is."""
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, FUNCTIONS):
                for arg in node.args.posonlyargs + node.args.args + node.args.kwonlyargs:
                    if arg.annotation is not None or arg.arg not in ("self", "cls"):
                        yield f"{module.path}:{node.lineno} {node.name}({arg.arg})", arg


def names_any(annotation: ast.expr | None) -> bool:
    return annotation is not None and ast.unparse(annotation).strip("'\"") in ("Any", "typing.Any")


def is_bare_any(arg: ast.arg) -> bool:
    return names_any(arg.annotation)


def test_bare_any() -> None:
    found = list(parameters())
    bare = [where for where, arg in found if is_bare_any(arg)]
    check("bare Any, % of parameters", bare, 100 * len(bare) / len(found))


def test_returns_and_local_variables_of_any() -> None:
    returns, local = [], []
    for module in modules().values():
        functions = [node for node in ast.walk(module.tree) if isinstance(node, FUNCTIONS)]
        returns += [f"{module.path}:{node.lineno} {node.name}" for node in functions if names_any(node.returns)]
        inside = {node for function in functions for node in ast.walk(function) if isinstance(node, ast.AnnAssign)}
        local += [
            f"{module.path}:{node.lineno} {node.target.id}"
            for node in inside
            if isinstance(node.target, ast.Name) and names_any(node.annotation)
        ]
    check("functions that return a bare Any", returns)
    check("local variables of a bare Any", local)


def test_roles_have_their_types() -> None:
    check("bare Any for a role", [where for where, arg in parameters() if arg.arg in ROLES and is_bare_any(arg)])


# Tests


def test_no_two_test_files_of_one_name() -> None:
    places = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        places[path.name].append(str(path.relative_to(ROOT)))
    assert [paths for paths in places.values() if len(paths) > 1] == []


# Documented names of the standard library: methods of named tuples, and the end of a process without clean-up.
PUBLIC_WITH_UNDERSCORE = {"_replace", "_asdict", "_fields", "_exit"}


def is_private(name: object) -> bool:
    return isinstance(name, str) and re.match(r"_(?!_)", name) is not None and name not in PUBLIC_WITH_UNDERSCORE


def test_private_attributes_read_in_tests() -> None:
    found = []
    for module in modules("tests").values():
        for node in ast.walk(module.tree):
            own = (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in ("self", "cls")
            )
            if isinstance(node, ast.Attribute) and is_private(node.attr) and not own:
                found.append(f"{module.path}:{node.lineno} {node.attr}")
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "setattr"):
                name = node.args[1] if len(node.args) > 1 else None
                if isinstance(name, ast.Constant) and is_private(name.value):
                    found.append(f"{module.path}:{node.lineno} {name.value}")
    check("private attributes read in tests", found)


def test_private_modules_imported_in_tests() -> None:
    found = []
    for module in modules("tests").values():
        for node in ast.walk(module.tree):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            private = [name for name in names if name.startswith("ding.") and any(map(is_private, name.split(".")))]
            if private:
                found.append(f"{module.path}:{node.lineno} {private[0]}")
    check("private modules imported in tests", found)


@pytest.mark.parametrize("rule", BOUNDS)
def test_each_bound_is_checked(rule) -> None:
    assert f'check("{rule}"' in Path(__file__).read_text(encoding="utf-8")
