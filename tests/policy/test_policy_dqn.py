"""DQN: golden vectors, updates, targets, priorities, masks, noise, seeds, state."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import BaseEnvTimestep, EnvBatch, TransitionBatch
from ding.policy import DQNCommandModePolicy, DQNPolicy, PolicyConfigError, create_policy, get_policy_cls
from ding.policy.common_utils import default_preprocess_learn
from ding.rl_utils import q_nstep_td_data, q_nstep_td_error
from ding.utils import deep_merge_dicts, set_pkg_seed


def make_policy(fields: Any = None, model: Any = None, model_cfg: Any = None, **overrides: Any) -> DQNPolicy:
    model_cfg = {"obs_shape": 4, "action_shape": 2, **(model_cfg or {})}
    cfg = deep_merge_dicts(DQNPolicy.default_config(), {"model": model_cfg, **overrides})
    return DQNPolicy(cfg, model=model, enable_field=fields)


def net(policy: DQNPolicy) -> Any:
    return policy.learn_mode.get_attribute("model")


def target(policy: DQNPolicy) -> Any:
    return policy.learn_mode.get_attribute("target_model")


def wave(shape: Any, phase: float) -> torch.Tensor:
    size = math.prod(shape)
    return torch.from_numpy(np.sin(0.7 * np.arange(size) + phase).astype(np.float32)).reshape(tuple(shape))


def golden_batch(nstep: int = 1, **extra: Any) -> list[dict]:
    samples = []
    for i in range(4):
        sample = {
            "obs": wave((4,), 0.3 * i),
            "next_obs": wave((4,), 0.3 * i + 0.2),
            "action": torch.tensor(i % 2),
            "reward": wave((nstep,), 0.5 + i),
            "done": i == 3,
        }
        samples.append({**sample, **{key: value(i) for key, value in extra.items()}})
    return samples


def fill(model: torch.nn.Module, scale: float = 0.1) -> None:
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.linspace(-scale, scale, p.numel()).reshape(p.shape))


def sum_abs(model: torch.nn.Module) -> float:
    return sum(float(p.detach().abs().sum()) for p in model.parameters())


GOLDEN = {
    "nstep1": (
        {"learn": {"target_update_freq": 2}},
        golden_batch(),
        [
            (121.242, 7.69252, 7.65497, [146.512, 0.61345, 146.981, 190.86]),
            (112.729, 7.52554, 7.65497, [138.557, 2.12798, 138.597, 171.632]),
            (90.6733, 7.36297, 7.30373, [105.063, 0.582107, 102.338, 154.71]),
        ],
        (1678.34, 1684.28),
    ),
    "nstep3": (
        {"learn": {"target_update_freq": 2}, "nstep": 3},
        golden_batch(3, value_gamma=lambda i: 0.97**3),
        [
            (132.203, 7.69252, 7.65497, [171.954, 0.962398, 113.002, 242.893]),
            (123.218, 7.52554, 7.65497, [163.326, 2.74415, 105.665, 221.137]),
            (101.729, 7.36125, 7.30207, [128.345, 1.08033, 75.6984, 201.794]),
        ],
        (1678.28, 1684.25),
    ),
    "weights": (
        {"priority": True, "priority_IS_weight": True},
        golden_batch(IS=lambda i: 1.0 / (1 + i)),
        [
            (60.8819, 7.69252, 7.65497, [146.512, 0.61345, 146.981, 190.86]),
            (57.1219, 7.59214, 7.65497, [138.042, 1.78213, 138.123, 174.055]),
            (53.7415, 7.65123, 7.65497, [129.277, 2.51232, 129.058, 165.654]),
        ],
        (1689.22, 1696.9),
    ),
}


@pytest.mark.parametrize("reference", [True, False], ids=["reference", "corrected"])
@pytest.mark.parametrize("as_columns", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("case", list(GOLDEN))
def test_golden_vectors(case, as_columns, reference):
    overrides, samples, steps, (learner_sum, target_sum) = GOLDEN[case]
    learn = {**overrides.get("learn", {}), "batch_size": 4}
    policy = make_policy(
        fields=["learn", "collect"], **{**overrides, "learn": learn}, reference_numerics=reference, cuda=False
    )
    fill(net(policy))
    fill(target(policy))
    for loss, q_value, target_q_value, priority in steps:
        data = TransitionBatch(TransitionBatch.from_rows(samples).columns) if as_columns else copy.deepcopy(samples)
        out = policy.learn_mode.forward(data)
        assert out["cur_lr"] == 0.001
        assert out["total_loss"] == pytest.approx(loss, rel=1e-4)
        assert out["q_value"] == pytest.approx(q_value, rel=1e-4)
        assert out["target_q_value"] == pytest.approx(target_q_value, rel=1e-4)
        # The corrected priority is the absolute TD error, the reference's its square: the updates are the same.
        expected = priority if reference else [math.sqrt(value) for value in priority]
        assert out["priority"] == pytest.approx(expected, rel=1e-4)
    assert sum_abs(net(policy)) == pytest.approx(learner_sum, rel=1e-4)
    assert sum_abs(target(policy)) == pytest.approx(target_sum, rel=1e-4)


def test_log_values_are_plain_floats():
    policy = make_policy()
    out = policy.learn_mode.forward(golden_batch())
    assert list(out) == ["cur_lr", "total_loss", "q_value", "target_q_value", "priority"]
    assert all(type(out[key]) is float for key in policy.learn_mode.monitor_vars())
    assert [type(value) for value in out["priority"]] == [float] * 4


def test_cur_lr_follows_a_scheduler():
    policy = make_policy()
    policy.learn_mode.get_attribute("optimizer").param_groups[0]["lr"] = 0.25
    assert policy.learn_mode.forward(golden_batch())["cur_lr"] == 0.25


def test_double_q_uses_the_learner_for_the_choice_and_the_target_for_the_value():
    class Table(torch.nn.Module):
        def __init__(self, values: list[float]) -> None:
            super().__init__()
            self.values = torch.nn.Parameter(torch.tensor(values))

        def forward(self, x: torch.Tensor) -> dict:
            return {"logit": self.values.expand(len(x), 2)}

    policy = make_policy(model=Table([1.0, 2.0]), discount_factor=0.5, learn={"learning_rate": 0.0})
    with torch.no_grad():
        target(policy).values.copy_(torch.tensor([40.0, 10.0]))
    sample = {
        "obs": torch.zeros(4),
        "next_obs": torch.zeros(4),
        "action": torch.tensor([0]),
        "reward": torch.tensor([3.0]),
        "done": False,
    }
    out = policy.learn_mode.forward([sample, {**sample, "done": True}])
    # 3 + 0.5 * 10 - 1 where not done, 3 - 1 where done.
    assert out["priority"] == pytest.approx([7.0, 2.0])
    assert out["total_loss"] == pytest.approx((49.0 + 4.0) / 2)
    masked = {**sample, "next_action_mask": torch.tensor([1.0, 0.0])}
    assert policy.learn_mode.forward([masked])["priority"] == pytest.approx([3 + 0.5 * 40 - 1])
    # A mask that forbids all is taken as one that allows all.
    masked = {**sample, "next_action_mask": torch.zeros(2)}
    assert policy.learn_mode.forward([masked])["priority"] == pytest.approx([7.0])


def test_next_action_mask_of_the_sample_precedes_the_mask_of_the_observation():
    class Features(torch.nn.Linear):
        def forward(self, x: dict) -> dict:
            return {"logit": super().forward(x["features"])}

    model = Features(1, 2)
    with torch.no_grad():
        model.weight.zero_()
        model.bias.copy_(torch.tensor([5.0, 9.0]))
    policy = make_policy(model=model, discount_factor=1.0)
    obs = {"features": torch.zeros(1), "action_mask": torch.tensor([1.0, 0.0])}
    sample = {"obs": obs, "next_obs": obs, "action": torch.tensor([0]), "reward": torch.tensor([1.0]), "done": False}
    assert policy.calculate_priority([sample])["priority"] == pytest.approx([1 + 5 - 5])
    masked = {**sample, "next_action_mask": torch.tensor([0.0, 1.0])}
    assert policy.calculate_priority([masked])["priority"] == pytest.approx([1 + 9 - 5])


def test_ignore_done_bootstraps_at_the_end():
    plain, ignoring = make_policy(), make_policy(learn={"ignore_done": True})
    for policy in (plain, ignoring):
        fill(net(policy))
        fill(target(policy))
    left = plain.learn_mode.forward(golden_batch())["priority"]
    right = ignoring.learn_mode.forward(golden_batch())["priority"]
    assert left[:3] == right[:3]
    assert left[3] != right[3]


# ---------------------------------------------------------------------------------------------------- target network


def _target_moves(policy: DQNPolicy, updates: int) -> list[bool]:
    moves = []
    for _ in range(updates):
        before = [p.detach().clone() for p in target(policy).parameters()]
        policy.learn_mode.forward(golden_batch())
        moves.append(any(not torch.equal(a, b) for a, b in zip(before, target(policy).parameters())))
    return moves


@pytest.mark.parametrize(
    ("learn", "extra", "moves"),
    [
        ({"target_update_freq": 3}, {}, [False, False, True, False, False, True]),
        ({"target_update_freq": None}, {}, [True] * 6),
        ({"target_theta": 0.01}, {}, [True] * 6),
        ({"target_theta": 0.01}, {"reference_numerics": True}, [False] * 6),
        ({"target_theta": 0.01, "target_update_freq": 2}, {}, [False, True] * 3),
        ({"target_update_type": "momentum"}, {}, [True] * 6),
        (
            {"target_update_type": "assign", "target_theta": 0.1, "target_update_freq": 4},
            {},
            [False] * 3 + [True] + [False] * 2,
        ),
    ],
)
def test_target_update_rule(learn, extra, moves):
    assert _target_moves(make_policy(learn=learn, **extra), 6) == moves


def test_momentum_moves_by_theta():
    policy = make_policy(learn={"target_theta": 0.25})
    before = {name: p.detach().clone() for name, p in target(policy).named_parameters()}
    policy.learn_mode.forward(golden_batch())
    learner = dict(net(policy).named_parameters())
    for name, p in target(policy).named_parameters():
        torch.testing.assert_close(p, 0.75 * before[name] + 0.25 * learner[name])


@pytest.mark.parametrize(
    ("learn", "message"),
    [
        ({"target_update_freq": None, "target_theta": None}, "no update rule"),
        ({"target_update_freq": 0}, "target_update_freq must be an int of at least 1, found 0"),
        ({"target_theta": 1.5}, r"target_theta must lie in \(0, 1\], found 1.5"),
        ({"target_theta": 0.0}, r"target_theta must lie in \(0, 1\], found 0.0"),
        ({"target_update_type": "asign"}, "Did you mean 'assign'"),
    ],
)
def test_bad_target_update_rules(learn, message):
    with pytest.raises(PolicyConfigError, match=message):
        make_policy(learn=learn)


def test_missing_rule_is_a_runtime_error():
    cfg = deep_merge_dicts(DQNPolicy.default_config(), {"model": {"obs_shape": 4, "action_shape": 2}})
    del cfg.learn["target_update_freq"], cfg.learn["target_theta"]
    with pytest.raises(RuntimeError, match="no update rule"):
        DQNPolicy(cfg)


# ---------------------------------------------------------------------------------------------------- priorities


def test_calculate_priority_learns_nothing():
    policy = make_policy()
    with torch.no_grad():
        next(iter(target(policy).parameters())).add_(0.5)
    before = copy.deepcopy(policy.learn_mode.state_dict())
    first = policy.calculate_priority(golden_batch())["priority"]
    after = policy.learn_mode.state_dict()
    for key in ("model", "target_model"):
        assert all(torch.equal(before[key][name], after[key][name]) for name in before[key])
    assert policy.learn_mode.forward(golden_batch())["priority"] == pytest.approx(first)


def test_calculate_priority_can_renew_the_target():
    policy = make_policy()
    with torch.no_grad():
        next(iter(target(policy).parameters())).add_(0.5)
    policy.calculate_priority(golden_batch(), update_target_model=True)
    learner = net(policy).state_dict()
    assert all(torch.equal(value, learner[name]) for name, value in target(policy).state_dict().items())


def test_calculate_priority_keeps_the_rhythm_of_the_target():
    policy = make_policy(learn={"target_update_freq": 3})
    assert _target_moves(policy, 2) == [False, False]
    policy.calculate_priority(golden_batch(), update_target_model=True)
    assert _target_moves(policy, 4) == [True, False, False, True]


def test_calculate_priority_needs_no_weights_of_a_buffer():
    policy = make_policy(priority=True, priority_IS_weight=True)
    plain = make_policy(model=copy.deepcopy(net(policy)))
    assert policy.calculate_priority(golden_batch()) == plain.calculate_priority(golden_batch())


def test_calculate_priority_leaves_batch_statistics_alone():
    class Normed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.head = torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)

        def forward(self, obs):
            return {"logit": self.head(self.norm(obs))}

    policy = make_policy(model=Normed())
    policy.calculate_priority(golden_batch())
    assert net(policy).norm.num_batches_tracked == target(policy).norm.num_batches_tracked == 0
    policy.learn_mode.forward(golden_batch())
    # The learner sees both observations, the target the next one.
    assert (net(policy).norm.num_batches_tracked, target(policy).norm.num_batches_tracked) == (2, 1)


class _OwnLearning(DQNPolicy):
    """A learn step as scripts of DI-engine write it: the models give ``logit`` and ``action``."""

    def _forward_learn(self, data):
        batch = default_preprocess_learn(data, use_nstep=True)
        q_value = self._learn_model.forward(batch["obs"])["logit"]
        with torch.no_grad():
            target_q_value = self._target_model.forward(batch["next_obs"])["logit"]
            next_action = self._learn_model.forward(batch["next_obs"])["action"]
        loss, error = q_nstep_td_error(
            q_nstep_td_data(
                q_value, target_q_value, batch["action"], next_action, batch["reward"], batch["done"], batch["weight"]
            ),
            self._gamma,
            nstep=self._nstep,
        )
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self._target_model.update(self._learn_model.state_dict())
        return {"total_loss": loss.item(), "priority": error.sqrt().tolist()}


def test_a_learn_step_of_a_subclass_has_the_models_of_the_original_api():
    cfg = deep_merge_dicts(DQNPolicy.default_config(), {"model": {"obs_shape": 4, "action_shape": 2}})
    own, shipped = _OwnLearning(cfg), make_policy()
    for policy in (own, shipped):
        for model in (net(policy), target(policy)):
            fill(model)
    for _ in range(3):
        mine, theirs = own.learn_mode.forward(golden_batch()), shipped.learn_mode.forward(golden_batch())
        assert mine["total_loss"] == pytest.approx(theirs["total_loss"])
        assert mine["priority"] == pytest.approx(theirs["priority"])


# ---------------------------------------------------------------------------------------------------- collect, eval


def test_eps_is_required():
    policy = make_policy()
    with pytest.raises(TypeError, match="eps"):
        policy.collect_mode.forward({0: torch.zeros(4)})


def test_forward_of_both_forms():
    policy = make_policy()
    obs = {2: wave((4,), 0.1), 7: wave((4,), 0.9)}
    classic = policy.collect_mode.forward(obs, eps=0.0)
    assert isinstance(classic, dict)
    assert list(classic) == [2, 7]
    assert classic[2]["action"].dtype == torch.int64
    assert classic[2]["action"].shape == (1,)
    assert classic[2]["logit"].shape == (2,)
    assert not classic[2]["logit"].requires_grad
    batch = EnvBatch(np.array([2, 7]), torch.stack(list(obs.values())).double().numpy())
    columns = policy.collect_mode.forward(batch, eps=0.0)
    assert isinstance(columns, EnvBatch)
    assert columns.columns["action"].shape == (2, 1)
    assert torch.equal(columns[7]["logit"], classic[7]["logit"])
    greedy = policy.eval_mode.forward(obs)
    for env_id in obs:
        assert int(greedy[env_id]["action"]) == int(greedy[env_id]["logit"].argmax())
        assert torch.equal(greedy[env_id]["action"], classic[env_id]["action"])


def test_epsilon_is_drawn_per_environment():
    set_pkg_seed(0, use_cuda=False)
    policy = make_policy()
    batch = EnvBatch(np.arange(4000), np.ones((4000, 4), np.float32))
    greedy = int(policy.eval_mode.forward(batch)[0]["action"])
    action = policy.collect_mode.forward(batch, eps=0.5).columns["action"]
    # Half of the rows are random, and half of those pick the greedy action by chance.
    assert abs(float((action == greedy).float().mean()) - 0.75) < 0.03


def test_reference_numerics_draws_epsilon_once_for_all():
    set_pkg_seed(0, use_cuda=False)
    policy = make_policy(reference_numerics=True)
    batch = EnvBatch(np.arange(64), np.ones((64, 4), np.float32))
    greedy = int(policy.eval_mode.forward(batch)[0]["action"])
    shares = {
        float((policy.collect_mode.forward(batch, eps=0.5).columns["action"] == greedy).float().mean())
        for _ in range(20)
    }
    # Either all rows are greedy or about half of them are.
    assert 1.0 in shares
    assert all(share == 1.0 or share < 0.8 for share in shares)
    assert len(shares) > 1


def test_modes_of_the_network():
    policy = make_policy()
    policy.learn_mode.forward(golden_batch())
    assert net(policy).training
    assert target(policy).training
    policy.collect_mode.forward({0: torch.zeros(4)}, eps=0.1)
    assert not net(policy).training
    policy.learn_mode.forward(golden_batch())
    policy.eval_mode.forward({0: torch.zeros(4)})
    assert not net(policy).training


def test_modes_of_layers_that_decide_by_themselves():
    class Frozen(torch.nn.BatchNorm1d):
        def train(self, mode=True):
            return super().train(False)

    policy = make_policy()
    net(policy).frozen = Frozen(2)
    net(policy).inner = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Dropout())
    policy.eval_mode.forward({0: torch.zeros(4)})
    assert not any(module.training for module in net(policy).modules())
    policy.learn_mode.forward(golden_batch())
    assert [module for module in net(policy).modules() if not module.training] == [net(policy).frozen]


def test_process_transition():
    policy = make_policy()
    step = BaseEnvTimestep(np.ones(4), np.array([2.0]), True, {"TimeLimit.truncated": True})
    got = policy.collect_mode.process_transition("obs", {"action": 1, "logit": 0}, step)
    assert list(got) == ["obs", "next_obs", "action", "reward", "done"]
    assert got["done"] is False
    assert make_policy(reference_numerics=True).collect_mode.process_transition("obs", {"action": 1}, step)["done"]


def test_train_samples_carry_nstep_rewards():
    policy = make_policy(nstep=3, discount_factor=0.9)
    transitions = [
        {
            "obs": torch.full((4,), float(i)),
            "next_obs": torch.full((4,), i + 1.0),
            "action": torch.tensor([0]),
            "reward": torch.tensor([i + 1.0]),
            "done": False,
        }
        for i in range(4)
    ]
    samples = policy.collect_mode.get_train_sample(copy.deepcopy(transitions))
    assert [sample["reward"].tolist() for sample in samples] == [[1, 2, 3], [2, 3, 4], [3, 4, 0], [4, 0, 0]]
    assert [float(sample["value_gamma"]) for sample in samples] == pytest.approx([0.9**3, 0.9**3, 0.9**2, 0.9])
    reference = make_policy(nstep=3, discount_factor=0.9, reference_numerics=True)
    samples = reference.collect_mode.get_train_sample(copy.deepcopy(transitions))
    assert [float(sample["value_gamma"]) for sample in samples] == pytest.approx([0.9**3, 0.9**2, 0.9, 1.0])
    assert policy.learn_mode.forward(samples)["total_loss"] > 0


# ---------------------------------------------------------------------------------------------------- observations


class _DictNet(torch.nn.Module):
    """A network for an observation of two parts."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(5, 3)

    def forward(self, x: dict) -> dict:
        return {"logit": self.net(torch.cat([x["position"], x["speed"]], dim=-1))}


