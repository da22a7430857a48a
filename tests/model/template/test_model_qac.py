"""Networks of actors with Q functions: names of parameters, shapes, numbers of DI-engine."""

import math

import pytest
import torch

from ding.model import PDQN, QACDIST, ContinuousMAQAC, ContinuousQAC, DiscreteQAC, create_model

HYBRID = {"action_type_shape": 3, "action_args_shape": 2}


def wave(shape, phase):
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


OBS, ARGS = wave((2, 4), 0.1), wave((2, 2), 0.3)


def golden(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))
    return model.eval()


def linear(name, out, width):
    return {f"{name}.weight": (out, width), f"{name}.bias": (out,)}


def shapes(model):
    return {name: tuple(value.shape) for name, value in model.state_dict().items()}


def with_aliases(own, **aliases):
    again = {
        alias + name.removeprefix(prefix): shape
        for alias, prefix in ((key.replace("_", "."), value) for key, value in aliases.items())
        for name, shape in own.items()
        if name.startswith(prefix)
    }
    return {**own, **again}


def test_names_of_a_single_critic():
    own = {
        **linear("actor_head.0", 64, 4),
        **linear("actor_head.2.main.0", 64, 64),
        **linear("actor_head.2.last", 2, 64),
        **linear("critic_head.0", 64, 6),
        **linear("critic_head.2.main.0", 64, 64),
        **linear("critic_head.2.last", 1, 64),
    }
    expected = with_aliases(own, actor_1="actor_head", critic_1="critic_head")
    assert shapes(ContinuousQAC(4, 2, "regression")) == expected


def test_names_of_twin_critics():
    own = {
        **linear("actor_head.0", 64, 4),
        **linear("actor_head.2.main.0", 64, 64),
        **linear("actor_head.2.mu", 2, 64),
        **linear("actor_head.2.log_sigma_layer", 2, 64),
    }
    for twin in range(2):
        own |= linear(f"critic_head.{twin}.0", 64, 6)
        own |= linear(f"critic_head.{twin}.2.main.0", 64, 64)
        own |= linear(f"critic_head.{twin}.2.last", 1, 64)
    expected = with_aliases(own, actor_1="actor_head", critic_1="critic_head")
    assert shapes(ContinuousQAC(4, 2, "reparameterization", twin_critic=True)) == expected


def test_names_of_a_hybrid():
    own = {
        **linear("actor_head.0.0", 64, 4),
        **linear("actor_head.0.2.Q.0.0", 64, 64),
        **linear("actor_head.0.2.Q.1.0", 3, 64),
        **linear("actor_head.1.0", 64, 4),
        **linear("actor_head.1.2.main.0", 64, 64),
        **linear("actor_head.1.2.last", 2, 64),
        **linear("critic_head.0", 64, 9),
        **linear("critic_head.2.main.0", 64, 64),
        **linear("critic_head.2.last", 1, 64),
    }
    assert shapes(ContinuousQAC(4, HYBRID, "hybrid")) == with_aliases(own, actor_1="actor_head", critic_1="critic_head")


def test_names_of_discrete_actions():
    own = {
        **linear("actor_head.0", 64, 4),
        **linear("actor_head.2.Q.0.0", 64, 64),
        **linear("actor_head.2.Q.1.0", 2, 64),
    }
    for twin in range(2):
        own |= linear(f"critic_head.{twin}.0", 64, 4)
        own |= linear(f"critic_head.{twin}.2.Q.0.0", 64, 64)
        own |= linear(f"critic_head.{twin}.2.Q.1.0", 2, 64)
    expected = with_aliases(own, actor_1="actor_head", critic_1="critic_head")
    assert shapes(DiscreteQAC(4, 2, twin_critic=True)) == expected


def test_names_of_a_distribution():
    assert shapes(QACDIST(4, 2)) == {
        **linear("actor.0", 64, 4),
        **linear("actor.2.main.0", 64, 64),
        **linear("actor.2.last", 2, 64),
        **linear("critic.0", 64, 6),
        **linear("critic.2.Q.0.0", 64, 64),
        **linear("critic.2.Q.1.0", 51, 64),
    }


def test_names_of_pdqn():
    model = PDQN(4, HYBRID, [16, 8])
    assert len(model.state_dict()) == 40
    assert sum(parameter.numel() for parameter in model.parameters()) == 786
    own = {name: shape for name, shape in shapes(model).items() if name.split(".")[0] not in ("actor_head", "encoder")}
    aliases = {"actor_head.0": "dis_head", "actor_head.1": "cont_head"}
    aliases |= {"encoder.0": "dis_encoder", "encoder.1": "cont_encoder"}
    again = {
        alias + name.removeprefix(prefix): shape
        for alias, prefix in aliases.items()
        for name, shape in own.items()
        if name.startswith(prefix)
    }
    assert shapes(model) == {**own, **again}


def test_names_of_several_agents():
    own = {
        **linear("actor.0", 64, 4),
        **linear("actor.2.main.0", 64, 64),
        **linear("actor.2.mu", 2, 64),
        **linear("actor.2.log_sigma_layer", 2, 64),
    }
    for twin in range(2):
        own |= linear(f"critic.{twin}.0", 64, 8)
        own |= linear(f"critic.{twin}.2.main.0", 64, 64)
        own |= linear(f"critic.{twin}.2.last", 1, 64)
    assert shapes(ContinuousMAQAC(4, 6, 2, "reparameterization", twin_critic=True)) == own


