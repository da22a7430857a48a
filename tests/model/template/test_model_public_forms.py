"""Forms of attributes, inputs and outputs of networks that scripts written for DI-engine rely on."""

from typing import Any

import pytest
import torch
from easydict import EasyDict

from ding.model import QACDIST, VAC, ContinuousQAC, create_model
from ding.model.template.bc import ContinuousBC
from ding.model.template.coma import COMA
from ding.model.template.decision_transformer import DecisionTransformer
from ding.model.template.mavac import MAVAC
from ding.model.template.vae import VanillaVAE
from ding.model.wrapper.model_wrappers import model_wrap
from ding.world_model import InverseDynamicsModel


@pytest.mark.parametrize(
    ("model", "counts"),
    [
        (DecisionTransformer(4, 2, 1, 8, 3, 1, 0.1, continuous=True), (12, 21)),
        (DecisionTransformer(4, 2, 1, 8, 3, 1, 0.1), (11, 21)),
        (DecisionTransformer(4, 2, 1, 8, 3, 1, 0.1, state_encoder=torch.nn.Linear(4, 8)), (9, 18)),
    ],
    ids=["continuous", "discrete", "encoded"],
)
def test_a_decision_transformer_makes_its_optimizer(model: DecisionTransformer, counts: tuple[int, int]) -> None:
    optimizer = model.configure_optimizers(0.1, 1e-3, betas=(0.8, 0.9))
    assert type(optimizer) is torch.optim.AdamW
    assert tuple(len(group["params"]) for group in optimizer.param_groups) == counts
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0]
    assert optimizer.defaults["betas"] == (0.8, 0.9)
    assert sum(counts) == len(list(model.parameters()))


@pytest.mark.parametrize(("given", "shown"), [(3, 3), ((3,), 3), ([3], 3), ([2, 3], (2, 3))])
def test_actor_critics_show_their_actions(given: Any, shown: Any) -> None:
    for model in (VAC(4, given), MAVAC(4, 6, given, 2)):
        assert model.action_shape == shown
        assert model.action_space == "discrete"
    assert VAC(4, given).multi_head is isinstance(shown, tuple)


@pytest.mark.parametrize("shape", [1, (1,)])
def test_one_continuous_action_has_no_axis(shape: Any) -> None:
    obs = torch.zeros(5, 4)
    for network in (ContinuousQAC(4, shape, "regression"), QACDIST(4, shape)):
        action = network(obs, mode="compute_actor")["action"]
        assert action.shape == (5,)
        values = network({"obs": obs, "action": action}, mode="compute_critic")["q_value"]
        assert len(values) == 5
    assert ContinuousBC(4, shape, "regression")(obs)["action"].shape == (5,)
    assert ContinuousBC(4, 2, "regression")(obs)["action"].shape == (5, 2)
    assert ContinuousBC(4, shape, "reparameterization")(obs)["logit"][0].shape == (5, 1)


def test_a_hybrid_actor_shows_its_sizes() -> None:
    given = EasyDict(action_type_shape=(3,), action_args_shape=[1])
    model = ContinuousQAC(4, given, "hybrid")
    assert (model.action_shape.action_type_shape, model.action_shape.action_args_shape) == (3, 1)
    assert given.action_type_shape == (3,)  # the caller's config stays as it is
    assert model(torch.zeros(5, 4), mode="compute_actor")["action_args"].shape == (5, 1)


def test_an_autoencoder_returns_its_input() -> None:
    data = {"action": torch.zeros(5, 2), "obs": torch.zeros(5, 4)}
    assert VanillaVAE(2, 4, 3)(data)["input"] is data


def _joint(kind: str, **options: Any) -> torch.nn.Module:
    sizes = {"agent_num": 3, "obs_shape": 4, "global_obs_shape": 6, "action_shape": 2, "hidden_size_list": [8, 8]}
    return create_model({"type": kind, "import_names": [f"ding.model.template.{kind}"], **sizes, **options})


