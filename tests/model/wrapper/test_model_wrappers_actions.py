"""Wrappers that choose actions."""

import copy

import pytest
import torch
from torch import nn

from ding.model import DQN, IModelWrapper, model_wrap, register_wrapper
from ding.model.wrapper.model_wrappers import BaseModelWrapper, wrapper_name_map
from ding.utils import set_pkg_seed


class Given(nn.Module):
    """A model whose output is a copy of the dict it was built with."""

    def __init__(self, **output):
        super().__init__()
        self.output = output
        self.layer = nn.Linear(1, 1)

    def forward(self, x=None, **kwargs):
        self.kwargs = kwargs
        return dict(self.output)


LOGIT = torch.tensor([[1.0, 3.0, 2.0], [9.0, 0.0, 1.0], [0.0, 0.0, 5.0], [1.0, 2.0, 3.0]])
MASK = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


def unchanged(*tensors):
    """Assert at the end of a test that the tensors were not written to."""
    copies = [tensor.clone() for tensor in tensors]
    return lambda: all(torch.equal(one, other) for one, other in zip(tensors, copies))


class TestBase:
    def test_attributes_reach_the_module(self):
        model = DQN(4, 2)
        wrapped = model_wrap(
            model_wrap(model, "argmax_sample"), "target", update_type="assign", update_kwargs={"freq": 2}
        )
        assert wrapped.state_dict().keys() == model.state_dict().keys()
        assert next(iter(wrapped.parameters())) is model.encoder.init.weight
        wrapped.eval()
        assert model.training is False
        with pytest.raises(AttributeError, match="nothing_like_it"):
            wrapped.nothing_like_it

    def test_names(self):
        wrapped = model_wrap(DQN(4, 2), "eps_greedy_sample")
        assert wrapped.info("forward") == "EpsGreedySampleWrapper"
        assert wrapped.info("state_dict") == "EpsGreedySampleWrapper BaseModelWrapper DQN"
        assert wrapped.info("encoder") == "EpsGreedySampleWrapper BaseModelWrapper DQN"
        with pytest.raises(AttributeError, match="nothing"):
            wrapped.info("nothing")
        base = model_wrap(DQN(4, 2), "base")
        assert isinstance(base, BaseModelWrapper)
        assert base.info("encoder") == "BaseModelWrapper DQN"

    def test_copies(self):
        wrapped = model_wrap(DQN(4, 2), "argmax_sample")
        twin = copy.deepcopy(wrapped)
        x = torch.randn(3, 4)
        assert torch.equal(twin.forward(x)["logit"], wrapped.forward(x)["logit"])
        assert twin.state_dict()["head.V.1.0.bias"] is not wrapped.state_dict()["head.V.1.0.bias"]

    def test_hooks_of_the_model_run(self):
        model, calls = DQN(4, 2), []
        with model.register_forward_hook(lambda *args: calls.append(1)):
            model_wrap(model, "base").forward(torch.randn(1, 4))
        assert calls == [1]

    @pytest.mark.parametrize("name", ["argmax", None])
    def test_unknown_names(self, name):
        with pytest.raises(TypeError, match=repr(name)):
            model_wrap(DQN(4, 2), name)
        with pytest.raises(TypeError, match="Did you mean 'argmax_sample'"):
            model_wrap(DQN(4, 2), "argmax_sampel")

    def test_teacher(self):
        with pytest.raises(NotImplementedError, match="teacher"):
            model_wrap(DQN(4, 2), "teacher", teacher_cfg={})

    def test_register(self, monkeypatch):
        class Doubling(IModelWrapper):
            def forward(self, *args, **kwargs):
                return {"logit": 2 * self._model.forward(*args, **kwargs)["logit"]}

        monkeypatch.delitem(wrapper_name_map, "doubling", raising=False)  # and no more of it after the test
        register_wrapper("doubling", Doubling)
        assert torch.equal(model_wrap(Given(logit=LOGIT), "doubling").forward()["logit"], 2 * LOGIT)
        with pytest.raises(TypeError, match="subclass of IModelWrapper"):
            register_wrapper("other", nn.Module)
        with pytest.raises(TypeError, match="string"):
            register_wrapper(3, Doubling)

    def test_reset_is_forwarded(self):
        class Resettable(Given):
            def reset(self, **kwargs):
                self.seen = kwargs

        model = Resettable()
        model_wrap(model_wrap(model, "argmax_sample"), "eps_greedy_sample").reset(data_id=[1])
        assert model.seen == {"data_id": [1]}
        model_wrap(Given(), "argmax_sample").reset()

    def test_output_must_be_a_dict_with_a_logit(self):
        with pytest.raises(TypeError, match="Tensor"):
            model_wrap(nn.Linear(2, 2), "argmax_sample").forward(torch.zeros(1, 2))
        with pytest.raises(KeyError, match="'logit'"):
            model_wrap(Given(value=LOGIT), "argmax_sample").forward()
        with pytest.raises(TypeError, match="dict"):
            model_wrap(Given(logit={}), "argmax_sample").forward()


