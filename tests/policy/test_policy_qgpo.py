"""QGPO: networks, losses and learn steps are those of DI-engine; resume, single rows, data set and middleware."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.data import EnvBatch
from ding.framework import OfflineRLContext
from ding.framework.middleware import qgpo_offline_data_fetcher, qgpo_support_data_generator
from ding.model import QGPO
from ding.model.template.qgpo import GuidanceQt, QGPOCritic, ScoreNet, TwinQ
from ding.policy import PolicyConfigError, PolicyDataError, PolicyUsageError, QGPOPolicy
from ding.torch_utils.network import TemporalSpatialResBlock
from ding.utils import deep_merge_dicts
from ding.utils.data import QGPOD4RLDataset


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def filled(module: Any, scale: float = 0.1) -> Any:
    with torch.no_grad():
        for number, (_, parameter) in enumerate(sorted(module.named_parameters())):
            parameter.copy_(scale * wave(tuple(parameter.shape), number))
    return module


def close(found: Any, expected: list[float], rtol: float = 1e-4) -> None:
    values = found.detach() if isinstance(found, torch.Tensor) else np.asarray(found)
    np.testing.assert_allclose(values.flatten()[: len(expected)], expected, rtol=rtol)


CRITIC = {"alpha": 3, "q_alpha": 1}
MODEL = {"obs_dim": 3, "action_dim": 2, "device": "cpu", "qgpo_critic": CRITIC}
A, S, T = wave((2, 2), 0.1), wave((2, 3), 0.2), torch.tensor([0.1, 0.5])


@pytest.fixture
def no_noise(monkeypatch):
    """What is drawn is a wave; times are spread evenly."""
    monkeypatch.setattr(torch, "rand", lambda count, **kwargs: torch.linspace(0.1, 0.9, count))

    def drawn(shape: Any, **kwargs: Any) -> torch.Tensor:
        return wave((shape,) if isinstance(shape, int) else tuple(shape), 0.2)

    monkeypatch.setattr(torch, "randn", drawn)
    monkeypatch.setattr(torch, "randn_like", lambda x, **kwargs: wave(tuple(x.shape), 0.9))


def test_networks():
    block = filled(TemporalSpatialResBlock(3, 4, 5), 0.5)
    close(block(wave((2, 3), 0.1), wave((2, 5), 0.2)), [-0.745413, 1.03325, -1.23319, -0.317981, -1.02343])
    block = filled(TemporalSpatialResBlock(4, 4, 5), 0.5)
    close(block(wave((2, 4), 0.1), wave((2, 5), 0.2)), [0.425965, 0.785752, 0.981421, 0.618902, 0.277534])
    close(torch.cat(filled(TwinQ(2, 3)).both(A, S)), [-0.624776, -0.622765, -0.56866, -0.568928])
    close(filled(GuidanceQt(2, 3))(A, T, S), [-0.60175, -0.601793])
    critic = filled(QGPOCritic("cpu", CRITIC, 2, 3))
    with torch.no_grad():
        # Gradients of nearly flat functions: kernels for Intel and AMD processors differ by 1.2e-4.
        close(critic.calculate_guidance(A, T, S, 2.0), [1.07661e-05, 4.01066e-05, 7.84568e-06, 3.70681e-05], 1e-3)
    assert not A.requires_grad
    close(filled(ScoreNet("cpu", 5, 2))(A, T, S), [3.89407, 6.9809, 1.3073, 2.34476])
    model = QGPO(MODEL)
    assert (sum(parameter.numel() for parameter in model.parameters()), len(model.state_dict())) == (2301799, 96)


def test_losses_and_samples(no_noise):
    model = filled(QGPO(MODEL))
    a, s, r, s_, fake = wave((4, 2), 0.1), wave((4, 3), 0.2), wave((4, 1), 0.4), wave((4, 3), 0.6), wave((4, 5, 2), 0.3)
    close(model.score_model_loss_fn(a, s), [7.01173])
    close(model.q_loss_fn(a, s, r, s_, torch.tensor([[0.0], [0.0], [1.0], [0.0]]), fake), [0.871707])
    close(model.qt_loss_fn(s, fake), [1.60944])
    states = wave((2, 3), 0.1)
    close(np.stack(model.select_actions(states, 7, 2.0)), [209.719, 443.596, 331.054, 437.517])
    close(np.stack(model.select_actions(states.tolist(), 7, 0.0)), [209.716, 443.59, 331.052, 437.51])
    drawn = model.sample(states.numpy(), 3, 6)
    assert drawn.shape == (2, 3, 2)
    close(drawn, [210.17, 444.087, 331.547, 438.037, 203.645, 246.863, 38.3572, 187.863])
    # One state, one action for a state, and the mode that the network had.
    model.eval()
    assert model.select_actions(states[0], 7).shape == (2,)
    assert model.sample(states[:1], 1, 6).shape == (1, 1, 2)
    assert not model.training
    assert model.qt_loss_fn(s[:1], fake[:1, :1]).item() == 0


LEARN = {
    "behavior_policy_stop_training_iter": 2,
    "energy_guided_policy_begin_training_iter": 2,
    "q_value_stop_training_iter": 4,
}


def make(**learn: Any) -> QGPOPolicy:
    settings = {"model": MODEL, "learn": {**LEARN, **learn}, "eval": {"diffusion_steps": 7}}
    policy = QGPOPolicy(deep_merge_dicts(QGPOPolicy.default_config(), settings))
    filled(policy.learn_mode.get_attribute("model"))
    return policy


def batch() -> dict[str, torch.Tensor]:
    return {
        "s": wave((4, 3), 0.2), "a": wave((4, 2), 0.1), "r": wave((4, 1), 0.4), "s_": wave((4, 3), 0.6),
        "d": torch.tensor([0.0, 0.0, 1.0, 0.0]), "fake_a": wave((4, 5, 2), 0.3), "fake_a_": wave((4, 5, 2), 0.5),
    }  # fmt: skip


@pytest.mark.parametrize("mode", [False, pytest.param("record", marks=pytest.mark.slow)])
def test_the_first_learn_steps(mode, no_noise):
    policy = make(compile=mode)
    found = [policy.learn_mode.forward(batch()) for _ in range(5)]
    close([one["total_loss"] for one in found], [7.01173, 2.15396, 2.48115, 1.60955, 1.60944])
    close([one["behavior_model_training_loss"] for one in found], [7.01173, 2.15396, 0, 0, 0])
    close([one["q0_loss"] for one in found], [0, 0, 0.871708, 0, 0])
    assert policy.learn_mode.get_attribute("compiled_updates").graphs.num_runs == (5 if mode else 0)
    acted = policy.eval_mode.forward(EnvBatch(np.array([0, 4]), np.stack([wave((3,), 0.1), wave((3,), 0.8)])))
    close(acted[0]["action"], [-137.691, 30.9742])
    close(acted[4]["action"], [-23.1519, 20.0143])


@pytest.mark.parametrize("count", [1, 3])
def test_a_checkpoint_restores_counters_and_optimisers(count):
    def losses(policy: QGPOPolicy, count: int) -> list[Any]:
        torch.manual_seed(0)
        return [policy.learn_mode.forward(batch()) for _ in range(count)]

    policy, resumed = make(), make()
    losses(policy, count)
    resumed.learn_mode.load_state_dict(copy.deepcopy(policy.learn_mode.state_dict()))
    assert losses(policy, 4) == losses(resumed, 4)
    # DI-engine saves the network and the first optimiser.
    names = ("model", "behavior_model_optimizer")
    resumed.learn_mode.load_state_dict({name: policy.learn_mode.state_dict()[name] for name in names})


def test_rows_are_learned_from_and_what_is_missing_is_named(no_noise):
    rows = [{key: value[i] for key, value in batch().items()} for i in range(4)]
    assert make().learn_mode.forward(rows) == make().learn_mode.forward(batch())
    with pytest.raises(PolicyDataError, match=r"lack \['fake_a_'\]"):
        make().learn_mode.forward({key: value for key, value in batch().items() if key != "fake_a_"})
    with pytest.raises(PolicyConfigError, match=r"policy.model.obs_dim is missing"):
        QGPOPolicy(QGPOPolicy.default_config())
    with pytest.raises(PolicyUsageError, match="does not collect"):
        make().collect_mode.forward({})


@pytest.fixture
def dataset(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "d.hdf5", "w") as file:
        file["observations"], file["actions"] = wave((10, 3), 0.1).numpy(), wave((10, 2), 0.3).numpy()
        file["rewards"] = np.arange(10, dtype=np.float32)
        file["terminals"], file["timeouts"] = np.arange(10) == 4, np.arange(10) == 9
    return QGPOD4RLDataset({"env_id": "hopper-medium-v2", "data_path": str(tmp_path / "d.hdf5")})


def test_the_data_set_has_scaled_rewards(dataset):
    # Without the last step, whose next observation is not known. Returns are 10 and 26.
    assert len(dataset) == 9
    item = dataset[9]
    assert {key: tuple(value.shape) for key, value in item.items()} == {
        "s": (3,), "a": (2,), "r": (1,), "s_": (3,), "d": (1,), "fake_a": (), "fake_a_": (),
    }  # fmt: skip
    assert torch.equal(item["s"], dataset.states[0])
    np.testing.assert_allclose(dataset.rewards[:, 0], np.arange(9) * 1000 / 16, rtol=1e-6)
    assert dataset.is_finished[:, 0].tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]


def test_actions_are_drawn_when_the_diffusion_has_learned(dataset):
    policy = make(M=2, diffusion_steps=2, batch_size=6, batch_size_q=4)
    run = EasyDict(policy=policy.cfg, seed=0)
    generate = qgpo_support_data_generator(run, dataset, policy)
    fetch = qgpo_offline_data_fetcher(run, dataset, collate_fn=None)
    listed = qgpo_offline_data_fetcher(run, dataset)
    context, sizes = OfflineRLContext(), []
    for iteration in range(4):
        context.train_iter = iteration
        generate(context)
        assert (dataset.fake_actions is None) == (iteration < 2)
        fetch(context)
        sizes.append(len(context.train_data["s"]))
        policy.learn_mode.forward(context.train_data)
        if iteration == 2:
            drawn = dataset.fake_actions
    assert sizes == [6, 3, 4, 4]
    assert context.trained_env_step == sum(sizes)
    assert drawn.shape == (9, 2, 2)
    # Once, and a run that resumes draws the same.
    assert dataset.fake_actions is drawn
    qgpo_support_data_generator(run, dataset, policy)(context)
    assert torch.equal(dataset.fake_actions, drawn)
    listed(context)
    assert [one["fake_a"].shape for one in context.train_data] == [(2, 2)] * 4
