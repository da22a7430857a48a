"""Reading config files, and what is said about the ones that cannot be read."""

import importlib.util
import textwrap

import pytest
from easydict import EasyDict

from ding import config as ding_config
from ding.config import (
    Config,
    ConfigError,
    ConfigNotFoundError,
    ConfigRunError,
    ConfigSuffixError,
    ConfigSyntaxError,
    ConfigValueError,
    MissingConfigError,
    read_config,
    read_config_directly,
    read_config_with_system,
    read_config_yaml,
    save_config,
    save_config_py,
)

GOOD = """
from easydict import EasyDict
_private = 1
main_config = dict(exp_name='a', policy=dict(learn=dict(batch_size=2)))
create_config = EasyDict(policy=dict(type='dqn'))
"""


def write(folder, text, name="some_config.py"):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_both_variables_come_as_easydicts(tmp_path):
    main, create = read_config(write(tmp_path, GOOD))
    assert type(main) is EasyDict
    assert main.policy.learn.batch_size == 2
    assert create.policy.type == "dqn"


def test_three_variables(tmp_path):
    path = write(tmp_path, GOOD + "system_config = dict(path_data='d')\n")
    assert read_config_with_system(str(path))[2] == {"path_data": "d"}


def test_read_directly_gives_the_public_variables(tmp_path):
    assert set(read_config_directly(write(tmp_path, GOOD))) == {"EasyDict", "main_config", "create_config"}


def test_config_holds_text_and_name(tmp_path):
    path = write(tmp_path, GOOD)
    config = Config.file_to_dict(str(path))
    assert config.text == GOOD
    assert config.filename == str(path)
    assert config.cfg_dict["main_config"]["exp_name"] == "a"
    assert Config().cfg_dict == {}
    with pytest.raises(TypeError, match="cfg_dict must be a dict"):
        Config(cfg_dict=[1])


def test_an_edit_within_the_same_second_is_seen(tmp_path):
    path = write(tmp_path, GOOD)
    read_config(path)
    write(tmp_path, GOOD.replace("batch_size=2", "batch_size=3"))
    assert read_config(path)[0].policy.learn.batch_size == 3
    assert not (tmp_path / "__pycache__").exists()


def test_neighbours_and_relative_imports_work(tmp_path):
    package = tmp_path / "pkg_of_configs"
    package.mkdir()
    write(package, "", "__init__.py")
    write(package, "SIZE = 7\n", "base_sizes.py")
    write(tmp_path, "LR = 0.5\n", "neighbour_of_config.py")
    text = "from .base_sizes import SIZE\nimport neighbour_of_config as n\n"
    text += "main_config = dict(size=SIZE, lr=n.LR)\ncreate_config = {}\n"
    main, _ = read_config(write(package, text))
    assert main == {"size": 7, "lr": 0.5}


@pytest.mark.parametrize(
    ("name", "text", "error", "sentence"),
    [
        ("a.yaml", GOOD, ConfigSuffixError, r"a config file ends in \.py, got '\.yaml'"),
        ("a.py", "create_config = {}\nmain_confg = {}\n", MissingConfigError, "defines no `main_config`. Did you mean"),
        ("a.py", "main_config = {}\n", MissingConfigError, "defines no `create_config`"),
        ("a.py", "main_config = 3\ncreate_config = {}\n", MissingConfigError, "`main_config` must be a dict, got int"),
        ("a.py", "main_config = dict(\n", ConfigSyntaxError, r"a\.py:1: syntax error: '\(' was never closed"),
        ("a.py", "\nmain_config = undefined\n", ConfigRunError, r"a\.py:2: NameError: name 'undefined'"),
        ("a.py", "import no_such_module_at_all\n", ConfigRunError, r"a\.py:1: ModuleNotFoundError: No module"),
    ],
)
def test_each_mistake_is_one_sentence(tmp_path, name, text, error, sentence):
    path = write(tmp_path, text, name)
    with pytest.raises(error, match=sentence) as caught:
        read_config(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ConfigError)


def test_the_builtin_exceptions_of_the_original_api_catch_them(tmp_path):
    with pytest.raises(KeyError):
        read_config(write(tmp_path, GOOD, "a.txt"))
    with pytest.raises(AssertionError):
        read_config(write(tmp_path, "create_config = {}\n"))
    with pytest.raises(ConfigNotFoundError, match="there is no such config file"):
        read_config(tmp_path / "missing.py")


def test_save_writes_both_files_whole(tmp_path):
    save_config({"exp_name": "e"}, tmp_path / "total_config.py", save_formatted=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["formatted_total_config.py", "total_config.py"]
    for name in ("total_config.py", "formatted_total_config.py"):
        assert read_config(tmp_path / name) == ({"exp_name": "e"}, {})
    assert read_config_directly(tmp_path / "total_config.py")["exp_config"] == {"exp_name": "e"}
    save_config_py({"exp_name": "f"}, tmp_path / "total_config.py")
    assert read_config(tmp_path / "total_config.py")[0].exp_name == "f"


def test_names_of_the_original_module():
    for name in ("compile_config", "compile_config_parallel"):
        assert getattr(ding_config.config, name) is getattr(ding_config, name)


def test_save_config_formatted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ding_config.save_config_formatted({"exp_name": "e"})
    assert read_config("formatted_total_config.py")[0] == {"exp_name": "e"}
    ding_config.save_config_formatted({"exp_name": "f"}, "other.py")
    assert read_config("other.py")[0] == {"exp_name": "f"}


def test_save_knows_two_types(tmp_path):
    with pytest.raises(ConfigValueError, match="type_ must be 'py' or 'yaml', got 'json'"):
        save_config({}, tmp_path / "a.json", type_="json")


@pytest.mark.skipif(importlib.util.find_spec("yaml") is None, reason="PyYAML is not installed")
def test_yaml_round_trip(tmp_path):
    save_config({"a": {"b": [1, 2.5]}, "inf": float("inf"), "t": (1,)}, tmp_path / "a.yaml", type_="yaml")
    assert read_config_yaml(tmp_path / "a.yaml") == {"a": {"b": [1, 2.5]}, "inf": float("inf"), "t": [1]}


@pytest.mark.skipif(importlib.util.find_spec("yaml") is not None, reason="PyYAML is installed")
def test_yaml_says_what_is_missing(tmp_path):
    with pytest.raises(ImportError, match="pip install pyyaml"):
        read_config_yaml(tmp_path / "a.yaml")


def test_an_unknown_name_of_the_package():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ding_config.nothing
