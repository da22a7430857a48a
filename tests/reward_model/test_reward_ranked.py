"""T-REX: the network, pairs of trajectories, what is learned from them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.reward_model import TrexRewardModel, create_reward_model
from ding.reward_model.trex_reward_model import TrexModel
from ding.utils import deep_merge_dicts, save_file


def make(obs_shape: Any = 2, **overrides: Any) -> TrexRewardModel:
    torch.manual_seed(0)
    np.random.seed(0)
    section = {"min_snippet_length": 4, "max_snippet_length": 9, "update_per_collect": 2, "num_snippets": 40}
    section = deep_merge_dicts(TrexRewardModel.default_config(), {**section, **overrides})
    policy = {"model": {"obs_shape": obs_shape}}
    return create_reward_model({"exp_name": "e", "reward_model": section, "policy": policy})


def demonstrations() -> list[list[np.ndarray]]:
    """Later checkpoints have larger observations, and the time is in the second feature."""
    return [
        [np.stack([np.full(8 + k, float(k)), np.arange(8.0 + k)], axis=1).astype(np.float32) for _ in range(2)]
        for k in range(3)
    ]


def test_keys_that_are_not_given_have_the_defaults_of_the_model():
    section = {"type": "trex", "learning_rate": 1e-3}
    made = create_reward_model({"exp_name": "e", "reward_model": section, "policy": {"model": {"obs_shape": 4}}})
    assert (made.cfg.reward_model.learning_rate, made.cfg.reward_model.batch_size) == (1e-3, 1)
    assert section == {"type": "trex", "learning_rate": 1e-3}


def test_the_network():
    model = TrexModel(2)
    layers = ("encoder.0.init", "encoder.0.main.0", "encoder.1")
    assert set(model.state_dict()) == {f"{layer}.{kind}" for layer in layers for kind in ("weight", "bias")}
    first, second = torch.rand(5, 2), torch.rand(3, 2)
    returns, total = model(first, second)
    each, absolute = model.cum_return(first, "batch")
    assert each.shape == (5, 1)
    assert torch.allclose(returns[0], each.sum())
    assert torch.allclose(total, absolute.sum() + model.cum_return(second)[1])
    with pytest.raises(KeyError, match="mode"):
        model.cum_return(first, "max")
    assert TrexModel([1, 60, 60]).cum_return(torch.rand(2, 1, 60, 60), "batch")[0].shape == (2, 1)


def test_pairs_are_labelled_by_the_age_of_their_checkpoints():
    model = make(num_trajs=20)
    model.load_expert_data(demonstrations())
    assert len(model.training_obs) == 60
    for number, ((first, second), label) in enumerate(zip(model.training_obs, model.training_labels)):
        assert (second[0, 0] > first[0, 0]) == bool(label)
        steps = np.diff(first[:, 1].numpy())
        if number < 20:
            assert len({*steps}) <= 1
            assert {*steps} <= {3.0, 4.0, 5.0, 6.0}
        else:
            assert len(first) == len(second) in (2, 3, 4)
            assert {*steps} == {2.0}
            early, late = (first, second) if label else (second, first)
            assert late[0, 1] >= early[0, 1]
    model.clear_data()
    assert not model.training_obs


@pytest.mark.parametrize("batch_size", [1, 16])
def test_later_checkpoints_get_larger_rewards(batch_size, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("e").mkdir()
    save_file("e/episodes_data.pkl", demonstrations())
    save_file("e/learning_returns.pkl", [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    model = make(batch_size=batch_size, learning_rate=1e-3, update_per_collect=6)
    model.train()
    assert model.accuracy() > 0.9
    returns = [np.mean(part) for part in model.pred_data(model.demonstrations)]
    assert returns[0] < returns[1] < returns[2]
    data = TransitionBatch({"obs": torch.tensor([[0.0, 1.0], [2.0, 1.0]]), "reward": torch.ones(2, 3)})
    rewards = model.estimate(data).columns["reward"]
    assert rewards.shape == (2, 3)
    assert rewards[0, 0] < rewards[1, 0]
    other = make()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.estimate(data).columns["reward"], rewards)


def test_one_checkpoint_is_no_ranking():
    with pytest.raises(AssertionError, match="two checkpoints"):
        make().load_expert_data(demonstrations()[:1])
