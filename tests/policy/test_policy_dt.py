"""Decision transformer: golden vectors, evaluation in a context, wrong samples."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import EnvBatch
from ding.model.template import DecisionTransformer
from ding.policy import DTPolicy
from ding.policy.errors import PolicyConfigError, PolicyDataError, PolicyUsageError
from ding.utils import deep_merge_dicts


def wave(shape: tuple[int, ...], phase: float) -> torch.Tensor:
    steps = torch.arange(math.prod(shape), dtype=torch.float64)
    return torch.sin(0.7 * steps + phase).float().reshape(shape)


def fill(module: torch.nn.Module) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))


def make(continuous: bool = False, **more: Any) -> DTPolicy:
    torch.manual_seed(0)
    model = dict(
        state_dim=4, act_dim=2, n_blocks=1, h_dim=8, context_len=3, n_heads=1, drop_p=0.0, continuous=continuous
    )
    settings = {
        "model": model, "warmup_steps": 10, "learning_rate": 1e-3, "rtg_target": 20, "rtg_scale": 10, **more
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
    with pytest.raises(NotImplementedError, match="images"):
        DecisionTransformer(4, 2, 1, 8, 3, 1, 0.1, state_encoder=torch.nn.Identity())
