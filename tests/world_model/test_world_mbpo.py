"""MBPO's ensemble against DI-engine's numbers: one step, a training, an evaluation."""

import copy

import numpy as np
import pytest
import torch

from ding.config import ConfigValueError
from ding.data import TransitionBatch
from ding.world_model import create_world_model
from ding.world_model.model.ensemble import EnsembleFC, EnsembleModel, StandardScaler
from ding.world_model.model.steps import TrainingSteps
from tests.world_model.golden import Env, InOrder, Scalars, fill, transitions, wave

MODEL = {
    "ensemble_size": 3, "elite_size": 2, "state_size": 3, "action_size": 1, "hidden_size": 6, "use_decay": True,
    "batch_size": 4, "holdout_ratio": 0.25, "max_epochs_since_update": 1,
}  # fmt: skip


def mbpo(env=None, writer=None, **model):
    cfg = {"type": "mbpo", "cuda": False, "eval_freq": 6, "model": {**MODEL, **model}}
    return create_world_model(cfg, Env() if env is None else env, writer)


def filled(**kwargs):
    model = mbpo(**kwargs)
    fill(model, 0.5)
    model.ensemble_model.max_logvar.data.fill_(0.5)
    model.ensemble_model.min_logvar.data.fill_(-10)
    return model


@pytest.fixture
def no_shuffling(monkeypatch):
    """Each member learns the rows in the order in which they come."""
    monkeypatch.setattr(torch, "rand", lambda members, rows, device: torch.arange(rows).expand(members, rows))


def test_the_ensemble_learns_as_that_of_di_engine():
    model = EnsembleModel(3, 1, 1, 3, hidden_size=6, use_decay=True)
    fill(model, 0.5)
    model.max_logvar.data.fill_(0.5)
    model.min_logvar.data.fill_(-10)
    x, labels, losses = wave((3, 4, 4), 0.1), wave((3, 4, 4), 0.5), []
    for _ in range(3):
        loss, mse = model.loss(*model(x, ret_log_var=True), labels)
        losses.append([loss.item(), *mse.tolist()])
        model.train(loss)
    expected = [
        [2.1683831, 0.9859743, 0.7542752, 0.5892074],
        [2.1502306, 0.9796590, 0.7480747, 0.5873260],
        [2.1322498, 0.9734056, 0.7419509, 0.5854748],
    ]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert sum(p.abs().sum().item() for p in model.parameters()) == pytest.approx(244.59236, rel=1e-5)
    assert model(x)[1].flatten()[:3].tolist() == pytest.approx([0.8270, 0.9440, 0.9080], abs=1e-4)
    assert model.train(False).training is False


def test_names_and_sizes_of_the_state():
    state = mbpo().state_dict()
    shapes = {name: tuple(value.shape) for name, value in state.items()}
    layers = {f"nn{i}": (4 if i == 1 else 6, 8 if i == 5 else 6) for i in range(1, 6)}
    expected = {"ensemble_model.max_logvar": (1, 4), "ensemble_model.min_logvar": (1, 4)}
    expected |= {f"ensemble_model.{name}.weight": (3, *size) for name, size in layers.items()}
    expected |= {f"ensemble_model.{name}.bias": (3, 1, size[1]) for name, size in layers.items()}
    assert shapes == {**expected, "scaler.std": (1, 4), "scaler.mu": (1, 4)}
    assert sum(parameter.numel() for parameter in mbpo().parameters()) == 644


def test_a_step_of_all_networks():
    model = _with_elites([0, 2])
    reward, next_obs, done = model.step(wave((3, 2, 3), 0.1), wave((3, 2, 1), 0.2), keep_ensemble=True)
    expected = [[-0.694017, -0.686896], [-0.390303, -0.387077], [0.0588495, 0.0567651]]
    np.testing.assert_allclose(reward.detach(), expected, rtol=1e-4)
    assert next_obs.shape == (3, 2, 3)
    assert done.tolist() == [[False, False], [False, False], [True, False]]


def _with_elites(elites, **kwargs):
    model = filled(**kwargs)
    model.elite_model_idxes = elites
    return model


