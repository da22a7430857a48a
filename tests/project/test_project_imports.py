"""Every module of DI-engine 0.5 and its names are imported from the same place, or the import says what is not built.

``api/modules.txt`` lists them: a module and what a script can import from it (of a package: what it exports).
``api/left_out.txt`` has the names that modules of this package do not have: helpers of their own files in DI-engine.
"""

import contextlib
import importlib
from pathlib import Path
from types import ModuleType

import pytest

from ding.utils.original_names import MOVED, NOT_BUILT, missing_part


def read(name: str) -> dict[str, list[str]]:
    """Module -> names, of a file of ``api``."""
    lines = Path(__file__).with_name("api").joinpath(f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines}


MODULES = read("modules")
LEFT_OUT = read("left_out")


def missing_names(module: str, names: list[str]) -> list[str]:
    """Names that are neither there nor known as not built; the module itself, where an import says something else."""
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        return [] if str(error).endswith("which is not built") else [str(error)]
    return [name for name in names if not is_there_or_not_built(imported, name)]


def is_there_or_not_built(module: ModuleType, name: str) -> bool:
    try:
        getattr(module, name)
    except AttributeError:
        return missing_part(name) is not None
    except ImportError as error:
        return str(error).endswith("which is not built")
    return True


@pytest.mark.parametrize("package", sorted({".".join(module.split(".")[:2]) for module in MODULES}))
def test_everything_is_there_or_known_as_not_built(package) -> None:
    listed = {module: names for module, names in MODULES.items() if f"{module}.".startswith(f"{package}.")}
    missing = {module: missing_names(module, names) for module, names in listed.items()}
    left = {module: {*names} - {*LEFT_OUT.get(module, [])} for module, names in missing.items()}
    assert {module: sorted(names) for module, names in left.items() if names} == {}


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("from ding.policy import DREAMERPolicy", "model-based learning"),
        ("from ding.policy import PDPolicy", "planning with diffusion"),
        ("import ding.policy.mbpolicy.dreamer", "model-based learning"),
        ("from ding.policy.prompt_pg import PromptPGPolicy", "prompting of language models"),
        ("from ding.model import QGPO", "QGPO"),
        ("from ding.model.template import HPT", "HPT"),
        ("from ding.entry import serial_pipeline_dream", "model-based learning"),
        ("import ding.hpc_rl", "hpc_rl"),
        ("from ding.utils import POLICY_REGISTRY; POLICY_REGISTRY['dreamer']", "model-based learning"),
        ("from ding.utils import MODEL_REGISTRY; MODEL_REGISTRY.build('hpt')", "HPT"),
    ],
)
def test_an_import_of_what_is_not_built_names_it_and_guesses_nothing(statement, part) -> None:
    with pytest.raises((ImportError, KeyError)) as caught:
        exec(statement, {})  # noqa: S102 - what a script says
    text = str(caught.value)
    assert part in text
    assert text.endswith("which is not built")
    assert "did you mean" not in text


@pytest.mark.parametrize("name", MOVED)
def test_a_module_that_lies_elsewhere_is_one_module_under_both_names(name) -> None:
    moved = importlib.import_module(name)
    assert moved is importlib.import_module(MOVED[name])
    assert moved.__spec__.name == MOVED[name]


def test_what_is_not_built_is_not_there() -> None:
    """When a part is built, its line goes."""
    listed = [name for names in NOT_BUILT.values() for name in names.split()]
    assert len(listed) == len({*listed})
    built = [name for name in listed if any(has(package, name) for package in MODULES if package.count(".") < 3)]
    assert built == []


def has(package: str, name: str) -> bool:
    """Whether a module is there, or a package exports a name."""
    with contextlib.suppress(ImportError, AttributeError):
        importlib.import_module(name) if "." in name else getattr(importlib.import_module(package), name)
        return True
    return False
