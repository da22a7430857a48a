"""Acting over arrays: the values of the module, through every change of it; no array form where it has none."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from ding.model import DQN, VAC, model_wrap

OBS = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)


def network(**kwargs) -> DQN:
    torch.manual_seed(0)
    return DQN(4, 3, encoder_hidden_size_list=[16, 8], **kwargs)


def by_torch(model: nn.Module, obs: np.ndarray = OBS) -> np.ndarray:
    with torch.no_grad():
        return model(torch.from_numpy(obs.copy()))["logit"].numpy()


def agrees(model: nn.Module, obs: np.ndarray = OBS) -> None:
    np.testing.assert_allclose(model.array_logit(obs), by_torch(model, obs), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dueling", [True, False])
@pytest.mark.parametrize("activation", [nn.ReLU(), nn.Tanh(), nn.Sigmoid()])
def test_values_are_those_of_the_module(dueling: bool, activation: nn.Module) -> None:
    obs = OBS.copy()
    agrees(network(dueling=dueling, activation=activation), obs)
    np.testing.assert_array_equal(obs, OBS)


@pytest.mark.parametrize("sizes", [[8], [16, 12, 8], [16, 12, 12, 8]])
def test_an_activation_that_stands_behind_several_layers_is_run_behind_each(sizes: list[int]) -> None:
    torch.manual_seed(0)
    agrees(DQN(4, 3, encoder_hidden_size_list=sizes, head_layer_num=3))


def test_read_only_and_strided_observations() -> None:
    obs = np.repeat(OBS, 2, axis=1)[:, ::2]
    obs.flags.writeable = False
    agrees(network(), obs)


def test_changes_in_place_are_seen() -> None:
    model = network()
    agrees(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    agrees(model)
    model.load_state_dict(network(dueling=True).state_dict())
    agrees(model)


def replace_head(model: DQN) -> None:
    model.head = DQN(4, 3, encoder_hidden_size_list=[16, 8]).head


def replace_layer(model: DQN) -> None:
    model.encoder.main[0] = nn.Linear(16, 8)


def replace_parameter(model: DQN) -> None:
    model.encoder.init.weight = nn.Parameter(torch.ones(16, 4))


def replace_memory(model: DQN) -> None:
    model.encoder.init.weight.data = torch.ones(16, 4)


@pytest.mark.parametrize("change", [replace_head, replace_layer, replace_parameter, replace_memory])
def test_replaced_parts_are_seen(change) -> None:
    model = network()
    before = model.array_logit(OBS)
    change(model)
    agrees(model)
    assert not np.allclose(before, model.array_logit(OBS))


def test_a_copy_has_its_own_form() -> None:
    model = network()
    agrees(model)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.encoder.init.bias.add_(1.0)
    agrees(twin)
    agrees(model)


@pytest.mark.parametrize("place", ["model", "encoder", "layer"])
def test_a_module_with_hooks_is_run_itself(place: str) -> None:
    model = network()
    agrees(model)
    module = {"model": model, "encoder": model.encoder, "layer": model.encoder.main[0]}[place]
    handle = module.register_forward_hook(lambda *_: None)
    assert model.array_logit(OBS) is None
    handle.remove()


@pytest.mark.parametrize(
    "kwargs",
    [{"norm_type": "LN"}, {"dropout": 0.1}, {"noise": True}, {"activation": nn.GELU()}],
    ids=["norm", "dropout", "noise", "gelu"],
)
def test_other_layers_have_no_array_form(kwargs) -> None:
    assert network(**kwargs).array_logit(OBS) is None


def test_other_models_and_observations_have_none() -> None:
    class Own(DQN):
        def forward(self, x):
            return super().forward(x * 2)

    assert Own(4, 3, encoder_hidden_size_list=[16, 8]).array_logit(OBS) is None
    assert model_wrap(nn.Linear(4, 3), "argmax_sample").array_forward(OBS) is None
    assert network().double().array_logit(OBS) is None
    assert DQN(4, [3, 2], encoder_hidden_size_list=[16, 8]).array_logit(OBS) is None
    for obs in (OBS.astype(np.float64), OBS[:, :3], OBS[0], torch.from_numpy(OBS), {"observation": OBS}):
        assert network().array_logit(obs) is None
    assert network().array_logit(np.zeros((10_000, 4), dtype=np.float32)) is None


@pytest.mark.parametrize("eps", [0.0, 0.3, 1.0])
def test_wrappers_choose_the_same_actions(eps: float) -> None:
    model = network()
    greedy, exploring = model_wrap(model, "argmax_sample"), model_wrap(model, "eps_greedy_sample")
    obs = np.random.default_rng(1).standard_normal((50, 4)).astype(np.float32)
    with torch.no_grad():
        np.testing.assert_array_equal(
            greedy.array_forward(obs)["action"], greedy.forward(torch.from_numpy(obs))["action"]
        )
        np.random.seed(3)
        arrays = exploring.array_forward(obs, eps=eps)
        np.random.seed(3)
        np.testing.assert_array_equal(arrays["action"], exploring.forward(torch.from_numpy(obs), eps=eps)["action"])


def test_wrappers_without_an_array_form_draw_nothing() -> None:
    model = network()
    state = torch.get_rng_state()
    np.random.seed(5)
    wrapped = model_wrap(model, "eps_greedy_sample")
    assert wrapped.array_forward(OBS, eps={0: 0.1}) is None
    assert wrapped.array_forward(OBS.astype(np.float64), eps=0.1) is None
    assert model_wrap(model, "eps_greedy_multinomial_sample").array_forward(OBS, eps=0.1) is None
    assert model_wrap(model, "eps_greedy_sample", reference_numerics=True).array_forward(OBS, eps=0.1) is None
    assert model_wrap(wrapped, "hidden_state", state_num=1).array_forward(OBS, eps=0.1) is None
    assert torch.equal(state, torch.get_rng_state())
    assert np.random.random_sample() == np.random.RandomState(5).random_sample()


@pytest.mark.parametrize(("share_encoder", "critic_width"), [(True, 8), (False, 12)])
def test_actor_critic_over_arrays(share_encoder, critic_width):
    torch.manual_seed(0)
    model = VAC(4, 3, share_encoder=share_encoder, encoder_hidden_size_list=[16, 8], actor_head_hidden_size=8,
                critic_head_hidden_size=critic_width)  # fmt: skip
    arrays = model.array_actor_critic(OBS)
    with torch.no_grad():
        expected = model(torch.from_numpy(OBS), mode="compute_actor_critic")
    np.testing.assert_allclose(arrays["logit"], expected["logit"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(arrays["value"], expected["value"], rtol=1e-4, atol=1e-6)
    wrapped = model_wrap(model, wrapper_name="multinomial_sample")
    torch.manual_seed(1)
    drawn = [wrapped.array_forward(OBS, mode="compute_actor_critic")["action"] for _ in range(20)]
    torch.manual_seed(1)
    by_torch = [wrapped.forward(torch.from_numpy(OBS), mode="compute_actor_critic")["action"] for _ in range(20)]
    assert np.array_equal(np.stack(drawn), torch.stack(by_torch).numpy())


def test_no_array_form_of_other_actor_critics():
    sizes = {"encoder_hidden_size_list": [16, 8], "actor_head_hidden_size": 8, "critic_head_hidden_size": 8}
    assert VAC(4, 3, action_space="continuous", **sizes).array_actor_critic(OBS) is None
    assert VAC(4, 3, **sizes).array_actor_critic(OBS.astype(np.float64)) is None
