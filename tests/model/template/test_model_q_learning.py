"""The Q models: parameter layout of the reference, golden values, forms of observations, the fast path."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from ding.config import ConfigValueError
from ding.model import BDQ, C51DQN, DQN, DRQN, FQF, IQN, QRDQN, RainbowDQN, create_model
from ding.utils import MODEL_REGISTRY, UnknownNameError

FC_ENCODER = {"encoder.init": (128, 4), "encoder.main.0": (128, 128), "encoder.main.2": (64, 128)}
CONV_ENCODER = {"encoder.main.0": (128, 4, 8, 8), "encoder.main.2": (128, 128, 4, 4), "encoder.main.4": (64, 128, 3, 3)}
CONV_ENCODER_4 = {"encoder.main.0": (32, 4, 8, 8), "encoder.main.2": (64, 32, 4, 4), "encoder.main.4": (64, 64, 3, 3)}


def dueling(prefix="head.", width=64, actions=2):
    return {
        f"{prefix}A.0.0": (width, width),
        f"{prefix}A.1.0": (actions, width),
        f"{prefix}V.0.0": (width, width),
        f"{prefix}V.1.0": (1, width),
    }


def discrete(actions=2):
    return {"head.Q.0.0": (64, 64), "head.Q.1.0": (actions, 64)}


def layers(shapes):
    """``{name.weight: shape, name.bias: (first axis,)}`` in order."""
    state = {}
    for name, shape in shapes.items():
        state[f"{name}.weight"] = shape
        state[f"{name}.bias"] = shape[:1]
    return state


def noisy(shapes):
    state = {}
    for name, shape in shapes.items():
        for part in ("mu", "sigma"):
            state[f"{name}.weight_{part}"] = shape
            state[f"{name}.bias_{part}"] = shape[:1]
        state[f"{name}.weight_eps"] = shape
        state[f"{name}.bias_eps"] = shape[:1]
    return {key: state[key] for key in sorted(state, key=_noisy_order)}


def _noisy_order(key):
    name, part = key.rsplit(".", 1)
    return name, ("weight_mu", "weight_sigma", "bias_mu", "bias_sigma", "weight_eps", "bias_eps").index(part)


BDQ_HEAD = {
    **{f"head.V.0.{i}": (64, 64) for i in (0, 2, 4)},
    "head.V.1.0": (1, 64),
    **{f"head.branches.0.0.{i}": (64, 64) for i in (0, 2, 4)},
    "head.branches.0.1.0": (3, 64),
    **{f"head.branches.1.0.{i}": (64, 64) for i in (0, 2, 4)},
    "head.branches.1.1.0": (3, 64),
}
NORMAL_LSTM = {
    "rnn.bias": (1, 256),
    "rnn.norm.0.weight": (256,),
    "rnn.norm.0.bias": (256,),
    "rnn.norm.1.weight": (256,),
    "rnn.norm.1.bias": (256,),
    "rnn.wx.0": (64, 256),
    "rnn.wh.0": (64, 256),
}
PYTORCH_LSTM = {
    "rnn.weight_ih_l0": (256, 64),
    "rnn.weight_hh_l0": (256, 64),
    "rnn.bias_ih_l0": (256,),
    "rnn.bias_hh_l0": (256,),
}
GRU = {"rnn.weight_ih": (192, 64), "rnn.weight_hh": (192, 64), "rnn.bias_ih": (192,), "rnn.bias_hh": (192,)}
RES_BLOCK = {"encoder.main.6.conv1.0": (64, 64, 3, 3), "encoder.main.6.conv2.0": (64, 64, 3, 3)}
FQF_HEAD = {"head.fqf_fc.0": (64, 128), "head.quantiles_proposal.0": (32, 64)}

LAYOUTS = {
    "dqn": (lambda: DQN(4, 2), layers({**FC_ENCODER, **dueling()}), 33923),
    "dqn discrete": (lambda: DQN(4, 2, dueling=False), layers({**FC_ENCODER, **discrete()}), 29698),
    "dqn multi-discrete": (
        lambda: DQN(4, [2, 3]),
        layers({**FC_ENCODER, **dueling("head.pred.0."), **dueling("head.pred.1.", actions=3)}),
        42503,
    ),
    "dqn noise": (lambda: DQN(4, 2, noise=True), {**layers(FC_ENCODER), **noisy(dueling())}, 42438),
    "dqn image": (
        lambda: DQN([4, 84, 84], 2, [128, 128, 64]),
        layers({**CONV_ENCODER, "encoder.mid": (64, 3136), **dueling()}),
        578243,
    ),
    "dqn image 4": (
        lambda: DQN([4, 84, 84], 2, [32, 64, 64, 128]),
        layers({**CONV_ENCODER_4, "encoder.mid": (128, 3136), **dueling(width=128)}),
        512931,
    ),
    "dqn image 5": (
        lambda: DQN([4, 84, 84], 2, [32, 64, 64, 64, 128]),
        layers({**CONV_ENCODER_4, **RES_BLOCK, "encoder.mid": (128, 3136), **dueling(width=128)}),
        586787,
    ),
    "c51": (lambda: C51DQN(4, 2), layers({**FC_ENCODER, **discrete(102)}), 36198),
    "qrdqn": (lambda: QRDQN(4, 2), layers({**FC_ENCODER, **discrete(64)}), 33728),
    "iqn": (lambda: IQN(4, 2), layers({**FC_ENCODER, **discrete(), "head.iqn_fc": (64, 128)}), 37954),
    "fqf": (
        lambda: FQF(4, 2),
        {**layers(FC_ENCODER), "head.sigma_pi": (1, 1, 128), **layers({**discrete(), **FQF_HEAD})},
        40034,
    ),
    "rainbow": (
        lambda: RainbowDQN(4, 2),
        {
            **layers(FC_ENCODER),
            **noisy({"head.A.0.0": (64, 64), "head.A.1.0": (102, 64), "head.Q.0.0": (64, 64), "head.Q.1.0": (51, 64)}),
        },
        61938,
    ),
    "drqn": (lambda: DRQN(4, 2), {**layers(FC_ENCODER), **NORMAL_LSTM, **layers(dueling())}, 67971),
    "drqn pytorch": (
        lambda: DRQN(4, 2, lstm_type="pytorch"),
        {**layers(FC_ENCODER), **PYTORCH_LSTM, **layers(dueling())},
        67203,
    ),
    "drqn gru": (
        lambda: DRQN(4, 2, lstm_type="gru", dueling=False),
        {**layers(FC_ENCODER), **GRU, **layers(discrete())},
        54658,
    ),
    "bdq": (
        lambda: BDQ(4, num_branches=2, action_bins_per_branch=3),
        layers({**FC_ENCODER, **BDQ_HEAD}),
        63303,
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_state_dict_has_the_layout_of_the_reference(name):
    build, expected, number = LAYOUTS[name]
    model = build()
    assert [(key, tuple(value.shape)) for key, value in model.state_dict().items()] == list(expected.items())
    assert sum(parameter.numel() for parameter in model.parameters()) == number
    checkpoint = {key: torch.full(shape, 0.25) for key, shape in expected.items()}
    model.load_state_dict(checkpoint, strict=True)
    assert all(torch.equal(value, checkpoint[key]) for key, value in model.state_dict().items())


class TestForward:
    @pytest.mark.parametrize("batch", [1, 8, 64])
    @pytest.mark.parametrize("options", [{}, {"dueling": False}, {"norm_type": "LN", "dropout": 0.3}, {"noise": True}])
    def test_values_are_those_of_the_layers(self, batch, options):
        torch.manual_seed(0)
        model = DQN(4, 2, **options).eval()
        x = torch.randn(batch, 4)
        with torch.no_grad():
            assert torch.equal(model(x)["logit"], plain_dqn(model, x))

    def test_gradients_are_those_of_the_layers(self):
        model = DQN(4, 2)
        twin = copy.deepcopy(model)
        x = torch.randn(8, 4)
        model(x)["logit"].square().sum().backward()
        plain_dqn(twin, x).square().sum().backward()
        assert all(torch.equal(p.grad, q.grad) for p, q in zip(model.parameters(), twin.parameters()))

    def test_follows_load_cast_reassign_and_copy(self):
        model, other, x = DQN(4, 2), DQN(4, 2), torch.randn(3, 4)
        with torch.no_grad():
            before = model(x)["logit"]
            model.load_state_dict(other.state_dict())
            assert torch.equal(model(x)["logit"], other(x)["logit"])
            assert not torch.equal(model(x)["logit"], before)
            twin = copy.deepcopy(model).double()
            assert torch.equal(twin(x.double())["logit"], plain_dqn(twin, x.double()))
            model.head.A[1][0].weight = nn.Parameter(torch.zeros(2, 64))
            model.head.A[1][0].bias = nn.Parameter(torch.zeros(2))
            assert torch.equal(model(x)["logit"], model.head.V(model.encoder(x)).expand(3, 2))

    def test_multi_discrete(self):
        logit = DQN(4, [2, 3])(torch.randn(5, 4))["logit"]
        assert [tuple(item.shape) for item in logit] == [(5, 2), (5, 3)]

    def test_one_element_shapes(self):
        assert DQN([4], [2])(torch.randn(5, 4))["logit"].shape == (5, 2)

    def test_images_of_integers(self):
        model = DQN([1, 36, 36], 2, [4, 4, 4, 8])
        pixels = torch.randint(0, 256, (2, 1, 36, 36), dtype=torch.uint8)
        with torch.no_grad():
            assert torch.equal(model(pixels)["logit"], model(pixels.float())["logit"])

    def test_shapes_without_encoder(self):
        with pytest.raises(RuntimeError, match="three axes"):
            DQN([4, 4], 2)

    def test_width_of_the_head_is_checked(self):
        with pytest.raises(ValueError, match="head_hidden_size=32"):
            DQN(4, 2, head_hidden_size=32)
        assert DQN(4, 2, [16, 32], head_hidden_size=32)(torch.randn(1, 4))["logit"].shape == (1, 2)

    @pytest.mark.parametrize("bad", [0, [], "4", 2.5, True])
    def test_bad_shapes_are_told_by_name(self, bad):
        with pytest.raises(ValueError, match="obs_shape"):
            DQN(bad, 2)
        with pytest.raises(ValueError, match="action_shape"):
            DQN(4, bad)

    @pytest.mark.parametrize("options", [{}, {"dueling": False}, {"noise": True}])
    def test_init_bias(self, options):
        # Noisy layers are noisy in training mode.
        model = DQN(4, [2, 3], init_bias=5.0, **options).eval()
        with torch.no_grad():
            for key, value in model.state_dict().items():
                if "weight" in key and ".1.0." in key and "eps" not in key:
                    value.zero_()
            logit = model(torch.randn(3, 4))["logit"]
        assert all(torch.equal(item, torch.full_like(item, 5.0)) for item in logit)


def plain_dqn(model, x):
    features = model.encoder.init(x)
    if model.encoder.init_norm is not None:
        features = model.encoder.init_norm(features)
    features = model.encoder.main(model.encoder.act(features))
    if hasattr(model.head, "Q"):
        return model.head.Q(features)
    advantage = model.head.A(features)
    return model.head.V(features) + advantage - advantage.mean(-1, keepdim=True)


class TestDictObservations:
    def test_mask_is_passed_through_untouched(self):
        model, x = DQN(4, 2), torch.randn(3, 4)
        mask = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
        output = model({"observation": x, "action_mask": mask})
        assert torch.equal(output["logit"], model(x)["logit"])
        assert output["action_mask"] is mask
        assert set(model({"observation": x})) == {"logit"}

    def test_named_observations(self):
        torch.manual_seed(0)
        model = DQN({"b": (3,), "a": 2, "image": (1, 36, 36)}, 2)
        obs = {"a": torch.randn(5, 2), "b": torch.randn(5, 3), "image": torch.randn(5, 1, 36, 36)}
        logit = model(obs)["logit"]
        assert logit.shape == (5, 2)
        mask = torch.ones(5, 2)
        assert model({**obs, "action_mask": mask})["action_mask"] is mask
        wrapped = model({"observation": obs, "action_mask": mask})
        assert torch.equal(wrapped["logit"], logit)
        features = torch.cat([obs["a"], obs["b"], model.encoder.convs["image"](obs["image"])], dim=-1)
        assert torch.equal(model.head(model.encoder.fc(features))["logit"], logit)
        with pytest.raises(KeyError, match="'b'"):
            model({"a": obs["a"], "image": obs["image"]})

    def test_discrete_component_as_integers(self):
        model = DQN({"state": 1, "x": 2}, 2)
        assert model({"state": torch.tensor([1, 2, 3]), "x": torch.randn(3, 2)})["logit"].shape == (3, 2)

    def test_errors(self):
        with pytest.raises(KeyError, match=r"'observation'.*\['obs'\]"):
            DQN(4, 2)({"obs": torch.randn(1, 4)})
        with pytest.raises(TypeError, match="list"):
            DQN(4, 2)([1.0])
        with pytest.raises(ValueError, match="obs_shape\\['a'\\]"):
            DQN({"a": (2, 3)}, 2)
        with pytest.raises(ValueError, match="at least one"):
            DQN({}, 2)


class TestDistributional:
    @pytest.mark.parametrize("cls", [C51DQN, RainbowDQN])
    def test_categorical(self, cls):
        model = cls(4, 3, v_min=-2, v_max=6, n_atom=5)
        output = model(torch.randn(7, 4) * 1e3)
        distribution = output["distribution"]
        assert distribution.shape == (7, 3, 5)
        assert (distribution > 0).all()
        assert torch.allclose(distribution.sum(dim=-1), torch.ones(7, 3), atol=1e-6)
        support = torch.tensor([-2.0, 0.0, 2.0, 4.0, 6.0])
        assert torch.allclose(output["logit"], (distribution * support).sum(dim=-1), atol=1e-5)
        with pytest.raises(ValueError, match="n_atom=1"):
            cls(4, 3, n_atom=1)

    def test_qrdqn(self):
        output = QRDQN(4, 3, num_quantiles=4)(torch.randn(7, 4))
        assert output["q"].shape == (7, 3, 4)
        assert torch.allclose(output["logit"], output["q"].mean(dim=-1))
        assert output["tau"].shape == (7, 4, 1)
        assert output["tau"][3, :, 0].tolist() == [0.125, 0.375, 0.625, 0.875]

    def test_iqn(self):
        model = IQN(4, 3, num_quantiles=5)
        x = torch.randn(7, 4)
        torch.manual_seed(3)
        output = model(x)
        assert (output["logit"].shape, output["q"].shape) == ((7, 3), (5, 7, 3))
        assert set(model.fraction_major_keys) == {"q", "quantiles"}
        torch.manual_seed(3)
        assert torch.equal(output["quantiles"], torch.rand(35, 1))
        # Row i of quantile m: the embedding of fraction m * B + i times the features of row i.
        steps = torch.arange(1, 129) * math.pi
        embedding = torch.relu(model.head.iqn_fc(torch.cos(steps * output["quantiles"][2 * 7 + 4])))
        expected = model.head.Q(model.encoder(x)[4] * embedding)
        assert torch.allclose(output["q"][2, 4], expected, atol=1e-6)

    def test_fqf(self):
        model = FQF(4, 3, num_quantiles=5)
        x = torch.randn(7, 4)
        output = model(x)
        assert output["q"].shape == (7, 5, 3)
        assert output["q_tau_i"].shape == (7, 4, 3)
        quantiles = output["quantiles"]
        assert quantiles.shape == (7, 6)
        assert torch.equal(quantiles[:, 0], torch.zeros(7))
        assert torch.allclose(quantiles[:, -1], torch.ones(7), atol=1e-6)
        assert torch.allclose(output["quantiles_hats"], (quantiles[:, 1:] + quantiles[:, :-1]) / 2)
        assert torch.allclose(output["entropies"], torch.full((7, 1), math.log(5)), atol=0.05)
        output["quantiles"].sum().backward()
        assert all(parameter.grad is None for parameter in model.encoder.parameters())
        with pytest.raises(ValueError, match="num_quantiles=6"):
            model.head(model.encoder(x), num_quantiles=6)

    def test_fqf_logit_is_the_expected_value(self):
        model = FQF(4, 3, num_quantiles=3)
        with torch.no_grad():
            model.head.quantiles_proposal[0].bias.copy_(torch.tensor([0.7, 0.2, 0.1]).log())
        output = model(torch.randn(7, 4))
        assert torch.allclose(output["quantiles"][0], torch.tensor([0.0, 0.7, 0.9, 1.0]), atol=0.05)
        widths = output["quantiles"].diff(dim=1).unsqueeze(-1)
        assert torch.allclose(output["logit"], (widths * output["q"]).sum(dim=1))
        output["logit"].sum().backward()
        assert model.head.quantiles_proposal[0].bias.grad is None
        model.head.weighs_widths = False  # as DI-engine does
        output = model(torch.randn(7, 4))
        assert torch.equal(output["logit"], output["q"].mean(dim=1))

    def test_bdq(self):
        model = BDQ(4, num_branches=2, action_bins_per_branch=3)
        x = torch.randn(5, 4)
        features = model.encoder(x) / 3
        a = torch.stack([branch(features) for branch in model.head.branches], dim=1)
        expected = model.head.V(features).unsqueeze(1) + a - a.mean(dim=-1, keepdim=True)
        assert torch.allclose(model(x)["logit"], expected, atol=1e-6)
        with pytest.raises(ValueError, match="num_branches"):
            BDQ(4)

    def test_bdq_takes_the_shape_of_an_action(self):
        model = BDQ(4, num_branches=(2,), action_bins_per_branch=3)
        assert model(torch.zeros(5, 4))["logit"].shape == (5, 2, 3)
        with pytest.raises(ValueError, match=r"num_branches, or a sequence of one"):
            BDQ(4, num_branches=(2, 2))


class TestDRQN:
    @pytest.mark.parametrize("lstm_type", ["normal", "pytorch", "gru"])
    @pytest.mark.parametrize("res_link", [False, True])
    def test_sequence_equals_steps(self, lstm_type, res_link):
        torch.manual_seed(0)
        model = DRQN(4, 2, [16, 8], lstm_type=lstm_type, res_link=res_link)
        obs = torch.randn(3, 5, 4)
        state, logits = [None] * 5, []
        for step in obs:
            output = model({"obs": step, "prev_state": state}, inference=True)
            state = output["next_state"]
            logits.append(output["logit"])
        whole = model({"obs": obs, "prev_state": None}, saved_state_timesteps=[1, 3])
        assert torch.allclose(whole["logit"], torch.stack(logits), atol=1e-6)
        assert whole["hidden_state"].shape == (3, 5, 8)
        assert len(whole["saved_state"]) == 2
        assert torch.allclose(whole["saved_state"][1][4]["h"], state[4]["h"], atol=1e-6)
        assert torch.equal(whole["saved_state"][1][2]["c"], whole["next_state"][2]["c"])
        assert state[0]["h"].shape == (1, 1, 8)

    def test_multi_discrete(self):
        output = DRQN(4, [2, 3], [16, 8])({"obs": torch.randn(3, 5, 4), "prev_state": None})
        assert [tuple(item.shape) for item in output["logit"]] == [(3, 5, 2), (3, 5, 3)]
        assert "saved_state" not in output


class TestFactory:
    def test_create_model_leaves_the_config_alone(self):
        cfg = {"type": "dqn", "obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [8, 8]}
        model = create_model(cfg)
        assert isinstance(model, DQN)
        assert cfg["type"] == "dqn"

    def test_import_names(self, tmp_path, monkeypatch):
        module = tmp_path / "my_registered_model.py"
        module.write_text(
            "from torch import nn\nfrom ding.utils import MODEL_REGISTRY\n"
            "@MODEL_REGISTRY.register('my_model')\nclass MyModel(nn.Linear):\n    pass\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        cfg = {"type": "my_model", "import_names": ["my_registered_model"], "in_features": 2, "out_features": 3}
        assert create_model(cfg).weight.shape == (3, 2)

    def test_errors(self):
        with pytest.raises(KeyError, match=r"model\.type is missing"):
            create_model({"obs_shape": 4})
        with pytest.raises(UnknownNameError, match="rainbowdqn"):
            create_model({"type": "rainbow_dqn"})

    def test_registered_names(self):
        names = ("dqn", "c51dqn", "qrdqn", "iqn", "fqf", "rainbowdqn", "drqn", "bdq")
        classes = (DQN, C51DQN, QRDQN, IQN, FQF, RainbowDQN, DRQN, BDQ)
        assert [MODEL_REGISTRY.get(name) for name in names] == list(classes)


def test_an_argument_that_a_model_does_not_have_is_named_with_the_nearest_one():
    with pytest.raises(ConfigValueError, match=r"policy\.model\.duelling=True: DQN takes no 'duelling'.*'dueling'"):
        create_model({"type": "dqn", "obs_shape": 4, "action_shape": 2, "duelling": True})


@pytest.mark.parametrize("value", ["no", "False", [False]], ids=str)
def test_a_switch_that_is_no_bool_is_told(value):
    cfg = {"type": "dqn", "obs_shape": 4, "action_shape": 2}
    with pytest.raises(ConfigValueError, match=r"policy\.model\.dueling: expected True or False, got"):
        create_model({**cfg, "dueling": value})
    for switch in (True, np.bool_(False), 0, None):
        create_model({**cfg, "dueling": switch})


@pytest.mark.parametrize("sizes", [128, "128", [128, "64"], [128, 64.5]], ids=str)
def test_hidden_sizes_that_are_no_list_of_ints_are_told(sizes):
    with pytest.raises(
        ConfigValueError, match=r"policy\.model\.encoder_hidden_size_list: expected a list of ints, got"
    ):
        create_model({"type": "dqn", "obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": sizes})


@pytest.mark.parametrize("cls", [DQN, C51DQN, RainbowDQN])
def test_impala_width_multiplies_the_channels_of_the_encoder(cls):
    model = cls((2, 12, 12), 3, encoder_hidden_size_list=[24], impala_width=2)
    shapes = {name: tuple(value.shape) for name, value in model.encoder.state_dict().items()}
    assert [shapes[f"stacks.{index}.firstconv.weight"] for index in range(3)] == [
        *((32, 2, 3, 3), (64, 32, 3, 3), (64, 64, 3, 3)),
    ]
    assert shapes["dense.weight"] == (24, 64 * 2 * 2)
    # Pixels are taken as they come: bytes are the numbers that they are.
    pixels = torch.arange(2 * 12 * 12).reshape(1, 2, 12, 12) % 7
    assert torch.equal(model(pixels.to(torch.uint8))["logit"], model(pixels.float())["logit"])
    assert model(pixels.float())["logit"].shape == (1, 3)


@pytest.mark.parametrize(("obs_shape", "width"), [(4, 2), ({"a": 4}, 2), ((2, 12, 12), 0)])
def test_impala_width_needs_images_and_a_positive_factor(obs_shape, width):
    with pytest.raises(ValueError, match=rf"impala_width must be at least 1 and needs images .* got {width}"):
        DQN(obs_shape, 3, impala_width=width)