class TestArgmax:
    def test_plain(self):
        assert model_wrap(Given(logit=LOGIT), "argmax_sample").forward()["action"].tolist() == [1, 0, 2, 2]

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int64])
    def test_mask_is_respected_and_nothing_changed(self, dtype):
        mask = MASK.to(dtype)
        same = unchanged(LOGIT, mask)
        output = model_wrap(Given(logit=LOGIT, action_mask=mask), "argmax_sample").forward()
        assert output["action"].tolist() == [2, 2, 0, 2]
        assert output["logit"] is LOGIT
        assert same()

    def test_heads(self):
        output = model_wrap(Given(logit=[LOGIT, LOGIT[:, :2]], action_mask=[MASK, None]), "argmax_sample").forward()
        assert [action.tolist() for action in output["action"]] == [[2, 2, 0, 2], [1, 0, 0, 1]]
        with pytest.raises(ValueError, match="1 entries for 2 heads"):
            model_wrap(Given(logit=[LOGIT, LOGIT], action_mask=MASK), "argmax_sample").forward()

    def test_a_row_that_forbids_all_as_that_of_a_dead_agent_allows_all(self):
        mask = torch.tensor([[1, 1, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0]])
        same = unchanged(LOGIT, mask)
        given = Given(logit=LOGIT, action_mask=mask)
        assert model_wrap(given, "argmax_sample").forward()["action"].tolist() == [1, 0, 0, 2]
        for name, kwargs in (("multinomial_sample", {}), ("eps_greedy_sample", {"eps": 1.0})):
            wrapped = model_wrap(Given(logit=torch.zeros(4, 3), action_mask=mask), name)
            drawn = torch.stack([wrapped.forward(**kwargs)["action"] for _ in range(100)])
            assert set(drawn[:, 1].tolist()) == set(drawn[:, 3].tolist()) == {0, 1, 2}
            assert set(drawn[:, 2].tolist()) == {0}
        assert same()

    def test_with_a_dict_observation(self):
        model = DQN(4, 3)
        obs = {"observation": torch.randn(4, 4), "action_mask": MASK}
        output = model_wrap(model, "argmax_sample").forward(obs)
        assert MASK.gather(1, output["action"].unsqueeze(1)).all()


