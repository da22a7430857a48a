"""Dreamer's world model against DI-engine's numbers, and what it learns and refuses."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from ding.config import ConfigValueError
from ding.data import TransitionBatch
from ding.world_model import create_world_model
from ding.world_model.dreamer import DREAMERWorldModel
from tests.world_model.golden import Scalars, fill, wave

SIZES = {
    "state_size": 4, "action_size": 2, "obs_type": "vector", "dyn_stoch": 2, "dyn_deter": 4, "dyn_hidden": 5,
    "dyn_discrete": 3, "units": 8, "encoder_hidden_size_list": [8, 6],
}  # fmt: skip


def make(writer: Any = None, **model: Any) -> DREAMERWorldModel:
    return create_world_model({"type": "dreamer", "cuda": False, "model": {**SIZES, **model}}, None, writer)


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws are modes."""
    one_hot = "ding.torch_utils.network.dreamer.OneHotDist"
    monkeypatch.setattr(f"{one_hot}.sample", lambda self, sample_shape=(), seed=None: self.mode())


class Sequences:
    """A buffer that gives the same two sequences of three steps, as rows or as columns."""

    def __init__(self, discrete: bool = False, in_columns: bool = False, obs: Any = None, **fields: Any) -> None:
        rows = [
            [
                {
                    "obs": (wave((4,), 0.3 * t + i) > 0).float() if obs is None else obs(i, t),
                    "action": torch.tensor((i + t) % 2) if discrete else 0.9 * wave((2,), 0.4 * t + i),
                    "reward": torch.tensor([np.sin(0.5 * t + i)], dtype=torch.float32),
                    "discount": 1.0 - (t == 2),
                    **{name: value[i][t] for name, value in fields.items()},
                }
                for t in range(3)
            ]
            for i in range(2)
        ]
        self.samples = [TransitionBatch.of(one) for one in rows] if in_columns else rows

    def sample(self, batch: int, sequence: int, train_iter: int) -> Any:
        assert (batch, sequence) == (2, 3)
        return self.samples


def learned(model: DREAMERWorldModel, buffer: Any, count: int, envstep: int = 7) -> Any:
    for _ in range(count):
        found = model.train(buffer, envstep, 0, 2, 3)
    return found


def total(model: torch.nn.Module) -> float:
    return sum(parameter.abs().sum().item() for parameter in model.parameters())


def test_names_and_sizes_are_those_of_di_engine() -> None:
    names = {name: list(value.shape) for name, value in make().named_parameters()}
    assert sum(int(np.prod(shape)) for shape in names.values()) == 3354
    expected = {
        "encoder.init.weight": [8, 4], "encoder.main.0.weight": [6, 8], "dynamics._inp_layers.0.weight": [5, 8],
        "dynamics._inp_layers.1.bias": [5], "dynamics._cell._layer.weight": [12, 9], "dynamics._cell._norm.bias": [12],
        "dynamics._img_out_layers.0.weight": [5, 4], "dynamics._obs_out_layers.0.weight": [5, 10],
        "dynamics._ims_stat_layer.weight": [6, 5], "dynamics._obs_stat_layer.bias": [6],
        "heads.image.mlp.0.weight": [8, 10], "heads.image.mlp.4.bias": [8], "heads.image.mean_layer.weight": [4, 8],
        "heads.reward.mean_layer.weight": [255, 8], "heads.discount.mean_layer.bias": [1],
    }  # fmt: skip
    assert {name: names.get(name) for name in expected} == expected
    assert len(names) == 4 + 3 + 3 + 3 + 3 + 2 + 2 + 3 * 10
    config = DREAMERWorldModel.default_config()
    assert (config.pretrain, config.train_freq, config.eval_freq) == (100, 2, 250)


