"""Random policies over every kind of action space."""

import inspect
from collections import namedtuple

import gymnasium as gym
import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.data import EnvBatch, is_batched
from ding.policy import PolicyFactory, get_random_policy

_Collect = namedtuple("_Collect", ["forward", "process_transition", "get_train_sample", "reset", "get_attribute"])
_POLICY = _Collect("forward", "process", "sample", "reset", "attribute")


def _forward(space, obs=None, seed: int = 0) -> dict:
    torch.manual_seed(seed)
    policy = PolicyFactory.get_random_policy(_POLICY, action_space=space)
    return policy.forward({i: obs if obs is not None else torch.zeros(2) for i in (3, 5)})


def test_function_delegates():
    policy = PolicyFactory.get_random_policy(_POLICY, action_space=gym.spaces.Discrete(2))
    assert type(policy).__name__ == "random_collect_function"
    names = ["forward", "process_transition", "get_train_sample", "reset", "get_attribute"]
    assert list(inspect.signature(type(policy)).parameters) == names
    assert policy[1:3] == ("process", "sample")
    assert policy.get_attribute == "attribute"
    assert policy.reset([1]) is None
    assert is_batched(policy.forward)


def test_needs_a_space_or_a_function():
    with pytest.raises(AssertionError, match="action_space or a forward_fn"):
        PolicyFactory.get_random_policy(_POLICY)
    policy = PolicyFactory.get_random_policy(_POLICY, forward_fn=lambda data: {"own": data})
    assert policy.forward(1) == {"own": 1}


def test_discrete_actions_count_from_0_as_those_of_a_network():
    output = _forward(gym.spaces.Discrete(3, start=2))
    assert list(output) == [3, 5]
    for value in output.values():
        assert value["action"].dtype == torch.int64
        assert value["action"].shape == (1,)
        assert 0 <= int(value["action"]) < 3


def test_columns_are_uniform_and_seeded():
    batch = EnvBatch(np.arange(3000), np.zeros((3000, 1), np.float32))

    def draw() -> torch.Tensor:
        torch.manual_seed(1)
        return (
            PolicyFactory.get_random_policy(_POLICY, gym.spaces.Discrete(3)).forward(batch, eps=0.5).columns["action"]
        )

    action = draw()
    assert action.shape == (3000, 1)
    assert min(torch.bincount(action[:, 0], minlength=3).tolist()) > 900
    assert torch.equal(action, draw())


def test_the_generator_of_the_space_is_left_alone():
    space, twin = gym.spaces.Discrete(1000), gym.spaces.Discrete(1000)
    space.seed(0), twin.seed(0)
    _forward(space)
    assert space.sample() == twin.sample()


def test_discrete_obeys_the_mask():
    obs = {"observation": torch.zeros(2), "action_mask": torch.tensor([0.0, 0.0, 1.0])}
    assert [int(value["action"]) for value in _forward(gym.spaces.Discrete(3), obs).values()] == [2, 2]


def test_a_mask_that_allows_nothing_as_that_of_a_dead_agent_is_taken_as_one_that_allows_all():
    obs = {"observation": torch.zeros(2), "action_mask": torch.zeros(1000)}
    first, second = (int(value["action"]) for value in _forward(gym.spaces.Discrete(1000), obs).values())
    assert first != second


@pytest.mark.parametrize("start", [[0, 0], [7, -3]])
def test_multi_discrete(start):
    for value in _forward(gym.spaces.MultiDiscrete([2, 5], start=start)).values():
        assert [tuple(part.shape) for part in value["action"]] == [(1,), (1,)]
        assert 0 <= int(value["action"][0]) < 2
        assert 0 <= int(value["action"][1]) < 5


@pytest.mark.parametrize(("low", "high"), [(-2.0, 3.0), (-np.inf, np.inf), (0.0, np.inf), (-np.inf, 1.0)])
def test_box(low, high):
    space = gym.spaces.Box(low, high, (4,), np.float32)
    for value in _forward(space).values():
        assert value["action"].dtype == torch.float32
        assert space.contains(value["action"].numpy())


def test_integer_box():
    space = gym.spaces.Box(0, 3, (500,), np.int64)
    for value in _forward(space).values():
        assert space.contains(value["action"].numpy())
        assert sorted(set(value["action"].tolist())) == [0, 1, 2, 3]


def test_a_list_of_spaces_is_one_row_per_agent():
    for value in _forward([gym.spaces.Discrete(4)] * 3).values():
        assert value["action"].shape == (3,)
        assert value["logit"].shape == (3, 4)


def test_a_list_of_spaces_obeys_the_mask():
    obs = {"global_state": torch.zeros(2), "action_mask": torch.tensor([[0, 1, 0], [0, 0, 1]])}
    for value in _forward([gym.spaces.Discrete(3)] * 2, obs).values():
        assert value["action"].tolist() == [1, 2]
        assert value["logit"].argmax(-1).tolist() == [1, 2]


def test_a_dict_of_spaces_is_stacked():
    space = gym.spaces.Dict({"a": gym.spaces.Box(0, 1, (2,)), "b": gym.spaces.Box(0, 1, (2,))})
    for value in _forward(space).values():
        assert value["action"].shape == (2, 2)


def test_other_spaces_use_their_own_sample():
    for value in _forward(gym.spaces.MultiBinary(3)).values():
        assert value["action"].shape == (3,)
    first, second = _forward(gym.spaces.MultiBinary(40)), _forward(gym.spaces.MultiBinary(40))
    assert torch.equal(first[3]["action"], second[3]["action"])


def test_get_random_policy_keeps_policies_whose_data_holds_their_outputs():
    env = EasyDict(action_space=None)
    cfg = EasyDict(policy={"transition_with_policy_data": True})
    assert get_random_policy(cfg, _POLICY, env) is _POLICY
    env = namedtuple("Env", ["action_space"])(gym.spaces.Discrete(2))
    assert get_random_policy(EasyDict(policy={}), _POLICY, env).get_train_sample == "sample"


def test_tuple():
    space = gym.spaces.Tuple([gym.spaces.Discrete(3), gym.spaces.Box(-1, 1, (2,)), gym.spaces.MultiDiscrete([2, 2])])
    for value in _forward(space).values():
        number, vector, heads = value["action"]
        assert (number.dtype, tuple(number.shape)) == (torch.int64, (1,))
        assert (vector.dtype, tuple(vector.shape)) == (torch.float32, (2,))
        assert [tuple(head.shape) for head in heads] == [(1,), (1,)]
        assert space.contains((int(number), vector.numpy(), np.array([int(head) for head in heads])))
