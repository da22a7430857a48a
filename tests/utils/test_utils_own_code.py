"""The user's own modules: in child processes, in the current folder, and scripts without a guard."""

import importlib
import pickle
import sys
from functools import partial
from pathlib import Path

import pytest

from ding.config import ConfigRunError, read_config
from ding.entry import serial_pipeline
from ding.entry.cli import main
from ding.envs import DingEnvWrapper, SubprocessEnvManagerV2
from ding.parallel.launch import Role
from ding.parallel.launch.child import ChildSpec
from ding.utils import import_module
from ding.utils.own_code import MissingMainGuardError, OwnCodeError, OwnModule, import_own_code, own_code

ENV = """
import gymnasium
from ding.envs.testing import CountingGymEnv

gymnasium.register("{name}-v0", entry_point=CountingGymEnv)
"""
UNGUARDED = """
from ding.entry import serial_pipeline

main_config = dict(
    exp_name="trained_again",
    env=dict(env_id="CartPole-v1", collector_env_num=1, evaluator_env_num=1, n_evaluator_episode=1),
    policy=dict(model=dict(obs_shape=4, action_shape=2)),
)
create_config = dict(env=dict(type="gymnasium"), env_manager=dict(type="base"), policy=dict(type="dqn"))
serial_pipeline((main_config, create_config), max_env_step=10)
behind = True
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.mark.parametrize("context", ["spawn", pytest.param("forkserver", marks=pytest.mark.slow)])
@pytest.mark.parametrize("by_path", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_env_processes_import_what_their_parent_imported(folder, monkeypatch, context, by_path) -> None:
    name = f"own_env_{context}_{by_path}".lower()
    (folder / f"{name}.py").write_text(ENV.format(name=name) + "main_config = create_config = {}\n")
    if by_path:
        read_config(folder / f"{name}.py")
    else:
        monkeypatch.syspath_prepend(folder)
        import_module([name])
    manager = SubprocessEnvManagerV2([partial(DingEnvWrapper, None, {"env_id": f"{name}-v0"})], {"context": context})
    try:
        manager.launch()
        assert len(manager.ready_obs) == 1
    finally:
        manager.close()


def test_a_role_is_started_with_what_its_launcher_imported(folder) -> None:
    (folder / "of_launcher.py").write_text("")
    import_own_code([OwnModule("of_launcher", str(folder / "of_launcher.py"))])
    spec = ChildSpec(Role("learner0", print), 0, ".", None, "token", {})
    started = pickle.loads(pickle.dumps(spec))  # noqa: S301 - of this process
    assert OwnModule("of_launcher", str(folder / "of_launcher.py")) in started.own_code


def test_the_command_finds_modules_of_the_current_folder(folder, monkeypatch) -> None:
    (folder / "module_of_this_folder.py").write_text("here = True\n")
    (folder / "click.py").write_text("raise AssertionError('an installed package is hidden')\n")
    monkeypatch.setattr(sys, "argv", ["ding", "--version"])
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("module_of_this_folder")
    with pytest.raises(SystemExit):
        main()
    assert importlib.import_module("module_of_this_folder").here
    assert importlib.reload(importlib.import_module("click")).__file__ != str(folder / "click.py")


def test_a_script_without_a_guard_does_not_train_when_it_is_read(folder, caplog) -> None:
    (folder / "unguarded.py").write_text(UNGUARDED)
    main_config, create_config = read_config("unguarded.py")
    assert main_config.exp_name == "trained_again"
    assert create_config.policy.type == "dqn"
    assert "unguarded.py:10 starts a run when the file is imported" in caplog.text
    assert 'below `if __name__ == "__main__":`' in caplog.text
    assert not (folder / "trained_again").exists()


def test_a_module_without_a_guard_is_named(folder, monkeypatch) -> None:
    (folder / "unguarded_module.py").write_text(UNGUARDED)
    monkeypatch.syspath_prepend(folder)
    main_config = {"exp_name": "run", "env": {"env_id": "CartPole-v1"}, "policy": {}}
    create = {"env": {"type": "gymnasium", "import_names": ["unguarded_module"]}, "policy": {"type": "dqn"}}
    with pytest.raises(MissingMainGuardError, match="the module unguarded_module starts a run when it is imported"):
        serial_pipeline((main_config, {**create, "env_manager": {"type": "base"}}))
    assert not (folder / "trained_again").exists()
    assert not (folder / "run").exists()


def test_own_code_is_noted_and_imported_again(folder, monkeypatch) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "own_module.py").write_text("loaded = True\n")
    module = OwnModule("own_module", str(folder / "inner" / "own_module.py"))
    import_own_code([module])
    assert sys.modules["own_module"].loaded
    assert module in own_code()
    with pytest.raises(OwnCodeError, match="the module no_such_module, which the run needs, cannot be imported"):
        import_own_code([OwnModule("no_such_module")])
    with pytest.raises(OwnCodeError, match=r"gone\.py, which the run needs, is not there"):
        import_own_code([OwnModule("gone", str(folder / "gone.py"), by_path=True)])
    (folder / "broken.py").write_text("1 / 0\n")
    with pytest.raises(OwnCodeError, match=r"broken\.py, which the run needs, cannot be run: ZeroDivisionError"):
        import_own_code([OwnModule("broken", str(folder / "broken.py"), by_path=True)])
    with pytest.raises(ConfigRunError, match=r"broken\.py:1: ZeroDivisionError"):
        read_config("broken.py")
