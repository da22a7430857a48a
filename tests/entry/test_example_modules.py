"""``ding.example``: the scripts of the repository under the names of DI-engine."""

import importlib

import pytest

from ding.example import SCRIPTS, script_path


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_name_is_a_script(name):
    assert script_path(name).is_file()
    module = importlib.import_module(f"ding.example.{name}")
    assert SCRIPTS[name] in module.__doc__


def test_a_script_is_imported_when_its_names_are_used():
    from ding.example.dqn import main
    from ding.example.ppo_with_complex_obs import Encoder, MyEnv, ding_env_maker

    assert main.__module__ == "ding_example_dqn"
    obs = ding_env_maker().reset()
    assert obs["image"].shape == MyEnv().observation_space["image"].shape
    assert Encoder(8).both[0].out_features == 8
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from ding.example.dqn import nothing", {})  # noqa: S102 - what a script says


def test_a_script_without_a_main_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("ding.example.script_path", lambda name: tmp_path / "script.py")
    (tmp_path / "script.py").write_text("if __name__ == '__main__':\n    open('seen', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    from ding.example.trex import main

    main()
    assert (tmp_path / "seen").exists()


def test_an_installed_package_has_no_scripts(tmp_path, monkeypatch):
    monkeypatch.setattr("ding.example.__file__", str(tmp_path / "ding" / "example" / "__init__.py"))
    with pytest.raises(
        FileNotFoundError, match=r"ding\.example\.bcq is configs/pendulum/pendulum_bcq_config\.py of the"
    ):
        script_path("bcq")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dqn_eval", "dqn_frozen_lake", "masac", "ppo_with_complex_obs"])
def test_scripts_that_have_no_other_test(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    importlib.import_module(f"ding.example.{name}").main(max_env_step=1_500)
