"""Random policies over every kind of action space."""

import functools
import inspect
from collections import namedtuple
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from easydict import EasyDict

import ding
from ding.config import read_config
from ding.data import EnvBatch, is_batched
from ding.envs import BaseEnv, BaseEnvTimestep, create_env_manager
from ding.envs.zoo.line_cover_env import LineCoverEnv
from ding.policy import IMPALAPolicy, PolicyFactory, get_policy_cls, get_random_policy
from ding.policy.errors import PolicyConfigError
from ding.rollout import EpisodeRecord, Rollout, Segments
from ding.utils import deep_merge_dicts

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


COOPERATIVE = ("qmix", "wqmix", "collaq", "coma", "qtran", "madqn")
CONFIGS = Path(ding.__file__).parents[1] / "configs" / "line_cover"
SEQUENCES = {"burnin_step": 1, "learn_unroll_len": 4, "nstep": 1}
WARM_UPS: dict = {
    "r2d2": SEQUENCES,
    "r2d3": SEQUENCES,
    "r2d2_gtrxl": {
        "burnin_step": 1, "unroll_len": 5, "nstep": 1, "seq_len": 3, "model": {"memory_len": 2, "hidden_size": 8},
    },
    "pdqn": {"model": {"action_shape": {"action_type_shape": 3, "action_args_shape": 2}}},
    "ddpg": {
        "action_space": "hybrid",
        "model": {"action_space": "hybrid", "action_shape": {"action_type_shape": 3, "action_args_shape": 2}},
    },
}  # fmt: skip


def warm_up(name: str, steps: int = 14) -> tuple:
    """A policy, what it sent to two envs with random actions, and the transitions of it."""
    torch.manual_seed(0)
    cls = get_policy_cls(EasyDict(type=name))
    if name in COOPERATIVE:
        main, _ = read_config(CONFIGS / f"line_cover_{name}_config.py")
        own, make_env = [main.policy, {"collect": {"env_num": 2, "unroll_len": 3}}], partial(LineCoverEnv, main.env)
    else:
        hybrid = gym.spaces.Dict(action_type=gym.spaces.Discrete(3), action_args=gym.spaces.Box(-1, 1, (2,)))
        numbers = {"collect": {"env_num": 2}, "eval": {"env_num": 2}, "model": {"obs_shape": 4, "action_shape": 2}}
        own = [numbers, WARM_UPS[name]]
        make_env = partial(OwnActions, hybrid if name in ("pdqn", "ddpg") else gym.spaces.Discrete(2))
    policy = cls(functools.reduce(deep_merge_dicts, own, cls.default_config()))
    env = create_env_manager({"type": "base"}, [make_env] * 2)
    env.seed(0)
    env.launch()
    random = get_random_policy(EasyDict(policy={}), policy.collect_mode, env)
    rollout = Rollout(env, [random], [Segments(2, random, None)], EpisodeRecord(2))
    for _ in range(steps):
        rollout.step([{"eps": 0.1}], [{}])
    transitions = rollout.segments[0].take_all().samples
    env.close()
    return policy, transitions


class OwnActions(BaseEnv):
    """Refuses actions outside of its space; episodes have 5 steps."""

    def __init__(self, space: gym.Space) -> None:
        self.action_space, self.observation_space = space, gym.spaces.Box(-10, 10, (4,))
        self.reward_space, self.t = gym.spaces.Box(0, 1, (1,)), 0

    def observe(self) -> np.ndarray:
        return np.full(4, self.t, dtype=np.float32)

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """Nothing is random."""

    def reset(self) -> np.ndarray:
        self.t = 0
        return self.observe()

    def step(self, action: Any) -> BaseEnvTimestep:
        if isinstance(action, dict):
            kind, args = np.asarray(action["action_type"]).item(), np.asarray(action["action_args"])
            action = {"action_type": kind, "action_args": args}
        else:
            action = np.asarray(action).item()
        assert self.action_space.contains(action), action
        self.t += 1
        info = {"eval_episode_return": 1.0} if self.t == 5 else {}
        return BaseEnvTimestep(self.observe(), np.ones(1, dtype=np.float32), self.t == 5, info)

    def close(self) -> None:
        """Nothing is open."""

    def __repr__(self) -> str:
        return "OwnActions"


@pytest.mark.parametrize("name", [*WARM_UPS, *COOPERATIVE])
def test_transitions_of_a_warm_up_have_what_the_policy_learns_from(name):
    policy, transitions = warm_up(name)
    samples = policy.collect_mode.get_train_sample(transitions)
    assert len(samples)
    rows = [{**row, "IS": 1.0} for row in samples.rows()[:2]]
    result = policy.learn_mode.forward(rows)
    numbers = result if isinstance(result, dict) else result[0]
    assert np.isfinite(numbers["total_loss"])
    if name == "coma":
        # All actions were random, whatever epsilon the command said.
        assert (np.asarray(transitions.columns["eps"]) == 1).all()


def test_recurrent_states_of_a_warm_up_are_those_of_the_network():
    policy, transitions = warm_up("r2d2", steps=12)
    model, columns = policy.collect_mode.get_attribute("model"), transitions.columns
    assert len({int(action) for action in columns["action"]}) == 2
    state = None
    # The first env: two episodes of five steps and the beginning of a third.
    for t in range(12):
        if t % 5 == 0:
            state = None
        stored = columns["prev_state"]["h"][t]
        assert bool(stored.any()) is (t % 5 > 0)
        with torch.no_grad():
            output = model({"obs": columns["obs"][t : t + 1], "prev_state": [state]}, inference=True)
        if state is not None:
            torch.testing.assert_close(stored, state["h"])
        state = output["next_state"][0]


def test_a_policy_that_learns_from_probabilities_refuses_random_actions():
    policy = IMPALAPolicy(
        deep_merge_dicts(IMPALAPolicy.default_config(), {"model": {"obs_shape": 4, "action_shape": 2}})
    )
    with pytest.raises(PolicyConfigError, match=r"transition_with_policy_data=False: IMPALAPolicy learns from"):
        PolicyFactory.get_random_policy(policy.collect_mode, gym.spaces.Discrete(2))


def test_masks_of_several_agents_in_a_multi_discrete_space():
    mask = torch.tensor([[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [1, 0, 0]]])
    batch = EnvBatch(np.arange(2), {"agent_state": torch.zeros(2, 2, 4), "action_mask": mask})
    policy = PolicyFactory.get_random_policy(_POLICY, gym.spaces.MultiDiscrete([3, 3]))
    assert policy.forward(batch).columns["action"].tolist() == [[0, 2], [1, 0]]
