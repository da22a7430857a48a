"""Golden vectors and properties of the policy-gradient losses."""

import math

import pytest
import torch
from golden_values import assert_golden, changed, f, ints

from ding.rl_utils import (
    a2c_data,
    a2c_error,
    a2c_error_continuous,
    acer_policy_error,
    acer_trust_region_update,
    acer_value_error,
    coma_data,
    coma_error,
    compute_importance_weights,
    compute_q_retraces,
    happo_data,
    happo_error,
    happo_error_continuous,
    happo_policy_data,
    happo_policy_error,
    happo_value_data,
    happo_value_error,
    ppg_data,
    ppg_joint_error,
    ppo_data,
    ppo_data_continuous,
    ppo_error,
    ppo_error_continuous,
    ppo_policy_data,
    ppo_policy_data_continuous,
    ppo_policy_error,
    ppo_policy_error_continuous,
    ppo_value_data,
    ppo_value_error,
    upgo_loss,
    vtrace_data,
    vtrace_error_continuous_action,
    vtrace_error_discrete_action,
    vtrace_nstep_return,
)
from ding.rl_utils.ppo import calculate_kl_div
from ding.rl_utils.upgo import tb_cross_entropy, upgo_returns

ACT = ints(4, 3)
WEIGHT = torch.tensor([1.0, 0.5, 2.0, 1.0])
VALUES = (f(4, 0), f(4, 0.4), f(4, 2), f(4, 3))


def normal(shape, phase):
    mu = f(shape, phase)
    return {"mu": mu, "sigma": 0.5 + 0.1 * torch.cos(mu)}


def discrete(weight=None, pretrained=None):
    return ppo_data(f((4, 3), 0), f((4, 3), 0.4), ACT, *VALUES, weight, pretrained)


def continuous(weight=None):
    return ppo_data_continuous(normal((4, 2), 0), normal((4, 2), 0.4), f((4, 2), 0.9), *VALUES, weight, None)


def policy_part(data, cls):
    return cls(data[0], data[1], data.action, data.adv, data.weight, data.logit_pretrained)


def test_ppo_golden():
    assert_golden(ppo_error(discrete()), [[-0.079964, 1.057955, 1.033736, 0.0], [0.141755, 0.5]])
    result = ppo_error(discrete(None, f((4, 3), 1)), use_value_clip=False, dual_clip=2, kl_type="k3")
    assert_golden(result, [[-0.079964, 1.043887, 1.033736, 0.135328], [0.141755, 0.5]])
    weighted = ppo_policy_error(policy_part(discrete(WEIGHT), ppo_policy_data))
    assert_golden(weighted, [[0.030806, 1.18174, 0.0], [0.141755, 0.5]])
    assert_golden(ppo_value_error(ppo_value_data(f(4, 0), f(4, 0.4), f(4, 3), None)), 1.057955)
    assert all(isinstance(value, float) for value in weighted[1])


def test_ppo_continuous_golden():
    assert_golden(ppo_error_continuous(continuous()), [[0.051968, 1.057955, 1.733876, 0.0], [0.680583, 0.75]])
    policy = ppo_policy_error_continuous(policy_part(continuous(), ppo_policy_data_continuous))
    assert_golden(policy, [[0.051968, 1.733876, 0], [0.680583, 0.75]])


def test_ppo_without_entropy_bonus():
    assert ppo_policy_error(policy_part(discrete(), ppo_policy_data), entropy_bonus=False)[0].entropy_loss == 0


def test_kl_estimates_have_the_values_of_di_engine():
    assert_golden([calculate_kl_div(f(5, 0.3), kind) for kind in ("k1", "k2", "k3")], [0.56914, 0.223678, 0.172014])


@pytest.mark.parametrize("kl_type", ["k1", "k2", "k3"])
def test_kl_estimates_are_zero_for_the_same_policy_and_differ_from_it_otherwise(kl_type):
    same, _ = ppo_error(discrete(None, f((4, 3), 0)), kl_type=kl_type)
    assert same.kl_div.item() == pytest.approx(0, abs=1e-6)
    other, _ = ppo_error(discrete(None, f((4, 3), 1)), kl_type=kl_type)
    assert abs(other.kl_div.item()) > 1e-3
    with pytest.raises(ValueError, match="kl_type='k4'"):
        ppo_error(discrete(None, f((4, 3), 1)), kl_type="k4")