def test_dict_observations():
    policy = make_policy(model=_DictNet())
    obs = {i: {"position": torch.ones(3) * i, "speed": torch.zeros(2)} for i in range(4)}
    out = policy.collect_mode.forward(obs, eps=0.3)
    samples = [
        {"obs": obs[i], "next_obs": obs[i], "action": out[i]["action"], "reward": torch.ones(1), "done": False}
        for i in obs
    ]
    before = sum_abs(net(policy))
    policy.learn_mode.forward(samples)
    assert sum_abs(net(policy)) != before


def _masked_obs(mask: list[int], n: int) -> dict:
    return {i: {"observation": wave((4,), i), "action_mask": torch.tensor(mask)} for i in range(n)}


@pytest.mark.parametrize("eps", [0.0, 1.0])
def test_masked_actions_are_never_taken(eps):
    policy = make_policy(model_cfg={"action_shape": 3})
    for allowed in range(3):
        mask = [int(i == allowed) for i in range(3)]
        obs = _masked_obs(mask, 16)
        got = policy.collect_mode.forward(obs, eps=eps)
        assert {int(value["action"]) for value in got.values()} == {allowed}
        assert {int(value["action"]) for value in policy.eval_mode.forward(obs).values()} == {allowed}
        assert obs[0]["action_mask"].tolist() == mask


