"""Policies that choose examples for a prompt: learn steps against DI-engine's numbers, and what is refused."""

import json

import pytest
import torch
from easydict import EasyDict

from ding.data import EnvBatch, TransitionBatch
from ding.entry import serial_pipeline_onpolicy
from ding.policy import PromptAWRCommandModePolicy, create_policy, get_policy_cls
from ding.policy.errors import PolicyDataError
from ding.utils import deep_merge_dicts, set_pkg_seed
from tests.model.language_stand_in import fill, stand_ins

CANDIDATES = ["ab", "c0", "xyz", "hello"]


def observation(i):
    return {"train_sample": f"q{i}", "candidate_samples": CANDIDATES}


def make(kind, shots=2, **options):
    cls = get_policy_cls(EasyDict(type=kind))
    own = {
        "type": kind,
        "cuda": False,
        "shot_number": shots,
        "model": {"model_name": "none", "add_linear": True, "embedding_size": 4, "hidden_dim": 6},
        "learn": {"batch_size": 2, "learning_rate": 0.1},
    }
    with stand_ins():
        policy = create_policy(EasyDict(deep_merge_dicts(deep_merge_dicts(cls.default_config(), own), options)))
    fill(policy.learn_mode.get_attribute("model"), 0.5)
    return policy


def transitions(**extra):
    return [
        {
            "obs": observation(i),
            "action": torch.tensor([i % 4, (i + 1) % 4]),
            "reward": torch.tensor([(-1.0) ** i]),
            "done": i == 3,
            **{key: make_value(i) for key, make_value in extra.items()},
        }
        for i in range(4)
    ]


def returns(samples):
    return [float(sample["return"]) for sample in samples]


def weights(policy):
    return sum(weight.abs().sum().item() for weight in policy.learn_mode.get_attribute("model").parameters())


def test_choices_golden():
    policy = make("prompt_pg")
    found = policy.eval_mode.forward({0: observation(0), 1: observation(1)})
    assert [found[i]["action"].tolist() for i in (0, 1)] == [[1, 3], [0, 3]]
    expected = [[0.921486, 1.92475, 1.24019, 1.60097], [1.48519, 0.471046, 0.470582, 0.939915]]
    for i in (0, 1):
        assert found[i]["logit"].tolist() == pytest.approx(expected[i], rel=1e-4)
    critic = make("prompt_awr", shots=4).collect_mode.forward({0: observation(0), 1: observation(1)})
    assert sorted(critic[1]["action"].tolist()) == [0, 1, 2, 3]
    assert critic[1]["value"].shape == (1,)


def test_choices_are_drawn_by_their_probability_without_replacement():
    set_pkg_seed(0, use_cuda=False)
    policy, rows = make("prompt_pg"), 2000
    obs = {"train_sample": ["q0"] * rows, "candidate_samples": [CANDIDATES] * rows}
    columns = policy.collect_mode.forward(EnvBatch(list(range(rows)), obs)).columns
    action, probabilities = columns["action"], columns["logit"][0].softmax(-1)
    assert (action[:, 0] != action[:, 1]).all()
    share = torch.bincount(action[:, 0], minlength=4) / rows
    torch.testing.assert_close(share, probabilities, rtol=0, atol=0.04)


@pytest.mark.parametrize("columns", [False, True])
def test_policy_gradient_golden(columns):
    policy = make("prompt_pg")
    samples = policy.collect_mode.get_train_sample(transitions())
    assert returns(samples) == [1, -1, 1, -1]
    if columns:
        samples = TransitionBatch.from_rows(samples)
    logs = policy.learn_mode.forward(samples)
    expected = [[-0.407492, -0.394443, -0.0130493, 4.01158], [1.7237, 1.73216, -0.00845659, 4.25286]]
    for log, numbers in zip(logs, expected, strict=True):
        found = [log[name] for name in ("total_loss", "policy_loss", "entropy_loss", "grad_norm")]
        assert found == pytest.approx(numbers, rel=1e-3)
        assert set(policy.learn_mode.monitor_vars()) == set(log)
    assert weights(policy) == pytest.approx(25.1821, rel=1e-4)
    discounted = make("prompt_pg", collect={"discount_factor": 0.5})
    assert returns(discounted.collect_mode.get_train_sample(transitions())) == [0.625, -0.75, 0.5, -1]


