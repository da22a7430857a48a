"""The array form of Q networks and of the wrappers around them, against the forms that work on tensors."""

import copy
import gc
import io
import weakref

import numpy as np
import pytest
import torch
from torch import nn

from ding.model import DQN, IModelWrapper, model_wrap
from ding.torch_utils import Adam
from ding.torch_utils.network.array_layers import MAX_MACS


def observations(rows: int, features: int = 4) -> np.ndarray:
    return np.random.default_rng(rows).standard_normal((rows, features)).astype(np.float32)


def by_torch(model, obs):
    with torch.no_grad():
        return model(torch.from_numpy(obs))["logit"].numpy()


def assert_follows(model, rows: int = 5) -> None:
    obs = observations(rows)
    before = obs.copy()
    np.testing.assert_allclose(model.array_forward(obs)["logit"], by_torch(model, obs), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(obs, before)


@pytest.mark.parametrize("dueling", [True, False])
@pytest.mark.parametrize("activation", [nn.ReLU(), nn.Tanh(), nn.Sigmoid()])
@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("rows", [0, 1, 7, 300])
def test_values_are_those_of_the_modules(dueling, activation, layers, rows) -> None:
    model = DQN(4, 3, [32, 32], dueling=dueling, activation=activation, head_layer_num=layers)
    assert_follows(model, rows)


def test_many_rows_are_bit_for_bit_those_of_torch() -> None:
    model = DQN(4, 3)
    obs = observations(MAX_MACS // (128 * 128) + 1)
    np.testing.assert_array_equal(model.array_forward(obs)["logit"], by_torch(model, obs))


def test_read_only_observations() -> None:
    model = DQN(4, 3)
    for rows in (2, 400):
        obs = observations(rows)
        obs.flags.writeable = False
        np.testing.assert_allclose(model.array_forward(obs)["logit"], by_torch(model, obs.copy()), atol=1e-6)


def test_saturated_sigmoid_gives_no_warning() -> None:
    model = DQN(4, 2, [8], activation=nn.Sigmoid())
    obs = np.full((3, 4), 1e4, dtype=np.float32)
    np.testing.assert_allclose(model.array_forward(-obs)["logit"], by_torch(model, -obs), atol=1e-6)


def change_by_optimizer(model: DQN) -> None:
    optimizer = Adam(model.parameters(), lr=0.1)
    model(torch.from_numpy(observations(9)))["logit"].square().sum().backward()
    optimizer.step()


def change_by_state_dict(model: DQN) -> None:
    model.load_state_dict(DQN(4, 2, [16, 16]).state_dict())


def change_by_assigned_state(model: DQN) -> None:
    model.load_state_dict(DQN(4, 2, [16, 16]).state_dict(), assign=True)


def change_a_parameter(model: DQN) -> None:
    model.encoder.init.weight = nn.Parameter(torch.randn(16, 4))


def change_memory(model: DQN) -> None:
    model.encoder.init.weight.data = torch.randn(16, 4)


def change_a_layer(model: DQN) -> None:
    model.encoder.main[0] = nn.Linear(16, 16, bias=False)


def change_the_head(model: DQN) -> None:
    model.head = DQN(4, 2, [16, 16], dueling=False).head


def change_length(model: DQN) -> None:
    model.head.A[1].append(nn.Tanh())


def change_precision_and_back(model: DQN) -> None:
    model.double()
    assert model.array_forward(observations(2)) is None
    model.float()
    model._plan_slot = type(model._plan_slot)()


def share(model: DQN) -> None:
    model.share_memory()


@pytest.mark.parametrize(
    "change",
    [
        change_by_optimizer,
        change_by_state_dict,
        change_by_assigned_state,
        change_a_parameter,
        change_memory,
        change_a_layer,
        change_the_head,
        change_length,
        change_precision_and_back,
        share,
    ],
)
def test_every_change_of_the_model_is_seen(change) -> None:
    model = DQN(4, 2, [16, 16])
    assert_follows(model)
    change(model)
    assert_follows(model)
    with torch.no_grad():
        model.head.get_parameter("A.1.0.bias" if hasattr(model.head, "A") else "Q.1.0.bias").fill_(7.0)
    assert_follows(model)


def test_copies_have_plans_of_their_own() -> None:
    model = DQN(4, 2, [16, 16])
    assert_follows(model)
    twin = copy.deepcopy(model)
    shallow = copy.copy(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    change_by_optimizer(model)
    for other in (model, twin, shallow, loaded):
        assert_follows(other)
    obs = observations(4)
    assert not np.allclose(model.array_forward(obs)["logit"], twin.array_forward(obs)["logit"])
    assert "plan" not in "".join(model.state_dict())


def test_a_plan_does_not_keep_its_model_alive() -> None:
    model = DQN(4, 2, [16, 16])
    assert_follows(model)
    alive = weakref.ref(model)
    gc.disable()
    try:
        del model
        assert alive() is None
    finally:
        gc.enable()


class Doubled(DQN):
    def forward(self, x):
        return {"logit": 2 * super().forward(x)["logit"]}


class Encoded(DQN):
    def encode(self, observation):
        return super().encode(observation) + 1


@pytest.mark.parametrize(
    "model",
    [
        DQN(4, 2, norm_type="LN"),
        DQN(4, 2, dropout=0.5),
        DQN(4, 2, noise=True),
        DQN(4, [2, 3]),
        DQN(4, 2, activation=nn.GELU()),
        Doubled(4, 2),
        Encoded(4, 2),
    ],
)
def test_other_models_have_no_array_form(model) -> None:
    for _ in range(3):
        assert model.array_forward(observations(2)) is None


@pytest.mark.parametrize("obs", [observations(2, 5), observations(2)[0], observations(2).astype(np.float64)])
def test_other_observations_have_no_array_form(obs) -> None:
    assert DQN(4, 2).array_forward(obs) is None


@pytest.mark.parametrize("pick", [lambda m: m, lambda m: m.encoder, lambda m: m.encoder.main[0], lambda m: m.head.V])
def test_hooks_are_never_passed_by(pick) -> None:
    model = DQN(4, 2)
    for known in (False, True):
        if known:
            assert_follows(model)
        handle = pick(model).register_forward_hook(lambda *args: None)
        assert model.array_forward(observations(2)) is None
        handle.remove()
        model._plan_slot = type(model._plan_slot)()
    handle = nn.modules.module.register_module_forward_hook(lambda *args: None)
    assert model.array_forward(observations(2)) is None
    handle.remove()
    assert_follows(model)


def test_a_forward_of_an_instance_is_never_passed_by() -> None:
    for part in ("encoder", "head"):
        model = DQN(4, 2)
        assert_follows(model)
        getattr(model, part).forward = lambda x: x
        assert model.array_forward(observations(2)) is None
    model = DQN(4, 2)
    assert_follows(model)
    model.forward = lambda x: {"logit": x}
    assert model.array_forward(observations(2)) is None


def test_a_model_is_looked_at_again_some_time_after_its_hooks_have_gone() -> None:
    model = DQN(4, 2)
    handle = model.head.register_forward_hook(lambda *args: None)
    assert model.array_forward(observations(2)) is None
    handle.remove()
    answers = [model.array_forward(observations(2)) is None for _ in range(1100)]
    assert answers[0]
    assert not answers[-1]


# wrappers


@pytest.mark.parametrize("eps", [0.0, 0.3, 1.0, 1.5, -0.5, 1e-300, 0])
def test_both_forms_of_eps_greedy_choose_the_same(eps) -> None:
    wrapped = model_wrap(DQN(4, 5), wrapper_name="eps_greedy_sample")
    for seed in range(20):
        obs = observations(16) + seed
        torch.manual_seed(seed)
        arrays = wrapped.array_forward(obs, eps=eps)
        after = torch.rand(3)
        torch.manual_seed(seed)
        tensors = wrapped.forward(torch.from_numpy(obs), eps=eps)
        assert torch.equal(after, torch.rand(3))
        np.testing.assert_array_equal(arrays["action"], tensors["action"].numpy())
        assert arrays["action"].dtype == np.int64


@pytest.mark.parametrize("form", ["array", "tensor"])
@pytest.mark.parametrize("eps", [0.4, 1.0])
def test_eps_greedy_explores_uniformly_and_as_often_as_asked(form, eps) -> None:
    actions, rows = 5, 40000
    model = DQN(4, actions, [8])
    with torch.no_grad():
        model.head.A[1][0].bias[2] += 1000
    wrapped = model_wrap(model, wrapper_name="eps_greedy_sample")
    torch.manual_seed(3)
    obs = observations(rows)
    if form == "array":
        action = wrapped.array_forward(obs, eps=eps)["action"]
    else:
        action = wrapped.forward(torch.from_numpy(obs), eps=eps)["action"].numpy()
    counts = np.bincount(action, minlength=actions)
    expected = np.full(actions, rows * eps / actions)
    expected[2] += rows * (1 - eps)
    # 23.5 is the 0.9999 quantile of chi-square with 4 degrees of freedom.
    assert ((counts - expected) ** 2 / expected).sum() < 23.5


def test_a_draw_just_below_eps_stays_in_range(monkeypatch) -> None:
    eps = 0.1
    draw = torch.full((4,), np.nextafter(eps, 0), dtype=torch.float64)
    wrapped = model_wrap(DQN(4, 3), wrapper_name="eps_greedy_sample")
    monkeypatch.setattr(torch, "rand", lambda *args, **kwargs: draw.clone())
    monkeypatch.setattr(torch.Tensor, "uniform_", lambda self: self.copy_(draw))
    obs = observations(4)
    assert wrapped.array_forward(obs, eps=eps)["action"].tolist() == [2] * 4
    assert wrapped.forward(torch.from_numpy(obs), eps=eps)["action"].tolist() == [2] * 4


def test_argmax_and_base() -> None:
    model = DQN(4, 5)
    obs = observations(6)
    greedy = model_wrap(model, wrapper_name="argmax_sample").array_forward(obs)
    np.testing.assert_array_equal(greedy["action"], by_torch(model, obs).argmax(1))
    assert set(model_wrap(model, wrapper_name="base").array_forward(obs)) == {"logit"}


class Louder(IModelWrapper):
    def forward(self, *args, **kwargs):
        output = self._model.forward(*args, **kwargs)
        return {**output, "logit": output["logit"] * 2}


def test_no_wrapper_is_passed_by() -> None:
    model, obs = DQN(4, 2), observations(2)
    assert Louder(model_wrap(model, wrapper_name="base")).array_forward(obs) is None
    inner = Louder(model_wrap(model, wrapper_name="base"))
    assert model_wrap(inner, wrapper_name="argmax_sample").array_forward(obs) is None
    own = type("Own", (type(model_wrap(model, wrapper_name="argmax_sample")),), {})(inner._model)
    assert own.array_forward(obs) is None
    eps_greedy = model_wrap(model, wrapper_name="eps_greedy_sample")
    assert eps_greedy.array_forward(obs) is None
    assert eps_greedy.array_forward(obs, eps={0: 0.1, 1: 0.2}) is None
    assert eps_greedy.array_forward(obs, eps=0.1, unknown=1) is None
    reference = model_wrap(model, wrapper_name="eps_greedy_sample", reference_numerics=True)
    state = torch.get_rng_state()
    assert reference.array_forward(obs, eps=0.1) is None
    assert torch.equal(state, torch.get_rng_state())