def shifted(shift, adv):
    """One sample whose ratio is far above the clip range, with the given advantage."""
    new = {"mu": torch.full((1, 1), shift), "sigma": torch.ones(1, 1)}
    old = {"mu": torch.zeros(1), "sigma": torch.ones(1)}
    return ppo_policy_data_continuous(new, old, torch.full((1, 1), 4.0), torch.tensor([adv]), None, None)


def test_dual_clip_bounds_bad_samples_only():
    for adv, expected in ((1.0, -1.2), (-1.0, 3.0)):
        loss, _ = ppo_policy_error_continuous(shifted(1.0, adv), dual_clip=3.0)
        assert loss.policy_loss.item() == pytest.approx(expected)
    # The reference replaces the clipped objective for positive advantages too.
    loss, _ = ppo_policy_error_continuous(shifted(1.0, 1.0), dual_clip=3.0, reference_numerics=True)
    assert loss.policy_loss.item() == pytest.approx(-3.0)
    for wrong in (1.0, 0.5):
        with pytest.raises(AssertionError, match="dual_clip"):
            ppo_policy_error_continuous(shifted(1.0, 1.0), dual_clip=wrong)
        with pytest.raises(AssertionError, match="dual_clip"):
            ppo_error(discrete(), dual_clip=wrong)


def test_several_actions_per_sample_are_averaged():
    logit_new, logit_old, action = f((4, 2, 3), 0), f((4, 2, 3), 0.4), ints((4, 2), 3)
    loss, _ = ppo_policy_error(ppo_policy_data(logit_new, logit_old, action, f(4, 2), WEIGHT, None), clip_ratio=10.0)
    ratio = torch.exp(
        torch.distributions.Categorical(logits=logit_new).log_prob(action)
        - torch.distributions.Categorical(logits=logit_old).log_prob(action)
    ).mean(1)
    torch.testing.assert_close(loss.policy_loss, -(ratio * f(4, 2) * WEIGHT).mean())


def test_entropy_of_a_masked_action_is_finite():
    logit = f((4, 3), 0)
    logit[:, 2] = -float("inf")
    logit.requires_grad_()
    loss, _ = ppo_error(changed(discrete(), logit_new=logit, action=ints(4, 2)))
    sum(loss).backward()
    assert torch.isfinite(torch.stack(list(loss))).all()
    assert torch.isfinite(logit.grad).all()


def test_ppg():
    data = ppg_data(f((4, 3), 0), f((4, 3), 0.4), ACT, f(4, 0), f(4, 0.4), f(4, 3), None)
    loss = ppg_joint_error(data)
    assert_golden(loss.auxiliary_loss, 1.057955)
    # The reference is 0 or NaN here: it takes a log-probability for a probability, of the taken action only.
    old, new = (torch.distributions.Categorical(logits=logit) for logit in (data.logit_old, data.logit_new))
    expected = torch.distributions.kl_divergence(old, new)
    torch.testing.assert_close(loss.behavioral_cloning_loss, expected.mean())
    weighted = ppg_joint_error(changed(data, weight=WEIGHT))
    torch.testing.assert_close(weighted.behavioral_cloning_loss, (expected * WEIGHT).mean())
    assert ppg_joint_error(changed(data, logit_old=data.logit_new)).behavioral_cloning_loss == 0


def test_a2c_golden():
    data = a2c_data(f((4, 3), 0), ACT, f(4, 0), f(4, 2), f(4, 3), None)
    assert_golden(a2c_error(data), [0.106773, 2.087774, 1.033736])
    data = changed(data, logit=normal((4, 2), 0), action=f((4, 2), 0.9))
    assert_golden(a2c_error_continuous(data), [0.204237, 2.087774, 1.733876])


def test_happo_is_ppo_with_a_factor():
    ones = torch.ones(4, 1)
    loss, info = happo_error(happo_data(*discrete(WEIGHT)[:8], ones), dual_clip=2.0)
    expected, expected_info = ppo_error(discrete(WEIGHT), dual_clip=2.0)
    assert_golden([loss, info], [list(expected[:3]), expected_info])
    loss, info = happo_error_continuous(happo_data(*continuous(WEIGHT)[:8], ones))
    expected, expected_info = ppo_error_continuous(continuous(WEIGHT))
    # Of two action dimensions: entropy and KL are their means, as DI-engine has it.
    assert_golden(loss, [expected.policy_loss, expected.value_loss, expected.entropy_loss / 2])
    assert_golden(info, [expected_info.approx_kl / 2, expected_info.clipfrac])
    data = discrete()
    scaled, _ = happo_policy_error(happo_policy_data(*data[:3], data.adv, None, 3 * ones))
    assert_golden(scaled.policy_loss, -0.079964 * 3)
    assert_golden(happo_value_error(happo_value_data(f(4, 0), f(4, 0.4), f(4, 3), None)), 1.057955)