class TestMultinomial:
    def test_frequencies(self):
        set_pkg_seed(0, use_cuda=False)
        probability = torch.tensor([0.1, 0.6, 0.3])
        logit = probability.log().expand(6000, 3)
        action = model_wrap(Given(logit=logit), "multinomial_sample").forward()["action"]
        assert torch.allclose(action.bincount(minlength=3) / 6000, probability, atol=0.03)

    def test_alpha_is_a_temperature(self):
        model = Given(logit=LOGIT)
        action = model_wrap(model, "multinomial_sample").forward(alpha=1e-3)["action"]
        assert action.tolist() == [1, 0, 2, 2]
        assert model.kwargs == {}

    def test_masked_actions_have_no_chance(self):
        set_pkg_seed(0, use_cuda=False)
        logit, mask = torch.zeros(4000, 3), torch.tensor([[1.0, 0.0, 1.0]]).repeat(4000, 1)
        logit[:, 1] = 50.0
        same = unchanged(logit, mask)
        action = model_wrap(Given(logit=logit, action_mask=mask), "multinomial_sample").forward()["action"]
        assert set(action.tolist()) == {0, 2}
        assert same()


class TestEpsGreedy:
    def rows(self, eps, batch=2000, name="eps_greedy_sample", logit=None, **kwargs):
        logit = torch.tensor([0.0, 0.0, 1.0]).expand(batch, 3) if logit is None else logit
        return model_wrap(Given(logit=logit), name, **kwargs).forward(eps=eps)["action"]

    def test_each_row_draws_by_itself(self):
        set_pkg_seed(0, use_cuda=False)
        shares = self.rows(0.3, batch=6000).bincount(minlength=3) / 6000
        assert shares.tolist() == pytest.approx([0.1, 0.1, 0.8], abs=0.02)

    def test_reference_numerics_draws_once_per_batch(self):
        set_pkg_seed(0, use_cuda=False)
        shares = [(self.rows(0.5, batch=64, reference_numerics=True) == 2).float().mean().item() for _ in range(30)]
        assert {1.0} < set(shares)
        assert all(share == 1.0 or share < 0.7 for share in shares)

    @pytest.mark.parametrize("reference_numerics", [False, True])
    @pytest.mark.parametrize("eps", [0.0, -1, 0, 1e-300])
    def test_no_exploration(self, eps, reference_numerics):
        assert set(self.rows(eps, reference_numerics=reference_numerics).tolist()) == {2}

    @pytest.mark.parametrize("eps", [1.0, 2.0])
    def test_full_exploration_is_uniform(self, eps):
        set_pkg_seed(0, use_cuda=False)
        counts = self.rows(eps, batch=6000).bincount(minlength=3) / 6000
        assert torch.allclose(counts, torch.full((3,), 1 / 3), atol=0.03)

    def test_the_seed_decides(self):
        set_pkg_seed(7, use_cuda=False)
        first = self.rows(0.5)
        set_pkg_seed(7, use_cuda=False)
        assert torch.equal(first, self.rows(0.5))

    def test_masks_weigh_the_random_actions(self):
        set_pkg_seed(0, use_cuda=False)
        mask = torch.tensor([[0.0, 1.0, 3.0]]).repeat(6000, 1)
        logit = torch.zeros(6000, 3)
        same = unchanged(mask, logit)
        wrapped = model_wrap(Given(logit=logit, action_mask=mask), "eps_greedy_sample")
        counts = wrapped.forward(eps=1.0)["action"].bincount(minlength=3) / 6000
        assert counts[0] == 0
        assert counts[2].item() == pytest.approx(0.75, abs=0.03)
        assert set(wrapped.forward(eps=0.0)["action"].tolist()) == {1}
        assert same()

    def test_bool_masks(self):
        wrapped = model_wrap(Given(logit=LOGIT, action_mask=MASK.bool()), "eps_greedy_sample")
        for _ in range(20):
            assert MASK.gather(1, wrapped.forward(eps=0.5)["action"].unsqueeze(1)).all()

    def test_heads_and_agents(self):
        output = model_wrap(Given(logit=[LOGIT, LOGIT[:, :2]]), "eps_greedy_sample").forward(eps=0.0)
        assert [action.tolist() for action in output["action"]] == [[1, 0, 2, 2], [1, 0, 0, 1]]
        assert self.rows(0.3, logit=torch.randn(5, 2, 3)).shape == (5, 2)

    def test_eps_per_row(self):
        set_pkg_seed(0, use_cuda=False)
        logit = torch.tensor([0.0] * 99 + [1.0]).expand(3, 100)
        actions = torch.stack([self.rows({0: 0.0, 1: 1.0, 2: 0.5}, logit=logit) for _ in range(300)])
        greedy = (actions == 99).float().mean(dim=0)
        assert greedy[0] == 1.0
        assert greedy[1] < 0.1
        assert greedy[2].item() == pytest.approx(0.505, abs=0.1)
        with pytest.raises(KeyError, match=r"row\(s\) \[2\]"):
            self.rows({0: 0.0, 1: 1.0}, logit=logit)

    def test_eps_per_row_with_agents_puts_rows_last(self):
        logit = torch.randn(5, 2, 3)
        action = self.rows(dict.fromkeys(range(5), 0.0), logit=logit)
        assert torch.equal(action, logit.argmax(dim=-1).T)

    def test_eps_is_required_and_taken_out(self):
        model = Given(logit=LOGIT)
        wrapped = model_wrap(model, "eps_greedy_sample")
        with pytest.raises(KeyError, match="'eps'"):
            wrapped.forward()
        wrapped.forward(eps=0.1, inference=True)
        assert model.kwargs == {"inference": True}

    def test_multinomial_instead_of_argmax(self):
        set_pkg_seed(0, use_cuda=False)
        logit = torch.tensor([0.2, 0.8]).log().expand(6000, 2)
        wrapped = model_wrap(Given(logit=logit), "eps_greedy_multinomial_sample")
        assert wrapped.forward(eps=0.0)["action"].float().mean().item() == pytest.approx(0.8, abs=0.03)
        assert wrapped.forward(eps=0.5)["action"].float().mean().item() == pytest.approx(0.65, abs=0.03)
        assert wrapped.forward(eps=0.0, alpha=1e-3)["action"].float().mean().item() == 1.0


