"""The networks of cooperating agents: parameter layout and values of the reference, forms of states, masks."""

import math
from typing import Any

import pytest
import torch

from ding.model.template.atoc import ATOC
from ding.model.template.collaq import CollaQ
from ding.model.template.coma import COMA
from ding.model.template.havac import HAVAC
from ding.model.template.madqn import MADQN
from ding.model.template.qmix import QMix
from ding.model.template.qtran import QTran
from ding.model.template.wqmix import WQMix

MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def filled(model: torch.nn.Module) -> torch.nn.Module:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))
    return model.eval()


def inputs(**more: torch.Tensor) -> dict[str, Any]:
    obs = {
        "agent_state": wave((2, 2, 4), 0.1),
        "global_state": wave((2, 6), 0.2),
        "action_mask": torch.stack([MASK, MASK]),
    }
    return {"obs": {**obs, **more}, "prev_state": None}


def first(values: torch.Tensor, count: int) -> list[float]:
    return values.flatten()[:count].tolist()


LOGIT = [-0.116226, 0.00789007, -9999999, -0.115454, 0.00751709, 0.130488, -0.115918, 0.00774104, -9999999]


@pytest.mark.parametrize(
    ("model", "keys", "parameters"),
    [
        (QMix(2, 4, 6, 3, [16, 16]), 26, 6564),
        (WQMix(2, 4, 6, 3, [16, 8]), 50, 140265),
        (QTran(2, 4, 6, 3, [16, 8], 5), 28, 1208),
        (CollaQ(2, 4, 3, 6, 3, [16, 8]), 38, 4055),
        (
            CollaQ(3, 10, 3, 6, 3, [16, 8], attention=True, self_feature_range=[2, 4], ally_feature_range=[4, 8],
                   attention_size=8),
            54,
            5095,
        ),
        (MADQN(2, 4, 3, [16, 16], global_obs_shape=6), 24, 4646),
        (COMA(2, {"agent_state": 9, "global_state": 6}, 3, [16, 8]), 25, 1447),
        (COMA(2, {"agent_state": [9], "global_state": [6]}, [3], [16, 8]), 25, 1447),
    ],
    ids=["qmix", "wqmix", "qtran", "collaq", "collaq-attention", "madqn", "coma", "coma-lists"],
)  # fmt: skip
def test_parameters_are_those_of_the_reference(model: torch.nn.Module, keys: int, parameters: int) -> None:
    assert len(model.state_dict()) == keys
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.parametrize(("q_star", "total_q"), [(False, [0.141056, -0.0300174]), (True, [65.9088, 17.8856])])
def test_wqmix_values(q_star: bool, total_q: list[float]) -> None:
    output = filled(WQMix(2, 4, 6, 3, [16, 8]))(inputs(), q_star=q_star)
    assert output["total_q"].tolist() == pytest.approx(total_q, rel=1e-5)
    assert first(output["logit"], 9) == pytest.approx(LOGIT, rel=1e-5)
    h = output["next_state"][0][0]["h"]
    assert h.shape == (1, 1, 8)
    assert first(h, 4) == pytest.approx([0.0413868, 0.049944, 0.0583234, 0.0665185], rel=1e-5)


def test_qtran_values() -> None:
    output = filled(QTran(2, 4, 6, 3, [16, 8], 5))(inputs())
    assert output["total_q"].tolist() == pytest.approx([-0.0823922, -0.0845254], rel=1e-5)
    assert output["vs"].tolist() == pytest.approx([-0.0824898, -0.0841008], rel=1e-5)
    taken = [0.00789007, 0.130488, 0.00774104, 0.130431]
    assert first(output["agent_q_act"], 4) == pytest.approx(taken, rel=1e-5)
    assert first(output["logit"], 9) == pytest.approx(LOGIT, rel=1e-5)


def test_collaq_values() -> None:
    more = {
        "agent_alone_state": wave((2, 2, 3), 0.4),
        "agent_alone_padding_state": wave((2, 2, 4), 0.5),
    }
    output = filled(CollaQ(2, 4, 3, 6, 3, [16, 8]))(inputs(**more))
    assert output["total_q"].tolist() == pytest.approx([0.140868, -0.0298626], rel=1e-5)
    logit = [-0.116087, 0.0078227, -9999999, -0.115372, 0.00747752, 0.130327, -0.115284, 0.00743503, -9999999]
    assert first(output["logit"], 9) == pytest.approx(logit, rel=1e-5)
    padded = [-0.116271, 0.00791173, 0, -0.115575, 0.00757541, 0.130726, -0.11613, 0.00784339, 0]
    assert first(output["agent_colla_alone_q"], 9) == pytest.approx(padded, rel=1e-5)
    # Alone, all, padded; two agents each.
    alone = output["next_state"][0][0]
    assert [len(part) for part in output["next_state"][0]] == [2, 2, 2]
    assert first(alone[0]["h"], 3) == pytest.approx([0.0406253, 0.0490422, 0.0572881], rel=1e-5)
    assert first(alone[1]["h"], 3) == pytest.approx([0.0355236, 0.0429922, 0.0503321], rel=1e-5)


