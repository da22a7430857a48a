"""RND and ICM: networks, what novelty is worth, training, states."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import TransitionBatch
from ding.reward_model import (
    BaseRewardModel,
    ICMRewardModel,
    RndRewardModel,
    collect_states,
    create_reward_model,
    get_reward_model_cls,
)
from ding.utils import deep_merge_dicts

MODELS: dict[str, Any] = {"rnd": RndRewardModel, "icm": ICMRewardModel}


def make(kind: str, **overrides: Any) -> Any:
    torch.manual_seed(0)
    shapes = {"obs_shape": 3, "hidden_size_list": [8, 4]} | ({"action_shape": 2} if kind == "icm" else {})
    config = deep_merge_dicts(MODELS[kind].default_config(), {**shapes, "update_per_collect": 2, "exp_name": "e"})
    return MODELS[kind](deep_merge_dicts(config, overrides))


def batch(rows: int, nstep: int = 1, phase: float = 0.0) -> TransitionBatch:
    obs = torch.sin(torch.arange(rows * 3).reshape(rows, 3) + phase)
    return TransitionBatch(
        {
            "obs": obs, "next_obs": obs.roll(1, 0), "action": torch.arange(rows).reshape(rows, 1) % 2,
            "reward": torch.arange(rows * nstep).reshape(rows, nstep).float(), "done": np.zeros(rows, dtype=bool),
            "replay_buffer_idx": np.arange(rows),
        }
    )  # fmt: skip


def rewards(samples: Any) -> torch.Tensor:
    if isinstance(samples, TransitionBatch):
        return samples.columns["reward"]
    return torch.stack([sample["reward"] for sample in samples])


def intrinsic(model: Any, samples: TransitionBatch) -> torch.Tensor:
    """The novelty of the samples in 0..1, from the definition."""
    columns, network = samples.columns, model.reward_model
    with torch.no_grad():
        if isinstance(model, RndRewardModel):
            predicted, real = network(columns["obs"].clamp(-1, 1))
        else:
            real, predicted, _ = network(columns["obs"], columns["next_obs"], columns["action"].squeeze(1))
    error = (predicted - real).square().mean(1, keepdim=True)
    return (error - error.min()) / (error.max() - error.min() + 1e-8)


@pytest.mark.parametrize("as_rows", [False, True])
@pytest.mark.parametrize("nstep", [1, 3])
@pytest.mark.parametrize("kind", list(MODELS))
def test_what_novelty_is_worth(kind, nstep, as_rows):
    data = batch(5, nstep)
    old, samples = data.columns["reward"].clone(), list(batch(5, nstep)) if as_rows else data
    model = make(kind, intrinsic_reward_weight=0.5, extrinsic_reward_norm_max=4)
    novelty = intrinsic(model, batch(5))
    estimated = model.estimate(samples)
    assert isinstance(estimated, list if as_rows else TransitionBatch)
    assert torch.allclose(rewards(estimated), old / 4 + 0.5 * novelty, atol=1e-6)
    # What was given stays as it is, and all else is the same.
    assert torch.equal(rewards(samples), old)
    assert estimated[2]["replay_buffer_idx"] == 2
    assigned = make(kind, intrinsic_reward_type="assign").estimate(samples)
    assert torch.allclose(rewards(assigned), novelty.expand(5, nstep), atol=1e-6)
    new = make(kind, intrinsic_reward_type="new", extrinsic_reward_norm=False).estimate(samples)
    assert torch.equal(rewards(new), old)
    assert new[3]["intrinsic_reward"].shape == (1,)


def test_running_norm_does_not_depend_on_the_other_samples_of_a_batch():
    model = make("rnd", intrinsic_reward_type="assign", intrinsic_reward_norm="running")
    for _ in range(50):
        model.estimate(batch(6))
    whole, part = rewards(model.estimate(batch(6))), rewards(model.estimate(batch(6)[:3]))
    assert torch.allclose(whole[:3], part, rtol=0.05)


def test_what_was_seen_often_is_not_new():
    model = make("rnd", intrinsic_reward_type="assign", update_per_collect=200, obs_norm=False, learning_rate=0.01)
    model.collect_data(batch(3))
    model.train()
    far = batch(3).with_columns(obs=batch(3, phase=2.0).columns["obs"] * 3)
    both = TransitionBatch.concat([batch(3), far])
    seen, unseen = rewards(model.estimate(both)).split(3)
    assert seen.max() < unseen.min()


@pytest.mark.parametrize("kind", list(MODELS))
def test_training_changes_the_network_while_there_is_data(kind):
    model = make(kind)
    name = "predictor.init.weight" if kind == "rnd" else "feature.init.weight"
    states = [model.state_dict()["model"][name].clone()]
    model.collect_data(batch(3))
    for _ in range(2):
        model.train()
        states.append(model.state_dict()["model"][name].clone())
        model.clear_data()
    assert not torch.equal(states[0], states[1])
    assert torch.equal(states[1], states[2])


@pytest.mark.parametrize("kind", list(MODELS))
def test_the_state_holds_all_that_was_learned(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, other = make(kind, intrinsic_reward_norm="running"), make(kind, intrinsic_reward_norm="running")
    for _ in range(2):
        model.collect_data(list(batch(4)))
        model.train()
    model.estimate(batch(4))
    assert model.save() == "e/reward_model/ckpt/ckpt_best.pth.tar"
    other.load_state_dict(torch.load("e/reward_model/ckpt/ckpt_best.pth.tar", weights_only=True))
    assert torch.equal(rewards(model.estimate(batch(5))), rewards(other.estimate(batch(5))))
    for one in (model, other):
        one.clear_data()
        torch.manual_seed(1)
        one.collect_data(batch(4))
        one.train()
    assert torch.equal(rewards(model.estimate(batch(5))), rewards(other.estimate(batch(5))))
    # DI-engine saves the parameters alone.
    plain = make(kind, intrinsic_reward_type="assign")
    plain.load_state_dict(model.state_dict()["model"])
    assert torch.allclose(rewards(plain.estimate(batch(5))), intrinsic(model, batch(5)), atol=1e-5)


def test_the_parameters_have_the_names_of_the_original_api():
    layers = ("init", "main.0", "main.2")
    model = RndRewardModel(deep_merge_dicts(RndRewardModel.default_config(), {"obs_shape": 4, "exp_name": "e"}))
    names = [f"{part}.{layer}" for part in ("target", "predictor") for layer in layers]
    assert set(model.state_dict()["model"]) == {f"{name}.{kind}" for name in names for kind in ("weight", "bias")}
    icm = ICMRewardModel(ICMRewardModel.default_config())
    parts = [f"feature.{layer}" for layer in layers] + ["inverse_net.0", "inverse_net.2"]
    parts += [f"residual.{block}.{layer}" for block in range(8) for layer in (0, 2)]
    parts += ["forward_net_1.0", "forward_net_2"]
    assert set(icm.state_dict()["model"]) == {f"{part}.{kind}" for part in parts for kind in ("weight", "bias")}


def test_images_have_a_convolutional_encoder():
    model = make("rnd", obs_shape=[1, 36, 36], hidden_size_list=[2, 2, 2, 4])
    images = torch.rand(3, 1, 36, 36)
    estimated = model.estimate(TransitionBatch({"obs": images, "reward": torch.zeros(3, 1)}))
    assert estimated.columns["reward"].shape == (3, 1)
    with pytest.raises(KeyError, match="obs_shape"):
        make("rnd", obs_shape=[2, 2])
    assert len(collect_states(TransitionBatch({"obs": images}))) == 3


def test_settings_that_cannot_work():
    with pytest.raises(AssertionError, match="intrinsic_reward_weight: expected a number to add novelty by, got None"):
        make("rnd", intrinsic_reward_type="add", intrinsic_reward_weight=None)
    with pytest.raises(AssertionError, match=r"intrinsic_reward_type: 'addd' is unknown\. Did you mean 'add'"):
        make("icm", intrinsic_reward_type="addd")
    with pytest.raises(AssertionError, match="device"):
        RndRewardModel({"obs_shape": 3}, device="tpu")
    with pytest.raises(KeyError, match="rnd"):
        create_reward_model({"type": "rnt"})
    with pytest.raises(KeyError, match="type is missing"):
        get_reward_model_cls({})
    made = create_reward_model({**RndRewardModel.default_config(), "obs_shape": 3})
    assert isinstance(made, RndRewardModel)


class Constant(BaseRewardModel):
    """A model of the user's that says nothing of its state."""

    def estimate(self, data: Any) -> Any:
        return data

    def train(self) -> None:
        return

    def collect_data(self, data: Any) -> None:
        return

    def clear_data(self) -> None:
        return