def test_bootstrap_obeys_the_mask_of_the_next_observation():
    policy = make_policy(learn={"learning_rate": 0.0})
    with torch.no_grad():
        for p in target(policy).parameters():
            p.add_(0.1)
    samples = [
        {
            "obs": {"observation": wave((4,), 0.1), "action_mask": torch.ones(2)},
            "next_obs": {"observation": wave((4,), 0.4), "action_mask": torch.tensor(mask)},
            "action": torch.tensor([0]),
            "reward": torch.zeros(1),
            "done": False,
        }
        for mask in ([1.0, 0.0], [0.0, 1.0])
    ]
    priority = policy.learn_mode.forward(samples)["priority"]
    with torch.no_grad():
        q = net(policy)(wave((1, 4), 0.1))["logit"][0, 0]
        next_q = target(policy).forward(wave((1, 4), 0.4))["logit"][0]
    assert priority == pytest.approx([abs(float(q - 0.97 * next_q[i])) for i in (0, 1)], rel=1e-4)


def test_a_final_observation_may_allow_no_action():
    policy = make_policy()
    sample = {
        "obs": {"observation": wave((4,), 0.1), "action_mask": torch.ones(2)},
        "next_obs": {"observation": wave((4,), 0.4), "action_mask": torch.zeros(2)},
        "action": torch.tensor([0]),
        "reward": torch.ones(1),
        "done": True,
    }
    assert math.isfinite(policy.learn_mode.forward([sample])["total_loss"])


