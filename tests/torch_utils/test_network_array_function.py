"""``as_array_function`` gives the values of the module, through every change of it, and calls the module otherwise."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from ding.data import EnvBatch
from ding.model import DQN, IQN, PPG, VAC, ContinuousQAC, DiscreteQAC, model_wrap
from ding.model.wrapper._base import as_tensor
from ding.model.wrapper.model_wrappers import ArgmaxSampleWrapper, BaseModelWrapper
from ding.policy._acting.act import act
from ding.torch_utils.network import as_array_function
from ding.utils.nested import map_nested

OBS = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
SIZES = {"encoder_hidden_size_list": [16, 8], "actor_head_hidden_size": 8, "critic_head_hidden_size": 8}


def network(**kwargs) -> DQN:
    torch.manual_seed(0)
    return DQN(4, 3, encoder_hidden_size_list=[16, 8], **kwargs).eval()


def array(obs):
    return obs.numpy() if isinstance(obs, torch.Tensor) and obs.dtype is torch.float32 else obs


def run(model: nn.Module, obs=OBS, **kwargs):
    with torch.no_grad():
        as_array_function(model)(array(obs), **kwargs)  # is recorded
        return map_nested(as_tensor, as_array_function(model)(array(obs), **kwargs))


def by_numpy(model: nn.Module, obs=OBS, **kwargs) -> bool:
    """Whether the next call runs by numpy."""
    with torch.no_grad():
        return as_array_function(model).by_numpy(array(obs), **kwargs)


def agrees(model: nn.Module, obs: torch.Tensor = OBS, **kwargs) -> None:
    found = run(model, obs, **kwargs)
    assert by_numpy(model, obs, **kwargs)
    with torch.no_grad():
        expected = model(obs.clone(), **kwargs)
    assert list(found) == list(expected)
    for one, other in zip(leaves(found), leaves(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def leaves(output) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    map_nested(found.append, output)
    return found


@pytest.mark.parametrize("dueling", [True, False])
@pytest.mark.parametrize("activation", [nn.ReLU(), nn.Tanh(), nn.Sigmoid()])
def test_values_are_those_of_the_module(dueling: bool, activation: nn.Module) -> None:
    obs = OBS.clone()
    agrees(network(dueling=dueling, activation=activation), obs)
    assert torch.equal(obs, OBS)


@pytest.mark.parametrize("dueling", [True, False])
def test_layer_norms(dueling: bool) -> None:
    model = network(dueling=dueling, norm_type="LN")
    for parameter in model.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    agrees(model)
    agrees(model, OBS[:1].clone())


@pytest.mark.parametrize("sizes", [[8], [16, 12, 8], [16, 12, 12, 8]])
def test_an_activation_that_stands_behind_several_layers_is_run_behind_each(sizes: list[int]) -> None:
    torch.manual_seed(0)
    agrees(DQN(4, 3, encoder_hidden_size_list=sizes, head_layer_num=3).eval())


@pytest.mark.parametrize("mode", ["compute_actor", "compute_critic", "compute_actor_critic"])
@pytest.mark.parametrize("options", [{}, {"share_encoder": False}, {"action_space": "continuous"}], ids=str)
def test_actor_critics(mode: str, options: dict) -> None:
    torch.manual_seed(0)
    agrees(VAC(4, 3, **SIZES, **options).eval(), mode=mode)


@pytest.mark.parametrize("space", ["regression", "reparameterization"])
def test_continuous_actors(space: str) -> None:
    torch.manual_seed(0)
    agrees(ContinuousQAC(4, 2, space, actor_head_layer_num=2).eval(), mode="compute_actor")


def test_other_models_of_such_layers() -> None:
    torch.manual_seed(0)
    agrees(DiscreteQAC(4, 2).eval(), mode="compute_actor")
    agrees(PPG(4, 3, **SIZES).eval(), mode="compute_actor_critic")
    linear = nn.Linear(4, 3).eval()
    with torch.no_grad():
        torch.testing.assert_close(run(linear), linear(OBS))


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_any_number_of_rows(rows: int) -> None:
    model = network()
    agrees(model)
    agrees(model, torch.randn(rows, 4))


def test_strided_observations() -> None:
    agrees(network(), OBS.repeat_interleave(2, dim=1)[:, ::2])


def test_results_are_the_callers() -> None:
    model = network()
    first = run(model)["logit"]
    kept = first.clone()
    with torch.no_grad():
        as_array_function(model)((OBS + 1).numpy())
        as_array_function(model)((OBS + 1).numpy())
    assert torch.equal(first, kept)


def test_changes_in_place_are_seen() -> None:
    for space in ("discrete", "continuous"):
        torch.manual_seed(0)
        model = VAC(4, 3, action_space=space, **SIZES).eval()
        agrees(model, mode="compute_actor")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1)
        agrees(model, mode="compute_actor")
        torch.manual_seed(1)
        model.load_state_dict(VAC(4, 3, action_space=space, **SIZES).state_dict())
        agrees(model, mode="compute_actor")


def replace_head(model: DQN) -> None:
    model.head = DQN(4, 3, encoder_hidden_size_list=[16, 8]).eval().head


def replace_layer(model: DQN) -> None:
    model.encoder.main[0] = nn.Linear(16, 8).eval()


def replace_parameter(model: DQN) -> None:
    model.encoder.init.weight = nn.Parameter(torch.ones(16, 4))


def replace_memory(model: DQN) -> None:
    model.encoder.init.weight.data = torch.ones(16, 4)


@pytest.mark.parametrize("change", [replace_head, replace_layer, replace_parameter, replace_memory])
def test_replaced_parts_are_seen(change) -> None:
    model = network()
    before = run(model)["logit"]
    change(model)
    agrees(model)
    assert not torch.allclose(before, run(model)["logit"])


def test_a_copy_has_its_own_form() -> None:
    model = network()
    agrees(model)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.encoder.init.bias.add_(1.0)
    agrees(twin)
    agrees(model)


@pytest.mark.parametrize("place", ["model", "encoder", "layer"])
def test_hooks_are_called(place: str) -> None:
    model = network()
    agrees(model)
    module = {"model": model, "encoder": model.encoder, "layer": model.encoder.main[0]}[place]
    calls: list[nn.Module] = []
    handle = module.register_forward_hook(lambda module, *_: calls.append(module))
    run(model)
    assert len(calls) == 2
    handle.remove()
    agrees(model)


def test_training_is_left_to_the_module_without_gradients() -> None:
    model = network(dropout=0.5).train()
    assert not as_array_function(model)(OBS.numpy())["logit"].requires_grad
    model.eval()
    agrees(model)
    model.train()
    run(model)
    assert not by_numpy(model)
    model.eval()
    agrees(model)


@pytest.mark.parametrize(
    "kwargs", [{"norm_type": "BN"}, {"noise": True}, {"activation": nn.GELU()}], ids=["norm", "noise", "gelu"]
)
def test_other_layers_are_left_to_the_module(kwargs) -> None:
    model = network(**kwargs)
    found = run(model)
    assert not by_numpy(model)
    with torch.no_grad():
        assert torch.equal(found["logit"], model(OBS)["logit"])


class Own(DQN):
    factor = 2.0

    def forward(self, x):
        return super().forward(x * self.factor)


def test_an_own_forward_is_called_each_time() -> None:
    model = Own(4, 3, encoder_hidden_size_list=[16, 8]).eval()
    before = run(model)["logit"]
    model.factor = 3.0
    assert not torch.allclose(before, run(model)["logit"])
    replaced = network()
    agrees(replaced)
    replaced.head.forward = lambda x: {"logit": x}
    assert run(replaced)["logit"].shape == (5, 8)
    replaced.forward = lambda x: x
    assert torch.equal(run(replaced), OBS)
    assert torch.equal(run(copy.deepcopy(replaced)), OBS)


def test_other_observations_are_left_to_the_module() -> None:
    model = network()
    agrees(model)
    for obs in (OBS.double(), OBS.long(), {"observation": OBS}, torch.zeros(10_000, 4)):
        module = (
            copy.deepcopy(model).double() if obs is not OBS and getattr(obs, "dtype", None) is torch.float64 else model
        )
        found = run(module, obs)
        assert not by_numpy(module, obs)
        with torch.no_grad():
            assert torch.equal(found["logit"], module(obs)["logit"])
    agrees(model)


def test_a_network_that_draws_draws_as_often_as_the_module() -> None:
    torch.manual_seed(0)
    model = IQN(4, 2, encoder_hidden_size_list=[16, 8]).eval()
    torch.manual_seed(1)
    with torch.no_grad():
        expected = [model(OBS)["logit"] for _ in range(3)]
    torch.manual_seed(1)
    with torch.no_grad():
        found = [as_array_function(model)(OBS.numpy())["logit"] for _ in range(3)]  # of the module
    assert torch.equal(torch.stack(found), torch.stack(expected))


@pytest.mark.parametrize(
    ("name", "model", "kwargs"),
    [
        ("argmax_sample", lambda: network(), {}),
        ("eps_greedy_sample", lambda: network(), {"eps": 0.3}),
        ("multinomial_sample", lambda: VAC(4, 3, **SIZES).eval(), {"mode": "compute_actor_critic"}),
        ("squashed_sample", lambda: ContinuousQAC(4, 2, "reparameterization").eval(), {"mode": "compute_actor"}),
        ("action_noise", lambda: ContinuousQAC(4, 2, "regression").eval(), {"mode": "compute_actor"}),
    ],
)
def test_wrappers_choose_the_same_actions_from_the_same_seed(name, model, kwargs) -> None:
    torch.manual_seed(0)
    wrapped = model_wrap(model(), wrapper_name=name)

    def actions(obs) -> torch.Tensor:
        torch.manual_seed(1)
        np.random.seed(1)
        with torch.no_grad():
            return torch.stack([torch.as_tensor(wrapped.forward(obs, **kwargs)["action"]) for _ in range(20)])

    assert wrapped.acts_on_arrays()
    torch.testing.assert_close(actions(OBS.numpy()), actions(OBS), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"norm_type": "LN"}, {"dueling": True}], ids=str)
def test_larger_layers_give_the_values_of_the_module_exactly(options) -> None:
    torch.manual_seed(0)
    model = DQN(4, 3, encoder_hidden_size_list=[512, 512], **options).eval()
    obs = torch.randn(64, 4)
    calls: list[nn.Module] = []
    forward = nn.Linear.forward
    found = run(model, obs)
    assert not by_numpy(model, obs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Linear, "forward", lambda self, x: calls.append(self) or forward(self, x))
        again = run(model, obs)
        assert not calls
        with torch.no_grad():
            expected = model(obs)
    for one, other, third in zip(leaves(found), leaves(again), leaves(expected), strict=True):
        assert torch.equal(one, other)
        assert torch.equal(one, third)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
        assert torch.equal(run(model, obs)["logit"], model(obs)["logit"])


def test_a_wrapper_of_ones_own_gets_tensors_unless_it_says_otherwise() -> None:
    seen: list[type] = []

    class OwnWrapper(ArgmaxSampleWrapper):
        def forward(self, obs):
            seen.append(type(obs))
            return super().forward(obs)

    class Willing(OwnWrapper):
        takes_arrays = True

    data = EnvBatch(np.arange(5), OBS.numpy())
    for cls in (OwnWrapper, Willing):
        model = network()
        found = act(model, cls(BaseModelWrapper(model)), data, "cpu").columns
        with torch.no_grad():
            assert torch.equal(found["action"][:, 0], model(OBS)["logit"].argmax(-1))
    assert seen == [torch.Tensor, np.ndarray]
