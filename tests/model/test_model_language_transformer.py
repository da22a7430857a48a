"""The language model that scores texts: golden vectors with a stand-in, and a small BERT of random weights."""

import json
import runpy
from pathlib import Path

import pytest
import torch

import ding
from ding.entry import serial_pipeline_onpolicy
from ding.envs.zoo.word_match_env import WORDS
from ding.model import LanguageTransformer
from ding.model.template import language_transformer
from ding.model.template.language_transformer import make_small_encoder
from tests.model.language_stand_in import fill, stand_ins

TEXTS, CANDIDATES = ["abc", "hello"], ["ab", "c", "xyz"]


def standing_in(**options):
    with stand_ins():
        model = LanguageTransformer("none", hidden_dim=6, **options)
    fill(model, 0.5)
    return model


@pytest.mark.parametrize(
    ("options", "logit", "value"),
    [
        ({}, [1.05981, -0.741328, -0.337713, -0.209495, 0.906925, 0.463477], [-0.178296, -0.031974]),
        (
            {"add_linear": True, "embedding_size": 4},
            [0.9474, 0.576646, 0.543583, 0.0309389, 3.51331, 2.09674],
            [-0.37859, -0.29614],
        ),
        (
            {"norm_embedding": True},
            [5.84259, -3.17036, -2.84554, -0.204729, 4.38171, 4.62899],
            [-1.30648, -1.05421],
        ),
    ],
)
def test_scores_golden(options, logit, value):
    model = standing_in(**options)
    output = model(TEXTS, CANDIDATES, mode="compute_actor_critic")
    assert output["logit"].shape == (2, 3)
    assert output["logit"].flatten().tolist() == pytest.approx(logit, rel=1e-4)
    assert output["value"].flatten().tolist() == pytest.approx(value, rel=1e-4)
    torch.testing.assert_close(output["dist"].probs, output["logit"].softmax(-1))
    assert set(model(TEXTS, CANDIDATES)) == {"dist", "logit"}
    assert set(model(TEXTS, mode="compute_critic")) == {"value"}
    trained = {name.split(".")[0] for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained == ({"value_head", "linear"} if "add_linear" in options else {"value_head"})


def test_embeddings_are_normalised_before_a_linear_layer_of_any_size():
    """DI-engine normalises over the size behind the layer: a RuntimeError."""
    model = standing_in(add_linear=True, embedding_size=4, norm_embedding=True, freeze_encoder=False)
    model(TEXTS, CANDIDATES)["logit"].sum().backward()
    assert model.model.emb.weight.grad is not None


def test_wrong_calls_are_named(monkeypatch):
    model = standing_in()
    with pytest.raises(ValueError, match="Did you mean 'compute_actor'"):
        model(TEXTS, CANDIDATES, mode="compute_acter")
    with pytest.raises(ValueError, match="needs candidate_samples"):
        model(TEXTS)
    with stand_ins(), pytest.raises(ValueError, match=r"hidden_dim=768, but the encoder 'none' has 6"):
        LanguageTransformer("none")
    monkeypatch.setattr(language_transformer, "AutoTokenizer", None)
    with pytest.raises(ImportError, match=r"install it with: pip install .*llm"):
        LanguageTransformer("none")


def test_a_small_local_bert(tmp_path):
    pytest.importorskip("transformers")
    state = torch.get_rng_state()
    folder = make_small_encoder(str(tmp_path / "encoder"), ["how", "many", "apples", "pears"], width=16)
    assert torch.equal(torch.get_rng_state(), state)
    assert make_small_encoder(folder, ["others"]) == folder
    model = LanguageTransformer(folder, add_linear=True, embedding_size=8, freeze_encoder=False).eval()
    output = model(["how many apples", "pears"], ["apples", "how many pears"], mode="compute_actor_critic")
    assert output["logit"].shape == (2, 2)
    assert output["value"].shape == (2, 1)
    alone = model(["pears"], ["apples", "how many pears"])["logit"]
    torch.testing.assert_close(alone[0], output["logit"][1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["pg", "awr"])
def test_the_toy_text_task_by_its_config(kind, tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    make_small_encoder("small_encoder", WORDS)
    config = Path(ding.__file__).parents[1] / f"configs/text/word_match_prompt_{kind}_config.py"
    serial_pipeline_onpolicy(str(config), seed=0, max_env_step=256)
    result = json.loads((tmp_path / f"word_match_prompt_{kind}_seed0/result.json").read_text(encoding="utf-8"))
    assert result["env_step"] >= 256


@pytest.mark.parametrize("loss", ["grpo", "rloo"])
def test_the_example_of_grpo_learns(loss):
    pytest.importorskip("transformers")
    example = runpy.run_path(str(Path(ding.__file__).parents[1] / "examples/grpo.py"))
    assert example["main"](loss, iterations=20) > 0.3