# ---------------------------------------------------------------------------------------------------- noisy nets


def test_noisy_net():
    set_pkg_seed(0, use_cuda=False)
    policy = _noisy_policy()
    obs = {0: wave((4,), 0.2)}
    logits = []
    for _ in range(2):
        logits.append(policy.collect_mode.forward(obs, eps=0.0)[0]["logit"])
        policy.learn_mode.forward(golden_batch())
    greedy = [policy.eval_mode.forward(obs)[0]["logit"] for _ in range(2)]
    assert torch.equal(*greedy)
    assert not torch.equal(policy.collect_mode.forward(obs, eps=0.0)[0]["logit"], greedy[0])
    assert not torch.equal(*logits)


def test_noisy_net_without_noise_layers_is_told(caplog):
    make_policy(noisy_net=True)
    assert "policy.noisy_net=True has no effect" in caplog.text


def test_learning_resamples_the_noise_of_both_networks():
    policy = _noisy_policy()

    def noise() -> list[torch.Tensor]:
        models = (net(policy), target(policy))
        return [value.clone() for m in models for name, value in m.state_dict().items() if name.endswith("weight_eps")]

    before = noise()
    policy.learn_mode.forward(golden_batch())
    assert len(before) > 0
    assert not any(torch.equal(a, b) for a, b in zip(before, noise()))