def test_each_row_of_a_step_is_predicted_by_one_elite():
    model, obs, action = _with_elites([0, 2]), wave((4, 3), 0.1), wave((4, 1), 0.2)
    reward, next_obs, done = model.step(obs, action)
    each, each_obs, each_done = model.step(obs.expand(3, 4, 3), action.expand(3, 4, 1), keep_ensemble=True)
    # DI-engine, which drew the members 0, 2, 2, 0.
    np.testing.assert_allclose(
        each[[0, 2, 2, 0], range(4)].detach(), [-0.694017, 0.059076, 0.0576427, -0.693626], rtol=1e-4
    )
    expected = [-0.702592, 0.183915, 0.983924, 0.711653, 0.032033, -0.662652, -1.01238, -1.16375]
    np.testing.assert_allclose(each_obs[[0, 2, 2, 0], range(4)].detach().flatten()[:8], expected, rtol=1e-4)
    assert each_done[[0, 2, 2, 0], range(4)].tolist() == [False, True, False, False]
    found = (each - reward).abs().argmin(0)
    assert sorted(found.tolist()) == [0, 0, 2, 2]
    torch.testing.assert_close(reward, each[found, range(4)])
    torch.testing.assert_close(next_obs, each_obs[found, range(4)])
    assert done.tolist() == each_done[found, range(4)].tolist()
    action.requires_grad_()
    model.step(obs[:3], action[:3, 0], batch_size=2)[0].sum().backward()
    assert (action.grad[:3] != 0).all()


def test_steps_with_noise_have_the_predicted_deviation():
    torch.manual_seed(0)
    model = _with_elites([1], deterministic_rollout=False)
    obs, action = wave((1, 3), 0.1).expand(4000, 3), wave((1, 1), 0.2).expand(4000, 1)
    rewards = model.step(obs, action)[0]
    model.deterministic_rollout = True
    mean, var = model.ensemble_model(torch.cat([obs, action], 1)[:1].expand(3, 1, 4))
    assert rewards.mean().item() == pytest.approx(mean[1, 0, 0].item(), abs=0.05)
    assert rewards.var().item() == pytest.approx(var[1, 0, 0].item(), rel=0.1)


def test_a_training_and_an_evaluation(no_shuffling):
    writer = Scalars()
    model = filled(writer=writer)
    with pytest.raises(RuntimeError, match="before its first training"):
        model.step(wave((4, 3)), wave((4, 1)))
    model.train(InOrder(12), 100, 0)
    numbers = {name.removeprefix("env_model_step/"): value for name, value in writer.values.items()}
    expected = {
        "mse_loss": 0.0687145, "curr_holdout_mse_loss": 0.135109, "best_holdout_mse_loss": 0.0919459,
        "top_holdout_mse_loss": 0.0289200, "middle_holdout_mse_loss": 0.101968, "bottom_holdout_mse_loss": 0.144950,
    }  # fmt: skip
    # What 250 steps leave of the rounding of sums.
    assert numbers == pytest.approx(expected, rel=2e-2)
    np.testing.assert_allclose(model.scaler.mu[0], [0.626237, 0.243026, -0.254485, 0.164206], rtol=1e-5)
    np.testing.assert_allclose(model.scaler.std[0], [0.406963, 0.652652, 0.64923, 0.685498], rtol=1e-5)
    assert (model.elite_model_idxes, model.last_train_step) == ([0, 2], 100)
    assert sum(p.abs().sum().item() for p in model.parameters()) == pytest.approx(252.93, rel=2e-3)
    writer.values.clear()
    model.eval(InOrder(12), 110, 0)
    expected = {"eval_mse_loss": 0.123224, "eval_ensemble_mse_loss": 0.0925517, "eval_model_variances": 0.0460088}
    numbers = {name.removeprefix("env_model_step/"): value for name, value in writer.values.items()}
    assert numbers == pytest.approx(expected, rel=2e-2)
    assert model.last_eval_step == 110


def test_a_training_has_a_most_number_of_epochs(no_shuffling):
    model, steps = mbpo(max_epochs=3), []
    train = model.ensemble_model.train
    model.ensemble_model.train = lambda loss: steps.append(1) or train(loss)
    model.train(InOrder(12), 100, 0)
    assert len(steps) == 9


