"""Golden vectors and properties of the TD errors."""

import numpy as np
import pytest
import torch
from golden_values import assert_golden, changed, f, ints
from torch import nn

from ding.rl_utils import td

ACT, NEXT_ACT = ints(4, 3), ints(4, 2)
DONE = torch.tensor([0.0, 0.0, 0.0, 1.0])
WEIGHT = torch.tensor([1.0, 0.5, 2.0, 1.0])
VALUE_GAMMA = torch.tensor([0.9, 0.81, 0.729, 1.0])
Q, NEXT_Q = f((4, 3), 0), f((4, 3), 1)
R1, R3 = f(4, 0.5), f((3, 4), 0.5)


def nstep_data(reward=R3, weight=None):
    return td.q_nstep_td_data(Q, NEXT_Q, ACT, NEXT_ACT, reward, DONE, weight)


def test_q_1step():
    data = td.q_1step_td_data(Q, NEXT_Q, ACT, NEXT_ACT, R1, DONE, None)
    assert_golden(td.q_1step_td_error(data, 0.9), 0.598157)
    assert_golden(td.q_1step_td_error(changed(data, weight=WEIGHT), 0.9), 0.750948)
    with pytest.raises(AssertionError, match="must be"):
        td.q_1step_td_error(changed(data, reward=R3), 0.9)


def test_q_nstep():
    per_sample = [0.645347, 0.01687, 0.629448, 0.319441]
    assert_golden(td.q_nstep_td_error(nstep_data(), 0.9, nstep=3), [0.402776, per_sample])
    weighted = td.q_nstep_td_error(nstep_data(weight=WEIGHT), 0.9, nstep=3, value_gamma=VALUE_GAMMA)
    assert_golden(weighted, [0.622919, [0.897238, 0.0322, 0.629448, 0.319441]])
    summed = td.q_nstep_td_error(nstep_data(reward=R1), 0.9, nstep=3, cum_reward=True)
    assert_golden(summed, [0.584326, [1.194338, 0.022803, 0.871475, 0.248689]])


def test_q_nstep_one_step_equals_the_one_step_error():
    one = td.q_1step_td_error(td.q_1step_td_data(Q, NEXT_Q, ACT, NEXT_ACT, R1, DONE, WEIGHT), 0.9)
    loss, _ = td.q_nstep_td_error(nstep_data(R1.unsqueeze(0), WEIGHT), 0.9)
    torch.testing.assert_close(loss, one)
    explicit, _ = td.q_nstep_td_error(nstep_data(R1.unsqueeze(0), WEIGHT), 0.9, criterion=nn.MSELoss(reduction="none"))
    torch.testing.assert_close(loss, explicit)


def test_boolean_done_is_accepted():
    data = nstep_data()
    with_bool = td.q_nstep_td_error(changed(data, done=DONE.bool()), 0.9, nstep=3)
    torch.testing.assert_close(with_bool[0], td.q_nstep_td_error(data, 0.9, nstep=3)[0])


def test_whole_number_rewards_are_discounted_too():
    reward = torch.tensor([[1, 2, 3, 4], [4, 0, 1, -2], [2, 2, 5, 1]])
    whole = td.q_nstep_td_error(nstep_data(reward), 0.9, nstep=3)
    torch.testing.assert_close(whole, td.q_nstep_td_error(nstep_data(reward.float()), 0.9, nstep=3))