def _noisy_policy() -> DQNPolicy:
    return make_policy(model_cfg={"noise": True}, noisy_net=True)


# ---------------------------------------------------------------------------------------------------- seeds and state


def _random_batch(generator: torch.Generator, size: int = 16) -> TransitionBatch:
    return TransitionBatch(
        {
            "obs": torch.randn(size, 4, generator=generator),
            "next_obs": torch.randn(size, 4, generator=generator),
            "action": torch.randint(2, (size, 1), generator=generator),
            "reward": torch.randn(size, 1, generator=generator),
            "done": np.arange(size) == 3,
        }
    )


def _train(policy: DQNPolicy, first: int, last: int) -> None:
    for i in range(first, last):
        policy.collect_mode.forward({0: torch.zeros(4)}, eps=0.5)
        policy.learn_mode.forward(_random_batch(torch.Generator().manual_seed(i)))


def _assert_equal_states(left: dict, right: dict) -> None:
    for key in ("model", "target_model"):
        for name, value in left[key].items():
            assert torch.equal(value, right[key][name]), (key, name)


def test_a_seed_gives_the_same_parameters_bit_for_bit():
    states = []
    for _ in range(2):
        set_pkg_seed(3, use_cuda=False)
        policy = make_policy(learn={"target_update_freq": 7})
        _train(policy, 0, 50)
        states.append(policy.learn_mode.state_dict())
    _assert_equal_states(*states)


