"""Private attributes of DI-engine's policies: each has a value, and nothing in this package reads it."""

import copy
import logging
import pickle
from typing import Any

import pytest
import torch

import ding.policy.base_policy
from ding.policy import PolicyMemberError, PPOPolicy, SACPolicy, TD3Policy
from ding.policy.original_attributes import attribute_sources, original_attribute
from tests.policy.test_policy_conformance import CASES, REGRESSION, _learn, _learner, _make
from tests.policy.test_policy_joint_q import CASES as JOINT
from tests.policy.test_policy_joint_q import collect, policy_of, samples_of
from tests.policy.test_policy_reference_checkpoints import STATES, make

# What a policy of the default config does not have.
CONDITIONAL = {"_lr_scheduler"}


@pytest.mark.parametrize("case", STATES)
def test_every_attribute_has_a_value(case: str) -> None:
    policy = make(case)
    for name in {name for name, _ in attribute_sources(type(policy))} - CONDITIONAL:
        assert getattr(policy, name) is not None or name in ("_v_min", "_bp_update_sync"), name


def _ppo(**learn: Any) -> Any:
    return _make(PPOPolicy, {"learn": learn, "collect": {"gae_lambda": 0.7}})


def _read(policy: Any, *names: str) -> Any:
    """What a method of a subclass reads as ``self.<name>``."""
    values = [getattr(policy, name) for name in names]
    return values[0] if len(values) == 1 else values


def test_values_are_those_of_the_config() -> None:
    policy = _ppo(clip_ratio=0.3, lr_scheduler={"epoch_num": 2, "min_lr_lambda": 0.5})
    assert _read(policy, "_clip_ratio", "_gae_lambda", "_action_space") == [0.3, 0.7, "discrete"]
    assert policy.learn_mode.get_attribute("clip_ratio") == 0.3
    policy.cfg.learn.clip_ratio = 0.1
    assert _read(policy, "_clip_ratio") == 0.1
    assert _read(policy, "_lr_scheduler").get_last_lr() == [3e-4]


@pytest.mark.parametrize("log_space", [True, False])
def test_the_temperature_is_the_one_that_is_learned(log_space: bool) -> None:
    policy = _make(SACPolicy, {"learn": {"log_space": log_space}})
    (group,) = _read(policy, "_alpha_optim").param_groups
    assert group["params"] == [_read(policy, "_log_alpha" if log_space else "_alpha")]
    assert _read(policy, "_alpha").item() == pytest.approx(0.2)
    assert _read(policy, "_auto_alpha", "_log_space", "_twin_critic") == [True, log_space, True]
    assert hasattr(policy, "_log_alpha") == log_space


def test_updates_are_counted_on_after_a_restart() -> None:
    policy, batch = _learner("td3")
    _learn(policy, batch)
    other = _make(TD3Policy, REGRESSION)
    assert _read(other, "_forward_learn_cnt") == 0
    other.learn_mode.load_state_dict(policy.learn_mode.state_dict())
    assert _read(other, "_forward_learn_cnt") == 1


def test_an_attribute_that_is_set_is_an_ordinary_one() -> None:
    policy = _ppo()
    policy.learn_mode.set_attribute("clip_ratio", 0.5)
    assert vars(policy)["_clip_ratio"] == _read(policy, "_clip_ratio") == 0.5
    delattr(policy, "_clip_ratio")
    assert _read(policy, "_clip_ratio") == 0.2


def test_an_unknown_attribute_is_an_error_with_a_hint() -> None:
    policy = _ppo()
    with pytest.raises(PolicyMemberError, match=r"PPOPolicy has no attribute '_clip_ration'. Did you mean '_clip_rat"):
        _read(policy, "_clip_ration")
    with pytest.raises(AttributeError, match=r"_lr_scheduler.*lr_scheduler is None"):
        _read(policy, "_lr_scheduler")
    del policy.cfg.learn["clip_ratio"]
    with pytest.raises(AttributeError, match=r"the config has no policy\.learn\.clip_ratio"):
        _read(policy, "_clip_ratio")
    assert not hasattr(policy, "_target_model")
    error = PolicyMemberError("PPOPolicy", "_x", ("_y",))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301


def test_a_property_keeps_its_own_error() -> None:
    class Own(PPOPolicy):
        @property
        def scale(self) -> float:
            return self.nothing.std

    with pytest.raises(AttributeError, match="'nothing'"):
        _ = _make(Own, {}).scale


def test_copies_and_objects_without_config() -> None:
    policy = _ppo()
    for other in (copy.copy(policy), copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):  # noqa: S301
        assert _read(other, "_clip_ratio") == 0.2
    with pytest.raises(AttributeError, match="_clip_ratio"):
        _read(PPOPolicy.__new__(PPOPolicy), "_clip_ratio")


@pytest.fixture
def no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes reading one of the attributes an error, unless it is only looked for and there is none."""

    def read(policy: Any, name: str) -> Any:
        assert name not in dict(attribute_sources(type(policy))), f"ding reads {type(policy).__name__}.{name}"
        return original_attribute(policy, name)

    monkeypatch.setattr(ding.policy.base_policy, "original_attribute", read)


@pytest.mark.usefixtures("no_reading")
@pytest.mark.parametrize("case", CASES)
def test_the_policies_of_this_package_read_none_of_them(case: str) -> None:
    policy, batch = _learner(case)
    _learn(policy, batch)
    policy.learn_mode.load_state_dict(policy.learn_mode.state_dict())


@pytest.mark.usefixtures("no_reading")
@pytest.mark.parametrize("case", JOINT)
def test_nor_do_those_of_several_agents(case: str) -> None:
    policy = policy_of(case)
    policy.learn_mode.forward(samples_of(policy, collect(policy, case, False)))


class SetsInVain(PPOPolicy):
    """Changes an attribute, but leaves learning to the policy here."""

    def _init_learn(self) -> None:
        super()._init_learn()
        self._entropy_weight = 0.5


def test_what_is_set_in_vain_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class Reads(SetsInVain):
        def _forward_learn(self, data: Any) -> dict[str, float]:
            return {"total_loss": self._entropy_weight}

    with caplog.at_level(logging.WARNING):
        assert _make(Reads, {}).learn_mode.forward([]) == {"total_loss": 0.5}
        assert _make(SetsInVain, {"learn": {"entropy_weight": 0.5}})
        assert caplog.messages == []
        _make(SetsInVain, {})
    assert "sets _entropy_weight=0.5" in caplog.text
    assert "policy.learn.entropy_weight" in caplog.text


class CopiedInit(PPOPolicy):
    """Builds all parts of learning itself, as DI-engine does it."""

    def _init_learn(self) -> None:
        self._priority, self._priority_IS_weight = self._cfg.priority, self._cfg.priority_IS_weight
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.1)
        self._learn_model = self._model
        self._clip_ratio = self._cfg.learn.clip_ratio


def test_learning_needs_no_more_than_what_the_originals_init_sets() -> None:
    policy = _make(CopiedInit, {"learn": {"value_norm": False, "epoch_per_collect": 1}})
    _, batch = _learner("ppo")
    assert _learn(policy, batch)[0]["cur_lr"] == 0.1
