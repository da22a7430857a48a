"""Behaviour cloning from observations: of an expert that plays, and of a file."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import ding
from ding.config import ConfigValueError, compile_config, read_config
from ding.data import TransitionBatch
from ding.entry import serial_pipeline_bco
from ding.entry.serial_entry_bco import load_agentdata, load_expertdata
from ding.policy import create_policy
from ding.utils.data import naive_save
from ding.utils.file_helper import save_file

CONFIGS = Path(ding.__file__).parents[1] / "configs" / "cartpole"


@pytest.fixture
def configs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main, create = read_config(CONFIGS / "cartpole_bco_config.py")
    main.exp_name = "e"
    main.env.update(collector_env_num=2, evaluator_env_num=2, n_evaluator_episode=2, stop_value=10**6)
    main.policy.model.encoder_hidden_size_list = [8, 8]
    main.policy.learn.train_epoch = 1
    main.policy.collect.update(n_episode=4, model_path="expert.pth.tar")
    main.bco.learn.idm_train_epoch = 1
    return (main, create), read_config(CONFIGS / "cartpole_dqn_config.py")


def episodes() -> list[list[dict]]:
    steps = [{"obs": torch.full((4,), t / 8), "next_obs": torch.full((4,), (t + 1) / 8)} for t in range(8)]
    return [[{**step, "action": torch.tensor([t % 2])} for t, step in enumerate(steps[:length])] for length in (3, 8)]


def test_steps_of_episodes():
    for load in (load_expertdata, load_agentdata):
        for kind in (list, TransitionBatch.from_rows):
            data = load([kind(one) for one in episodes()])
            assert data.obs.shape == (11, 8)
            np.testing.assert_allclose(data.obs[4], [1 / 8] * 4 + [2 / 8] * 4)
            assert data[3]["episode_id"] == 1
            assert data.action.reshape(-1).tolist() == [0, 1, 0, 0, 1, 0, 1, 0, 1, 0, 1]


def test_an_expert_that_plays(configs):
    config, expert_config = configs
    policy = create_policy(
        compile_config(expert_config[0], auto=True, create_cfg=expert_config[1], save_cfg=False).policy
    )
    save_file("expert.pth.tar", policy.learn_mode.state_dict())
    before = copy.deepcopy(configs)
    trained = serial_pipeline_bco(config, expert_config, seed=0, max_env_step=60, strict=True)
    assert configs == before
    result = json.loads(Path("e/result.json").read_text())
    assert result["env_step"] >= 60
    assert result["train_iter"] > 0
    assert trained.learn_mode.get_attribute("cfg").type == "bc_command"


def test_episodes_in_a_file(configs):
    (main, create), expert_config = configs
    naive_save(episodes(), "d.pkl")
    main.policy.collect.update(model_path=None, data_path="d.pkl")
    serial_pipeline_bco((main, create), expert_config, max_env_step=40)
    assert json.loads(Path("e/result.json").read_text())["train_iter"] > 0


def test_mistakes(configs):
    (main, create), expert_config = configs
    with pytest.raises(ConfigValueError, match=r"there is no checkpoint expert\.pth\.tar"):
        serial_pipeline_bco((main, create), expert_config)
    create.collector.type = "sample"
    with pytest.raises(ConfigValueError, match=r"collector\.type must be 'episode'"):
        serial_pipeline_bco((main, create), expert_config)
    assert not Path("e").exists()
