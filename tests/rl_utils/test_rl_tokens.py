"""Golden vectors and properties of the losses over tokens, and of PPO near a pretrained policy."""

import pytest
import torch
from golden_values import assert_golden, f

from ding.rl_utils import (
    ppo_data,
    ppo_data_continuous,
    ppo_error,
    ppo_error_continuous,
    ppo_policy_data,
    ppo_policy_error,
)
from ding.rl_utils.grpo import grpo_info, grpo_policy_data, grpo_policy_error
from ding.rl_utils.log_prob_utils import efficient_method, less_efficient_method, naive_method
from ding.rl_utils.rloo import rloo_info, rloo_policy_data, rloo_policy_error

TOKENS = torch.tensor([[0, 2, 4], [1, 1, 3]])
MASK = torch.tensor([[1.0, 1, 0], [1, 1, 1]])
MORE_TOKENS = torch.tensor([[0, 2, 4], [1, 1, 3], [2, 0, 1], [4, 3, 2]])
MORE_MASK = torch.tensor([[1.0, 1, 0], [1, 1, 1], [1, 0, 0], [1, 1, 1]])
REWARD = torch.tensor([[1.0, 0], [-0.5, 2]])
METHODS = [naive_method, efficient_method, less_efficient_method]


def grpo(mask=None, **options):
    """Loss, statistics and the sum of the absolute gradient of the new policy's logits."""
    new = (1.5 * f((2, 3, 5), 0.1)).requires_grad_()
    old, reference = f((2, 3, 5), 0.4), f((2, 3, 5), 0.7)
    data = grpo_policy_data(new, old, reference, TOKENS, torch.tensor([1, -0.5]), mask)
    loss, info = grpo_policy_error(data, **options)
    loss.backward()
    return loss.item(), info, new.grad.abs().sum().item()


def rloo(mask=None, reward=REWARD, **options):
    new = (1.5 * f((4, 3, 5), 0.1)).requires_grad_()
    data = rloo_policy_data(new, f((4, 3, 5), 0.4), MORE_TOKENS, reward, mask)
    loss, info = rloo_policy_error(data, **options)
    loss.backward()
    return loss.item(), info, new.grad.abs().sum().item()


@pytest.mark.parametrize("method", METHODS)
def test_log_probabilities_golden(method):
    expected = [-2.13878, -2.09866, -2.64268, -2.48151, -1.18077, -1.19149]
    found = method(f((2, 3, 5), 0.1), TOKENS)
    assert found.shape == TOKENS.shape
    assert_golden(found, expected)
    assert_golden(method(f((2, 3, 5), 0.1)[0], TOKENS[0]), expected[:3])
    half = method(f((2, 3, 5), 0.1).bfloat16(), TOKENS)
    assert half.dtype == torch.bfloat16
    if method is not less_efficient_method:
        assert_golden(half.float(), [-2.14062, -2.09375, -2.64062, -2.48438, -1.1875, -1.1875])


def test_log_probabilities_of_many_words_come_in_chunks():
    logits, tokens = torch.linspace(-3, 3, 5 << 20).view(5, 1, 1 << 20), torch.arange(5).view(5, 1)
    torch.testing.assert_close(efficient_method(logits, tokens), naive_method(logits, tokens))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("options", "losses", "clipfrac", "gradients"),
    [
        ({}, (-0.0623763, -0.0548616), 0.666667, (0.945236, 0.942796)),
        ({"clip_ratio": 0.05}, (-0.0498763, -0.0423616), 0.833333, (0.945236, 0.942796)),
        ({"beta": 0.0}, (-0.0770543, -0.0734812), 0.666667, (0.848081, 0.830699)),
    ],
)
def test_grpo_golden(method, options, losses, clipfrac, gradients):
    for mask, expected, gradient in zip((None, MASK), losses, gradients, strict=True):
        loss, info, found = grpo(mask, log_prob_fn=method, reference_numerics=True, **options)
        assert_golden([loss, info, found], [expected, 0.27984, clipfrac, gradient])
        assert all(isinstance(value, float) for value in info)


@pytest.mark.parametrize(
    ("clip_ratio", "losses", "clipfrac", "gradients"),
    [(0.2, (0.0872118, 0.0556106), 0.583333, (1.98728, 1.75195)),
     (0.05, (0.172949, 0.160098), 0.833333, (1.68808, 1.45275))],
)  # fmt: skip
def test_rloo_golden(clip_ratio, losses, clipfrac, gradients):
    for mask, expected, gradient in zip((None, MORE_MASK), losses, gradients, strict=True):
        loss, info, found = rloo(mask, clip_ratio=clip_ratio, reference_numerics=True)
        assert_golden([loss, info, found], [expected, 0.235954, clipfrac, gradient])