@pytest.mark.parametrize("trailing", [False, True])
def test_q_nstep_with_agents_broadcasts_reward_over_the_agents_of_a_row(trailing):
    # The reference takes reward and done along the agent axis for actions [B, A]; that is not repeated here.
    action = torch.tensor([[0, 1], [2, 0]])
    data = td.q_nstep_td_data(
        f((2, 2, 3), 0),
        f((2, 2, 3), 1),
        action.unsqueeze(-1) if trailing else action,
        action,
        f((1, 2), 0.5),
        torch.tensor([0.0, 1.0]),
        None,
    )
    loss, per_sample = td.q_nstep_td_error(data, 0.9)
    assert per_sample.shape == (2, 2)
    assert_golden([loss, per_sample], [1.244035, [1.529549, 0.165027, 2.443925, 0.837637]])
    weighted, _ = td.q_nstep_td_error(
        changed(data, weight=torch.tensor([2.0, 0.0])), 0.9, value_gamma=torch.tensor([0.9, 0.9])
    )
    assert_golden(weighted, per_sample[0].sum() / 2)


def test_agent_count_may_differ_from_the_batch_size():
    action = ints((4, 2), 3)
    data = td.q_nstep_td_data(f((4, 2, 3), 0), f((4, 2, 3), 1), action, action, f((3, 4), 0.5), DONE, WEIGHT)
    assert td.q_nstep_td_error(data, 0.9, nstep=3)[1].shape == (4, 2)


def test_q_nstep_with_rescale_and_branches():
    rescaled = td.q_nstep_td_error_with_rescale(nstep_data(), 0.9, nstep=3)
    assert_golden(rescaled, [0.230838, [0.508711, 0.30841, 0.04533, 0.060902]])
    action = torch.tensor([[0, 1], [2, 0]])
    data = td.q_nstep_td_data(
        f((2, 2, 3), 0), f((2, 2, 3), 1), action, action, f((1, 2), 0.5), torch.tensor([0.0, 1.0]), None
    )
    assert_golden(td.bdq_nstep_td_error(data, 0.9), [1.244035, [0.847288, 1.640781]])


def test_soft_q():
    result = td.q_nstep_sql_td_error(nstep_data(f((1, 4), 0.5)), 0.9, 0.1)
    expected = [1.511111, [1.940681, 0.402727, 3.452348, 0.248689], [1.015175, 0.04173, 0.311647, 1.014629]]
    assert_golden(result, expected)
    infinite = changed(nstep_data(f((1, 4), 0.5)), next_n_q=torch.tensor([[float("inf")] * 3, [-float("inf")] * 3] * 2))
    assert td.q_nstep_sql_td_error(infinite, 0.9, 0.1)[2].tolist() == [20, -20, 20, -20]


def test_munchausen():
    data = td.m_q_1step_td_data(Q, f((4, 3), 0.2), NEXT_Q, ACT, R1, DONE, None)
    result = td.m_q_1step_td_error(data, 0.9, 0.03, 0.9)
    expected = [0.981767, [0.424154, 0.008163, 3.451993, 0.042758], 0.371829, [0.0, 0.0, 0.0, 0.0]]
    assert_golden(result, expected)
    assert result[3].shape == (4, 1)
    far = changed(data, target_q=5 * f((4, 3), 0.2))
    assert td.m_q_1step_td_error(far, 0.9, 0.03, 0.9)[3].sum() > 0


def test_state_values():
    q_v = td.q_v_1step_td_error(td.q_v_1step_td_data(Q, f(4, 1), ACT, R1, DONE, None), 0.9)
    assert_golden(q_v, [2.193334, [1.529549, 2.218757, 4.776339, 0.248689]])
    one = td.v_1step_td_error(td.v_1step_td_data(f(4, 0), f(4, 1), R1, DONE, None), 0.9)
    assert_golden(one, [0.841775, [1.529549, 1.393155, 0.323496, 0.120901]])
    three = td.v_nstep_td_error(td.v_nstep_td_data(f(4, 0), f(4, 1), R3, DONE, None, None), 0.9, 3)
    assert_golden(three, [0.338788, [0.645347, 0.532688, 0.098039, 0.079076]])


def test_state_values_of_agents_share_the_reward():
    v, next_v = f((4, 2), 0), f((4, 2), 1)
    _, per_sample = td.v_1step_td_error(td.v_1step_td_data(v, next_v, R1, None, WEIGHT), 0.9)
    torch.testing.assert_close(per_sample, (v - (R1.unsqueeze(-1) + 0.9 * next_v)) ** 2)


