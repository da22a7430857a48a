"""Runs with code of the user's are loaded again: own env, own policy, own network; and not those of others."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import ding
from ding.bonus import AgentConfigError, DQNAgent
from ding.config import ConfigTrustError, ConfigValueError
from ding.config.own.reading import build_network, read_run_config
from ding.config.own.record import read_run_code
from ding.entry import serial_pipeline
from ding.entry.cli import cli
from ding.entry.view.experiment import next_steps
from ding.policy import DQNPolicy, EpsCommandModePolicy
from ding.utils import MODEL_REGISTRY, POLICY_REGISTRY

ENV = {"env_id": "CartPole-v1", "collector_env_num": 1, "evaluator_env_num": 1, "n_evaluator_episode": 1}
HOWTO = Path(ding.__file__).parents[1] / "docs" / "howto"


class OwnNetwork(nn.Module):
    def __init__(self, obs_shape: int, action_shape: int, hidden: int = 16) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs_shape, hidden), nn.ReLU(), nn.Linear(hidden, action_shape))

    def forward(self, obs: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logit": self.net(obs)}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.fixture
def own_names(monkeypatch) -> None:
    """A network and a policy of the user's, which is the network's by default."""

    class OwnPolicy(DQNPolicy):
        def default_model(self) -> tuple[str, list[str]]:
            return "own_network_of_test", []

    class OwnCommandPolicy(OwnPolicy, EpsCommandModePolicy):
        pass

    monkeypatch.setitem(MODEL_REGISTRY, "own_network_of_test", OwnNetwork)
    monkeypatch.setitem(POLICY_REGISTRY, "own_of_test", OwnPolicy)
    monkeypatch.setitem(POLICY_REGISTRY, "own_of_test_command", OwnCommandPolicy)


def run(model: nn.Module | None = None, **model_cfg: object) -> None:
    policy = {
        "model": {"obs_shape": 4, "action_shape": 2, **model_cfg},
        "learn": {"update_per_collect": 1, "batch_size": 4},
        "collect": {"n_sample": 8},
        "other": {"replay_buffer": {"replay_buffer_size": 100}},
    }
    create = {"env": {"type": "gymnasium"}, "env_manager": {"type": "base"}, "policy": {"type": "dqn"}}
    serial_pipeline(({"exp_name": "run", "env": ENV, "policy": policy}, create), max_env_step=20, model=model)


def network_of(agent: ding.bonus.core.agent.Agent) -> nn.Module:
    return agent.policy.learn_mode.get_attribute("model")


def code_of(page: str) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", (HOWTO / page).read_text(encoding="utf-8"), re.DOTALL))


def invoke(*args: str):
    return CliRunner().invoke(cli, args)


# The file that the evaluation with -c runs again was read in this process before.
@pytest.mark.filterwarnings("ignore:.*Overriding environment")
@pytest.mark.parametrize(
    ("page", "exp"), [("own_env.md", "corridor"), pytest.param("own_policy.md", "softmax_dqn", marks=pytest.mark.slow)]
)
def test_what_the_howto_trains_is_evaluated_and_exported(page, exp, folder, monkeypatch) -> None:
    script = f"script_of_{exp}.py"
    (folder / script).write_text(code_of(page).replace('if __name__ == "__main__"', "if True"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    hint = re.search(r"next: (ding -m eval \S+), or", done.stderr)
    assert hint is not None
    command = hint[1].split()[1:]
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("XDG_STATE_HOME", str(folder / "of_another_user"))
        for args in (command, ["export", exp], ["-m", "serial", "--resume", exp]):
            refused = invoke(*args)
            assert refused.exit_code == 2
            assert (
                f"total_config.py needs the module script_of_{exp}; with trust_config=True (--trust)" in refused.output
            )
        with pytest.raises(AgentConfigError, match="needs the module"):
            ding.load(exp)
        assert next_steps(exp).startswith("; the best policy is in ")
        assert next_steps(exp).endswith(f"next: ding -m eval {exp} --trust, or ding plot {exp}")
    result = invoke(*command)
    assert result.exit_code == 0, result.output
    assert "seed 0: return" in result.output
    result = invoke("-m", "eval", exp, "-c", script)
    assert result.exit_code == 0, result.output
    result = invoke("export", exp)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in folder.glob(f"{exp}*")) == [exp]


def test_a_record_that_was_changed_is_not_ones_own(folder) -> None:
    (folder / "imported_at_load.py").write_text("open('imported.txt', 'w').close()\n")
    exp = folder / "exp"
    exp.mkdir()
    (exp / "total_config.py").write_text("main_config = {'env': {}}\ncreate_config = {'policy': {'type': 'dqn'}}\n")
    modules = [{"name": "imported_at_load", "file": str(folder / "imported_at_load.py"), "by_path": False}]
    record = {"folder": str(folder), "config": "total_config.py", "modules": modules, "network": None, "mac": "0" * 64}
    (exp / "own_code.json").write_text(json.dumps(record))
    with pytest.raises(ConfigTrustError, match="needs the module imported_at_load"):
        read_run_config(exp / "total_config.py")
    assert not (folder / "imported.txt").exists()
    main, create = read_run_config(exp / "total_config.py", trust=True)
    assert (main, create) == ({"env": {}}, {"policy": {"type": "dqn"}})
    assert (folder / "imported.txt").exists()
    for text in ("[]", "{}", "{", json.dumps({**record, "mac": None})):
        (exp / "own_code.json").write_text(text)
        with pytest.raises(ConfigValueError, match=r"own_code\.json is damaged"):
            read_run_config(exp / "total_config.py", trust=True)


@pytest.mark.parametrize("env", [{"import_names": ["no_module_of_mine"]}, {"env_id": "no_module_of_mine:Env-v0"}])
def test_a_config_of_others_imports_nothing(env, folder) -> None:
    (folder / "exp").mkdir()
    text = f"main_config = {{'env': {env}}}\ncreate_config = {{'policy': {{'type': 'dqn'}}}}\n"
    (folder / "exp" / "total_config.py").write_text(text)
    with pytest.raises(ConfigTrustError, match="wants to import no_module_of_mine; with trust_config=True"):
        read_run_config(folder / "exp" / "total_config.py")


def test_own_runs_are_known_by_their_config(folder) -> None:
    run(OwnNetwork(4, 2))
    assert read_run_code("run").is_own
    shutil.copytree("run", "copy")
    assert read_run_code("copy").is_own
    with open("copy/total_config.py", "a") as file:
        file.write("# changed\n")
    assert not read_run_code("copy").is_own
    (folder / "state" / "ding" / "runs.key").unlink()
    assert not read_run_code("run").is_own
    assert list(folder.rglob("runs.key*")) == []


def test_a_network_that_was_handed_in_comes_back() -> None:
    torch.manual_seed(0)
    run(OwnNetwork(4, 2, hidden=8), hidden=8)
    agent = ding.load("run")
    assert isinstance(network_of(agent), OwnNetwork)
    assert network_of(agent).net[0].out_features == 8
    result = invoke("-m", "eval", "run")
    assert result.exit_code == 0, result.output


def test_a_network_that_its_config_does_not_make_is_asked_for() -> None:
    run(OwnNetwork(4, 2, hidden=8))
    with pytest.raises(ConfigValueError, match=r"OwnNetwork .* has other layers when it is made from policy\.model"):
        ding.load("run")
    assert network_of(ding.load("run", model=OwnNetwork(4, 2, hidden=8))).net[0].out_features == 8


def test_a_network_without_its_arguments_in_the_config_gets_no_hint(folder) -> None:
    class Needy(OwnNetwork):
        def __init__(self, width: int) -> None:
            super().__init__(4, 2, width)

    run(Needy(8))
    assert next_steps("run").endswith("next: ding plot run")
    with pytest.raises(ConfigValueError, match="Needy"):
        build_network("run", {})


def test_agents_record_their_network() -> None:
    cfg = {"env": ENV, "policy": {"model": {"hidden": 8}}}
    DQNAgent(exp_name="run", cfg=cfg, model=OwnNetwork(4, 2, hidden=8)).train(step=20)
    assert isinstance(network_of(ding.load("run")), OwnNetwork)


@pytest.mark.usefixtures("own_names")
def test_train_and_load_give_an_own_network_its_arguments_only() -> None:
    agent = ding.train("own_of_test", "CartPole-v1", max_env_step=20, exp_name="run")
    assert isinstance(network_of(agent), OwnNetwork)
    agent = ding.train(
        "dqn", "CartPole-v1", max_env_step=20, exp_name="named", **{"policy.model.type": "own_network_of_test"}
    )
    assert isinstance(network_of(agent), OwnNetwork)
    cfg = {"env": ENV, "policy": {"model": {"type": "own_network_of_test", "hidden": 5}}}
    assert network_of(DQNAgent(cfg=cfg)).net[0].out_features == 5
    with pytest.raises(ConfigValueError, match=r"policy\.model\.hiden=5: OwnNetwork takes no 'hiden'.*hidden"):
        DQNAgent(cfg={"env": ENV, "policy": {"model": {"type": "own_network_of_test", "hiden": 5}}})