class Learned(Constant):
    """One that has learned something."""

    learned = 1

    def state_dict(self) -> dict[str, Any]:
        return {"learned": self.learned}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.learned = state_dict["learned"]


def test_a_model_of_the_users_without_a_state_says_so_once(caplog):
    model = Constant({})
    for _ in range(2):
        model.load_run_state(model.run_state())
    text = "Constant has no state_dict and no collected_state: in a resumed run it begins anew"
    assert caplog.messages == [text]
    learned, other = Learned({}), Learned({})
    learned.learned = 7
    other.load_run_state(learned.run_state())
    assert other.learned == 7
    assert caplog.messages[1:] == ["Learned has no collected_state: in a resumed run it collects anew"]


@pytest.mark.parametrize("kind", ["rnd", "icm"])
def test_a_model_goes_on_with_what_it_collected_and_where_its_curves_ended(kind):
    steps: list[int] = []

    class Writer:
        def add_scalar(self, tag: str, value: float, global_step: int) -> None:
            steps.append(global_step)

    model, other = make(kind), make(kind)
    model.tb_logger = other.tb_logger = Writer()
    for _ in range(2):
        model.collect_data(batch(5))
    model.train()
    last = max(steps)
    other.load_run_state(copy.deepcopy(model.run_state()))
    steps.clear()
    estimates = []
    for one in (model, other):
        torch.manual_seed(1)
        one.train()
        estimates.append(rewards(one.estimate(batch(5))))
    assert torch.equal(*estimates)
    assert min(steps) == last + 1
    assert steps[: len(steps) // 2] == steps[len(steps) // 2 :]