def test_nstep_return():
    data = td.nstep_return_data(R3, f(4, 1), DONE)
    assert_golden(td.nstep_return(data, 0.9, 3), [0.803335, 1.374072, 1.298562, 0.582005])
    assert_golden(td.nstep_return(data, 0.9, 3, value_gamma=0.5), [0.610638, 1.146981, 1.143881, 0.582005])
    listed = td.nstep_return(data, [torch.full((4,), 0.9)] * 3, 3)
    torch.testing.assert_close(listed, td.nstep_return(data, 0.9, 3))


def test_nstep_return_rejects_wrong_input():
    data = td.nstep_return_data(R3, f(4, 1), DONE)
    with pytest.raises(AssertionError, match="nstep=2 rows"):
        td.nstep_return(data, 0.9, 2)
    with pytest.raises(TypeError, match="got int: 1"):
        td.nstep_return(data, 1, 3)
    with pytest.raises(ValueError, match="got 1"):
        td.nstep_return(data, [torch.ones(4)], 3)


def dist_data(nstep):
    dist, next_dist = torch.softmax(2 * f((4, 3, 5), 0), -1), torch.softmax(2 * f((4, 3, 5), 1), -1)
    return td.dist_nstep_td_data(dist, next_dist, ACT, NEXT_ACT, R3 if nstep == 3 else R1, DONE, None)


def test_categorical():
    assert type(dist_data(3)).__name__ == "dist_1step_td_data"
    assert_golden(td.dist_1step_td_error(td.dist_1step_td_data(*dist_data(1)), 0.9, -2, 2, 5), 1.647872)
    three = td.dist_nstep_td_error(dist_data(3), 0.9, -2, 2, 5, nstep=3)
    assert_golden(three, [1.670668, [1.490861, 1.659936, 2.350381, 1.181494]])
    weighted = td.dist_nstep_td_error(
        changed(dist_data(3), weight=WEIGHT), 0.9, -2, 2, 5, nstep=3, value_gamma=VALUE_GAMMA
    )
    assert_golden(weighted, [2.081872, [1.683725, 1.523009, 2.350381, 1.181494]])


def test_categorical_survives_a_zero_probability_and_rejects_logits():
    data = dist_data(3)
    sharp = torch.zeros(4, 3, 5)
    sharp[..., 2] = 1
    dist = sharp.clone().requires_grad_()
    loss, _ = td.dist_nstep_td_error(changed(data, dist=dist), 0.9, -2, 2, 5, nstep=3)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(dist.grad).all()
    with pytest.raises(AssertionError, match="logits"):
        td.dist_nstep_td_error(changed(data, dist=f((4, 3, 5), 3)), 0.9, -2, 2, 5, nstep=3)


def test_categorical_takes_the_logarithm_of_small_probabilities_as_they_are():
    dist, act = torch.tensor([[[1e-6, 1 - 1e-6]]]), torch.tensor([0])
    # Terminal with reward 0: all mass belongs to the atom of value 0.
    data = td.dist_1step_td_data(dist, dist, act, act, torch.zeros(1), torch.ones(1), None)
    assert td.dist_1step_td_error(data, 0.9, 0.0, 1.0, 2).item() == pytest.approx(-np.log(1e-6), rel=1e-5)


def test_categorical_projection_keeps_the_mass():
    # A target on an atom gives all its mass to it, one beyond an end to the last atom.
    dist = torch.full((3, 1, 5), 0.2)
    spike = torch.zeros(3, 1, 5)
    spike[:, 0, 2] = 1
    zeros = torch.zeros(3, dtype=torch.int64)
    reward = torch.tensor([[0.0, 9.0, 0.5]])
    data = td.dist_nstep_td_data(dist, spike, zeros, zeros, reward, torch.zeros(3), None)
    weights = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0])
    probability = (weights / weights.sum()).expand(3, 1, 5)
    _, per_sample = td.dist_nstep_td_error(changed(data, dist=probability), 1.0, -2, 2, 5)
    log_p = (weights / weights.sum()).log()
    torch.testing.assert_close(per_sample, -torch.stack([log_p[2], log_p[4], (log_p[2] + log_p[3]) / 2]))


