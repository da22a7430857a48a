"""GAE, value rescaling, exploration, samplers, risk distortions, and the public surface."""

import pytest
import torch
from easydict import EasyDict
from golden_values import assert_golden, changed, f

import ding.rl_utils as rl_utils
from ding.rl_utils import (
    ArgmaxSampler,
    HybridDeterminsticSampler,
    HybridStochasticSampler,
    MultinomialSampler,
    MuSampler,
    ReparameterizationSampler,
    beta_function_map,
    create_noise_generator,
    gae,
    gae_data,
    get_epsilon_greedy_fn,
    inv_symlog,
    symlog,
    value_inv_transform,
    value_transform,
)

CUT = torch.tensor([0.0, 0, 1, 0, 0])


def test_gae_golden():
    data = gae_data(f(5, 0), f(5, 0.3), f(5, 1), CUT, None)
    assert_golden(gae(data), [1.981811, 0.882823, -0.309987, -1.022646, -0.905681])
    flagged = changed(data, traj_flag=torch.tensor([0.0, 0, 1, 0, 1]))
    assert_golden(gae(flagged, 0.9, 0.8), [1.742177, 0.881581, -0.309987, -0.868497, -0.909423])
    matrix = gae_data(f((3, 2), 0), f((3, 2), 0.3), f((3, 2), 1), None, None)
    assert_golden(gae(matrix), [0.943931, -0.102915, -0.197964, -1.336477, -0.905681, -1.232486])


def test_gae_leaves_its_input_alone_and_takes_boolean_flags():
    next_value = f(5, 0.3)
    before = next_value.clone()
    first = gae(gae_data(f(5, 0), next_value, f(5, 1), CUT, None))
    assert torch.equal(next_value, before)
    torch.testing.assert_close(first, gae(gae_data(f(5, 0), next_value, f(5, 1), CUT.bool(), CUT.bool())))


def test_gae_with_gradients_gives_the_same_numbers():
    value = f(5, 0).requires_grad_()
    with_grad = gae(gae_data(value, f(5, 0.3), f(5, 1), CUT, None))
    torch.testing.assert_close(with_grad.detach(), gae(gae_data(f(5, 0), f(5, 0.3), f(5, 1), CUT, None)))
    with_grad.sum().backward()
    assert value.grad.tolist() != [0] * 5


def test_gae_of_agents_that_share_the_reward():
    value, next_value = f((4, 2, 3), 0), f((4, 2, 3), 0.3)
    reward, done = f((4, 2), 1), torch.zeros(4, 2)
    done[1] = 1
    together = gae(gae_data(value, next_value, reward, done, None))
    alone = gae(gae_data(value[..., 1], next_value[..., 1], reward, done, None))
    torch.testing.assert_close(together[..., 1], alone)