def test_advantage_weighted_regression_golden():
    extra = {"value": lambda i: torch.tensor([0.1 * i])}
    policy = make("prompt_awr", reference_numerics=True, learn={"norm_range": (-0.5, 0.5)})
    samples = policy.collect_mode.get_train_sample(transitions(**extra))
    assert returns(samples) == pytest.approx([0.181, -0.91, 0.1, -1])
    log = policy.learn_mode.forward(samples)
    names = ("total_loss", "policy_loss", "entropy_loss", "value_loss", "grad_norm")
    expected = [2.71725, 2.29069, -0.00134292, 0.427905, 1.51529]
    assert [log[name] for name in names] == pytest.approx(expected, rel=1e-3)
    assert set(policy.learn_mode.monitor_vars()) == set(log)
    assert weights(policy) == pytest.approx(24.1604, rel=1e-4)


def test_each_value_learns_the_return_of_its_own_text():
    """DI-engine compares each return with the values of all texts, by a broadcast, and ignores ``value_weight``."""
    policy = make("prompt_awr", learn={"batch_size": 4, "value_weight": 0.25})
    samples = policy.collect_mode.get_train_sample(transitions(value=lambda i: torch.tensor([0.1 * i])))
    model = policy.learn_mode.get_attribute("model")
    value = model([f"q{i}" for i in range(4)], mode="compute_critic")["value"].squeeze(1)
    log = policy.learn_mode.forward(samples)
    expected = (value - torch.tensor(returns(samples))).square().mean().item()
    assert log["value_loss"] == pytest.approx(expected, rel=1e-5)
    total = log["policy_loss"] + 0.25 * log["value_loss"] + log["entropy_loss"]
    assert log["total_loss"] == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize("kind", ["prompt_pg", "prompt_awr"])
def test_one_choice_of_each_text_learns_and_its_state_loads(kind):
    policy, other = make(kind, shots=1), make(kind, shots=1)
    found = policy.collect_mode.forward({0: observation(0), 1: observation(1)})
    samples = []
    for i, output in found.items():
        timestep = EasyDict(obs=observation(i), reward=torch.tensor([1.0]), done=True, info={})
        samples.append(policy.collect_mode.process_transition(observation(i), output, timestep))
    policy.learn_mode.forward(policy.collect_mode.get_train_sample(samples))
    other.learn_mode.load_state_dict(policy.learn_mode.state_dict())
    assert weights(other) == weights(policy)
    again = [side.eval_mode.forward({0: observation(2)})[0]["logit"] for side in (policy, other)]
    torch.testing.assert_close(*again)


def test_what_is_refused_is_named():
    policy = make("prompt_pg")
    different = {**observation(1), "candidate_samples": ["ab", "c1", "xyz", "hello"]}
    with pytest.raises(PolicyDataError, match="the same candidate_samples, but row 1 differs"):
        policy.eval_mode.forward({0: observation(0), 1: different})
    with pytest.raises(PolicyDataError, match=r"must be \{'train_sample'"):
        policy.eval_mode.forward({0: {"texts": "q"}})
    with pytest.raises(ValueError, match=r"shot_number must be in \[1, 4\]"):
        make("prompt_pg", shots=5).eval_mode.forward({0: observation(0)})
    with pytest.raises(NotImplementedError, match="ignore_done"):
        make("prompt_awr", learn={"ignore_done": True}).collect_mode.get_train_sample(transitions())
    assert issubclass(PromptAWRCommandModePolicy, get_policy_cls(EasyDict(type="prompt_awr")))


@pytest.mark.parametrize("kind", ["prompt_pg", "prompt_awr"])
def test_a_run_of_the_pipeline(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = {
        "exp_name": "run",
        "env": {"collector_env_num": 3, "evaluator_env_num": 2, "n_evaluator_episode": 4, "stop_value": 2},
        "policy": {
            "cuda": False,
            "shot_number": 2,
            "model": {"model_name": "none", "add_linear": True, "embedding_size": 4, "hidden_dim": 6},
            "learn": {"batch_size": 8},
            "collect": {"n_sample": 12},
        },
    }
    create = {"env": {"type": "word_match"}, "env_manager": {"type": "base"}, "policy": {"type": kind}}
    with stand_ins():
        serial_pipeline_onpolicy((EasyDict(config), EasyDict(create)), seed=0, max_env_step=36)
    result = json.loads((tmp_path / "run/result.json").read_text(encoding="utf-8"))
    assert result["env_step"] >= 36
    assert 0.0 <= result["eval_value"] <= 1.0
    assert result["train_iter"] > 0