def test_happo_factor_scales_the_surrogate_but_not_the_dual_clip():
    logit = torch.log(torch.tensor([[0.8, 0.2]]))
    old = torch.log(torch.tensor([[0.1, 0.9]]))
    minus, factor = torch.tensor([-1.0]), torch.tensor([[0.5]])
    data = happo_policy_data(logit, old, torch.tensor([0]), minus, None, factor)
    # Ratio 8: the surrogate is -8, times 0.5 it is -4, above the bound -5 but below the bound -2.
    assert happo_policy_error(data)[0].policy_loss.item() == pytest.approx(4.0)
    assert happo_policy_error(data, dual_clip=5.0)[0].policy_loss.item() == pytest.approx(4.0)
    assert happo_policy_error(data, dual_clip=2.0)[0].policy_loss.item() == pytest.approx(2.0)


@pytest.mark.parametrize(("error", "full"), [(ppo_error, discrete), (ppo_error_continuous, continuous)])
def test_ppo_data_without_a_pretrained_policy_has_eight_fields(error, full):
    data = full(WEIGHT)
    assert_golden(error(type(data)(*data[:8])), error(changed(data, logit_pretrained=None)))
    short = ppo_policy_data if full is discrete else ppo_policy_data_continuous
    assert short(*data[:3], data.adv, WEIGHT).logit_pretrained is None


OUTPUT, BEHAVIOUR, ACT_TB = f((3, 2, 3), 0), f((3, 2, 3), 0.4), ints((3, 2), 3)


def test_importance_weights_golden():
    weights = compute_importance_weights(OUTPUT, BEHAVIOUR, ACT_TB)
    assert_golden(weights, [0.796208, 1.081885, 0.829179, 0.794128, 1.080393, 0.831963])
    target = OUTPUT.clone().requires_grad_()
    assert not compute_importance_weights(target, BEHAVIOUR, ACT_TB).requires_grad
    assert compute_importance_weights(target, BEHAVIOUR, ACT_TB, requires_grad=True).requires_grad
    with pytest.raises(AssertionError, match="Did you mean 'continuous'"):
        compute_importance_weights(OUTPUT, BEHAVIOUR, ACT_TB, "continous")


def test_vtrace_golden():
    rhos = torch.full((3, 2), 0.8)
    returns = vtrace_nstep_return(rhos, rhos, f((3, 2), 0.5), f((4, 2), 1), 0.9, 0.95)
    assert_golden(returns, [0.757412, 0.70849, 0.265001, -0.346449, -0.884655, -1.070139])
    data = vtrace_data(OUTPUT, BEHAVIOUR, ACT_TB, f((4, 2), 1), f((3, 2), 0.5), None)
    assert_golden(vtrace_error_discrete_action(data), [-0.498464, 0.177229, 1.035193])
    data = changed(
        data, target_output=normal((3, 2, 2), 0), behaviour_output=normal((3, 2, 2), 0.4), action=f((3, 2, 2), 0.9)
    )
    assert_golden(vtrace_error_continuous_action(data), [-0.275547, 0.063041, 1.737009])


def test_upgo_golden():
    rhos = torch.full((3, 2), 0.8)
    loss = upgo_loss(OUTPUT, rhos, ACT_TB, f((3, 2), 0.5), f((4, 2), 1))
    assert_golden(loss, -0.17259)
    # A third action dimension of size one, unmasked, changes nothing.
    deeper = upgo_loss(
        OUTPUT.unsqueeze(2), rhos, ACT_TB.unsqueeze(2), f((3, 2), 0.5), f((4, 2), 1), torch.ones(3, 2, 1)
    )
    assert_golden(deeper, -0.17259)
    logit, label = f((3, 2, 2, 3), 0), ints((3, 2, 2), 3)
    mask = torch.tensor([1.0, 0.0]).expand(3, 2, 2)
    torch.testing.assert_close(tb_cross_entropy(logit, label, mask), tb_cross_entropy(logit[:, :, 0], label[..., 0]))
    with pytest.raises(ValueError, match="mask"):
        tb_cross_entropy(OUTPUT, ACT_TB, torch.ones(3, 2))