@pytest.mark.parametrize(("run", "tokens", "mask", "cls"), [
    (grpo, TOKENS, MASK, grpo_info), (rloo, MORE_TOKENS, MORE_MASK, rloo_info),
])  # fmt: skip
def test_statistics_leave_out_what_is_not_learned(run, tokens, mask, cls):
    shape = (*tokens.shape, 5)
    log_ratio = naive_method(1.5 * f(shape, 0.1), tokens) - naive_method(f(shape, 0.4), tokens)
    clipped = ((log_ratio.exp() - 1).abs() > 0.2)[mask > 0].float().mean()
    assert_golden(run(mask)[1], cls(-log_ratio[mask > 0].mean().item(), clipped.item()))


def test_a_sequence_without_tokens_to_learn_adds_nothing():
    """DI-engine divides by their number: NaN."""
    mask = MASK.clone()
    mask[0] = 0
    loss, info, gradient = grpo(mask)
    new = 1.5 * f((2, 3, 5), 0.1)[1:]
    data = grpo_policy_data(new, f((2, 3, 5), 0.4)[1:], f((2, 3, 5), 0.7)[1:], TOKENS[1:], torch.tensor([-0.5]), None)
    alone, info_alone = grpo_policy_error(data)
    assert_golden([loss, info], [alone / 2, info_alone])
    assert gradient > 0
    assert grpo(torch.zeros_like(MASK)) == (0.0, grpo_info(0.0, 0.0), 0.0)


def test_padding_reaches_neither_loss_nor_gradient():
    """Logits of padding may be anything, -inf included."""
    new, old = 1.5 * f((2, 3, 5), 0.1), f((2, 3, 5), 0.4)
    adv, results = torch.tensor([1, -0.5]), []
    for filler in (0.0, float("-inf"), float("nan")):
        padded = new.clone()
        padded[0, 2] = filler
        padded.requires_grad_()
        loss, _ = grpo_policy_error(grpo_policy_data(padded, old, old, TOKENS, adv, MASK), naive_method)
        results.append(loss.item())
    assert results == [results[0]] * 3


def test_only_the_new_policy_gets_a_gradient():
    """The logits before the update are those of the policy itself: not detached, DI-engine's gradient of them is 0."""
    new = f((2, 3, 5), 0.1).requires_grad_()
    loss, _ = grpo_policy_error(grpo_policy_data(new, new, new, TOKENS, torch.tensor([1, -0.5]), None))
    loss.backward()
    assert new.grad.abs().sum() > 0


def test_shapes_that_do_not_fit_are_errors():
    new = f((2, 3, 5))
    with pytest.raises(ValueError, match=r"adv has the shape \(2, 1\), expected \(2,\)"):
        grpo_policy_error(grpo_policy_data(new, new, new, TOKENS, torch.ones(2, 1), None))
    with pytest.raises(ValueError, match=r"weight has the shape \(2,\), expected \(2, 3\)"):
        grpo_policy_error(grpo_policy_data(new, new, new, TOKENS, torch.ones(2), torch.ones(2)))
    with pytest.raises(ValueError, match=r"reward has the shape \(1, 4\).* at least K=2"):
        rloo(reward=torch.ones(1, 4))


def test_ppo_near_a_pretrained_policy_golden():
    action = torch.tensor([0, 2, 1, 3])
    common = (f(4, 0.1), f(4, 0.2), f(4, 0.2), f(4, 0.3), None)
    discrete = ppo_data(f((4, 5), 0.1), f((4, 5), 0.4), action, *common, f((4, 5), 0.8))
    for kl_type, kl in (("k1", -0.226915), ("k2", 0.0608971), ("k3", 0.0760577)):
        expected = [[-0.643355, 0.00892871, 1.49454, kl], [0.106553, 0.25]]
        assert_golden(ppo_error(discrete, kl_type=kl_type), expected)

    sigma = (0.5 + 0.1 * torch.arange(8)).view(4, 2)
    new, old, near = ({"mu": f((4, 2), phase), "sigma": sigma} for phase in (0.1, 0.4, 0.8))
    data = ppo_data_continuous(new, old, 0.5 * f((4, 2), 0.6), *common, near)
    for kl_type, kl in (("k1", 0.0407334), ("k3", 0.0696996)):
        loss, info = ppo_error_continuous(data, kl_type=kl_type)
        assert_golden([loss, info.approx_kl], [-0.640742, 0.00892871, 2.435, kl, 0.0336683])


def test_ppo_over_tokens_golden():
    logits = (f((2, 3, 5), phase) for phase in (0.1, 0.4))
    data = ppo_policy_data(*logits, TOKENS, f((2, 3), 0.2), MASK, f((2, 3, 5), 0.8))
    loss = ppo_policy_error(data, entropy_bonus=False, kl_type="k3")
    assert_golden(loss, [[-0.228013, 0, 0.0550198], [0.0049635, 0.166667]])
