"""The two models of NGU: what they learn from, novelty by its definition, rewards together, states."""

from typing import Any

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.reward_model import EpisodicNGURewardModel, RndNGURewardModel
from ding.reward_model.ngu_reward_model import NGURewardModels
from ding.rl_utils.policy_family import family_betas
from ding.utils import deep_merge_dicts

B, T, N = 2, 16, 2


def make(cls: type, **overrides: Any) -> Any:
    torch.manual_seed(0)
    own = {"obs_shape": 3, "hidden_size_list": [8, 4], "update_per_collect": 2, "action_shape": 2}
    return cls(deep_merge_dicts(deep_merge_dicts(cls.default_config(), own), overrides))  # type: ignore[attr-defined]


def sequences() -> TransitionBatch:
    """The second one ends after 13 steps; what follows fills it up."""
    null = torch.zeros(B, T, dtype=torch.bool)
    null[1, 13:] = True
    done = null.clone()
    done[1, 12] = True
    torch.manual_seed(3)
    drawn = {"obs": torch.rand(B, T, 3), "action": torch.randint(2, (B, T, 1)), "reward": torch.rand(B, T, N)}
    beta = torch.tensor([0, 1]).reshape(B, 1, 1).expand(B, T, 1)
    return TransitionBatch({**drawn, "done": done.numpy(), "null": null.numpy(), "beta": beta})


def lists(batch: TransitionBatch) -> list[dict[str, Any]]:
    """The same with lists of T entries, as DI-engine has it."""
    return [{key: list(value) for key, value in row.items()} for row in batch]


def test_novelty_of_life():
    model, batch = make(RndNGURewardModel), sequences()
    real = ~torch.as_tensor(batch.columns["null"]).flatten()
    with torch.no_grad():
        predicted, target = model.reward_model(batch.columns["obs"].flatten(0, 1))
    error = (predicted - target).square().mean(1)
    mean, deviation = error[real].mean(), error[real].std(correction=0)
    expected = 1 + (error - mean) / deviation
    torch.testing.assert_close(model.estimate(batch), expected, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(make(RndNGURewardModel).estimate(lists(batch)), make(RndNGURewardModel).estimate(batch))


def test_novelty_within_an_episode():
    model, batch = make(EpisodicNGURewardModel), sequences()
    with torch.no_grad():
        features = model.reward_model.embedding_net(batch.columns["obs"].flatten(0, 1)).reshape(B, T, -1)
    nearest = {}
    for b in range(B):
        for t in range(10, T if b == 0 else 13):
            nearest[b, t] = (features[b, :t] - features[b, t]).norm(dim=1).sort().values[:10]
    scale = torch.cat(list(nearest.values())).mean()
    expected = torch.zeros(B, T)
    for place, distances in nearest.items():
        kernel = 1e-4 / ((distances / scale - 0.008).clamp(min=0) + 1e-4)
        expected[place] = 1 / (kernel.sum().sqrt() + 0.001)
    expected = (expected - expected.min()) / (expected.max() - expected.min())
    torch.testing.assert_close(model.estimate(batch).reshape(B, T), expected, rtol=1e-3, atol=1e-4)
    # Where nothing has been seen for long enough, nothing is new.
    short = TransitionBatch({key: value[:, :8] for key, value in batch.columns.items()})
    assert model.estimate(short).tolist() == [0] * (B * 8)


@pytest.mark.parametrize("last_five", [False, True])
@pytest.mark.parametrize("cls", [RndNGURewardModel, EpisodicNGURewardModel])
def test_training_sees_real_steps_only_and_its_state_goes_on(cls, last_five):
    options = {"only_use_last_five_frames_for_icm_rnd": last_five, "batch_size": 1000}
    model, batch = make(cls, **options), sequences()
    spoilt = batch.columns["obs"].clone()
    spoilt[1, 13:] = torch.nan
    # Of no interest when only the last five steps are.
    if last_five:
        spoilt[0, :11] = spoilt[1, :8] = torch.nan
    model.train()
    model.collect_data(batch.with_columns(obs=spoilt))
    before = {name: value.clone() for name, value in model.reward_model.state_dict().items()}
    model.train()
    after = model.reward_model.state_dict()
    assert all(bool(value.isfinite().all()) for value in after.values())
    assert any(not torch.equal(before[name], after[name]) for name in before)
    model.estimate(batch)
    other = make(cls, **options)
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other.estimate(batch), model.estimate(batch), rtol=1e-4, atol=1e-4)
    model.clear_data()
    model.train()
    assert all(torch.equal(value, after[name]) for name, value in model.reward_model.state_dict().items())


@pytest.mark.parametrize("rescaled", [None, 1, 5])
def test_rewards_together(rescaled):
    options = {"last_nonzero_reward_rescale": rescaled != 1, "last_nonzero_reward_weight": rescaled}
    model, batch = make(EpisodicNGURewardModel, **options), sequences()
    batch.columns["reward"][1, 12, 1] = 0
    # The novelty of an episode ends with it.
    life, inner = torch.rand(B * T) * 8, torch.rand(B * T) * torch.as_tensor(~batch.columns["null"]).flatten()
    mixed, count = model.fusion_reward(batch, life, inner, N, 2, None, 4)
    intrinsic, betas = (life.clamp(1, 5) * inner).reshape(B, T), family_betas(2)
    expected = batch.columns["reward"].clone()
    for b in range(B):
        for j in range(T - N):
            if batch.columns["null"][b, j]:
                continue
            for k in range(N):
                if not batch.columns["done"][b, j] or rescaled == 1:
                    expected[b, j, k] += betas[b] * intrinsic[b, j + k]
                elif k == 0:
                    weight = T if rescaled is None else rescaled
                    expected[b, j, k] = weight * expected[b, j, k] + betas[b] * intrinsic[b, j + k]
    torch.testing.assert_close(mixed.columns["reward"], expected)
    assert count == 5
    assert not torch.equal(batch.columns["reward"], expected)


def test_both_as_one():
    def both() -> NGURewardModels:
        parts = make(RndNGURewardModel, clear_buffer_per_iters=2), make(EpisodicNGURewardModel)
        return NGURewardModels(*parts, N, 2)

    model, batch = both(), sequences()
    model.collect_data(batch)
    model.train()
    model.clear_data()
    first = {name: value.clone() for name, value in model.models["rnd"].reward_model.state_dict().items()}
    inverse = {name: value.clone() for name, value in model.models["episodic"].reward_model.state_dict().items()}
    model.train()
    # The pairs were forgotten at once, the observations are not yet.
    after = model.models["rnd"].reward_model.state_dict()
    assert any(not torch.equal(value, after[name]) for name, value in first.items())
    unchanged = model.models["episodic"].reward_model.state_dict()
    assert all(torch.equal(value, unchanged[name]) for name, value in inverse.items())
    other = both()
    other.load_state_dict(model.state_dict())
    same, different = other.estimate(batch).columns["reward"], batch.columns["reward"]
    torch.testing.assert_close(same, model.estimate(batch).columns["reward"], rtol=1e-3, atol=1e-3)
    assert np.all(np.isfinite(same.numpy()))
    assert not torch.equal(same, different)