def test_collaq_attention_values() -> None:
    model = filled(
        CollaQ(3, 10, 3, 6, 3, [16, 8], attention=True, self_feature_range=[2, 4], ally_feature_range=[4, 8],
               attention_size=8)
    )  # fmt: skip
    obs = {
        "agent_state": wave((2, 3, 10), 0.1),
        "agent_alone_state": wave((2, 3, 3), 0.4),
        "agent_alone_padding_state": wave((2, 3, 10), 0.5),
        "global_state": wave((2, 6), 0.2),
    }
    output = model({"obs": obs, "prev_state": None})
    assert output["total_q"].tolist() == pytest.approx([0.327907, -0.0024663], rel=1e-5)
    logit = [-0.115803, 0.00768552, 0.131174, -0.115306, 0.00744533, 0.130196]
    assert first(output["logit"], 6) == pytest.approx(logit, rel=1e-5)
    padded = [-0.115963, 0.00776279, 0.131489, -0.116366, 0.0079575, 0.132281]
    assert first(output["agent_colla_alone_q"], 6) == pytest.approx(padded, rel=1e-5)


def test_coma_values() -> None:
    model = filled(COMA(2, {"agent_state": 9, "global_state": 6}, 3, [16, 8]))
    obs = {
        "agent_state": wave((3, 2, 2, 9), 0.1),
        "global_state": wave((3, 2, 6), 0.2),
        "action_mask": torch.ones(3, 2, 2, 3),
    }
    logit = model({"obs": obs, "prev_state": None}, mode="compute_actor")["logit"]
    actor = [-0.198212, -0.0744335, 0.0493447, -0.198212, -0.0744338, 0.0493441, -0.198212, -0.0744341]
    assert first(logit, 8) == pytest.approx(actor, rel=1e-5)
    action = (torch.arange(12) % 3).reshape(3, 2, 2)
    q_value = model({"obs": obs, "action": action}, mode="compute_critic")["q_value"]
    critic = [-0.116152, 0.00774763, 0.131647, -0.116097, 0.00772188, 0.131541, -0.111472, 0.00558179, 0.122635]
    assert first(q_value, 9) == pytest.approx(critic, rel=1e-5)


@pytest.mark.parametrize("form", ["rows", "lists", "batch", "some"])
def test_states_are_taken_in_every_form(form: str) -> None:
    model = QMix(2, 4, 6, 3, [8, 8])
    data = inputs()
    rows = model(data)["next_state"]
    state: Any = rows
    if form == "lists":
        state = [[dict(agent) for agent in row] for row in rows]
    elif form == "batch":
        state = {key: torch.stack([torch.stack([agent[key] for agent in row]) for row in rows]) for key in ("h", "c")}
    elif form == "some":
        state = [rows[0], None]
    logit = model({**data, "prev_state": state})["logit"]
    expected = model({**data, "prev_state": rows})["logit"]
    if form == "some":
        expected = torch.stack([expected[0], model(data)["logit"][1]])
    assert torch.allclose(logit, expected)


def test_a_sequence_gives_what_its_steps_give() -> None:
    model = QMix(2, 4, 6, 3, [8, 8])
    steps = 3
    obs = {"agent_state": wave((steps, 2, 2, 4), 0.3), "global_state": wave((steps, 2, 6), 0.1)}
    action = torch.randint(3, (steps, 2, 2))
    whole = model({"obs": obs, "prev_state": None, "action": action}, single_step=False)
    state: Any = [None, None]
    for step in range(steps):
        one = {key: value[step] for key, value in obs.items()}
        output = model({"obs": one, "prev_state": state, "action": action[step]})
        state = output["next_state"]
        assert torch.allclose(output["total_q"], whole["total_q"][step])
        assert torch.allclose(output["logit"], whole["logit"][step])
    assert torch.allclose(state[1][0]["h"], whole["next_state"][1][0]["h"])


def test_the_joint_value_grows_with_the_value_of_each_agent() -> None:
    from ding.model.template.qmix import Mixer

    mixer = Mixer(3, 6, 16)
    q = wave((5, 3), 0.4).requires_grad_()
    mixer(q, wave((5, 6), 0.1)).sum().backward()
    assert q.grad is not None
    assert (q.grad >= 0).all()


def test_the_cooperating_network_sees_the_global_state_and_leaves_the_input_alone() -> None:
    model = MADQN(2, 4, 3, [8, 8], global_obs_shape=6)
    data = inputs(global_state=wave((2, 2, 6), 0.2))
    before = data["obs"]["agent_state"].clone()
    together = model(data, cooperation=True)["logit"]
    changed = {**data, "obs": {**data["obs"], "agent_state": before + 1}}
    assert torch.equal(model(changed, cooperation=True)["logit"], together)
    assert not torch.equal(model(changed)["logit"], model(data)["logit"])
    assert torch.equal(data["obs"]["agent_state"], before)
    with pytest.raises(ValueError, match="global_obs_shape"):
        MADQN(2, 4, 3, [8, 8])


