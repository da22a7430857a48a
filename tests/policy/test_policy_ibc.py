"""Implicit behaviour cloning: networks, the numbers of the first learn steps, the search for actions of low energy."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import EnvBatch, TransitionBatch
from ding.model import DFO, EBM, MCMC, AutoRegressiveDFO, AutoregressiveEBM, create_stochastic_optimizer
from ding.model.template.ebm import no_ebm_grad
from ding.policy import IBCCommandModePolicy, IBCPolicy
from ding.utils import deep_merge_dicts
from ding.utils.data.dataset import DatasetStatistics


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def filled(model: Any) -> Any:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))
    return model


def make(kind: str, cls: type = IBCPolicy, learn: Mapping[str, Any] = MappingProxyType({}), **search: Any) -> Any:
    torch.manual_seed(0)
    search = {"type": kind, **search}
    model = {
        "obs_shape": 4, "action_shape": 2, "hidden_size": 16, "hidden_layer_num": 2, "stochastic_optim": search,
    }  # fmt: skip
    return cls(deep_merge_dicts(cls.default_config(), {"model": model, "learn": {**learn}}))  # type: ignore[attr-defined]


def samples() -> list[dict[str, Any]]:
    return [{"obs": wave((4,), 0.3 * i), "action": 0.9 * wave((2,), 0.4 * i)} for i in range(4)]


def test_networks():
    obs, action = wave((2, 3, 4), 0.1), wave((2, 3, 2), 0.3)
    whole, parts = filled(EBM(4, 2, 16, 2)), filled(AutoregressiveEBM(4, 2, 16, 2))
    assert [sum(p.numel() for p in model.parameters()) for model in (whole, parts)] == [673, 1330]
    assert {"net.0.weight", "net.2.main.2.bias", "net.2.last.weight"} <= set(whole.state_dict())
    assert {f"ebm_list.{i}.net.2.last.bias" for i in range(2)} <= set(parts.state_dict())
    energies = whole(obs, action)
    expected = [[-0.0310818, -0.0527322, -0.0474721], [-0.0527652, -0.0540073, -0.0335014]]
    assert torch.allclose(energies, torch.tensor(expected), rtol=1e-5)
    assert parts(obs, action).flatten()[:4].tolist() == pytest.approx(
        [-0.0356334, -0.0310818, -0.0564116, -0.0527322], rel=1e-5
    )


@pytest.mark.parametrize("as_columns", [False, True])
@pytest.mark.parametrize(
    ("kind", "search", "losses", "total", "rel"),
    [
        ("dfo", {}, [2.2042, 2.20481, 2.20381], 34.0596, 1e-5),
        ("ardfo", {}, [2.20224, 2.20248, 2.20192], 67.3197, 1e-5),
        ("mcmc", {"iters": 3}, [2.20418, 2.20327, 2.20356], 34.0596, 1e-5),
    ],
)
def test_first_learn_steps(kind, search, losses, total, rel, as_columns):
    policy = make(kind, **search)
    filled(policy.learn_mode.get_attribute("model"))
    torch.manual_seed(0)
    data: Any = TransitionBatch(TransitionBatch.from_rows(samples()).columns) if as_columns else samples()
    for expected in losses:
        result = policy.learn_mode.forward(data)
        assert result["ebm_loss"] == pytest.approx(expected, rel=rel)
        assert result["total_loss"] == pytest.approx(expected, rel=rel)
        assert set(result) == set(policy.learn_mode.monitor_vars())
    parameters = policy.learn_mode.get_attribute("model").parameters()
    assert sum(float(p.detach().abs().sum()) for p in parameters) == pytest.approx(total, rel=1e-5)


def test_a_search_of_ones_own_leaves_the_parameters_of_the_network_alone():
    @no_ebm_grad()
    def slope(obs, action, ebm):
        action = action.requires_grad_()
        assert not any(parameter.requires_grad for parameter in ebm.parameters())
        return torch.autograd.grad(ebm(obs, action).sum(), action)[0]

    ebm = EBM(4, 2, 8, 1)
    assert slope(torch.ones(1, 3, 4), torch.ones(1, 3, 2), ebm).shape == (1, 3, 2)
    assert all(parameter.requires_grad for parameter in ebm.parameters())
    with pytest.raises(TypeError, match="slope takes the network of energies as its last positional argument"):
        slope(torch.ones(1, 3, 4), torch.ones(1, 3, 2), ebm=ebm)


class Bowl(torch.nn.Module):
    """An energy that is least at the first features of the observation."""

    def __init__(self, per_dim: bool = False, steepness: float = 20.0) -> None:
        super().__init__()
        self._per_dim, self._steepness = per_dim, steepness

    def forward(self, obs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        energies = self._steepness * (action - obs[..., : action.shape[-1]]).square()
        return energies if self._per_dim else energies.sum(-1)


@pytest.mark.parametrize(
    ("kind", "bowl"),
    [("dfo", Bowl()), ("ardfo", Bowl(per_dim=True)), ("mcmc", Bowl())],
)
def test_the_search_finds_actions_of_low_energy_within_the_bounds(kind, bowl):
    torch.manual_seed(0)
    search = create_stochastic_optimizer("cpu", {"type": kind, "inference_samples": 256})
    assert isinstance(search, {"dfo": DFO, "ardfo": AutoRegressiveDFO, "mcmc": MCMC}[kind])
    search.set_action_bounds(np.array([[-1.0, -0.5], [1.0, 0.5]]))
    obs = torch.tensor([[0.3, -0.2, 9.0], [-0.6, 0.9, 9.0]])
    with torch.no_grad():
        found = search.infer(obs, bowl)
    torch.testing.assert_close(found, torch.tensor([[0.3, -0.2], [-0.6, 0.5]]), atol=0.08, rtol=0)
    repeated, negatives = search.sample(obs, bowl)
    assert (repeated.shape, negatives.shape) == ((2, 8, 3), (2, 8, 2))
    assert bool((negatives[..., 1].abs() <= 0.5).all())


def test_steep_energies_are_punished():
    # At (1, 0) the gradient of 20 (x - 0)^2 is (40, 0): 39 beyond the margin.
    obs, action = torch.zeros(1, 1, 2), torch.tensor([[[1.0, 0.0]]])
    penalty = MCMC(grad_loss_weight=0.5).grad_penalty(obs, action, Bowl())
    assert penalty.item() == pytest.approx(0.5 * 39**2)
    assert MCMC(add_grad_penalty=False).grad_penalty(obs, action, Bowl()).item() == 0
    with pytest.raises(ValueError, match="grad_norm_type"):
        MCMC(grad_norm_type="3")
    with pytest.raises(KeyError, match="dfo"):
        create_stochastic_optimizer("cpu", {"type": "dfoo"})


def test_it_acts_in_the_bounds_of_its_data_set_and_does_not_collect():
    policy = make("dfo", IBCCommandModePolicy, inference_samples=32)
    bounds = np.array([[0.1, 0.2], [0.3, 0.3]], dtype=np.float32)
    policy.set_statistic(DatasetStatistics(np.zeros(4), np.ones(4), bounds))
    action = policy.eval_mode.forward({3: wave((4,), 0.1)})[3]["action"].numpy()
    assert ((bounds[0] <= action) & (action <= bounds[1])).all()
    with pytest.raises(NotImplementedError, match="serial_pipeline_offline"):
        policy.collect_mode.forward(EnvBatch(np.arange(1), wave((1, 4), 0.0).numpy()))


def test_new_action_bounds_hold_for_the_next_update_also_where_updates_are_recorded(caplog):
    results = []
    for setting in (False, "record"):
        policy = make("dfo", learn={"compile": setting})
        torch.manual_seed(0)
        policy.learn_mode.forward(samples())
        policy.load_data_statistics({"action_bounds": [[-9.0, -9.0], [9.0, 9.0]]})
        results.append(policy.learn_mode.forward(samples()))
    assert results[0] == pytest.approx(results[1])
    assert "the action bounds" in caplog.text


def test_action_bounds_of_the_data_set_are_in_the_checkpoint():
    bounds = np.array([[-3.0, -4.0], [5.0, 6.0]])
    policy, again = make("dfo"), make("dfo")
    assert "data_statistics" not in policy.learn_mode.state_dict()
    policy.set_statistic(DatasetStatistics(np.zeros(4), np.ones(4), bounds))
    again.eval_mode.load_state_dict(policy.learn_mode.state_dict())
    assert again.data_statistics()["action_bounds"].tolist() == bounds.tolist()