def test_categorical_with_agents():
    act = ints((4, 2), 3)
    dist = torch.softmax(f((4, 2, 3, 5), 0), -1)
    data = td.dist_nstep_td_data(dist, dist, act, act, R3, DONE, WEIGHT)
    loss, per_sample = td.dist_nstep_td_error(data, 0.9, -2, 2, 5, nstep=3)
    alone = td.dist_nstep_td_data(dist[:, 1], dist[:, 1], act[:, 1], act[:, 1], R3, DONE, WEIGHT)
    torch.testing.assert_close(per_sample[:, 1], td.dist_nstep_td_error(alone, 0.9, -2, 2, 5, nstep=3)[1])
    assert loss.shape == ()


def test_quantiles():
    tau = ((2 * torch.arange(4) + 1) / 8).expand(4, 4).unsqueeze(-1)
    qrdqn = td.qrdqn_nstep_td_data(f((4, 3, 4), 0), f((4, 3, 4), 1), ACT, NEXT_ACT, R3, DONE, tau, None)
    assert_golden(td.qrdqn_nstep_td_error(qrdqn, 0.9, nstep=3), [0.822201, [0.090672, 1.010059, 2.131891, 0.056182]])
    fractions = ((1 + torch.arange(8)) / 10).view(8, 1)
    iqn = td.iqn_nstep_td_data(f((2, 4, 3), 0), f((3, 4, 3), 1), ACT, NEXT_ACT, R3, DONE, fractions, None)
    assert_golden(
        td.iqn_nstep_td_error(iqn, 0.9, nstep=3, kappa=0.5), [0.451896, [0.319596, 0.88714, 0.460861, 0.139988]]
    )
    hats = torch.tensor([[0.25, 0.75]]).expand(4, 2)
    fqf = td.fqf_nstep_td_data(f((4, 2, 3), 0), f((4, 2, 3), 1), ACT, NEXT_ACT, R3, DONE, hats, None)
    assert_golden(td.fqf_nstep_td_error(fqf, 0.9, nstep=3), [0.282359, [0.069429, 0.440293, 0.573428, 0.046285]])


def test_fqf_threshold_follows_kappa():
    hats = torch.full((4, 2), 0.5)
    fqf = td.fqf_nstep_td_data(f((4, 2, 3), 0), f((4, 2, 3), 1), ACT, NEXT_ACT, R3, DONE, hats, None)
    small = td.fqf_nstep_td_error(fqf, 0.9, nstep=3, kappa=1e-4)[0]
    # For a tiny threshold the Huber loss over kappa is the absolute error; at tau 0.5 half of it, two quantiles summed.
    prediction = td.evaluate_quantile_at_action(f((4, 2, 3), 0), ACT)
    next_value = td.evaluate_quantile_at_action(f((4, 2, 3), 1), NEXT_ACT).squeeze(-1)
    target = td.nstep_return(td.nstep_return_data(R3, next_value, DONE), 0.9, 3)
    expected = (0.5 * (target.unsqueeze(1) - prediction).abs()).sum(1).mean()
    torch.testing.assert_close(small, expected, atol=1e-3, rtol=0)


def test_fqf_fractions():
    quantiles = torch.tensor([0, 0.2, 0.5, 0.8, 1]).expand(4, 5).clone().requires_grad_()
    q_value = f((4, 4, 3), 0).requires_grad_()
    loss = td.fqf_calculate_fraction_loss(f((4, 3, 3), 0), q_value, quantiles, ACT)
    assert_golden(loss.detach(), -0.710773)
    loss.backward()
    assert q_value.grad is None
    assert quantiles.grad[:, [0, -1]].abs().sum() == 0
    assert quantiles.grad.abs().sum() > 0