def test_retrace_golden():
    ratio = 0.5 + f((3, 2, 3), 0).abs()
    args = (f((4, 2, 3), 0), f((4, 2, 1), 1), f((3, 2), 0.5), ACT_TB)
    result = compute_q_retraces(*args, torch.ones(3, 2), ratio, gamma=0.9)
    expected = [1.167645, 0.593296, -0.542041, -0.791915, -0.952855, -1.093292, -0.883455, -0.373877]
    assert_golden(result, expected)
    # Where the episode ends the value is the reward alone.
    ended = compute_q_retraces(*args, torch.zeros(3, 2), ratio, gamma=0.9)
    torch.testing.assert_close(ended[:-1, :, 0], f((3, 2), 0.5))


def test_acer_golden():
    q, q_retraces, v, ratio = f((2, 2, 3), 0), f((2, 2, 1), 1), f((2, 2, 1), 0.5), 0.5 + f((2, 2, 3), 0).abs()
    log_p = torch.log_softmax(f((2, 2, 3), 0.2), -1).requires_grad_()
    actor, bias = acer_policy_error(q, q_retraces, v, log_p, ints((2, 2), 3), ratio)
    assert_golden([actor, bias], [[-0.292137, -0.060067, 0.247776, 0.392885], [0.0, 0.0, 0.0, 0.0]])
    actor.sum().backward()
    assert log_p.grad.abs().sum() > 0
    _, bias = acer_policy_error(q, q_retraces, v, log_p, ints((2, 2), 3), ratio, c_clip_ratio=0.5)
    p = log_p.exp()
    expected = ((1 - 0.5 / ratio).clamp(min=0) * p * (q - v) * log_p).sum(-1, keepdim=True)
    torch.testing.assert_close(bias, expected)
    assert_golden(acer_value_error(q, q_retraces, ints((2, 2), 3)), [0.354037, 0.215612, 0.853771, 0.000307])


def test_acer_trust_region_golden():
    average = torch.log_softmax(f((2, 3), 0.5), -1)
    (updated,) = acer_trust_region_update([f((2, 3), 0)], f((2, 3), 1), average, 0.1)
    assert_golden(updated, [-0.360346, 0.077604, 0.410697, 0.297894, 0.046649, -0.509176])


def test_coma_golden():
    shape = (3, 2, 2, 3)
    data = coma_data(f(shape, 0), ints(shape[:3], 3), f(shape, 1), f(shape, 2), f((3, 2), 0.5), None)
    assert_golden(coma_error(data, 0.9, 0.8), [0.084558, 2.715314, 1.035041])
    weighted = coma_error(changed(data, weight=torch.full(shape[:3], 2.0)), 0.9, 0.8)
    assert_golden(weighted, [2 * 0.084558, 2 * 2.715314, 2 * 1.035041], atol=3e-5)


def test_upgo_follows_a_trajectory_that_does_exactly_as_expected():
    # Step 1 reaches r + V = 1 + 1, what V of that step expects: the return of step 0 goes through its rewards.
    rewards, values = torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [2.0], [1.0]])
    assert upgo_returns(rewards, values).tolist() == [[2.0], [2.0]]
    rewards, values = torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([[0.0], [2.0], [1.0], [0.0]])
    assert upgo_returns(rewards, values).tolist() == [[6.0], [6.0], [5.0]]


def test_vtrace_clips_the_weight_of_the_policy_gradient_by_itself():
    # One step with an importance weight of 4 and an advantage of 1.
    output, behaviour = torch.log(torch.tensor([[[0.8, 0.2]]])), torch.log(torch.tensor([[[0.2, 0.8]]]))
    value, reward = torch.zeros(2, 1), torch.ones(1, 1)
    data = vtrace_data(output, behaviour, torch.zeros(1, 1, dtype=torch.long), value, reward, None)
    ratios = {"rho_clip_ratio": 3.0, "c_clip_ratio": 1.0, "rho_pg_clip_ratio": 2.0}
    loss = vtrace_error_discrete_action(data, **ratios)
    assert loss.policy_loss.item() == pytest.approx(-2 * math.log(0.8), rel=1e-5)
    assert loss.value_loss.item() == pytest.approx(9.0, rel=1e-5)