@pytest.mark.parametrize("learn", [{"target_update_freq": 7}, {"target_theta": 0.02}], ids=["assign", "momentum"])
def test_a_loaded_state_goes_on_bit_for_bit(learn, tmp_path):
    set_pkg_seed(3, use_cuda=False)
    policy = make_policy(learn=learn)
    _train(policy, 0, 10)
    assert set(policy.learn_mode.state_dict()) == {"model", "target_model", "optimizer"}
    torch.save(policy.learn_mode.state_dict(), tmp_path / "ckpt.pth.tar")
    _train(policy, 10, 25)
    resumed = make_policy(learn=learn)
    resumed.learn_mode.load_state_dict(torch.load(tmp_path / "ckpt.pth.tar", weights_only=True))
    _train(resumed, 10, 25)
    _assert_equal_states(policy.learn_mode.state_dict(), resumed.learn_mode.state_dict())


def test_learn_state_is_strict():
    policy = make_policy()
    state = policy.learn_mode.state_dict()
    with pytest.raises(KeyError, match=r"missing \['target_model'\]"):
        policy.learn_mode.load_state_dict({key: value for key, value in state.items() if key != "target_model"})
    with pytest.raises(KeyError, match=r"unknown \['aux_optimizer'\]"):
        policy.learn_mode.load_state_dict({**state, "aux_optimizer": {}})


