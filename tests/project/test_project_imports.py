"""Every module of DI-engine 0.5 and its names are imported from the same place, or the import says what is not built.

``api/modules.txt`` lists them: a module and what a script can import from it (of a package: what it exports).
``api/types.txt`` lists the types of its registries, those of its main branch included.
"""

import ast
import contextlib
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ding.model.wrapper.model_wrappers import wrapper_name_map
from ding.utils import POLICY_REGISTRY, registries
from ding.utils.original_names import MOVED, MOVED_NAMES, NOT_BUILT


def read(name: str) -> dict[str, list[str]]:
    """Module -> names, of a file of ``api``."""
    lines = Path(__file__).with_name("api").joinpath(f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines}


MODULES = read("modules")
TYPES = read("types")
# Parts that are still to come.
IN_WORK: set[str] = set()


def missing_names(module: str, names: list[str]) -> list[str]:
    """Names that are neither there nor known as not built; the module itself, where an import says something else."""
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        return [] if str(error).endswith("which is not built") else [str(error)]
    return [name for name in names if not is_there_or_not_built(imported, name)]


def is_there_or_not_built(module: ModuleType, name: str) -> bool:
    try:
        exec(f"from {module.__name__} import {name}", {})  # noqa: S102 - what a script says
    except ImportError as error:
        return str(error).endswith("which is not built")
    return True


@pytest.mark.parametrize("package", sorted({".".join(module.split(".")[:2]) for module in MODULES}))
def test_everything_is_there_or_known_as_not_built(package) -> None:
    listed = {module: names for module, names in MODULES.items() if f"{module}.".startswith(f"{package}.")}
    missing = {module: missing_names(module, names) for module, names in listed.items()}
    assert {module: names for module, names in missing.items() if names} == {}


def built(registry: str, name: str) -> bool:
    """Whether a type is registered; the modules that DI-engine's create configs import are, too."""
    if registry == "model_wrapper":
        return name in wrapper_name_map
    if registry == "command":
        return f"{name}_command" in POLICY_REGISTRY
    return name in registries[registry]


@pytest.mark.parametrize("registry", TYPES)
def test_every_registered_type_is_there_or_known_as_not_built(registry) -> None:
    for package in ("data", "entry", "envs", "framework.message_queue", "league", "model", "policy", "reward_model"):
        importlib.import_module(f"ding.{package}")
    for module in ("ding.world_model", "ding.worker.coordinator.one_vs_one_parallel_commander", "ding.utils.data"):
        importlib.import_module(module)
    listed = [*TYPES[registry]]
    missing = [name for name in listed if not built(registry, name)]
    key = "policy" if registry == "command" else registry
    known = {entry for entries in NOT_BUILT.values() for entry in entries}
    assert [name for name in missing if f"{key}:{name}" not in known] == []


def test_types_of_models_and_data_sets_are_known_with_their_package() -> None:
    """Some were only known once a policy, or a config, had imported their module."""
    code = (
        "import ding.model, ding.utils.data\nfrom ding.utils import DATASET_REGISTRY, MODEL_REGISTRY\n"
        f"models, data = {TYPES['model']}, {TYPES['dataset']}\n"
        "print([name for name in models if name not in MODEL_REGISTRY], [n for n in data if n not in DATASET_REGISTRY])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    models, data = done.stdout.strip()[1:-1].split("] [")
    known = {entry for entries in NOT_BUILT.values() for entry in entries}
    assert [name for name in ast.literal_eval(f"[{models}]") if f"model:{name}" not in known] == []
    assert data == ""


def test_a_part_that_is_not_built_has_its_reason() -> None:
    """A part is named with the reason in parentheses, unless somebody will build it."""
    open_parts = {part for part in NOT_BUILT if not part.endswith(")")}
    assert open_parts <= IN_WORK


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("from ding.policy import ILPolicy", "football"),
        ("import ding.policy.il", "football"),
        ("import ding.hpc_rl", "hpc_rl"),
        ("from ding.rl_utils.gae import shape_fn_gae", "hpc_rl"),
        ("from ding.utils.file_helper import save_file_ceph", "ceph"),
        ("from ding.utils import POLICY_REGISTRY; POLICY_REGISTRY['IL']", "football"),
    ],
)
def test_an_import_of_what_is_not_built_names_it_and_guesses_nothing(statement, part) -> None:
    with pytest.raises((ImportError, KeyError)) as caught:
        exec(statement, {})  # noqa: S102 - what a script says
    text = str(caught.value)
    assert part in text
    assert text.endswith("which is not built")
    assert "did you mean" not in text


def test_names_of_di_engine_are_found_from_the_first_import_on() -> None:
    """The finder was installed by ``ding.utils``, too late for modules that a package imports before it."""
    code = "import ding\nimport ding.hpc_rl"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "the CUDA kernels of hpc_rl" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", MOVED)
def test_a_module_that_lies_elsewhere_is_one_module_under_both_names(name) -> None:
    moved = importlib.import_module(name)
    assert moved is importlib.import_module(MOVED[name])
    assert moved.__spec__.name == MOVED[name]


@pytest.mark.parametrize("name", MOVED_NAMES)
def test_a_name_that_lies_elsewhere_is_found_where_it_was(name) -> None:
    module, _, last = name.rpartition(".")
    assert getattr(importlib.import_module(module), last) is getattr(importlib.import_module(MOVED_NAMES[name]), last)


def test_other_names_of_such_a_module_are_not_there_as_in_any_module() -> None:
    module = importlib.import_module("ding.rl_utils.gae")
    assert not hasattr(module, "gae_of_mine")
    with pytest.raises(AttributeError, match=r"^module 'ding.rl_utils.gae' has no attribute 'gae_of_mine'"):
        _ = module.gae_of_mine


def test_what_is_not_built_is_not_there() -> None:
    """When a part is built, its line goes."""
    listed = [name for names in NOT_BUILT.values() for name in names]
    assert len(listed) == len({*listed})
    packages = [package for package in MODULES if package.count(".") < 3]
    built = [name for name in listed if is_there(name) or any(is_there(f"{package}.{name}") for package in packages)]
    assert built == []


def is_there(name: str) -> bool:
    """Whether a full name is that of a module, or of something in one."""
    owner, _, last = name.rpartition(".")
    with contextlib.suppress(ImportError):
        return bool(owner) and hasattr(importlib.import_module(owner), last)
    return False