def dqfd_data():
    return td.dqfd_nstep_td_data(
        Q, NEXT_Q, ACT, NEXT_ACT, R3, DONE, torch.zeros(4), None, f((4, 3), 0.6), NEXT_ACT, torch.tensor([1.0, 0, 1, 0])
    )


def test_dqfd():
    result = td.dqfd_nstep_td_error(dqfd_data(), 0.9, 1.0, 1.0, 0.8, 1.0, nstep=3)
    expected = [1.851631, [3.406158, 0.151606, 1.652925, 2.195835], [0.402776, 0.862569, 0.586285]]
    assert_golden(result, expected)


def test_dqfd_with_rescale_has_its_own_argument_order():
    def identity(x):
        return x

    plain = td.dqfd_nstep_td_error(dqfd_data(), 0.9, 0.5, 2.0, 0.8, 3.0, nstep=3)
    same = td.dqfd_nstep_td_error_with_rescale(
        dqfd_data(), 0.9, 0.5, 2.0, 3.0, 0.8, nstep=3, trans_fn=identity, inv_trans_fn=identity
    )
    assert_golden(plain, same)
    rescaled = td.dqfd_nstep_td_error_with_rescale(dqfd_data(), 0.9, 1.0, 1.0, 1.0, 0.8, nstep=3)
    # Its n-step part is the rescaled n-step error.
    assert_golden(rescaled[2][0], 0.230838)


def test_lambda_returns():
    assert_golden(td.td_lambda_error(td.td_lambda_data(f((4, 2), 0), f((3, 2), 1), None)), 1.059622)
    returns = td.generalized_lambda_returns(f((4, 2), 0), f((3, 2), 1), 0.9, 0.8)
    assert_golden(returns, [0.82477, 0.166394, -0.269558, -1.362011, -1.396276, -1.861737])
    done = torch.tensor([[0.0, 0], [1, 0], [0, 0]])
    cut = td.generalized_lambda_returns(f((4, 2), 0), f((3, 2), 1), 0.9, 0.8, done)
    assert_golden(cut, [1.505185, 0.166394, 0.675463, -1.362011, -1.396276, -1.861737])
    with pytest.raises(ValueError, match="one value more"):
        td.generalized_lambda_returns(f((3, 2), 0), f((3, 2), 1), 0.9, 0.8)


def test_lambda_returns_take_discounts_per_step():
    full = torch.full((3, 2), 0.9)
    per_step = td.generalized_lambda_returns(f((4, 2), 0), f((3, 2), 1), full, torch.full((3, 2), 0.8))
    torch.testing.assert_close(per_step, td.generalized_lambda_returns(f((4, 2), 0), f((3, 2), 1), 0.9, 0.8))


def test_discount_cumsum():
    assert td.discount_cumsum(np.array([1.0, 2.0, 3.0])).tolist() == [6, 5, 3]
    with pytest.raises(AssertionError, match="gamma=1"):
        td.discount_cumsum(np.ones(2), gamma=0.9)


@pytest.mark.parametrize(
    "error",
    [
        lambda q, n: td.q_nstep_td_error(changed(nstep_data(), q=q, next_n_q=n), 0.9, nstep=3)[0],
        lambda q, n: td.q_nstep_td_error_with_rescale(changed(nstep_data(), q=q, next_n_q=n), 0.9, nstep=3)[0],
        lambda q, n: td.q_nstep_sql_td_error(changed(nstep_data(), q=q, next_n_q=n), 0.9, 0.1, nstep=3)[0],
        lambda q, n: td.dqfd_nstep_td_error(changed(dqfd_data(), q=q, next_n_q=n), 0.9, 1.0, 1.0, 0.8, nstep=3)[0],
        lambda q, n: td.m_q_1step_td_error(td.m_q_1step_td_data(q, n, n, ACT, R1, DONE, None), 0.9, 0.03, 0.9)[0],
    ],
)
def test_gradients_reach_the_prediction_only(error):
    q, next_q = Q.clone().requires_grad_(), NEXT_Q.clone().requires_grad_()
    error(q, next_q).backward()
    assert q.grad.abs().sum() > 0
    assert next_q.grad is None