class TestContinuous:
    def test_deterministic_and_reparam(self):
        logit = {"mu": torch.randn(5000, 2, requires_grad=True), "sigma": torch.full((5000, 2), 0.5)}
        assert model_wrap(Given(logit=logit), "deterministic_sample").forward()["action"] is logit["mu"]
        set_pkg_seed(0, use_cuda=False)
        action = model_wrap(Given(logit=logit), "reparam_sample").forward()["action"]
        assert not action.requires_grad
        assert (action - logit["mu"]).std().item() == pytest.approx(0.5, abs=0.02)

    def test_noise_is_clamped_and_added_to_a_copy(self):
        action = torch.tensor([[0.9, -0.9], [0.0, 0.0]])
        same = unchanged(action)
        wrapped = model_wrap(
            Given(action=action),
            "action_noise",
            noise_kwargs={"mu": 5.0, "sigma": 0.0},
            noise_range={"min": -0.3, "max": 0.3},
        )
        expected = torch.tensor([[1.0, -0.6], [0.3, 0.3]])
        assert torch.allclose(wrapped.forward()["action"], expected)
        assert same()

    def test_sigma_is_annealed(self):
        set_pkg_seed(0, use_cuda=False)
        model = Given(action=torch.zeros(5000, 1))
        wrapped = model_wrap(model, "action_noise", noise_kwargs={"sigma": 0.5}, action_range=None)
        assert wrapped.forward()["action"].std().item() == pytest.approx(0.5, abs=0.03)
        assert wrapped.forward(sigma=0.01)["action"].std().item() == pytest.approx(0.01, abs=0.001)
        assert wrapped.forward()["action"].std().item() == pytest.approx(0.01, abs=0.001)
        assert model.kwargs == {}

    def test_output_without_an_action_is_passed_through(self):
        # A target with noise on its actions is asked for values, too.
        output = model_wrap(Given(q_value=torch.ones(2)), "action_noise").forward()
        assert list(output) == ["q_value"]
        assert output["q_value"].tolist() == [1.0, 1.0]

    def test_noise_of_action_args_and_lists(self):
        options = {"noise_kwargs": {"mu": 0.5, "sigma": 0.0}}
        output = model_wrap(Given(action_args=torch.zeros(2, 1)), "action_noise", **options).forward()
        assert output["action_args"].tolist() == [[0.5], [0.5]]
        listed = model_wrap(Given(action=[torch.zeros(1), torch.ones(1)]), "action_noise", **options).forward()
        assert [item.tolist() for item in listed["action"]] == [[0.5], [1.0]]
        given = {"action_type": torch.tensor([2, 0]), "action_args": torch.zeros(2, 1)}
        hybrid = model_wrap(Given(action=given), "action_noise", **options).forward()["action"]
        assert hybrid["action_type"].tolist() == [2, 0]
        assert hybrid["action_args"].tolist() == [[0.5], [0.5]]
        assert given["action_args"].tolist() == [[0.0], [0.0]]
        with pytest.raises(KeyError, match="'pink'"):
            model_wrap(Given(), "action_noise", noise_type="pink")


