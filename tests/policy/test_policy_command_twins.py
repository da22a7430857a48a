"""The ``<type>_command`` classes are made from a table; its stub has the same ones, and they are pickled as any."""

import ast
import importlib
import pickle
from pathlib import Path

import pytest

from ding.policy import command_mode_policy_instance as twins
from ding.policy.errors import PolicyConfigError
from ding.utils import POLICY_REGISTRY, deep_merge_dicts

STUB = Path(twins.__file__).with_suffix(".pyi")
DECLARED = {
    node.name: [ast.unparse(base) for base in node.bases]
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body
    if isinstance(node, ast.ClassDef)
}


def test_the_stub_has_the_classes_of_the_table() -> None:
    made = {
        name: [base.__name__ for base in cls.__bases__]
        for name, cls in vars(twins).items()
        if isinstance(cls, type) and cls.__module__ == twins.__name__ and not name.startswith(("Dummy", "Eps"))
    }
    assert made == DECLARED


def test_the_stub_imports_what_the_module_does() -> None:
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert getattr(twins, alias.name) is getattr(importlib.import_module(str(node.module)), alias.name)


@pytest.mark.parametrize("name", [*DECLARED, "DummyCommandModePolicy", "EpsCommandModePolicy"])
def test_a_class_is_pickled_by_its_place(name: str) -> None:
    cls = getattr(twins, name)
    assert (cls.__module__, cls.__qualname__) == ("ding.policy.command_mode_policy_instance", name)
    assert pickle.loads(pickle.dumps(cls)) is cls  # noqa: S301
    assert cls.__doc__


def test_each_class_is_registered_once_as_the_twin_of_its_algorithm() -> None:
    aliases = [alias for alias in POLICY_REGISTRY if POLICY_REGISTRY.get(alias).__module__ == twins.__name__]
    assert {POLICY_REGISTRY.get(alias).__name__ for alias in aliases} == {*DECLARED}
    assert len(aliases) == len(DECLARED)
    for alias in aliases:
        algorithm = POLICY_REGISTRY.get(alias.removesuffix("_command"))
        assert POLICY_REGISTRY.get(alias).__bases__[0] is algorithm, alias


def test_the_twin_of_td3_is_one_of_ddpg() -> None:
    assert issubclass(twins.TD3CommandModePolicy, twins.DDPGCommandModePolicy)
    assert not issubclass(twins.D4PGCommandModePolicy, twins.DDPGCommandModePolicy)


def test_a_policy_that_explores_by_epsilon_names_what_is_missing() -> None:
    hybrid = {"obs_shape": 3, "action_shape": {"action_type_shape": 2, "action_args_shape": 2}}
    user = {"action_space": "hybrid", "model": {**hybrid, "action_space": "hybrid"}}
    cfg = deep_merge_dicts(twins.DDPGCommandModePolicy.default_config(), user)
    with pytest.raises(PolicyConfigError, match=r"policy\.other\.eps\.start is missing: .* needs start, end and decay"):
        twins.DDPGCommandModePolicy(cfg, enable_field=["collect", "command"])
    cfg.other.eps = {"start": 0.9, "end": 0.1, "decay": 100}  # without a type: 'exp'
    policy = twins.DDPGCommandModePolicy(cfg, enable_field=["collect", "command"])
    assert policy.command_mode.get_setting_collect({"envstep": 0}) == {"eps": pytest.approx(0.9)}
