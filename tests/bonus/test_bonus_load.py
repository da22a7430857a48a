"""``ding.load``: agents from the folders of runs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ding
from ding.bonus import AgentConfigError, DQNAgent, ExperimentNotFoundError
from ding.bonus import load as load_agent
from ding.config import ConfigError, compile_config
from ding.entry import serial_pipeline
from ding.envs import BaseEnvManagerV2, DingEnvWrapper
from ding.framework import OnlineRLContext, task
from ding.framework.middleware import CkptSaver, interaction_evaluator
from ding.policy import DQNPolicy
from ding.utils.checkpoint import remove_checkpoint
from ding.utils.file_helper import read_file, save_file

ENV = {"env_id": "CartPole-v1", "collector_env_num": 2, "evaluator_env_num": 2, "n_evaluator_episode": 2}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def serial_run(**env: object) -> None:
    model = {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [16, 8]}
    main = {"exp_name": "serial", "env": {**ENV, "stop_value": 1000, **env}, "policy": {"model": model}}
    create = {"env": {"type": "gymnasium"}, "env_manager": {"type": "base"}, "policy": {"type": "dqn"}}
    serial_pipeline((main, create), max_env_step=100)


def trained(**cfg: object) -> DQNAgent:
    agent = DQNAgent(exp_name="run", cfg={"env": ENV, **cfg})
    agent.train(step=50)
    return agent


def assert_same_state(agent: DQNAgent, path: str) -> None:
    state = read_file(path)["model"]
    own = agent.policy.learn_mode.state_dict()["model"]
    assert own.keys() == state.keys()
    assert all(torch.equal(own[key], state[key]) for key in state)


def test_a_serial_run_comes_back_as_an_agent() -> None:
    serial_run()
    agent = ding.load("serial")
    assert isinstance(agent, DQNAgent)
    assert agent.cfg.policy.model.encoder_hidden_size_list == [16, 8]
    assert_same_state(agent, "serial/ckpt/ckpt_best.pth.tar")
    assert agent.deploy() == ding.load("serial").best.deploy()
    assert sorted(path.name for path in Path().iterdir()) == ["serial"]
    agent.train(step=10)
    assert agent.exp_name.startswith("serial_")


def test_an_agents_run_comes_back() -> None:
    before = trained(policy={"nstep": 3, "discount_factor": 0.9})
    agent = load_agent("run")
    assert (agent.cfg.policy.nstep, agent.cfg.policy.discount_factor) == (3, 0.9)
    assert_same_state(agent, "run/ckpt/ckpt_best.pth.tar")
    assert agent.cfg.policy.model == before.cfg.policy.model
    last = f"iteration_{before.train_iter}.pth.tar"
    for checkpoint in (last, f"run/ckpt/{last}"):
        assert_same_state(load_agent("run", checkpoint=checkpoint), f"run/ckpt/{last}")


def test_a_task_comes_back_as_an_agent() -> None:
    model = {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [8, 8]}
    main = {"exp_name": "by_hand", "env": ENV, "policy": {"model": model, "cuda": False}}
    create = {"env": {"type": "gymnasium"}, "env_manager": {"type": "base"}, "policy": {"type": "dqn"}}
    cfg = compile_config(main, create_cfg=create, auto=True)
    policy = DQNPolicy(cfg.policy, enable_field=["learn", "collect", "eval"])
    envs = BaseEnvManagerV2([lambda: DingEnvWrapper(cfg={"env_id": "CartPole-v1"})] * 2, cfg=cfg.env.manager)
    with task.start(ctx=OnlineRLContext()):
        task.use(interaction_evaluator(cfg, policy.eval_mode, envs))
        task.use(CkptSaver(policy, cfg.exp_name))
        task.run(max_step=1)
    envs.close()
    agent = ding.load("by_hand")
    assert isinstance(agent, DQNAgent)
    assert_same_state(agent, "by_hand/ckpt/eval.pth.tar")
    assert agent.deploy().eval_value > 0


def test_episodes_of_each_env_are_counted_together() -> None:
    """As configs of the parallel mode have them, beside the default of ``n_evaluator_episode``."""
    serial_run(evaluator_episode_num=3)
    assert ding.load("serial").cfg.env.n_evaluator_episode == 6


@pytest.mark.slow
def test_a_parallel_run_comes_back_as_an_agent() -> None:
    config = Path(__file__).parents[2] / "configs" / "cartpole" / "parallel" / "cartpole_dqn_config.py"
    subprocess.run(
        [sys.executable, "-m", "ding", "-m", "parallel", "-c", str(config), "-s", "0"], check=True, timeout=300
    )
    agent = ding.load("cartpole_dqn_parallel_seed0")
    assert agent.batch_evaluate(env_num=5, n_evaluator_episode=5).eval_value >= 150


def test_a_run_of_older_files_gives_its_newest_checkpoint() -> None:
    trained()
    remove_checkpoint("run/ckpt/ckpt_best.pth.tar")
    state = read_file("run/ckpt/iteration_0.pth.tar")
    save_file("run/ckpt/iteration_7.pth.tar", {**state, "model": {k: v + 1 for k, v in state["model"].items()}})
    assert_same_state(load_agent("run"), "run/ckpt/iteration_7.pth.tar")


def test_another_env() -> None:
    trained()
    agent = load_agent("run", env="CartPole-v1")
    assert agent.env.spec.id == "CartPole-v1"
    with pytest.raises(ConfigError, match=r"policy\.model\.obs_shape is 4, but observations of the env are \(2,\)"):
        load_agent("run", env="MountainCar-v0")


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ExperimentNotFoundError, match=r"no experiment folder 'rum'$"):
        ding.load("rum")
    trained()
    with pytest.raises(FileNotFoundError, match="no experiment folder 'rum'; did you mean 'run'"):
        ding.load("rum")
    with pytest.raises(ExperimentNotFoundError, match=r"there is no checkpoint best\.pth\.tar"):
        ding.load("run", checkpoint="best.pth.tar")
    for path in Path("run/ckpt").glob("*.pth.tar"):
        remove_checkpoint(path)
    for path in Path("run/ckpt").glob("snapshot_*"):
        shutil.rmtree(path)
    with pytest.raises(ExperimentNotFoundError, match="holds no checkpoint"):
        ding.load("run")
    Path("run/ckpt").rmdir()
    with pytest.raises(ExperimentNotFoundError, match="run has no checkpoints"):
        ding.load("run")
    Path("run/total_config.py").unlink()
    with pytest.raises(ExperimentNotFoundError, match="no experiment folder: none of total_config"):
        ding.load("run")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("main_config = dict(env=open('gotcha', 'w'))", "no main_config that can be read as data"),
        ("main_config = {'env': {'x': open('gotcha', 'w')}}", r"main_config\.env\.x is code; with trust_config"),
        ("main_config = {'env': {'import_names': ['antigravity']}}", "wants to import antigravity"),
        ("main_config = (", "is no config file"),
        ("main_config = {'env': {}, 'policy': {}}", r"names no policy\.type"),
    ],
)
def test_a_config_is_read_without_running_it(text, message) -> None:
    Path("other").mkdir()
    Path("other/total_config.py").write_text(text)
    with pytest.raises(AgentConfigError, match=message):
        ding.load("other")
    assert not Path("gotcha").exists()


def test_a_trusted_config_may_hold_code() -> None:
    trained()
    path = Path("run/total_config.py")
    path.write_text(path.read_text().replace("'CartPole-v1'", "'-'.join(['CartPole', 'v1'])"))
    with pytest.raises(AgentConfigError, match=r"main_config\.env\.env_id is code"):
        ding.load("run")
    assert ding.load("run", trust_config=True).cfg.env.env_id == "CartPole-v1"
