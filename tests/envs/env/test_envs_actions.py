"""``ActionMapping``: from what a network puts out to an action of the env's space, and back."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from hypothesis import given, settings
from hypothesis import strategies as st

from ding.envs import DingEnvWrapper
from ding.envs.env.actions import ActionMapping, ActionSpaceError, why_not
from ding.envs.testing import CountingGymEnv

BOX = spaces.Box(np.array([0.0, -3.0], np.float32), np.array([5.0, 0.4], np.float32))
SQUARE = spaces.Box(-9, 9, (2, 2), np.float32)
KINDS = {
    "discrete": (spaces.Discrete(3, start=-1), 3),
    "several": (spaces.MultiDiscrete([2, 3], start=[1, -4]), [2, 3]),
    "table": (spaces.MultiDiscrete([[2, 3], [4, 5]]), [2, 3, 4, 5]),
    "switches": (spaces.MultiBinary(3), [2, 2, 2]),
    "discretes": (spaces.Dict({"a": spaces.Discrete(2, start=5), "b": spaces.MultiDiscrete([3, 4])}), [2, 3, 4]),
    "box": (BOX, 2),
    "square": (SQUARE, 4),
    "bytes": (spaces.Box(0, 255, (3,), np.uint8), 3),
    "double": (spaces.Box(-2.0, 7.0, (1,), np.float64), 1),
    "number": (spaces.Box(-2.0, 7.0, (), np.float32), 1),
    "boxes": (spaces.Tuple([BOX, spaces.Dict({"x": SQUARE})]), 6),
    "hybrid": (
        spaces.Dict({"move": spaces.Discrete(3, start=2), "power": BOX}),
        {"action_type_shape": 3, "action_args_shape": 2},
    ),
    "parts": (
        spaces.Tuple([BOX, spaces.Discrete(4, start=-2), spaces.Tuple([SQUARE, BOX])]),
        {"action_type_shape": 4, "action_args_shape": 8},
    ),
}
SCALES = [False, True, "auto"]


def put_out(shape, draw):
    """What a network of this ``action_shape`` may put out."""
    if isinstance(shape, dict):
        kind = draw(st.integers(0, shape["action_type_shape"] - 1))
        return {"action_type": torch.tensor(kind), "action_args": put_out(shape["action_args_shape"] * 1.0, draw)}
    if isinstance(shape, list):
        return torch.tensor([draw(st.integers(0, count - 1)) for count in shape])
    if isinstance(shape, int):
        return torch.tensor(draw(st.integers(0, shape - 1)))
    numbers = st.floats(-1e6, 1e6, width=32)
    return torch.tensor(draw(st.lists(numbers, min_size=int(shape), max_size=int(shape))), dtype=torch.float32)


def drawn(mapping, draw):
    shape = mapping.network_shape
    return put_out(float(shape) if mapping.kind == "continuous" else shape, draw)


def stacked(actions):
    if isinstance(actions[0], dict):
        return {key: torch.stack([action[key] for action in actions]) for key in actions[0]}
    return torch.stack(actions)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", KINDS)
def test_what_a_network_puts_out_lies_in_the_space_alone_in_rows_and_as_tensors(name, scale):
    space, shape = KINDS[name]
    mapping = ActionMapping(space, scale)
    assert mapping.network_shape == shape

    @settings(max_examples=5, deadline=None, database=None)
    @given(data=st.data())
    def check(data):
        actions = [drawn(mapping, data.draw) for _ in range(3)]
        singly = [mapping.to_env(action) for action in actions]
        for action in singly:
            assert space.contains(action), action
            mapping.check(action, "env")
        rows = mapping.rows_to_env(stacked(actions), 3)
        assert batch_space(space, 3).contains(rows)
        mapping.check_rows(rows, [0, 1, 2], "env")
        tensors = mapping.tensors_to_env(stacked(actions))
        for number, action in enumerate(singly):
            assert_equal(action, row_of(rows, number))
            assert_equal(action, row_of(tensors, number))

    check()


def row_of(rows, number):
    if isinstance(rows, dict):
        return {key: row_of(value, number) for key, value in rows.items()}
    return tuple(row_of(value, number) for value in rows) if isinstance(rows, tuple) else rows[number]


def assert_equal(action, other):
    if isinstance(action, dict):
        assert action.keys() == other.keys()
        for key, value in action.items():
            assert_equal(value, other[key])
    elif isinstance(action, tuple):
        for value, twin in zip(action, other, strict=True):
            assert_equal(value, twin)
    else:
        np.testing.assert_allclose(np.asarray(action), np.asarray(other), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", KINDS)
def test_back_and_forth_is_the_same_action(name, scale):
    space, _ = KINDS[name]
    mapping = ActionMapping(space, scale)
    space.seed(0)
    for _ in range(5):
        action = space.sample()
        there = mapping.to_policy(action)
        assert mapping.policy_space.contains(
            there if mapping.kind != "discrete" or len(there) > 1 else int(there[0])
        ) or (mapping.kind == "hybrid")
        assert_equal(mapping.to_env(there), action)


@pytest.mark.parametrize("name", KINDS)
def test_an_action_with_the_structure_of_the_space_is_taken_too(name):
    space, _ = KINDS[name]
    mapping = ActionMapping(space, True)
    mapping.given_space.seed(0)
    for _ in range(5):
        assert space.contains(mapping.to_env(mapping.given_space.sample()))


def test_scaled_and_clipped():
    action = np.array([-1.0, 0.0], np.float32)
    assert ActionMapping(BOX, True).to_env(action).tolist() == [0.0, np.float32(-1.3)]
    assert ActionMapping(BOX, "auto").to_env(action).tolist() == [0.0, np.float32(-1.3)]
    assert ActionMapping(BOX, None).to_env(np.array([-1.0, 9.0])).tolist() == [0.0, np.float32(0.4)]
    assert ActionMapping(BOX, None).to_env(np.array([2.5, -2.0])).tolist() == [2.5, -2.0]


def test_auto_leaves_a_box_without_bounds():
    half = spaces.Box(0, np.inf, (1,), np.float32)
    mapping = ActionMapping(spaces.Tuple([half, BOX]), "auto")
    assert_equal(mapping.to_env(np.array([7.0, -1.0, 1.0])), (np.array([7.0]), np.array([0.0, 0.4])))
    with pytest.raises(ValueError, match="act_scale=True scales actions to the bounds"):
        ActionMapping(half, True)
    with pytest.raises(ValueError, match=r"act_scale must be True, False, 'auto' or None, not 'atuo'.*auto"):
        ActionMapping(BOX, "atuo")


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(3),
        spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3), BOX]),
        spaces.Dict({"a": spaces.MultiDiscrete([2, 2]), "b": BOX}),
        spaces.Sequence(spaces.Discrete(2)),
    ],
)
def test_what_no_network_acts_in(space):
    assert ActionMapping(space).kind is None
    assert why_not(space).startswith(f"no network acts in the action space {space}; what fits are Discrete")
    assert why_not(BOX) == ""


@pytest.mark.parametrize(
    ("name", "action", "message"),
    [
        ("box", np.zeros(3), r"have the shape \(2,\), found an array of shape \(3,\)"),
        ("discrete", np.zeros(2, np.int64), r"single int, found an array of shape \(2,\)"),
        ("several", np.zeros(3, np.int64), r"have the shape \(2,\)"),
        ("hybrid", np.zeros(3), "of type ndarray does not fit"),
        ("hybrid", {"move": 1}, r"with the keys \['move'\] does not fit"),
        ("boxes", np.zeros(5), "have 6 entries"),
        ("box", "left", "not str"),
    ],
)
def test_an_action_of_another_form(name, action, message):
    with pytest.raises(TypeError, match=message):
        ActionMapping(KINDS[name][0]).to_env(action)


class TestChecks:
    """An action that no mapping can save: an index that there is not, or NaN."""

    class Env(CountingGymEnv):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.action_space = spaces.Discrete(3, start=-1)

    def test_the_first_steps(self):
        env = DingEnvWrapper(self.Env(episode_length=1000), {"check_actions": 2})
        env.reset()
        env.step(2)
        with pytest.raises(
            ActionSpaceError, match=r"DingEnvWrapper\(.*the action 2 is not in the action space Discrete"
        ):
            env.step(3)
        env.step(3)

    def test_always_and_never(self):
        always = DingEnvWrapper(self.Env(episode_length=1000), {"check_actions": True})
        always.reset()
        for _ in range(200):
            always.step(0)
        with pytest.raises(ActionSpaceError):
            always.step(3)
        never = DingEnvWrapper(self.Env(episode_length=1000), {"check_actions": False})
        never.reset()
        never.step(3)
        with pytest.raises(ValueError, match=r"env\.check_actions must be a number of steps, True or False, not -1"):
            DingEnvWrapper(self.Env(), {"check_actions": -1})

    def test_plain_ints_are_checked_before_they_are_passed_on(self):
        env = DingEnvWrapper(CountingGymEnv(episode_length=1000), {"check_actions": 1})
        env.reset()
        with pytest.raises(ActionSpaceError):
            env.fast_step().step(2)
        assert env.fast_step().step(2)

    def test_rows_name_the_env(self):
        mapping = ActionMapping(BOX)
        rows = mapping.rows_to_env(torch.tensor([[1.0, -1.0], [torch.nan, 0.0]]), 2)
        with pytest.raises(ActionSpaceError, match=r"env 7 of x: the action array\(\[nan,  0\.\].* Box"):
            mapping.check_rows(rows, [3, 7], "x")
