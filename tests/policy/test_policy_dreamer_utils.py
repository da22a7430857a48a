"""Helpers of policies that imagine: DI-engine's numbers, and a world in which returns are known."""

import pytest
import torch
from easydict import EasyDict

from ding.policy.mbpolicy import utils
from tests.world_model.golden import wave

CFG = EasyDict(
    imag_sample=True, discount=0.5, lambda_=0.8, reward_EMA=True, actor_entropy=0.0, actor_state_entropy=0.0,
    value_decay=0.0,
)  # fmt: skip


class Point:
    """A distribution all of whose mass is in one point."""

    def __init__(self, value):
        self.mean = value

    def sample(self):
        return self.mean

    def mode(self):
        return self.mean

    def log_prob(self, value):
        return -(value - self.mean).abs().squeeze(-1)


class Adding:
    """A world whose state is the sum of the start and of all actions."""

    heads = {}

    def __init__(self, alive=None):
        self.dynamics = self
        if alive is not None:
            self.heads = {"discount": lambda feat: Point(torch.full_like(feat, alive))}

    def parameters(self):
        return iter(())

    def get_feat(self, state):
        return state["stoch"]

    def img_step(self, state, action, sample=True):
        assert sample
        return {"stoch": state["stoch"] + action}


def test_values_of_trajectories_come_from_one_call():
    obs, action = wave((3, 2, 4)), wave((3, 2, 1), 0.5)

    def critic(states, actions):
        assert states.shape == (6, 4)
        return states.sum(-1) + actions[:, 0]

    assert torch.equal(utils.q_evaluation(obs, action, critic), obs.sum(-1) + action[..., 0])
    both = utils.q_evaluation(obs, action, lambda *given: [critic(*given), -critic(*given)])
    assert isinstance(both, list)
    assert torch.equal(both[1], -both[0])


def test_the_range_of_returns_is_that_of_di_engine():
    ema = utils.RewardEMA("cpu")
    returns = 10 * wave((3, 4), 0.1)
    offset, scale = ema(returns)
    assert ema.values.tolist() == pytest.approx([-0.0935407, 0.0997967], rel=1e-5)
    assert (offset.item(), scale.item()) == pytest.approx((-0.0935407, 1.0), rel=1e-5)
    offset, scale = ema(returns)
    assert (offset.item(), scale.item()) == pytest.approx((-0.186146, 1.0), rel=1e-5)
    assert list(ema.state_dict()) == ["values"]
    for _ in range(500):
        offset, scale = ema(returns)
    assert scale > 15


def test_statistics_are_floats_by_name_or_arrays():
    found = utils.tensorstats(torch.tensor([1.0, 2.0, 6.0]), "x")
    assert found == {"x_mean": 3.0, "x_std": pytest.approx(7**0.5), "x_min": 1.0, "x_max": 6.0}
    assert utils.tensorstats(torch.tensor([1.0, 3.0]))["mean"].shape == ()


def trajectories(alive=None):
    """Of 3 states, which begin in 0 and 1; each action adds a half, the reward is the state and the value a tenth."""
    action = torch.tensor(0.5, requires_grad=True)
    world = Adding(alive)
    start = {"stoch": torch.tensor([[[0.0]], [[1.0]]])}
    feat, state, actions = utils.imagine(CFG, world, start, lambda feat: Point(action.expand_as(feat)), 3)
    found = utils.compute_target(CFG, world, lambda feat: Point(0.1 * feat), feat, state, feat)
    return action, feat, actions, found


def test_returns_along_imagined_trajectories():
    action, feat, actions, (target, weights, base) = trajectories(alive=0.8)
    assert feat.squeeze().tolist() == [[0.0, 1.0], [0.5, 1.5], [1.0, 2.0]]
    assert torch.equal(actions, torch.full((3, 2, 1), 0.5))
    last = [0.5 + 0.4 * 0.1, 1.5 + 0.4 * 0.2]
    first = [0.0 + 0.4 * (0.2 * 0.05 + 0.8 * last[0]), 1.0 + 0.4 * (0.2 * 0.15 + 0.8 * last[1])]
    assert target.squeeze().tolist() == [pytest.approx(first), pytest.approx(last)]
    assert weights[:, 0, 0].tolist() == pytest.approx([1.0, 0.4, 0.16])
    assert torch.equal(base, 0.1 * feat[:2])
    # The action changes the second state once and the third twice.
    gradient = torch.autograd.grad(target[0, 0, 0], action)[0].item()
    assert gradient == pytest.approx(0.4 * (0.2 * 0.1 + 0.8 * (1 + 0.4 * 0.1 * 2)))
    _, _, _, (_, weights, _) = trajectories()
    assert weights[:, 0, 0].tolist() == [1.0, 0.5, 0.25]


def test_losses_of_actor_and_critic():
    _, feat, actions, (target, weights, base) = trajectories()
    entropy = torch.full((3, 2), 2.0)
    plain = EasyDict(CFG, reward_EMA=False)
    loss, numbers = utils.compute_actor_loss(plain, None, None, feat, {}, actions, target, entropy, None, weights, base)
    assert loss.item() == pytest.approx(-(weights[:2] * (target - base)).mean().item())
    assert numbers["normed_target_max"] == target.max()
    curious = EasyDict(plain, actor_entropy=0.5, actor_state_entropy=1.0)
    with_bonus, numbers = utils.compute_actor_loss(
        curious, None, None, feat, {}, actions, target, entropy, entropy, weights, base
    )
    assert (loss - with_bonus).item() == pytest.approx(0.75 * 3)
    assert (numbers["actor_entropy"], numbers["actor_state_entropy"]) == (1.0, 2.0)

    def critic(states):
        return Point(0.1 * states)

    value_error = (target - 0.1 * feat[:2]).abs()
    assert utils.compute_critic_loss(plain, critic, None, feat, target, weights).item() == pytest.approx(
        (weights[:2] * value_error).mean().item()
    )
    decayed = EasyDict(plain, value_decay=2.0)
    slow = utils.compute_critic_loss(decayed, critic, lambda states: Point(0 * states), feat, target, weights)
    more = (weights[:2] * (value_error + 3 * 0.1 * feat[:2])).mean().item()
    assert slow.item() == pytest.approx(more)
