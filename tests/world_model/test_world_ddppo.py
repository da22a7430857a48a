"""DDPPO's two ensembles against DI-engine's numbers, and what differs from them."""

import copy

import numpy as np
import pytest
import torch

from ding.world_model import create_world_model
from ding.world_model.ddppo import EnsembleGradientModel, get_batch_jacobian, get_neighbor_index, tree_query
from ding.world_model.model.steps import TrainingSteps
from tests.world_model.golden import Env, InOrder, Scalars, fill, wave

MODEL = {
    "ensemble_size": 3, "elite_size": 2, "state_size": 3, "action_size": 1, "hidden_size": 6, "use_decay": True,
    "batch_size": 4, "holdout_ratio": 0.25, "max_epochs_since_update": 1, "k": 2, "reg": 2, "neighbor_pool_size": 7,
    "train_freq_gradient_model": 50,
}  # fmt: skip


def ddppo(writer=None, **model):
    cfg = {"type": "ddppo", "cuda": False, "eval_freq": 6, "model": {**MODEL, **model}}
    made = create_world_model(cfg, Env(), writer)
    fill(made, 0.5)
    for network in (made.rollout_model, made.gradient_model):
        if network is not None:
            network.max_logvar.data.fill_(0.5)
            network.min_logvar.data.fill_(-10)
    return made


@pytest.fixture
def no_shuffling(monkeypatch):
    """Each member learns the rows in the order in which they come."""
    monkeypatch.setattr(torch, "rand", lambda members, rows, device: torch.arange(rows).expand(members, rows))


def gradients(model):
    """The gradient of the sum of rewards and states, by one elite of each ensemble."""
    action = wave((4, 1), 0.2).requires_grad_()
    reward, next_obs, _ = model.step(wave((4, 3), 0.1), action)
    (reward.sum() + next_obs.sum()).backward()
    return reward.detach(), action.grad[:, 0]


def test_values_of_one_ensemble_and_gradients_of_the_other():
    model = ddppo()
    found = {}
    for member in (0, 2):
        model.elite_model_idxes = model.elite_model_idxes_gradient_model = [member]
        found[member] = gradients(model)
    # DI-engine, which drew the members 0, 2, 2, 0.
    reward, gradient = (torch.stack([found[m][i][row] for row, m in enumerate((0, 2, 2, 0))]) for i in (0, 1))
    np.testing.assert_allclose(reward, [-0.247055, 0.348996, 0.350757, -0.247059], rtol=1e-4)
    np.testing.assert_allclose(gradient, [0.000235521, -0.00149585, -0.00146002, 7.27203e-05], rtol=2e-3)
    for member in (0, 2):
        model.elite_model_idxes, model.elite_model_idxes_gradient_model = [member], []
        found[member] = gradients(model)
    own = [found[m][1][row].item() for row, m in enumerate((0, 2, 2, 0))]
    np.testing.assert_allclose(own, [0.00163981, 0.00245609, 0.00223505, 0.00268139], rtol=1e-3)


def test_a_training_with_numbers_of_di_engine(no_shuffling):
    writer = Scalars()
    model = ddppo(writer, reference_numerics=True)
    buffer = InOrder(12)
    # The pool of these numbers is that of the oldest transitions.
    buffer.newest = False
    model.train(buffer, 100, 0)
    assert buffer.ranges == [None, slice(-7, None)]
    numbers = {name.removeprefix("env_model_step/"): value for name, value in writer.values.items()}
    expected = {"rollout_model/mse_loss": 0.0532285, "rollout_model/best_holdout_mse_loss": 0.0692046}
    expected |= {"gradient_model/mse_loss": 0.0819011, "gradient_model/grad_loss": 0.146703}
    assert {name: numbers[name] for name in expected} == pytest.approx(expected, rel=2e-2)
    assert list(numbers)[6:8] == ["gradient_model/mse_loss", "gradient_model/grad_loss"]
    assert model.elite_model_idxes == model.elite_model_idxes_gradient_model == [0, 2]
    writer.values.clear()
    model.eval(InOrder(12), 110, 0)
    assert {name.split("/")[1] for name in writer.values} == {"rollout_model", "gradient_model"}