CONTINUOUS = [
    {"image_loss": 0.774474, "reward_loss": 5.66313, "discount_loss": 0.637017, "kl_free": 1, "kl_lscale": 0.1,
     "kl_rscale": 0.5, "loss_lhs": 1, "loss_rhs": 1, "kl": 0.0575099, "prior_ent": 2.12354, "post_ent": 2.16731},
    {"image_loss": 0.774285, "reward_loss": 5.6616, "discount_loss": 0.637001, "kl": 0.0575842},
    {"image_loss": 0.774096, "reward_loss": 5.66006, "discount_loss": 0.636986, "kl": 0.0576587},
]  # fmt: skip
DISCRETE = [
    {"image_loss": 0.774474, "reward_loss": 5.66307, "discount_loss": 0.637015, "kl": 0.057491},
    {},
    {"image_loss": 0.774097, "reward_loss": 5.66, "discount_loss": 0.636984, "kl": 0.057641},
]
REWARD_ONLY = [
    {"image_loss": 0.575859, "reward_loss": 5.83326, "kl": 0.0575099},
    {},
    {"image_loss": 0.575467, "reward_loss": 5.83206, "kl": 0.057632},
]


@pytest.mark.usefixtures("modes")
@pytest.mark.parametrize(
    ("kwargs", "steps", "norm"),
    [
        ({}, CONTINUOUS, 1067.6),
        ({"action_type": "discrete"}, DISCRETE, 1067.59),
        ({"pred_discount": False, "grad_heads": ["reward"]}, REWARD_ONLY, 1003.91),
    ],
)
@pytest.mark.parametrize("in_columns", [False, True])
def test_first_steps_are_those_of_di_engine(kwargs: Any, steps: Any, norm: float, in_columns: bool) -> None:
    writer = Scalars()
    model = make(writer, reference_numerics=True, **kwargs)
    fill(model, 0.5)
    buffer = Sequences(kwargs.get("action_type") == "discrete", in_columns)
    for number, expected in enumerate(steps):
        post, context = learned(model, buffer, 1, 10 + number)
        assert {key: writer.values[key] for key in expected} == pytest.approx(expected, rel=1e-4)
        if number == 0 and not kwargs:
            assert list(writer.values) == list(expected)
            deter, logit = post["deter"].flatten().tolist(), post["logit"].flatten().tolist()
            first = [-0.0539222, -0.105805, -0.0951955, -0.0319177, -0.076485, -0.172307]
            assert deter[:6] == pytest.approx(first, rel=1e-4)
            assert logit[:4] == pytest.approx([0.259316, 0.590856, 0.0729302, -0.211753], rel=1e-4)
            shapes = {key: list(value.shape) for key, value in context.items()}
            assert shapes == {"embed": [2, 3, 6], "feat": [2, 3, 10], "kl": [2, 3], "postent": [2, 3]}
    assert total(model) == pytest.approx(norm, rel=1e-4)
    assert model.last_train_step == 12


@pytest.mark.usefixtures("modes")
def test_episodes_inside_of_a_sequence_are_kept_apart() -> None:
    """What was before ``is_first`` does not matter. DI-engine carries the state over."""
    flags = {"is_first": [[1, 0, 1], [0, 1, 0]]}

    def shown(before: float) -> torch.Tensor:
        torch.manual_seed(0)
        model = make()
        post, _ = learned(
            model, Sequences(obs=lambda i, t: wave((4,), t) + (before if t < 1 + (i == 0) else 0), **flags), 1
        )
        return torch.cat([post["deter"][0, 2:], post["deter"][1, 1:]])

    torch.testing.assert_close(shown(0.0), shown(1.0))


def test_it_learns_rewards_and_vectors_of_any_size() -> None:
    """DI-engine's heads end at rewards of 1.72, and describe vectors by probabilities."""
    torch.manual_seed(0)
    writer = Scalars()
    model = make(writer, model_lr=0.02, units=16)
    buffer = Sequences(obs=lambda i, t: 5 * wave((4,), 0.3 * t + i))
    for window in buffer.samples:
        for row in window:
            row["reward"] = 100 * row["reward"]
    _, context = learned(model, buffer, 1)
    first = dict(writer.values)
    _, context = learned(model, buffer, 150)
    assert writer.values["image_loss"] < 0.2 * first["image_loss"]
    rewards = model.heads["reward"](context["feat"]).mode().flatten()
    wanted = torch.cat([row["reward"] for window in buffer.samples for row in window])
    torch.testing.assert_close(rewards.detach(), wanted, rtol=0.2, atol=5)


def test_gradients_are_clipped_where_the_config_says_so() -> None:
    """DI-engine's are not, so that large first losses keep the steps of Adam small."""
    moved = []
    for limit in (None, 1e-14):
        torch.manual_seed(0)
        model = make(grad_clip=limit)
        before = total(model)
        learned(model, Sequences(), 1)
        moved.append(abs(total(model) - before))
    assert moved[0] > 1e-3
    assert moved[1] < 1e-3 * moved[0]


