"""Helpers of DI-engine that only scripts use: configs by name, a metric, roles that a script starts, an env's info."""

import importlib
import multiprocessing
import threading
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

import ding
from ding.config import compile_config_parallel
from ding.config.testing import (
    parallel_test_create_config,
    parallel_test_main_config,
    parallel_test_system_config,
)
from ding.entry.parallel_entry import (
    launch_collector,
    launch_coordinator,
    launch_learner,
    run_collector,
    run_learner,
)
from ding.entry.predefined_config import get_predefined_config, policy_dict
from ding.entry.utils import AccMetric
from ding.envs import BaseEnvInfo

ROOT = Path(ding.__file__).parents[1]


def test_a_config_by_the_names_of_env_and_policy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main, create = get_predefined_config("cartpole", "dqn")
    assert (main.policy.model.obs_shape, create.policy.type) == (4, "dqn")
    with pytest.raises(SystemExit, match=r"there is no configs/pendulum/pendulum_dqn_config\.py"):
        get_predefined_config("pendulum", "dqn")
    with pytest.raises(KeyError, match="nothing"):
        get_predefined_config("nothing", "dqn")
    assert importlib.import_module(policy_dict["dqn"]).DQNPolicy.__name__ == "DQNPolicy"


def test_example_configs_have_a_module_for_each_env():
    import ding.config.example.DQN.gym_lunarlander_v2 as module
    from ding.config.example.TD3.gym_walker2d_v3 import cfg

    from ding.config.example.DQN import supported_env, supported_env_cfg
    from ding.config.example.PPOF import gym_lunarlandercontinuous_v2

    assert module.cfg is supported_env_cfg["LunarLander-v3"]
    assert module.env is supported_env["LunarLander-v3"]
    assert cfg.env.env_id == "Walker2d-v5"
    assert gym_lunarlandercontinuous_v2.cfg.action_space == "continuous"


def test_the_metric_of_the_supervised_example():
    metric = AccMetric()
    first = metric.eval({"logit": torch.tensor([[1.0, 1.0], [0.0, 3.0]])}, torch.tensor([2, 4]))
    assert first == {"Acc": 0.5}
    assert metric.reduce_mean([first, {"Acc": 1.0}]) == {"Acc": 0.75}
    assert [metric.gt(first, other) for other in (None, {"Acc": 0.4}, 0.5)] == [True, True, False]


def test_the_info_of_an_env_for_old_versions():
    info = BaseEnvInfo(agent_num=1, obs_space="o", act_space="a", rew_space="r", use_wrappers=None)
    info.agent_num = 2
    assert list(info) == [2, "o", "a", "r", None]


@pytest.fixture
def cfg(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main, create, system = (
        deepcopy(one) for one in (parallel_test_main_config, parallel_test_create_config, parallel_test_system_config)
    )
    main.policy.collect.collector.collector_num = 1
    main.policy.other.commander.update(collector_task_space=1, eval_interval=0.2)
    system.update(path_data="data", path_policy="policy")
    return compile_config_parallel(main, create, system, free_ports=True)


@pytest.mark.parametrize(("run", "section"), [(run_learner, "learner0"), (run_collector, "collector0")])
def test_a_role_runs_until_its_event(cfg, run, section):
    started, closes = threading.Event(), threading.Event()
    closes.set()
    run(cfg.system[section], 0, started, closes)
    assert started.is_set()
    assert np.random.get_state()[1][0] == 0


@pytest.mark.slow
def test_a_run_whose_roles_a_script_starts(cfg):
    handles = [launch_learner(0, cfg.system.learner0)], [launch_collector(1, cfg.system.collector0)]
    launch_coordinator(0, cfg, learner_handle=handles[0], collector_handle=handles[1])
    assert [process.exitcode for kind in handles for process, *_ in kind] == [0, 0]
    assert multiprocessing.active_children() == []


def test_a_role_that_ends_before_it_starts_is_an_error(cfg):
    class Ended:
        name, exitcode = "learner", 3

        def is_alive(self):
            return False

        def join(self):
            return None

    with pytest.raises(RuntimeError, match="the learner has ended before it started, with exit code 3"):
        launch_coordinator(0, cfg, learner_handle=[[Ended(), threading.Event(), threading.Event()]])
    with pytest.raises(ValueError, match="give config or filename"):
        launch_learner(0)