def test_every_batch_meets_as_many_neighbours_as_it_has_rows(no_shuffling):
    """DI-engine takes none where a batch ends with the pool, which makes the loss NaN."""
    writer = Scalars()
    ddppo(writer, neighbor_pool_size=4, max_epochs=1).train(InOrder(12), 100, 0)
    assert np.isfinite(writer.values["env_model_step/gradient_model/grad_loss"])


def test_the_second_ensemble_has_a_schedule_of_its_own_and_both_resume(no_shuffling):
    first, second = ddppo(max_epochs=2), ddppo()
    first.train(InOrder(12), 100, 0)
    first.train(InOrder(13), 140, 0)
    assert (first.last_train_step, first.last_train_step_gradient_model) == (140, 100)
    second.load_run_state(copy.deepcopy(first.run_state()))
    second.max_epochs = 2
    for model in (first, second):
        model.train(InOrder(16), 200, 0)
    assert second.last_train_step_gradient_model == 200
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name
    assert second.elite_model_idxes_gradient_model == first.elite_model_idxes_gradient_model


def test_recorded_steps_are_those_of_eager_training(no_shuffling):
    eager, recorded = (ddppo(max_epochs=2) for _ in range(2))
    recorded.training_steps = TrainingSteps("record", "DDPPOWorldMode")
    for model in (eager, recorded):
        model.train(InOrder(14), 100, 0)
    # Two epochs of two whole batches, for each ensemble.
    assert recorded.training_steps.graphs.num_runs == 8
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(recorded.state_dict()[name], value, rtol=1e-4, atol=1e-6)


def test_all_networks_and_none_for_gradients():
    model = ddppo(gradient_model=False)
    model.elite_model_idxes = [1]
    assert not any("gradient" in name for name in model.state_dict())
    reward, *_ = model.step(wave((3, 2, 3), 0.1), wave((3, 2, 1), 0.2), keep_ensemble=True)
    assert reward.shape == (3, 2)


def test_steps_without_gradients_leave_the_gradient_model_alone():
    model = ddppo()
    model.elite_model_idxes = [1]
    arguments = wave((4, 3), 0.1), wave((4, 1), 0.2)
    with torch.no_grad():
        before = model.step(*arguments)
        model.elite_model_idxes_gradient_model = [1]
        for parameter in model.gradient_model.parameters():
            parameter.data.fill_(float("nan"))
        for value, other in zip(before, model.step(*arguments)):
            torch.testing.assert_close(value, other)


def test_derivatives_along_directions_are_products_with_the_jacobian():
    model = EnsembleGradientModel(3, 1, 1, 2, hidden_size=6)
    fill(model, 0.5)
    x, ways = wave((2, 5, 4), 0.1), wave((2, 5, 3, 4), 0.4)
    found = model.derivative(x, ways)
    for member in range(2):
        net = lambda rows, member=member: model(rows.expand(2, *rows.shape))[0][member]  # noqa: E731
        jacobian = get_batch_jacobian(net, x[member], 4)
        torch.testing.assert_close(found[member], torch.einsum("bld,bkd->bkl", jacobian, ways[member]))
    found.square().sum().backward()
    assert model.nn1.weight.grad.abs().sum() > 0


def test_neighbours_and_jacobians():
    expected = [[5, 4], [5, 0], [4, 0], [4, 2], [0, 3], [1, 0]]
    data = wave((6, 2)).numpy()
    assert get_neighbor_index(data, 2, serial=True).tolist() == expected

    class Tree:
        def query(self, x, k):
            distances = np.linalg.norm(data - x, axis=1)
            return np.sort(distances)[:k], np.argsort(distances)[:k]

    assert tree_query(data[3], Tree(), 2).tolist() == expected[3]
    weight = wave((3, 2), 0.3)
    jacobian = get_batch_jacobian(lambda x: torch.sin(x @ weight), wave((2, 3), 0.1), 2)
    assert jacobian.shape == (2, 2, 3)
    values = [0.209599, 0.703343, 0.0294913, 0.840737, 0.674874, -0.611324, 0.265092]
    np.testing.assert_allclose(jacobian.detach().flatten()[:7], values, rtol=1e-4)