class TestHybrid:
    ARGS = torch.tensor([[0.1], [0.2], [0.3], [0.4]])

    def test_argmax(self):
        model = Given(logit=LOGIT, action_args=self.ARGS, extra=1)
        output = model_wrap(model, "hybrid_argmax_sample").forward()
        assert set(output) == {"action", "logit"}
        assert output["action"]["action_type"].tolist() == [1, 0, 2, 2]
        assert output["action"]["action_args"] is self.ARGS
        assert model_wrap(Given(value=LOGIT), "hybrid_argmax_sample").forward().keys() == {"value"}
        with pytest.raises(KeyError, match="action_args"):
            model_wrap(Given(logit=LOGIT), "hybrid_argmax_sample").forward()

    @pytest.mark.parametrize("name", ["hybrid_eps_greedy_sample", "hybrid_eps_greedy_multinomial_sample"])
    def test_eps_greedy(self, name):
        model = Given(logit=LOGIT * 100, action_args=self.ARGS)
        output = model_wrap(model, name).forward(eps=0.0)
        assert output["action"]["action_type"].tolist() == [1, 0, 2, 2]
        assert output["action"]["action_args"] is self.ARGS
        with pytest.raises(KeyError, match="'eps'"):
            model_wrap(model, name).forward()

    def test_samples(self):
        logit = {"action_type": LOGIT * 100, "action_args": {"mu": self.ARGS, "sigma": torch.full((4, 1), 1e-6)}}
        for name in ("hybrid_reparam_multinomial_sample", "hybrid_deterministic_argmax_sample"):
            action = model_wrap(Given(logit=logit), name).forward()["action"]
            assert action["action_type"].tolist() == [1, 0, 2, 2]
            assert torch.allclose(action["action_args"], self.ARGS, atol=1e-4)


class TestCombination:
    def test_argmax(self):
        wrapped = model_wrap(Given(logit=LOGIT), "combination_argmax_sample")
        output = wrapped.forward(2)
        assert output["action"].tolist()[:2] == [[1, 2], [0, 2]]
        assert output["action"].tolist()[3] == [2, 1]
        assert output["logit"] is LOGIT

    def test_multinomial_draws_distinct_allowed_actions(self):
        mask = torch.tensor([[1, 1, 0, 1]]).repeat(50, 1)
        wrapped = model_wrap(Given(logit=torch.randn(50, 4), action_mask=mask), "combination_multinomial_sample")
        action = wrapped.forward(3)["action"]
        assert action.sort(dim=1).values.tolist() == [[0, 1, 3]] * 50
        for name in ("combination_multinomial_sample", "combination_argmax_sample"):
            with pytest.raises(ValueError, match=r"\[1, 3\]"):
                model_wrap(Given(logit=torch.randn(50, 4), action_mask=mask), name).forward(4)