def q_data(weight, data=td.q_nstep_td_data, reward=R3):
    return data(f((4, 3), 0), f((4, 3), 1), ACT, NEXT_ACT, reward, DONE, weight)


def weighted_dist(weight):
    dist = [torch.softmax(2 * f((4, 3, 5), phase), -1) for phase in (0, 1)]
    return td.dist_nstep_td_data(*dist, ACT, NEXT_ACT, R3, DONE, weight)


@pytest.mark.parametrize(
    "loss",
    [
        lambda weight: td.q_1step_td_error(q_data(weight, td.q_1step_td_data, R3[0]), 0.9),
        lambda weight: td.q_nstep_td_error(q_data(weight), 0.9, 3)[0],
        lambda weight: td.v_1step_td_error(td.v_1step_td_data(f(4, 0), f(4, 1), R3[0], DONE, weight), 0.9)[0],
        lambda weight: td.v_nstep_td_error(td.v_nstep_td_data(f(4, 0), f(4, 1), R3, DONE, weight, None), 0.9, 3)[0],
        lambda weight: td.dist_nstep_td_error(weighted_dist(weight), 0.9, -2, 2, 5, 3)[0],
    ],
)
def test_one_weight_may_stand_for_all_samples(loss):
    torch.testing.assert_close(loss(0.5), 0.5 * loss(None))


def test_a_discount_per_sample():
    # DI-engine 0.5.3: a list of as many 0-d tensors as there are samples.
    gammas = [0.9, 0.8, 0.7, 0.6]
    result = td.nstep_return(td.nstep_return_data(R3, f(4, 1), DONE), [torch.tensor(one) for one in gammas], 3)
    each = [
        td.nstep_return(td.nstep_return_data(R3[:, i : i + 1], f(4, 1)[i : i + 1], DONE[i : i + 1]), gamma, 3)
        for i, gamma in enumerate(gammas)
    ]
    torch.testing.assert_close(result, torch.cat(each))


def test_branches_with_summed_rewards_of_several_steps():
    torch.manual_seed(0)
    q, next_q, action = torch.randn(2, 2, 3), torch.randn(2, 2, 3), torch.tensor([[0, 1], [2, 0]])
    reward, done = torch.tensor([[0.5, 1.5], [1, 2.0], [3, 4]]), torch.tensor([0, 1.0])

    def error(rewards, weight=None):
        data = td.q_nstep_td_data(q, next_q, action, action, rewards, done, weight)
        return td.bdq_nstep_td_error(data, 0.9, 3, cum_reward=True)

    loss, per_sample = error(reward)
    # The numbers of DI-engine 0.5.3.
    torch.testing.assert_close(loss, torch.tensor(7.1547), atol=1e-4, rtol=0)
    expected = torch.tensor([[2.0734, 4.2739], [2.0765, 6.5852], [7.0888, 20.8304]])
    torch.testing.assert_close(per_sample, expected, atol=1e-3, rtol=0)
    torch.testing.assert_close(per_sample, torch.stack([error(one)[1] for one in reward]))
    weight = torch.tensor([1.0, 3.0])
    torch.testing.assert_close(error(reward, weight)[0], (per_sample * weight).mean())


def test_dimensions_that_a_tensor_lacks_are_appended():
    assert td.view_similar(torch.ones(2, 3), torch.ones(2, 3, 4, 5)).shape == (2, 3, 1, 1)
