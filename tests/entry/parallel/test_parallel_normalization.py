"""Collectors of a parallel run share the statistics of observations through the learner."""

from copy import deepcopy

import numpy as np
import pytest
import torch

from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.entry import parallel_pipeline


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["inproc", "flask_fs"])
def test_the_learner_merges_what_all_collectors_counted(tmp_path, monkeypatch, backend) -> None:
    monkeypatch.chdir(tmp_path)
    main, create, system = map(
        deepcopy, (parallel_test_main_config, parallel_test_create_config, parallel_test_system_config)
    )
    reward_norm = {"type": "reward_norm", "kwargs": {"reward_discount": 0.9}}
    wrappers = [{"type": "obs_norm"}, reward_norm, {"type": "eval_episode_return"}]
    main.env.update(stop_value=10**9, collector_env_num=2, evaluator_env_num=1, env_wrapper=wrappers)
    main.policy.collect.collector.collector_num = 2
    main.policy.learn.learner.send_policy_freq = 5
    result = parallel_pipeline((main, create, system), max_env_step=2000, backend=backend)
    assert result["tasks"]["failed"] == 0
    (folder,) = tmp_path.iterdir()
    state = torch.load(folder / "ckpt" / "ckpt_final.pth.tar", weights_only=True)["normalization"]
    counts = [source["obs"]["count"] for source in state["sources"].values()]
    assert len(counts) == 2
    np.testing.assert_allclose(state["obs"]["count"], sum(counts), rtol=1e-3)
    # Each step of the collectors is a row, and each episode has one observation more.
    assert 0.3 * result["env_step"] < sum(counts) < 1.3 * result["env_step"]
    assert 0 < float(state["obs"]["var"][0]) < 1
    assert state["returns"]["count"] > 0
