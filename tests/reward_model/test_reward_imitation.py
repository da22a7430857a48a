"""Reward models that learn from demonstrations: GAIL, RED, PWIL, PDEIL."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.data.safe_file import read_tree, write_tree
from ding.reward_model import GailRewardModel, PdeilRewardModel, PwilRewardModel, RedRewardModel
from ding.reward_model.gail_irl_model import AtariRewardModelNetwork
from ding.utils import deep_merge_dicts
from ding.utils.data import offline_data_save_type

MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "gail": (GailRewardModel, {"input_size": 4, "hidden_size": 8, "update_per_collect": 3}),
    "red": (RedRewardModel, {"input_size": 4, "hidden_size": 8, "update_per_collect": 3}),
    "pwil": (PwilRewardModel, {"s_size": 3, "a_size": 1}),
    "pdeil": (PdeilRewardModel, {"discrete_action": False}),
    "pdeil-discrete": (PdeilRewardModel, {"discrete_action": True}),
}


def batch(rows: int, phase: float = 0.0, nstep: int = 1) -> TransitionBatch:
    return TransitionBatch(
        {
            "obs": torch.sin(torch.arange(rows * 3).reshape(rows, 3) + phase),
            "action": torch.arange(rows).reshape(rows, 1) % 2,
            "reward": torch.ones(rows, nstep), "done": np.zeros(rows, dtype=bool),
        }
    )  # fmt: skip


@pytest.fixture
def make(tmp_path):
    offline_data_save_type(list(batch(12)), str(tmp_path / "expert_data.pkl"))

    def build(name: str, seed: int = 0, **overrides: Any) -> Any:
        torch.manual_seed(seed)
        cls, settings = MODELS[name]
        paths = {"data_path": str(tmp_path), "expert_data_path": str(tmp_path / "expert_data.pkl")}
        return cls(deep_merge_dicts(cls.default_config(), {**settings, **paths, **overrides}))

    return build


def rewards(samples: Any) -> torch.Tensor:
    return samples.columns["reward"]


@pytest.mark.parametrize("name", list(MODELS))
def test_estimates_are_of_rows_as_of_columns_and_change_nothing(name, make):
    model, data = make(name), batch(5, phase=0.1, nstep=2)
    for _ in range(2):
        model.collect_data(data)
        model.train()
    estimated = model.estimate(data)
    assert rewards(estimated).shape == (5, 2)
    assert torch.equal(rewards(data), torch.ones(5, 2))
    rows = model.estimate(list(data))
    assert torch.equal(torch.stack([row["reward"] for row in rows]), rewards(estimated))
    assert rewards(estimated).isfinite().all()
    other = make(name)
    other.load_state_dict(model.state_dict())
    if name != "pdeil-discrete":  # whose classifier comes from the expert's data and the seed
        assert torch.allclose(rewards(other.estimate(data)), rewards(estimated))
    model.clear_data()


def test_the_discriminator_prefers_the_expert(make):
    model = make("gail", update_per_collect=200, learning_rate=0.02)
    own = batch(12).with_columns(obs=batch(12).columns["obs"] + 2.0)
    model.collect_data(own)
    model.train()
    expert = rewards(model.estimate(batch(12)))
    assert expert.min() > rewards(model.estimate(own)).max() >= 0
    pair = torch.cat([batch(1).columns["obs"], batch(1).columns["action"].float()], dim=1)
    assert torch.allclose(expert[:1], -(model.reward_model(pair) + 1e-8).log())
    names = {"l1.weight", "l1.bias", "l2.weight", "l2.bias"}
    assert set(model.state_dict()["model"]) == names


def test_the_discriminator_of_images(tmp_path):
    data = TransitionBatch(
        {"obs": torch.rand(2, 4, 84, 84), "action": torch.tensor([[0], [2]]), "reward": torch.zeros(2, 1)}
    )
    offline_data_save_type(list(data), str(tmp_path / "expert_data.pkl"))
    settings = {"input_size": [4, 84, 84], "action_size": 3, "update_per_collect": 1, "data_path": str(tmp_path)}
    model = GailRewardModel(deep_merge_dicts(GailRewardModel.default_config(), settings))
    model.collect_data(data)
    model.train()
    assert rewards(model.estimate(data)).shape == (2, 1)


def test_red_trains_once_on_the_expert(make):
    model = make("red", update_per_collect=150, learning_rate=0.01)
    model.train()
    once = {key: value.clone() for key, value in model.state_dict()["online_net"].items()}
    model.train()
    assert all(torch.equal(once[key], value) for key, value in model.state_dict()["online_net"].items())
    far = batch(12).with_columns(obs=batch(12).columns["obs"] * 4)
    assert rewards(model.estimate(batch(12))).mean() > rewards(model.estimate(far)).mean()


def test_mass_is_carried_greedily(tmp_path):
    def steps(values: list[float]) -> TransitionBatch:
        column = torch.tensor(values).reshape(-1, 1)
        return TransitionBatch(
            {"obs": column, "action": torch.zeros_like(column), "reward": torch.zeros(len(values), 1)}
        )

    offline_data_save_type(list(steps([0.0, 1.0])), str(tmp_path / "expert.pkl"))
    config = {"expert_data_path": str(tmp_path / "expert.pkl"), "s_size": 1, "a_size": 1}
    model = PwilRewardModel(deep_merge_dicts(PwilRewardModel.default_config(), config))
    own = steps([0.1, 0.2])
    model.collect_data(own)
    model.train()
    # The first takes all of the expert's step at 0, so that the second has to go to the one at 1.
    costs = [0.5 * 0.1**2, 0.5 * 0.8**2]
    expected = [5 * math.exp(-5 * 2 / math.sqrt(2) * cost) for cost in costs]
    # Copies of the samples are found by their contents, others get nothing.
    estimated = rewards(model.estimate(steps([0.2, 0.1, 0.3])))
    assert torch.allclose(estimated.reshape(-1), torch.tensor([expected[1], expected[0], 0.0]))


def test_densities_of_known_distributions(make):
    model = make("pdeil", alpha=0.25)
    own = batch(12, phase=0.5)
    assert torch.equal(rewards(model.estimate(own)), torch.zeros(12, 1))
    model.collect_data(own)
    model.train()

    def density(rows: torch.Tensor, at: torch.Tensor) -> np.ndarray:
        rows, at = rows.double().numpy(), at.double().numpy()
        cov = np.cov(rows.T) + 1e-6 * np.eye(rows.shape[1])
        gap = at - rows.mean(0)
        exponent = -0.5 * np.einsum("ni,ij,nj->n", gap, np.linalg.inv(cov), gap)
        return np.exp(exponent) / np.sqrt((2 * np.pi) ** rows.shape[1] * np.linalg.det(cov))

    obs, expert = own.columns["obs"], batch(12).columns
    pairs = [torch.cat([columns["obs"], columns["action"].float()], dim=1) for columns in (expert, own.columns)]
    below = 0.25 * density(expert["obs"], obs) + 0.75 * density(obs, obs)
    np.testing.assert_allclose(rewards(model.estimate(own)).squeeze(1), density(*pairs) / below, rtol=1e-3)


def test_there_are_no_demonstrations(tmp_path):
    offline_data_save_type([], str(tmp_path / "expert_data.pkl"))
    config = {"data_path": str(tmp_path)}
    with pytest.raises(ValueError, match="holds no transitions"):
        GailRewardModel(deep_merge_dicts(GailRewardModel.default_config(), config))


@pytest.mark.parametrize("name", list(MODELS))
def test_a_model_goes_on_with_all_that_a_run_saved(name, make, tmp_path):
    def went_on(model: Any) -> torch.Tensor:
        torch.manual_seed(1)
        model.collect_data(batch(4, phase=2.0))
        model.train()
        return rewards(model.estimate(batch(5, phase=0.2)))

    sampled = {"sample_size": 8} if name in ("red", "pwil") else {}
    model = make(name, **sampled)
    model.collect_data(batch(6, phase=1.0))
    model.train()
    write_tree(tmp_path / "state", model.run_state(), "test")
    # The other one draws other steps of the expert.
    other = make(name, seed=1, **sampled)
    other.load_run_state(read_tree(tmp_path / "state", "test"))
    assert torch.equal(went_on(model), went_on(other))


@pytest.mark.parametrize(("size", "features"), [(84, 784), (64, 256)])
def test_the_network_of_gail_takes_images_of_any_size(size: int, features: int) -> None:
    network = AtariRewardModelNetwork((4, size, size), action_size=3)
    chances = network(torch.rand(2, 4 * size * size + 3))
    assert network.fc1.in_features == features
    assert chances.shape == (2, 1)
    assert [name for name, _ in network.named_children()] == ["conv1", "conv2", "conv3", "conv4", "fc1", "fc2"]


@pytest.mark.parametrize("name", list(MODELS))
def test_the_expert_is_read_from_its_file_again(name, make) -> None:
    model, data = make(name), batch(6)
    model.collect_data(data)
    model.train()
    before = rewards(model.estimate(data))
    model.load_expert_data(batch(12, phase=2.0))
    model.load_expert_data()
    torch.testing.assert_close(rewards(model.estimate(data)), before, rtol=1e-2, atol=1e-2)


def test_gail_learns_from_pairs(make) -> None:
    model = make("gail")
    assert [pair.shape for pair in model.expert_data] == [(4,)] * len(model.expert_data_loader)
    assert model.train_data == []
    model.collect_data(batch(5))
    losses = [model.learn(model.train_data, model.expert_data) for _ in range(20)]
    assert losses[-1] < losses[0]
    assert model.train_iter == 20
    model.clear_data()
    assert model.train_data == []
