"""Decision transformer: golden vectors, evaluation in a context, wrong samples."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import EnvBatch
from ding.model.common import ConvEncoder
from ding.model.template import DecisionTransformer
from ding.policy import DTPolicy
from ding.policy.errors import PolicyConfigError, PolicyDataError, PolicyUsageError
from ding.utils import deep_merge_dicts
from ding.utils.nested import map_nested


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def fill(module: torch.nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))


SMALL = {"state_dim": 4, "act_dim": 2, "n_blocks": 1, "h_dim": 8, "context_len": 3, "n_heads": 1, "drop_p": 0.0}


def make(continuous: bool = False, **more: Any) -> DTPolicy:
    torch.manual_seed(0)
    settings = {
        "model": {**SMALL, "continuous": continuous}, "warmup_steps": 10, "learning_rate": 1e-3, "rtg_target": 20,
        "rtg_scale": 10, **more,
    }  # fmt: skip
    return DTPolicy(deep_merge_dicts(DTPolicy.default_config(), settings))


def windows(continuous: bool = False) -> list[torch.Tensor]:
    actions = 0.9 * wave((2, 3, 2), 0.2) if continuous else (torch.arange(6) % 2).reshape(2, 3, 1)
    times = torch.arange(3).repeat(2, 1)
    return [times, wave((2, 3, 4), 0.1), actions, wave((2, 3), 0.4), torch.tensor([[1, 1, 1], [1, 1, 0]])]


def test_the_network_predicts_what_the_original_one_predicts():
    model = DecisionTransformer(4, 2, 1, 8, 3, 1, 0.1)
    fill(model)
    model.eval()
    assert sum(parameter.numel() for parameter in model.parameters()) == 66647
    states, actions, _ = model(torch.arange(3).repeat(2, 1), wave((2, 3, 4), 0.1), windows()[2], wave((2, 3, 1), 0.4))
    np.testing.assert_allclose(
        states.flatten()[:6].tolist(), [-0.128392, -0.0362438, 0.0559045, 0.148053, -0.128392, -0.0362438], rtol=1e-4
    )
    np.testing.assert_allclose(actions.flatten()[:4].detach(), [-0.106023, 0.146643, -0.103297, 0.146768], rtol=1e-5)


@pytest.mark.parametrize(
    ("continuous", "losses", "after"),
    [(False, [0.7266, 0.726505, 0.726317], 3334.13), (True, [0.373837, 0.373773, 0.373646], 3334.58)],
)
def test_the_first_learn_steps(continuous, losses, after):
    policy = make(continuous)
    network = policy.learn_mode.get_attribute("model")
    fill(network)
    found = [policy.learn_mode.forward(windows(continuous))["action_loss"] for _ in range(3)]
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    total = sum(float(parameter.detach().double().abs().sum()) for parameter in network.parameters())
    assert total == pytest.approx(after, rel=1e-5)


def test_a_list_of_windows_is_learned_from_like_the_stacked_fields():
    stacked, listed = make(), make()
    rows = [tuple(field[i] for field in windows()) for i in range(2)]
    assert stacked.learn_mode.forward(windows()) == pytest.approx(listed.learn_mode.forward(rows))
    with pytest.raises(PolicyDataError, match="dt learns from windows"):
        listed.learn_mode.forward([{"obs": torch.zeros(4)}])


def test_a_checkpoint_restores_the_schedule():
    policy, resumed = make(), make()
    policy.learn_mode.forward(windows())
    resumed.learn_mode.load_state_dict(policy.learn_mode.state_dict())
    assert resumed.learn_mode.forward(windows()) == pytest.approx(policy.learn_mode.forward(windows()))


def observed(ids: list[int], t: int, reward: float) -> EnvBatch:
    obs = np.stack([np.sin(np.arange(4) + t + env_id) for env_id in ids]).astype(np.float32)
    return EnvBatch(np.array(ids), {"obs": obs, "reward": np.full((len(ids), 1), reward, np.float32)})


def test_the_context_of_an_env_is_its_own():
    """Envs that began at different times get what each would get alone, also past the longest context."""
    together, alone = make(True, state_mean=0.5, state_std=2.0), make(True, state_mean=0.5, state_std=2.0)
    for t in range(6):
        ids = [0] if t < 2 else [0, 1]
        found = together.eval_mode.forward(observed(ids, t, 1.0))
        for env_id in ids:
            single = alone.eval_mode.forward(observed([env_id], t, 1.0))
            torch.testing.assert_close(found[env_id]["action"], single[env_id]["action"])
    together.eval_mode.reset([0])
    fresh = make(True, state_mean=0.5, state_std=2.0)
    torch.testing.assert_close(
        together.eval_mode.forward(observed([0], 9, 0.0))[0]["action"],
        fresh.eval_mode.forward(observed([0], 9, 0.0))[0]["action"],
    )


def test_the_prediction_is_that_of_the_newest_step():
    policy = make(True)
    network = policy.learn_mode.get_attribute("model")
    obs = [observed([0], t, 1.0) for t in range(2)]
    first = policy.eval_mode.forward(obs[0])[0]["action"]
    second = policy.eval_mode.forward(obs[1])[0]["action"]
    states = torch.as_tensor(np.stack([one.columns["obs"][0] for one in obs]))[None]
    actions = torch.stack([first, torch.zeros(2)])[None]
    # The first reward comes with the second observation.
    expected = network(torch.arange(2)[None], states, actions, torch.tensor([[2.0, 1.9]]))[1][0, -1]
    torch.testing.assert_close(second, expected.detach())


def test_what_is_missing_is_named():
    with pytest.raises(PolicyConfigError, match=r"policy\.rtg_target is missing"):
        make(rtg_target=None)
    with pytest.raises(PolicyUsageError, match="reward_in_obs"):
        make().eval_mode.forward(EnvBatch(np.arange(1), np.zeros((1, 4), np.float32)))
    with pytest.raises(PolicyUsageError, match="serial_pipeline_offline"):
        make().collect_mode.forward(observed([0], 0, 1.0))
    with pytest.raises(ValueError, match="discrete actions only"):
        DecisionTransformer(4, 2, 1, 8, 3, 1, 0.1, state_encoder=torch.nn.Identity(), continuous=True)


def test_the_network_of_images_has_the_parameters_of_the_original_one():
    encoder = ConvEncoder([4, 84, 84], [8, 8, 8])
    model = DecisionTransformer([4, 84, 84], 2, 1, 8, 3, 1, 0.1, max_timestep=10, state_encoder=encoder)
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    assert len(shapes) == 34
    assert sum(parameter.numel() for parameter in model.parameters()) == 8000
    assert shapes["transformer.0.attention.mask"] == (1, 1, 10, 10)
    assert (shapes["head.weight"], shapes["embed_rtg.0.weight"], shapes["embed_action.0.weight"]) == (
        (2, 8), (8, 1), (2, 8),
    )  # fmt: skip


IMAGES = {"image": [1, 36, 36], "dict": {"image": [1, 36, 36], "speed": 2}}


def seen(kind: str, *axes: int) -> Any:
    image = torch.arange(math.prod(axes) * 36 * 36).remainder(251).to(torch.uint8).reshape(*axes, 1, 36, 36)
    return image if kind == "image" else {"image": image, "speed": wave((*axes, 2), 0.1)}


def make_seeing(kind: str, **more: Any) -> DTPolicy:
    model = {"state_dim": IMAGES[kind], "h_dim": 8, "max_timestep": 20}
    policy = make(model=deep_merge_dicts(SMALL, model), **more)
    assert policy.learn_mode.get_attribute("model").state_encoder is not None
    return policy


@pytest.mark.parametrize("kind", list(IMAGES))
def test_images_and_dicts_are_learned_from_and_acted_on(kind):
    policy = make_seeing(kind)
    times, _, actions, returns, mask = windows()
    batch = [times, seen(kind, 2, 3), actions, returns, mask]
    losses = [policy.learn_mode.forward(batch)["action_loss"] for _ in range(20)]
    assert losses[-1] < losses[0]
    rows = [tuple(map_nested(lambda x, i=i: x[i], field) for field in batch) for i in range(2)]
    assert make_seeing(kind).learn_mode.forward(rows)["action_loss"] == pytest.approx(losses[0])
    for _ in range(5):
        columns = {"obs": seen(kind, 2), "reward": np.ones((2, 1), np.float32)}
        action = policy.eval_mode.forward(EnvBatch(np.arange(2), columns)).columns["action"]
        assert (action.shape, action.dtype) == ((2, 1), torch.int64)


def test_the_newest_images_are_kept_also_where_the_env_writes_them_into_one_array():
    policy, given = make_seeing("image"), []
    network: Any = policy.learn_mode.get_attribute("model")
    network.register_forward_pre_hook(lambda _, inputs: given.append(inputs))
    image = np.zeros((1, 1, 36, 36), np.uint8)
    for step in range(5):
        image[:] = step
        policy.eval_mode.forward(EnvBatch(np.arange(1), {"obs": image, "reward": np.ones((1, 1), np.float32)}))
    times, states = given[-1][:2]
    assert (times.tolist(), states[0, :, 0, 0, 0].tolist()) == ([[2, 3, 4]], [2, 3, 4])


def test_whole_numbers_are_pixels():
    network: Any = make_seeing("image").learn_mode.get_attribute("model").eval()
    times, _, actions, returns, _ = windows()
    pixels = seen("image", 2, 3)
    logits = [network(times, states, actions, returns)[1] for states in (pixels, pixels.float() / 255)]
    torch.testing.assert_close(*logits)


def test_only_weights_of_layers_decay_where_states_are_encoded():
    groups = make_seeing("image").learn_mode.get_attribute("optimizer").param_groups
    assert [group["weight_decay"] for group in groups] == [1e-4, 0.0]
    assert [group["betas"] for group in groups] == [(0.9, 0.95)] * 2
    assert {parameter.ndim for parameter in groups[0]["params"]} == {2, 4}


def test_the_learning_rate_warms_up_and_decays_and_gradients_are_clipped_as_asked():
    policy = make(warmup_steps=2, learn={"lr_scheduler": {"epoch_num": 4, "min_lr_lambda": 0.5}})
    rates = [policy.learn_mode.forward(windows())["cur_lr"] / 1e-3 for _ in range(6)]
    assert rates == pytest.approx([0.5, 0.875, 0.75, 0.625, 0.5, 0.5])
    policy = make(learn={"grad_clip_type": "clip_value", "grad_clip_value": 1e-9}, wt_decay=0.0, warmup_steps=1)
    network = policy.learn_mode.get_attribute("model")
    policy.learn_mode.forward(windows())
    largest = max(float(p.grad.abs().max()) for p in network.parameters() if p.grad is not None)
    assert largest <= 1e-9
    with pytest.raises(PolicyConfigError, match="lr_scheduler"):
        make(learn={"lr_scheduler": {"epoch_num": 4}})


def test_statistics_of_the_data_set_are_in_the_checkpoint():
    policy, again = make(True, state_mean=[0.5] * 4, state_std=[2.0] * 4), make(True)
    state = policy.learn_mode.state_dict()
    again.eval_mode.load_state_dict(state)
    assert again.data_statistics()["state_mean"].tolist() == [0.5] * 4
    assert again.data_statistics()["state_std"].tolist() == [2.0] * 4