def test_value_rescaling_golden():
    x = torch.tensor([-10.0, -1, 0, 1, 10])
    assert_golden(value_transform(x), [-2.416625, -0.424214, 0.0, 0.424214, 2.416625])
    assert_golden(value_inv_transform(x), [-99.166771, -2.885407, 0.0, 2.885407, 99.166771], atol=1e-4)
    assert_golden(symlog(x), [-2.397895, -0.693147, 0.0, 0.693147, 2.397895])
    assert_golden(inv_symlog(torch.tensor([-2.0, 0, 2])), [-6.389056, 0.0, 6.389056])
    torch.testing.assert_close(value_inv_transform(value_transform(x)), x, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(inv_symlog(symlog(x)), x)


def test_epsilon_golden():
    exponential, linear = get_epsilon_greedy_fn(0.95, 0.1, 10000), get_epsilon_greedy_fn(1, 0.1, 100, "linear")
    values = [exponential(x) for x in (0, 1000, 10000)] + [linear(x) for x in (0, 50, 100)]
    assert_golden(values, [0.95, 0.869112, 0.412698, 1.0, 0.55, 0.1])
    assert linear(10**9) == 0.1
    with pytest.raises(AssertionError, match="Did you mean 'linear'"):
        get_epsilon_greedy_fn(1, 0, 1, "liner")


def test_gauss_golden_and_annealing():
    torch.manual_seed(0)
    noise = create_noise_generator("gauss", {"mu": 0.1, "sigma": 0.5})
    assert_golden(noise((3,), "cpu"), [0.870498, -0.046714, -0.989395])
    noise.sigma = 0.0
    assert noise((2,), "cpu").tolist() == pytest.approx([0.1, 0.1])
    with pytest.raises(AssertionError, match="negative"):
        noise.sigma = -1.0
    with pytest.raises(AssertionError, match="negative"):
        create_noise_generator("gauss", {"sigma": -1})
    with pytest.raises(KeyError, match="Did you mean 'gauss'"):
        create_noise_generator("gaus", {})


GOLDEN_OU = [[0.07725, -0.014471], [-0.108894, 0.028651]]


def test_ou_returns_its_state():
    kwargs = {"mu": 0.1, "sigma": 0.5, "theta": 0.2, "dt": 0.01}
    torch.manual_seed(0)
    noise = create_noise_generator("ou", kwargs)
    first, second = noise((2,), "cpu"), noise((2,), "cpu")
    assert_golden([first, second - first], GOLDEN_OU)
    torch.manual_seed(0)
    reference = create_noise_generator("ou", {**kwargs, "reference_numerics": True})
    assert_golden([reference((2,), "cpu"), reference((2,), "cpu")], GOLDEN_OU)


def test_ou_restarts_and_pulls_towards_mu():
    noise = create_noise_generator("ou", {"mu": 1.0, "sigma": 0.0, "theta": 0.5, "dt": 0.1, "x0": 3.0})
    assert noise((2,)).tolist() == pytest.approx([2.9, 2.9])
    assert noise((2,)).tolist() == pytest.approx([2.805, 2.805])
    assert noise((3,)).tolist() == pytest.approx([2.9] * 3)
    noise.x0 = 1.0
    assert noise((3,)).tolist() == [1, 1, 1]


def test_beta_functions_golden():
    values = [beta_function_map[name](0.3) for name in ("CPW", "CVaR", "Pow", "uniform")]
    assert_golden(values, [0.328395, 0.213, 0.3, 0.3])
    assert beta_function_map["Pow"](0.3, -0.5) == pytest.approx(0.212, abs=5e-4)
    assert beta_function_map["Pow"](0.3, 1.0) == pytest.approx(0.3**0.5)
    torch.testing.assert_close(beta_function_map["CPW"](torch.tensor([0.0, 1.0])), torch.tensor([0.0, 1.0]))


def test_samplers():
    logit = torch.full((2, 3), -60.0)
    logit[:, 1] = 60.0
    mu, sigma = torch.zeros(2, 2, requires_grad=True), torch.full((2, 2), 1e-6)
    normal = EasyDict(mu=mu, sigma=sigma)
    assert ArgmaxSampler()(logit).tolist() == [1, 1]
    assert MultinomialSampler()(logit).tolist() == [1, 1]
    assert MuSampler()(normal) is mu
    sampled = ReparameterizationSampler()({"mu": mu, "sigma": sigma})
    sampled.sum().backward()
    assert mu.grad.tolist() == [[1, 1], [1, 1]]
    hybrid = {"action_type": logit, "action_args": {"mu": mu, "sigma": sigma}}
    for sampler in (HybridStochasticSampler(), HybridDeterminsticSampler()):
        action = sampler(hybrid)
        assert action.action_type.tolist() == [1, 1]
        torch.testing.assert_close(action["action_args"].detach(), torch.zeros(2, 2), atol=1e-4, rtol=0)


def test_public_names_exist_and_missing_ones_are_named():
    assert [name for name in rl_utils.__all__ if not hasattr(rl_utils, name)] == []
    with pytest.raises(AttributeError, match="'q_nstep_td_eror'; did you mean 'q_nstep_td_error'"):
        _ = rl_utils.q_nstep_td_eror
    with pytest.raises(ImportError, match="no_such_loss"):
        from ding.rl_utils import no_such_loss  # noqa: F401