def test_pdqn_golden():
    model = golden(PDQN(4, HYBRID, [16, 8]))
    with torch.no_grad():
        args = model(OBS, mode="compute_continuous")["action_args"]
        discrete = model({"state": OBS, "action_args": ARGS}, mode="compute_discrete")
    assert args.flatten().tolist() == pytest.approx([-0.10648, 0.131479, -0.10514, 0.125505], rel=1e-5)
    expected = [-0.197664, -0.0444943, 0.108675, -0.197575, -0.0394698, 0.118635]
    assert discrete["logit"].flatten().tolist() == pytest.approx(expected, rel=1e-5)
    assert torch.equal(discrete["action_args"], ARGS)


def test_pdqn_gives_each_type_its_own_arguments():
    model = golden(PDQN(4, HYBRID, [16, 8], multi_pass=True, action_mask=[[1, 0], [0, 1], [0, 0]]))
    with torch.no_grad():
        logit = model({"state": OBS, "action_args": ARGS}, mode="compute_discrete")["logit"]
    expected = [-0.2, -0.0915125, -0.00418416, -0.199263, -0.1, -0.00469287]
    assert logit.flatten().tolist() == pytest.approx(expected, rel=1e-5)


def test_pdqn_of_the_original_api_gives_its_outputs():
    model = PDQN(4, HYBRID, [16, 8])
    state = {name: value.clone() for name, value in PDQN(4, HYBRID, [16, 8]).state_dict().items()}
    for name in [name for name in state if name.startswith("encoder.0")]:
        state[name] = state[name.replace("encoder.0", "cont_encoder")]
    model.load_state_dict(state, strict=True)
    assert torch.equal(model.dis_encoder.init.weight, state["cont_encoder.init.weight"])


@pytest.mark.parametrize("twin", [False, True])
def test_values_are_one_tensor_or_two(twin):
    continuous = ContinuousQAC(4, 1, "regression", twin_critic=twin, critic_head_hidden_size=8)
    action = continuous(OBS, mode="compute_actor")["action"]
    assert action.shape == (2,)
    assert action.abs().max() <= 1
    q = continuous({"obs": OBS, "action": action}, mode="compute_critic")["q_value"]
    flat = continuous({"obs": OBS, "action": action.unsqueeze(1)}, mode="compute_critic")["q_value"]
    discrete = DiscreteQAC(4, 3, twin_critic=twin, critic_head_hidden_size=8)
    values = discrete(OBS, mode="compute_critic")["q_value"]
    if twin:
        assert [value.shape for value in (*q, *values)] == [(2,), (2,), (2, 3), (2, 3)]
        assert torch.equal(q[0], flat[0])
    else:
        assert (q.shape, values.shape) == ((2,), (2, 3))
        assert torch.equal(q, flat)


def test_a_hybrid_critic_reads_the_chances_of_the_types():
    model = ContinuousQAC(4, HYBRID, "hybrid")
    output = model(OBS, mode="compute_actor")
    assert (output["logit"].shape, output["action_args"].shape) == ((2, 3), (2, 2))
    inputs = {"obs": OBS, "logit": output["logit"], "action": {"action_args": output["action_args"]}}
    shifted = {**inputs, "logit": output["logit"] + 5}
    assert torch.allclose(
        model(inputs, mode="compute_critic")["q_value"], model(shifted, mode="compute_critic")["q_value"]
    )


def test_images():
    model = ContinuousQAC((3, 12, 12), 2, "reparameterization", encoder_hidden_size_list=[4, 8], share_encoder=True)
    assert model.actor_encoder is model.critic_encoder
    mu, sigma = model(torch.zeros(2, 3, 12, 12), mode="compute_actor")["logit"]
    assert mu.shape == sigma.shape == (2, 2)
    with pytest.raises(ValueError, match="need encoder_hidden_size_list"):
        DiscreteQAC((3, 12, 12), 2)


def test_distribution_sums_to_one():
    model = create_model({"type": "qac_dist", "obs_shape": 4, "action_shape": 2, "n_atom": 11})
    output = model({"obs": OBS, "action": ARGS}, mode="compute_critic")
    assert (output["q_value"].shape, output["distribution"].shape) == ((2, 1), (2, 1, 11))
    assert torch.allclose(output["distribution"].sum(-1), torch.ones(2, 1))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: ContinuousQAC(4, 2, "regresion"), ValueError, "Did you mean 'regression'"),
        (lambda: ContinuousQAC(4, 2, "hybrid"), TypeError, "action_type_shape"),
        (lambda: ContinuousQAC(4, 2, "regression", encoder_hidden_size_list=[8]), ValueError, "is for images"),
        (lambda: ContinuousQAC((3, 4), 2, "regression"), RuntimeError, "one axis or three"),
        (lambda: QACDIST(4, 2, critic_head_type="quantile"), ValueError, "critic_head_type"),
        (lambda: QACDIST((3, 8, 8), 2), RuntimeError, "one axis"),
        (lambda: PDQN(4, 3), TypeError, "action_args_shape"),
        (lambda: PDQN(4, HYBRID, multi_pass=True), ValueError, "needs action_mask"),
        (lambda: PDQN(4, HYBRID, multi_pass=True, action_mask=[[1, 0]]), ValueError, "action_mask must be"),
        (lambda: PDQN(4, HYBRID, [16, 8], head_hidden_size=4), ValueError, "head_hidden_size"),
        (lambda: DiscreteQAC(4, 2)(OBS, mode="compute_actr"), ValueError, "compute_actor"),
    ],
)
def test_errors_name_what_does_not_fit(make, error, text):
    with pytest.raises(error, match=text):
        make()