@pytest.mark.parametrize("use_decay", [True, False])
def test_recorded_steps_are_those_of_eager_training(no_shuffling, use_decay):
    eager, recorded = (filled(use_decay=use_decay, max_epochs=4, max_epochs_since_update=9) for _ in range(2))
    recorded.training_steps = TrainingSteps("record", "MBPOWorldModel")
    for model in (eager, recorded):
        model.train(InOrder(14), 100, 0)
    # Four epochs of two whole batches; the last one of each has rows for an eager step only.
    assert (eager.training_steps.graphs.num_runs, recorded.training_steps.graphs.num_runs) == (0, 8)
    assert recorded.elite_model_idxes == eager.elite_model_idxes
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(recorded.state_dict()[name], value, rtol=1e-4, atol=1e-6)
    eager.load_run_state(copy.deepcopy(recorded.run_state()))
    for model in (eager, recorded):
        model.train(InOrder(14), 200, 0)
    torch.testing.assert_close(recorded.ensemble_model(wave((3, 2, 4)))[0], eager.ensemble_model(wave((3, 2, 4)))[0])


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
@pytest.mark.slow
def test_compiled_steps_are_those_of_eager_training(no_shuffling, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    eager, compiled = (filled(max_epochs=4, max_epochs_since_update=9) for _ in range(2))
    compiled.training_steps = TrainingSteps(True, "MBPOWorldModel")
    for model in (eager, compiled):
        model.train(InOrder(14), 100, 0)
    assert compiled.training_steps.graphs.num_runs == 8
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(compiled.state_dict()[name], value, rtol=1e-4, atol=1e-5)


def test_a_model_without_a_compiler_learns_eagerly(no_shuffling, caplog, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    cfg = {"type": "mbpo", "cuda": False, "compile": True, "model": {**MODEL, "max_epochs": 1}}
    model = create_world_model(cfg, Env())
    model.train(InOrder(12), 100, 0)
    assert "world_model.compile: MBPOWorldModel learns eagerly: RuntimeError: there is no C++ compiler" in caplog.text
    assert len(model.elite_model_idxes) == 2


def test_a_model_resumes_its_training(no_shuffling):
    first, second = filled(), mbpo()
    first.train(InOrder(12), 100, 0)
    second.load_run_state(copy.deepcopy(first.run_state()))
    assert (second.elite_model_idxes, second.last_train_step) == (first.elite_model_idxes, 100)
    for model in (first, second):
        model.train(InOrder(16), 200, 0)
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name


def test_small_changes_of_the_state_are_learnt_beside_large_rewards():
    """On a linear system the ensemble finds the closed form, whatever the scales of its labels are."""
    torch.manual_seed(0)
    obs, action = torch.randn(600, 3), torch.rand(600, 1) * 2 - 1
    change = 0.01 * (obs @ torch.tensor([[0.0, 1.0, 0.5], [-1.0, 0.0, 0.0], [0.3, 0.0, -1.0]]) + action)
    reward = 5 * obs[:, :1] - 3 * action
    columns = {"obs": obs, "action": action, "next_obs": obs + change, "reward": reward}
    buffer = InOrder(12)
    buffer.samples = TransitionBatch({**columns, "done": np.zeros(600, dtype=np.bool_)})
    sizes = {"hidden_size": 32, "batch_size": 32, "use_decay": False}
    model = mbpo(normalize_labels=True, max_epochs=100, max_epochs_since_update=99, **sizes)
    model.train(buffer, 600, 0)
    twin = mbpo(normalize_labels=True, **sizes)
    twin.load_run_state(copy.deepcopy(model.run_state()))
    for found in (model, twin):
        with torch.no_grad():
            predicted, next_obs, _ = found.step(obs, action)
        assert (predicted - reward[:, 0]).var() < 0.05 * reward.var()
        assert ((next_obs - obs - change).var(0) < 0.05 * change.var(0)).all()


def test_what_is_wrong_is_named():
    for key, value in (("state_size", None), ("reward_size", 2), ("elite_size", 4)):
        with pytest.raises(ConfigValueError, match=rf"world_model.model.{key}"):
            mbpo(**{key: value})
    with pytest.raises(ConfigValueError, match=r"world_model\.compile must be one of .*'always'"):
        create_world_model({"type": "mbpo", "cuda": False, "compile": "always", "model": MODEL}, Env())
    with pytest.raises(ConfigValueError, match=r"termination_fn\(next_obs\), which object lacks"):
        mbpo(env=object())
    with pytest.raises(ConfigValueError, match=r"holdout_ratio=0\.25 holds out 0 of 3"):
        mbpo().train(InOrder(3), 100, 0)
    broken = InOrder(12)
    broken.samples = transitions(12).with_columns(reward=torch.full((12, 1), torch.nan))
    with pytest.raises(FloatingPointError, match="held-out error is not finite"):
        mbpo().train(broken, 100, 0)


def test_the_scaler_leaves_a_constant_as_it_is():
    scaler = StandardScaler(2)
    data = torch.tensor([[1.0, 3.0], [3.0, 3.0]])
    scaler.fit(data)
    scaled = scaler.transform(data)
    assert scaled[:, 1].tolist() == [0.0, 0.0]
    torch.testing.assert_close(scaled[:, 0], torch.tensor([-1.0, 1.0]) / 2**0.5)
    torch.testing.assert_close(scaler.inverse_transform(scaled), data)


def test_weights_begin_small_and_biases_at_zero():
    torch.manual_seed(0)
    layer = EnsembleFC(100, 50, 4)
    assert layer.weight.abs().max() <= 0.1
    assert layer.weight.std().item() == pytest.approx(0.05 * 0.88, rel=0.05)
    assert not layer.bias.any()