def test_havac_values() -> None:
    obs = {"agent_state": wave((2, 4), 0.1), "global_state": wave((2, 6), 0.2), "action_mask": MASK}
    output = filled(HAVAC(4, 6, 3, 2))(1, {"obs": obs}, mode="compute_actor_critic")
    assert first(output["logit"], 6) == pytest.approx(
        [-8.4812, 4.15755, -99999999, -3.21058, 1.5432, 6.29697], rel=1e-5
    )
    assert output["value"].tolist() == pytest.approx([6.97036, 2.09726], rel=1e-5)


def test_recurrent_havac_values() -> None:
    obs = {"agent_state": wave((3, 2, 4), 0.1), "global_state": wave((3, 2, 6), 0.2)}
    inputs = {"obs": obs, "actor_prev_state": None, "critic_prev_state": None}
    model = filled(HAVAC(4, 6, 3, 2, use_lstm=True))
    output = model(0, inputs, mode="compute_actor_critic")
    assert first(output["logit"], 4) == pytest.approx([-3.95957, 1.91461, 7.78879, -3.59855], rel=1e-5)
    assert first(output["value"], 4) == pytest.approx([3.40841, 2.84939, 4.27192, 4.78167], rel=1e-5)
    h = output["actor_next_state"][0]["h"]
    assert h.shape == (1, 1, 64)
    assert first(h, 3) == pytest.approx([0.530686, 0.54523, 0.559575], rel=1e-5)
    assert first(output["critic_hidden_state"], 3) == pytest.approx([0.871032, 0.867191, 0.86263], rel=1e-5)
    state = {"actor_prev_state": [None, None], "critic_prev_state": [None, None]}
    for t in range(3):
        step = {"obs": {key: value[t] for key, value in obs.items()}, **state}
        one = model(0, step, mode="compute_actor_critic", inference=True)
        assert torch.allclose(one["logit"], output["logit"][t], atol=1e-5)
        state = {f"{part}_prev_state": one[f"{part}_next_state"] for part in ("actor", "critic")}


def test_all_agents_at_once_give_what_each_gives() -> None:
    model = HAVAC(4, 6, 2, 2, action_space="continuous")
    obs = {"agent_state": wave((3, 2, 4), 0.1), "global_state": wave((3, 6), 0.2)}
    together = model(None, {"obs": obs}, mode="compute_actor_critic")
    for agent in range(2):
        own = {"agent_state": obs["agent_state"][:, agent], "global_state": obs["global_state"]}
        output = model(agent, {"obs": own}, mode="compute_actor_critic")
        assert torch.equal(together["logit"]["mu"][:, agent], output["logit"]["mu"])
        assert torch.equal(together["value"][:, agent], output["value"])


def test_atoc_values() -> None:
    model = filled(ATOC(4, 2, 8, 3))
    assert len(model.state_dict()) == 34
    assert sum(parameter.numel() for parameter in model.parameters()) == 14492
    obs = wave((2, 3, 4), 0.1)
    output = model(obs, mode="compute_actor", get_delta_q=True)
    action = [-0.105231, 0.125918, -0.105195, 0.125756, -0.105218, 0.125859, -0.105193, 0.125751, -0.105199]
    assert first(output["action"], 9) == pytest.approx(action, rel=1e-5)
    assert first(output["group"].int(), 9) == [1, 0, 1, 0, 1, 1, 1, 0, 1]
    chance = [0.565651, 0.558372, 0.563151, 0.55821, 0.55919, 0.562305]
    assert first(output["initiator_prob"], 6) == pytest.approx(chance, rel=1e-5)
    assert output["is_initiator"].all()
    new = [0.00417601, 0.0120996, 0.0204994, 0.0293639, 0.00621085, 0.0180996, 0.0308335, 0.0443968, 0.00379192]
    assert first(output["new_thoughts"], 9) == pytest.approx(new, rel=1e-5)
    old = [0, 0, 0, 0, 0.0310743, 0.0799931, 0.128912, 0.177831, 0]
    assert first(output["old_thoughts"], 9) == pytest.approx(old, rel=1e-5)
    gain = [-6.19888e-05, -1.51992e-05, -6.19888e-05, -2.95937e-05, -2.95937e-05, -4.1604e-05]
    assert first(output["delta_q"], 6) == pytest.approx(gain, rel=5e-3)
    taken = wave((2, 3, 2), 0.3)
    q_value = model({"obs": obs, "action": taken}, mode="compute_critic")["q_value"]
    assert first(q_value, 6) == pytest.approx([1.56896, 0.372305, 0.689303, 0.504964, 0.29664, 1.44978], rel=1e-5)


def test_atoc_without_communication() -> None:
    model = ATOC(4, 2, 8, 3, communication=False)
    assert list(model(wave((2, 3, 4), 0.1), mode="compute_actor", get_delta_q=True)) == ["action"]
    with pytest.raises(NotImplementedError, match="communication=False"):
        model({}, mode="optimize_actor_attention")
    with pytest.raises(ValueError, match="thought_size"):
        ATOC(4, 2, 7, 3)
