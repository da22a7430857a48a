"""Networks of procedure cloning against DI-engine's numbers."""

import numpy as np
import pytest
import torch

from ding.model import ProcedureCloningBFS, ProcedureCloningMCTS
from ding.model.template.procedure_cloning import BFSConvEncoder, PCTransformer
from ding.utils import MODEL_REGISTRY
from tests.world_model.golden import fill, wave

SMALL = {
    "cnn_hidden_list": [4, 8], "cnn_kernel_size": [3, 3], "cnn_stride": [1, 1], "cnn_padding": [1, 1],
    "mlp_hidden_list": [8, 8], "att_heads": 2, "att_hidden": 8, "n_att": 2, "n_feedforward": 2,
    "feedforward_hidden": 8, "drop_p": 0.0, "max_T": 6,
}  # fmt: skip


def test_the_search_is_that_of_di_engine() -> None:
    widths = [8, 8]
    model = ProcedureCloningBFS([5, 7, 7], 4, widths)
    assert widths == [8, 8]
    sizes = {name: list(value.shape) for name, value in model.state_dict().items() if name.endswith("weight")}
    expected = {"0": [8, 5, 3, 3], "2": [8, 8, 3, 3], "4": [5, 8, 3, 3]}
    assert sizes == {f"_encoder.main.{place}.weight": shape for place, shape in expected.items()}
    assert sum(value.numel() for value in model.parameters()) == 1317
    for _ in range(2):
        assert len(MODEL_REGISTRY.build("pc_bfs", [8, 5, 5], 4).state_dict()) == 2 * 5
    model = ProcedureCloningBFS([8, 5, 5], 4, [6])
    fill(model, 0.3)
    logit = model(wave((1, 5, 5, 8), 0.1))["logit"]
    assert logit.shape == (1, 5, 5, 5)
    expected_logit = [3.45325, 3.13837, 2.73258, 2.33427, 2.02519, 4.82261, 4.62845, 4.32823]
    np.testing.assert_allclose(logit.detach().flatten()[:8], expected_logit, rtol=1e-5)


def test_the_tree_search_is_that_of_di_engine() -> None:
    model = ProcedureCloningMCTS((3, 8, 8), 4, **SMALL)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("transformer"):
                parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))
    for layer in [*model.transformer.attention_layers, *model.transformer.fc_blocks]:
        fill(layer, 0.3)
    states, goals, actions = wave((2, 3, 8, 8), 0.1), wave((2, 3, 8, 8), 0.2), wave((2, 4, 4), 0.3)
    goal, action = model(states, goals, actions)
    assert (goal.shape, action.shape) == ((2, 8), (2, 5, 4))
    goals_of_di_engine = [-0.150817, -0.122245, -0.0936738, -0.0651024, -0.036531, -0.00795954, 0.0206119, 0.0491833]
    np.testing.assert_allclose(goal.detach()[0], goals_of_di_engine, rtol=1e-4)
    actions_of_di_engine = [
        -0.203273, -0.136606, -0.0699395, -0.00327275, -0.202317, -0.13565, -0.0689838, -0.00231707,
    ]  # fmt: skip
    np.testing.assert_allclose(action.detach().flatten()[:8], actions_of_di_engine, rtol=1e-4)
    # A shorter sequence has the same begin.
    torch.testing.assert_close(model(states, goals, actions[:, :2])[1], action[:, :3])


def test_all_of_the_tree_search_is_trained_and_saved() -> None:
    """DI-engine neither trains nor saves its attention and linear layers."""
    model = ProcedureCloningMCTS((3, 8, 8), 4, **{**SMALL, "att_hidden": 6, "feedforward_hidden": 10})
    goal, action = model(wave((2, 3, 8, 8)), wave((2, 3, 8, 8), 0.2), wave((2, 4, 4)))
    (goal.square().sum() + action.square().sum()).backward()
    gradients = {name: value.grad for name, value in model.named_parameters()}
    assert all(gradient is not None and gradient.abs().sum() > 0 for gradient in gradients.values())
    assert sum(name.startswith("transformer.") for name in model.state_dict()) == 2 * 6 + 2 * 4
    with pytest.raises(ValueError, match="max_T=6, but the sequence has 7"):
        model(wave((2, 3, 8, 8)), wave((2, 3, 8, 8)), wave((2, 5, 4)))
    with pytest.raises(AssertionError, match="got 8 and 7"):
        ProcedureCloningMCTS((3, 8, 8), 4, **{**SMALL, "mlp_hidden_list": [8, 7]})


def test_parts_of_their_own() -> None:
    encoder = BFSConvEncoder([3, 36, 36])
    assert encoder(wave((1, 3, 36, 36))).shape == (1, 64, 1, 1)
    with pytest.raises(ValueError, match="as many widths"):
        BFSConvEncoder([3, 8, 8], [4], kernel_size=[3, 3], stride=[1, 1])
    assert PCTransformer(4, 6, 2, 0.5, 5, 1, 3, 1)(wave((2, 5, 4))).shape == (2, 5, 3)
