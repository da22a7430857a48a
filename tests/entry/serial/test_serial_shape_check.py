"""Shapes in `policy.model` that contradict the env."""

from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from ding.config import ConfigValueError
from ding.entry.serial.shape_check import check_model_shapes
from ding.policy import DQNPolicy


def manager(obs=(4,), action=None):
    return SimpleNamespace(
        observation_space=spaces.Box(-1, 1, obs), action_space=spaces.Discrete(2) if action is None else action
    )


@pytest.mark.parametrize(
    ("model", "env", "sentence"),
    [
        ({"obs_shape": 5}, manager(), "policy.model.obs_shape is 5, but observations of the env are (4,)"),
        (
            {"obs_shape": [3, 8]},
            manager((8, 3)),
            "policy.model.obs_shape is [3, 8], but observations of the env are (8, 3)",
        ),
        ({"action_shape": 3}, manager(), "policy.model.action_shape is 3, but the env has 2 actions"),
        (
            {"action_shape": [2, 2]},
            manager(action=spaces.MultiDiscrete([2, 3])),
            "policy.model.action_shape is [2, 2], but the env has [2, 3] actions",
        ),
    ],
)  # fmt: skip
def test_a_contradiction_is_one_sentence(model, env, sentence):
    with pytest.raises(ConfigValueError) as caught:
        check_model_shapes(DQNPolicy, model, env)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("model", "env"),
    [
        ({"obs_shape": 4, "action_shape": 2}, manager()),
        ({"obs_shape": (4,), "action_shape": [2]}, manager()),
        ({"obs_shape": [4, 84, 84]}, manager((4, 84, 84))),
        ({}, manager()),
        ({"obs_shape": 5, "type": "mine"}, manager()),
        ({"obs_shape": {"a": 5}, "action_shape": "x"}, manager()),
        ({"action_shape": 5}, manager(action=spaces.Box(-1, 1, (1,), np.float32))),
    ],
)  # fmt: skip
def test_what_fits_or_is_not_known_passes(model, env):
    check_model_shapes(DQNPolicy, model, env)


def test_a_policy_with_a_model_of_its_own_is_not_judged():
    class MyPolicy(DQNPolicy):
        def default_model(self):
            return "my_model", []

    check_model_shapes(MyPolicy, {"obs_shape": 5}, manager())