def test_a_run_resumes_exactly() -> None:
    torch.manual_seed(0)
    model, buffer = make(), Sequences()
    assert [model.should_pretrain(), model.should_pretrain()] == [True, False]
    learned(model, buffer, 2)
    state = copy.deepcopy(model.run_state())
    other = make()
    other.load_run_state(state)
    assert (other.should_pretrain(), other.last_train_step) == (False, 7)
    found = []
    for one in (model, other):
        torch.manual_seed(1)
        learned(one, buffer, 2)
        found.append(torch.cat([parameter.detach().flatten() for parameter in one.parameters()]))
    assert torch.equal(*found)


@pytest.mark.parametrize(("shape", "as_bytes"), [((3, 16, 16), True), ([1, 24, 16], False)])
def test_images_of_any_size_are_learned(shape: Any, as_bytes: bool) -> None:
    """DI-engine takes images of 64 times 64 pixels and floats only, and needs a writer."""
    torch.manual_seed(0)
    kernels = {"encoder_kernels": [4, 4, 4], "decoder_kernels": [4, 4, 4], "cnn_depth": 2}
    model = make(obs_type="RGB", state_size=shape, **kernels)

    def image(i: int, t: int) -> torch.Tensor:
        pixels = 0.5 + 0.5 * wave(tuple(shape), 0.3 * t + i)
        return (255 * pixels).to(torch.uint8) if as_bytes else pixels

    post, context = learned(model, Sequences(obs=image), 2)
    assert post["deter"].shape == (2, 3, 4)
    pixels = model.network_obs(image(0, 0).numpy())
    assert -0.5 <= pixels.min().item() < pixels.max().item() <= 0.5
    assert model.heads["image"](context["feat"]).mode().shape == (2, 3, *shape)


def test_the_network_of_images_has_the_size_of_di_engines() -> None:
    model = make(obs_type="RGB", state_size=[3, 64, 64])
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == 18230589


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ({"state_size": None}, "state_size must be the length"),
        ({"obs_type": "RGB"}, r"state_size must be \(C, H, W\)"),
        ({"obs_type": "image"}, "obs_type"),
        ({"action_type": "hybrid"}, "action_type"),
        ({"action_size": None}, "action_size must be"),
        ({"grad_heads": ["images"]}, "grad_heads"),
        ({"vector_head": "normal"}, "vector_head"),
        ({"grad_clip": 0}, "grad_clip must be a positive number or None, found 0"),
    ],
)
def test_wrong_configs_are_named(model: Any, text: str) -> None:
    with pytest.raises(ConfigValueError, match=text):
        make(**model)


def test_wrong_samples_are_named() -> None:
    buffer = Sequences()
    with pytest.raises(ConfigValueError, match="vector_head='symlog'"):
        learned(make(vector_head="binary"), Sequences(obs=lambda i, t: torch.full((4,), 2.0)), 1)
    rgb = make(obs_type="RGB", state_size=[1, 16, 16])
    with pytest.raises(ConfigValueError, match="scale images"):
        learned(rgb, Sequences(obs=lambda i, t: torch.full((1, 16, 16), 255.0)), 1)
    parts = Sequences(obs=lambda i, t: {"place": torch.zeros(4), "goal": torch.zeros(2)})
    for in_columns in (False, True):
        parts.samples = [TransitionBatch.of(one) for one in parts.samples] if in_columns else parts.samples
        with pytest.raises(
            ConfigValueError, match=r"obs_type is 'vector', .* are a dict of \['goal', 'place'\]: begin"
        ):
            learned(make(), parts, 1)
    buffer.samples = None
    with pytest.raises(ConfigValueError, match="no 2 sequences of 3 transitions"):
        learned(make(), buffer, 1)


def test_compile_is_refused_with_a_line(caplog: pytest.LogCaptureFixture) -> None:
    create_world_model({"type": "dreamer", "cuda": False, "compile": True, "model": SIZES}, None)
    assert "world_model.compile: DREAMERWorldModel learns eagerly: a graph of all steps" in caplog.text
    with pytest.raises(ConfigValueError, match="compile must be one of"):
        create_world_model({"type": "dreamer", "cuda": False, "compile": "yes", "model": SIZES}, None)