# ---------------------------------------------------------------------------------------------------- registry


def test_registered_twice():
    assert get_policy_cls(DQNPolicy.default_config()) is DQNPolicy
    cfg = DQNCommandModePolicy.default_config()
    assert cfg.cfg_type == "DQNCommandModePolicyDict"
    cfg.type = "dqn_command"
    cfg.model.update({"obs_shape": 4, "action_shape": 2})
    policy = create_policy(cfg, enable_field=["collect", "command"])
    assert isinstance(policy, DQNCommandModePolicy)
    assert policy.command_mode.get_setting_collect({"envstep": 0}) == {"eps": 0.95}


def test_default_config_is_the_documented_one():
    cfg = DQNPolicy.default_config()
    assert cfg.model == {"encoder_hidden_size_list": [128, 128, 64]}
    expected = {
        "update_per_collect": 3,
        "batch_size": 64,
        "learning_rate": 0.001,
        "target_update_freq": 100,
        "target_theta": 0.005,
        "ignore_done": False,
        "resume_training": False,
    }
    assert {key: cfg.learn[key] for key in expected} == expected
    assert (cfg.priority, cfg.priority_IS_weight, cfg.discount_factor, cfg.nstep) == (False, False, 0.97, 1)
    assert cfg.collect == {"n_sample": 8, "unroll_len": 1}
    assert cfg.other.eps == {"type": "exp", "start": 0.95, "end": 0.1, "decay": 10000}
    assert cfg.other.replay_buffer == {"replay_buffer_size": 10000}


