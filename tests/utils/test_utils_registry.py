import inspect
import sys
from collections import OrderedDict

import pytest

import ding.utils
from ding.utils import Registry, registries


def make(**entries):
    registry = Registry.named("fruit")
    for name, obj in entries.items():
        registry.register(name, obj)
    return registry


def test_decorator_returns_the_object_and_names_it():
    registry = Registry()

    @registry.register("apple")
    class Apple:
        pass

    @registry.register()
    def pear():
        return 1

    assert registry.get("apple") is Apple
    assert registry["pear"] is pear
    assert list(registry.query()) == ["apple", "pear"]
    assert isinstance(registry.build("apple"), Apple)


def test_direct_registration_returns_none_and_needs_a_name():
    registry = Registry()
    assert registry.register("a", int) is None
    with pytest.raises(AssertionError, match="needs a name"):
        registry.register(module=int)


def test_duplicate_names(caplog):
    registry = make(a=int)
    with pytest.raises(AssertionError, match="'a' is registered already"):
        registry.register("a", float)
    registry.register("a", float, force_overwrite=True)
    assert registry["a"] is float
    assert "'a' is overridden" in caplog.text


def test_unknown_name_tells_the_nearest():
    registry = make(sample=int, episode=float)
    with pytest.raises(KeyError) as info:
        registry.build("sampel")
    assert str(info.value) == (
        "fruit: 'sampel' is not registered. Did you mean 'sample'? Known names: episode, sample."
    )
    with pytest.raises(KeyError):
        registry.get("zzz")
    assert registry.get("zzz", None) is None


def test_a_config_says_its_class_and_the_modules_to_import(tmp_path, monkeypatch):
    (tmp_path / "orchard_of_configs.py").write_text(
        "from ding.utils import POLICY_REGISTRY\nPOLICY_REGISTRY.register('orchard', dict)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ding.utils, "POLICY_REGISTRY", Registry())  # what the module registers into
    cfg = {"type": "orchard", "import_names": ["orchard_of_configs"], "trees": 3}
    assert ding.utils.POLICY_REGISTRY.class_of(cfg) is dict
    assert ding.utils.POLICY_REGISTRY.create(cfg, ripe=True) == {**cfg, "ripe": True}


def test_a_config_without_a_type():
    registry = make(sample=int, episode=float)
    with pytest.raises(KeyError, match=r"fruit\.type is missing: one of episode, sample; .* keys \['typ'\]"):
        registry.create({"typ": "sample"})
    with pytest.raises(ZeroDivisionError, match="is missing"):
        registry.class_of({}, ZeroDivisionError)
    with pytest.raises(KeyError, match="Did you mean 'sample'"):
        registry.class_of({"type": "sampel"})


def test_key_error_of_the_constructor_passes_unchanged():
    def broken(cfg):
        return cfg["missing"]

    with pytest.raises(KeyError) as info:
        make(broken=broken).build("broken", cfg={})
    assert info.value.args == ("missing",)


def test_wrong_arguments_log_the_signature(caplog):
    def takes(cfg, size=1):
        raise AssertionError

    with pytest.raises(TypeError):
        make(takes=takes).build("takes", wrong=1)
    assert "takes(cfg, size=1)" in caplog.text


def test_type_error_inside_the_call_logs_no_signature(caplog):
    def broken():
        raise TypeError("inside")

    with pytest.raises(TypeError, match="inside"):
        make(broken=broken).build("broken")
    assert caplog.text == ""


def test_lazy_entries_are_imported_on_demand(tmp_path, monkeypatch):
    (tmp_path / "lazy_fruit_module.py").write_text("class Lemon:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = make(lemon="lazy_fruit_module:Lemon")
    assert "lemon" in registry
    assert list(registry.query_details()) == ["lemon"]
    assert "lazy_fruit_module" not in sys.modules
    lemon = registry["lemon"]
    assert lemon is sys.modules["lazy_fruit_module"].Lemon
    assert dict(registry.items()) == {"lemon": lemon}
    assert list(registry.values()) == [lemon]


def test_a_lazy_entry_yields_to_the_class_it_stands_for_only():
    registry = make(other=int, self=f"{__name__}:LazyTarget")
    assert registry.name_of(LazyTarget) == "self"
    assert registry.name_of(int) == "other"
    assert registry.name_of(float) is None
    registry.register("self", LazyTarget)
    assert registry["self"] is LazyTarget
    registry = make(self=f"{__name__}:LazyTarget")
    with pytest.raises(AssertionError):
        registry.register("self", int)


class LazyTarget:
    pass


def test_a_lazy_entry_needs_module_and_name():
    with pytest.raises(ValueError, match=r"package\.module:Name"):
        make(bad="just.a.module")


def test_details_name_file_and_line_of_the_registration():
    registry = Registry()
    line = inspect.currentframe().f_lineno + 1
    registry.register("a", int)

    @registry.register("b")
    class B:
        pass

    assert registry.query_details(["a"]) == OrderedDict(a=(__file__, line))
    assert registry.query_details()["b"][0] == __file__
    assert line < registry.query_details()["b"][1] <= line + 4
    with pytest.raises(KeyError, match="nope"):
        registry.query_details(["nope"])


def test_all_registries_are_exported():
    assert set(registries) == {
        "policy", "env", "env_wrapper", "model", "reward_model", "learner", "serial_collector", "parallel_collector",
        "env_manager", "comm_learner", "comm_collector", "commander", "league", "player", "buffer", "dataset",
        "serial_evaluator", "message_queue", "world_model", "stochastic_optimizer",
    }  # fmt: skip
    for name, registry in registries.items():
        constant = "MQ" if name == "message_queue" else name.upper()
        assert getattr(ding.utils, f"{constant}_REGISTRY") is registry


SCRIPT_NAMES = """
set_pkg_seed ENV_REGISTRY deep_merge_dicts DistContext DDPContext MODEL_REGISTRY get_rank POLICY_REGISTRY import_module
EasyTimer get_world_size dist_init to_ddp_config build_logger SERIAL_COLLECTOR_REGISTRY dicts_to_lists Scheduler
SequenceType squeeze split_data_generator SERIAL_EVALUATOR_REGISTRY fps
"""


@pytest.mark.parametrize("name", SCRIPT_NAMES.split())
def test_names_that_scripts_import(name):
    assert name in ding.utils.__all__
    assert hasattr(ding.utils, name)


def test_every_exported_name_exists():
    assert len(set(ding.utils.__all__)) == len(ding.utils.__all__)
    for name in ding.utils.__all__:
        getattr(ding.utils, name)