@pytest.mark.parametrize("kind", ["qmix", "wqmix", "qtran", "madqn", "collaq", "coma"])
def test_states_of_agents_are_lists(kind: str) -> None:
    obs = {
        "agent_state": torch.randn(2, 3, 4), "global_state": torch.randn(2, 6), "agent_alone_state":
        torch.randn(2, 3, 5), "agent_alone_padding_state": torch.randn(2, 3, 4),
    }  # fmt: skip
    extra = {"qtran": {"embedding_size": 4}, "collaq": {"alone_obs_shape": 5}, "madqn": {"global_cooperation": False}}
    arguments: dict[str, Any] = {}
    if kind == "coma":
        # Its inputs end with the last action and the number of the agent.
        obs["agent_state"], arguments = torch.randn(2, 3, 9), {"mode": "compute_actor"}
        model: torch.nn.Module = COMA(3, {"agent_state": 9, "global_state": 6}, 2, [8, 8])
    else:
        model = _joint(kind, **extra.get(kind, {}))
    states = model({"obs": obs, "prev_state": None}, **arguments)["next_state"]
    assert isinstance(states, list)
    assert len(states) == 2
    rows = [part for row in states for part in row] if kind == "collaq" else states
    assert len(rows) == (6 if kind == "collaq" else 2)
    for row in rows:
        assert isinstance(row, list)
        assert [state["h"].shape for state in row] == [(1, 1, 8)] * 3
    plain = [[[dict(state) for state in part] for part in row] for row in states] if kind == "collaq" else [
        [dict(state) for state in row] for row in states
    ]  # fmt: skip
    first, second = (
        model({"obs": obs, "prev_state": state}, **arguments)["logit"] for state in (states, [plain[0], states[1]])
    )
    torch.testing.assert_close(first, second)


def test_kept_states_of_agents_stay_lists() -> None:
    model = model_wrap(_joint("qmix"), wrapper_name="hidden_state", state_num=3, save_prev_state=True)
    obs = {"agent_state": torch.randn(3, 3, 4), "global_state": torch.randn(3, 6)}
    model.forward({"obs": obs}, data_id=[0, 1, 2])
    part = {key: value[:2] for key, value in obs.items()}
    before = model.forward({"obs": part}, data_id=[1, 2])["prev_state"]
    assert [len(row) for row in before] == [3, 3]
    assert before[0][2]["h"].abs().sum() > 0
    model.reset(data_id=[1])
    before = model.forward({"obs": part}, data_id=[1, 2])["prev_state"]
    assert before[0][2]["h"].abs().sum() == 0
    assert before[1][2]["h"].abs().sum() > 0


@pytest.mark.parametrize("shape", [6, (6,), [6]])
def test_inverse_dynamics_of_discrete_actions_take_a_shape(shape: Any) -> None:
    assert InverseDynamicsModel(4, shape, action_space="discrete")(torch.zeros(5, 8))["logit"].shape == (5, 6)


def test_inverse_dynamics_predict_the_likeliest_action() -> None:
    output = InverseDynamicsModel(4, 2, action_space="reparameterization").predict_action(torch.zeros(5, 8))
    mean, deviation = output["logit"]
    torch.testing.assert_close(output["action"], mean.tanh())
    assert deviation.shape == (5, 2)


def test_a_mixer_reads_images_of_the_whole() -> None:
    model = _joint("qmix", global_obs_shape=[3, 64, 64], hidden_size_list=[64, 128, 32])
    names = {name for name in model.state_dict() if name.startswith("_global_state_encoder")}
    assert {name.rsplit(".", 1)[0].removeprefix("_global_state_encoder.") for name in names} == {
        "main.0", "main.2", "main.4", "mid"
    }  # fmt: skip
    obs = {"agent_state": torch.randn(2, 3, 4), "global_state": torch.randn(2, 3, 64, 64)}
    assert model({"obs": obs, "prev_state": None})["total_q"].shape == (2,)