def test_several_discrete_actions_at_once():
    policy = make_policy(model_cfg={"action_shape": [2, 3]}, nstep=2)
    batch = EnvBatch(np.arange(5), np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32))
    out = policy.collect_mode.forward(batch, eps=0.5)
    assert len(out[0]["action"]) == 2
    assert [tuple(part.shape) for part in out[0]["action"]] == [(1,), (1,)]
    assert [tuple(part.shape) for part in out[0]["logit"]] == [(2,), (3,)]
    samples = [
        {
            "obs": wave((4,), i),
            "next_obs": wave((4,), i + 1),
            "action": out[i]["action"],
            "reward": torch.ones(2),
            "done": False,
            "value_gamma": 0.9,
        }
        for i in range(5)
    ]
    before = sum_abs(net(policy))
    learned = policy.learn_mode.forward(samples)
    assert len(learned["priority"]) == 5
    # The loss is the mean over the heads, whose squared errors the priority averages.
    assert learned["total_loss"] == pytest.approx(np.mean(np.square(learned["priority"])), rel=1e-4)
    assert sum_abs(net(policy)) != before


def test_gradients_are_clipped_as_the_config_says():
    def step(**learn: Any) -> float:
        set_pkg_seed(0, use_cuda=False)
        policy = make_policy(learn={"batch_size": 4, **learn})
        before = [p.detach().clone() for p in net(policy).parameters()]
        policy.learn_mode.get_attribute("optimizer").param_groups[0]["eps"] = 1.0
        policy.learn_mode.forward(golden_batch())
        return sum(float((p.detach() - old).abs().sum()) for p, old in zip(net(policy).parameters(), before))

    assert step(grad_clip_type="clip_norm", grad_clip_value=1e-3) < 0.1 * step()
    with pytest.raises(PolicyConfigError, match=r"policy\.learn\.grad_clip_type='clip_nrom'"):
        make_policy(learn={"grad_clip_type": "clip_nrom", "grad_clip_value": 1.0})
