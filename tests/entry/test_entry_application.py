"""Data sets of a trained policy: samples, episodes, and the way from one to the other."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import ding
from ding.config import ConfigValueError, compile_config, read_config
from ding.entry import (
    collect_demo_data,
    collect_episodic_demo_data,
    episode_to_transitions,
    episode_to_transitions_filter,
)
from ding.entry.cli import cli
from ding.policy import create_policy
from ding.utils.data import NaiveRLDataset
from ding.utils.file_helper import read_file, save_file

CONFIG_FILE = Path(ding.__file__).parents[1] / "configs" / "cartpole" / "cartpole_dqn_config.py"


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main, create = read_config(CONFIG_FILE)
    main.exp_name = "e"
    main.env.collector_env_num = 2
    return main, create


@pytest.fixture
def state(config):
    policy = create_policy(compile_config(config[0], auto=True, create_cfg=config[1], save_cfg=False).policy)
    return policy.learn_mode.state_dict()


def test_samples_are_those_of_the_greedy_policy(config, state):
    save_file("c.pth.tar", state)
    collect_demo_data(config, 0, 10, "data/demo.pkl", state_dict_path="c.pth.tar")
    samples = NaiveRLDataset("data/demo.pkl")
    assert len(samples) == 10
    assert {"obs", "next_obs", "action", "reward", "done", "collect_iter"} <= set(samples[0])
    network = create_policy(compile_config(config[0], auto=True, create_cfg=config[1], save_cfg=False).policy)
    network.eval_mode.load_state_dict(state)
    greedy = network.eval_mode.forward({i: sample["obs"] for i, sample in enumerate(samples[:])})
    assert [int(greedy[i]["action"]) for i in range(10)] == [int(sample["action"]) for sample in samples[:]]
    config[0].policy.collect.save_path = "again.pkl"
    collect_demo_data(config, 0, 10, state_dict=state)
    assert all(torch.equal(a["obs"], b["obs"]) for a, b in zip(samples[:], NaiveRLDataset("again.pkl")[:]))


def test_episodes_become_transitions(config, state):
    collect_episodic_demo_data(config, 0, 3, "episodes.pkl", state_dict=state)
    episodes = read_file("episodes.pkl")
    assert len(episodes) == 3
    assert [episode[-1]["done"] for episode in episodes] == [True] * 3
    assert not any(step["done"] for episode in episodes for step in episode[:-1])
    lengths = sorted(map(len, episodes))
    episode_to_transitions("episodes.pkl", "steps.pkl", nstep=3)
    samples = NaiveRLDataset("steps.pkl")
    assert len(samples) == sum(lengths)
    assert samples[0]["reward"].tolist() == [1.0, 1.0, 1.0]
    episode_to_transitions_filter("episodes.pkl", "best.pkl", nstep=1, min_episode_return=lengths[-1])
    assert len(NaiveRLDataset("best.pkl")) == lengths[-1] * lengths.count(lengths[-1])


def test_from_the_command_line(config, state):
    save_file("c.pth.tar", state)
    words = ["-m", "collect_episodic_demo_data", "-c", str(CONFIG_FILE), "--exp-name", "e", "--data-path", "d.pkl"]
    runner = CliRunner()
    result = runner.invoke(cli, [*words, "--load-path", "c.pth.tar", "--collect-count", "8"])
    assert result.exit_code == 0, result.output
    assert len(read_file("d.pkl")) == 8
    result = runner.invoke(cli, [*words, "--load-path", "c.pth.tar"])
    assert result.exit_code == 2
    assert "give --collect-count" in result.output


def test_mistakes_leave_no_folder(config, state):
    main, _ = config
    for match, path, kwargs in (
        ("no weights of the policy: give state_dict", "d.pkl", {}),
        ("there is no checkpoint nowhere", "d.pkl", {"state_dict_path": "nowhere"}),
        ("give expert_data_path", None, {"state_dict": state}),
    ):
        with pytest.raises(ConfigValueError, match=match):
            collect_demo_data(config, 0, 4, path, **kwargs)
    main.policy.collect.data_type = "hdf5"
    with pytest.raises(ConfigValueError, match="hdf5 cannot store episodes"):
        collect_episodic_demo_data(config, 0, 4, "d.pkl", state_dict=state)
    assert not Path("e").exists()
