"""Keys that are misspelt or that nobody reads."""

import logging
from pathlib import Path
from typing import Any

import pytest
from easydict import EasyDict

from ding.config import (
    UnknownKeyError,
    compile_config,
    compile_config_parallel,
    read_config,
    read_config_with_system,
)
from ding.config.checks.keys import check_keys
from ding.policy import DQNPolicy, FQFPolicy, Policy, PPOPolicy
from ding.utils import POLICY_REGISTRY, import_module

import_module(["ding.policy"])
CONFIGS = sorted((Path(__file__).parents[3] / "configs").rglob("*_config.py"))
REGISTERED = {name: POLICY_REGISTRY.get(name) for name in POLICY_REGISTRY.query()}
# Other tests register policies, too.
SHIPPED = sorted(
    name for name, cls in REGISTERED.items() if issubclass(cls, Policy) and cls.__module__.startswith("ding.")
)


class OwnDQN(DQNPolicy):
    """A policy of a user, without a word on its keys."""


class DeclaredDQN(DQNPolicy):
    """A policy of a user that names its keys."""

    optional_keys = {"learn": "temperature", "": "spice"}


def found(policy: type, **section: Any) -> str:
    with pytest.raises(UnknownKeyError) as caught:
        check_keys({"policy": section}, {"policy": policy.default_config()}, strict=True, policy=policy)
    return str(caught.value).removeprefix("the config has unknown keys: ")


def accept(policy: type, **section: Any) -> None:
    check_keys({"policy": section}, {"policy": policy.default_config()}, strict=True, policy=policy)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_key_that_a_shipped_policy_does_not_read_is_reported(name):
    cls = POLICY_REGISTRY.get(name)
    for section in ("learn", "collect", "eval", "other"):
        text = found(cls, **{section: {"zzqx": 1e-5}})
        start = f"policy.{section}.zzqx=1e-05: {cls.__name__} does not read it; the nearest known key is policy."
        assert text.startswith(start)
    accept(cls, **cls.default_config())
    everywhere = {"learner": {}, "batch_size": 4, "resume_training": True, "run_state_freq": 3, "weight_decay": 0.1}
    accept(cls, learn=everywhere, cuda="auto", random_collect_size=3, collect={"n_sample": 3}, on_policy=False)


@pytest.mark.parametrize(
    ("policy", "section", "text"),
    [
        (PPOPolicy, {"discount_factor": 0.9}, "policy.discount_factor=0.9: PPOPolicy does not read it; the nearest "
         "known key is policy.collect.discount_factor."),
        (PPOPolicy, {"learn": {"update_per_collect": 3}}, "policy.learn.update_per_collect=3: PPOPolicy does not read "
         "it; the nearest known key is policy.learn.epoch_per_collect."),
        (FQFPolicy, {"learn": {"learning_rate": 3}}, "policy.learn.learning_rate=3: FQFPolicy does not read it; the "
         "nearest known key is policy.learn.learning_rate_quantile."),
        (DQNPolicy, {"lern": {"batch_size": 3}}, "policy.lern={'batch_size': 3}: did you mean policy.learn?"),
        (DQNPolicy, {"mine": {"batch_size": 3}}, "policy.mine={'batch_size': 3}: DQNPolicy does not read it; the "
         "nearest known key is policy.noisy_net."),
        (OwnDQN, {"learn": {"batchsize": 3}}, "policy.learn.batchsize=3: did you mean policy.learn.batch_size?"),
        (OwnDQN, {"learn": {"grad_clip_typ": 3}}, "policy.learn.grad_clip_typ=3: did you mean "
         "policy.learn.grad_clip_type?"),
        (DeclaredDQN, {"learn": {"salt": 3}}, "policy.learn.salt=3: DeclaredDQN does not read it; the nearest known "
         "key is policy.learn.reset."),
    ],
)  # fmt: skip
def test_the_text_names_key_value_and_the_nearest_key(policy, section, text):
    assert found(policy, **section) == text


def test_a_policy_of_a_user_may_read_keys_of_its_own():
    accept(OwnDQN, learn={"temperature": 3, "learning_rate_actor": 1}, anything={"else": 3})
    accept(DeclaredDQN, learn={"temperature": 3, "grad_clip_type": None, "weight_decay": 1}, spice=True)


def test_without_strict_it_is_a_warning(caplog):
    with caplog.at_level(logging.WARNING, "ding.config"):
        check_keys({"policy": {"learn": {"salt": 3}}}, {"policy": DQNPolicy.default_config()}, False, DQNPolicy)
    assert "config key policy.learn.salt=3: DQNPolicy does not read it" in caplog.text


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configs_of_the_house_hold_no_key_that_nobody_reads(path):
    parts = read_config_with_system(str(path)) if "parallel" in path.parts else read_config(str(path))
    if "parallel" in path.parts:
        compile_config_parallel(*parts, save_cfg=False, strict=True)
    else:
        compile_config(parts[0], auto=True, create_cfg=parts[1], save_cfg=False, strict=True)


@pytest.mark.parametrize(
    ("kind", "policy"),
    [
        ("ddpg", {"learn": {"noise": True, "noise_sigma": 0.1, "noise_range": {"min": -0.5, "max": 0.5}}}),
        ("wqmix", {"learn": {"alpha": 0.1}}),
        ("dt", {"evaluator_env_num": 3}),
    ],
)
def test_keys_that_a_policy_reads_only_where_they_are_given_are_known(kind, policy):
    create = {"env": {"type": "cartpole"}, "env_manager": {"type": "base"}, "policy": {"type": kind}}
    main = {"env": {"collector_env_num": 1}, "policy": policy}
    compile_config(EasyDict(main), auto=True, create_cfg=EasyDict(create), save_cfg=False, strict=True)


def test_keys_of_a_network_are_judged_by_the_network():
    """A network of the user's, which may be handed in later, has keys that resemble those of ours."""
    accept(DQNPolicy, model={"hidden_size": 3, "obs_shapes": [4], "encoder_hidden_size_lists": [4]})


@pytest.mark.parametrize(
    ("main", "create", "text"),
    [
        ({"polciy": {"model": {}}}, {}, "polciy={'model': {}}: did you mean policy?"),
        ({"evn": {"env_id": 1}}, {}, "evn={'env_id': 1}: did you mean env?"),
        (
            {},
            {"env_manger": {"type": "base"}},
            "create_config.env_manger={'type': 'base'}: did you mean create_config.env",
        ),
    ],
)
def test_a_section_that_is_misspelt_is_refused(main, create, text):
    create = {"policy": {"type": "dqn"}, "env": {"type": "gymnasium"}, **create}
    with pytest.raises(UnknownKeyError) as caught:
        compile_config(main, auto=True, create_cfg=create, save_cfg=False)
    assert str(caught.value).startswith(text)
    # One next to the section of the correct name is the user's.
    check_keys({"env": {}, "envs": {"my": 1}}, {"env": {}}, strict=False)
