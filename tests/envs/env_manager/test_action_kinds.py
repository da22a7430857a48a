"""Which kind an action has when it reaches an own ``BaseEnv``: of columns an array, else what the caller gave."""

import numpy as np
import pytest
import torch

from ding.data import EnvBatch
from ding.envs.env_manager import (
    AsyncSubprocessEnvManager,
    BaseEnvManager,
    BaseEnvManagerV2,
    SubprocessEnvManagerV2,
    SyncSubprocessEnvManager,
)
from ding.envs.testing import CountingEnv

MANAGERS = {
    "base": (BaseEnvManager, {}),
    "subprocess": (SyncSubprocessEnvManager, {}),
    "async": (AsyncSubprocessEnvManager, {"wait_num": 2}),
    "pipes": (SyncSubprocessEnvManager, {"shared_memory": False}),
}
LISTS = {"base": BaseEnvManagerV2, "subprocess": SubprocessEnvManagerV2}


def seen_action(manager, actions):
    """The action that env 1 of two was stepped with."""
    try:
        manager.launch()
        return manager.step(actions)[1].info["action"]
    finally:
        manager.close()


def envs():
    return [lambda: CountingEnv({"info_every_step": True, "episode_length": 9})] * 2


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (torch.tensor([0, 1]), np.array(1)),
        (np.array([0, 1]), np.array(1)),
        (np.array([0.0, 0.5], np.float32), np.array(0.5, np.float32)),
        (torch.tensor([[0], [1]]), np.array([1])),
        (torch.tensor([[0.0, 0.0], [0.5, 1.0]]), np.array([0.5, 1.0], np.float32)),
    ],
    ids=["tensor", "array", "float32", "one number", "vector"],
)
@pytest.mark.parametrize("name", MANAGERS)
def test_columns_arrive_as_arrays(name, columns, expected):
    cls, cfg = MANAGERS[name]
    action = seen_action(cls(envs(), cfg), EnvBatch([0, 1], columns))
    assert type(action) is np.ndarray
    assert (action.shape, action.dtype, action.tolist()) == (expected.shape, expected.dtype, expected.tolist())


@pytest.mark.parametrize("name", MANAGERS)
def test_parts_of_dict_columns_arrive_as_arrays(name):
    cls, cfg = MANAGERS[name]
    columns = {"action_type": torch.tensor([0, 1]), "action_args": torch.tensor([[0.0, 0.0], [0.5, 1.0]])}
    action = seen_action(cls(envs(), cfg), EnvBatch([0, 1], columns))
    assert {key: (type(part), part.shape, part.tolist()) for key, part in action.items()} == {
        "action_type": (np.ndarray, (), 1),
        "action_args": (np.ndarray, (2,), [0.5, 1.0]),
    }


@pytest.mark.parametrize("name", MANAGERS)
@pytest.mark.parametrize(
    ("action", "kind"), [(1, int), (np.array(1), np.ndarray), (np.array([1]), np.ndarray)], ids=str
)
def test_single_actions_keep_their_kind(name, action, kind):
    cls, cfg = MANAGERS[name]
    seen = seen_action(cls(envs(), cfg), {0: action, 1: action})
    assert type(seen) is kind
    assert np.shape(seen) == np.shape(action)
    assert seen == action


@pytest.mark.parametrize("name", MANAGERS)
@pytest.mark.parametrize(
    "action",
    [
        torch.tensor([1]),
        {"action_type": torch.tensor(1), "action_args": torch.tensor([0.5, 1.0])},
        [torch.tensor([1]), torch.tensor([0])],
        (torch.tensor(1), {"a": torch.tensor([0.5])}),
    ],
    ids=["tensor", "dict", "list", "tuple"],
)
def test_single_tensors_arrive_as_arrays(name, action):
    cls, cfg = MANAGERS[name]
    seen = seen_action(cls(envs(), cfg), {0: action, 1: action})
    assert type(seen) is (np.ndarray if isinstance(action, torch.Tensor) else type(action))
    leaves, expected = list(flat(seen)), list(flat(action))
    assert all(type(leaf) is np.ndarray for leaf in leaves)
    assert [(leaf.shape, leaf.tolist()) for leaf in leaves] == [(leaf.shape, leaf.tolist()) for leaf in expected]


def flat(action):
    """The leaves of an action."""
    if isinstance(action, dict):
        action = list(action.values())
    if isinstance(action, (list, tuple)):
        for part in action:
            yield from flat(part)
    else:
        yield action


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("actions", [[np.array(0), np.array(1)], torch.tensor([0, 1])], ids=["list", "tensor"])
def test_actions_of_the_middleware_arrive_as_arrays(name, actions):
    action = seen_action(LISTS[name](envs(), {}), actions)
    assert type(action) is np.ndarray
    assert (action.shape, action.item()) == ((), 1)


def test_kinds_may_change_from_step_to_step():
    manager = SyncSubprocessEnvManager(envs(), {})
    try:
        manager.launch()
        steps = [{0: 1, 1: 1}, {0: np.array(1), 1: np.array(1)}, EnvBatch([0, 1], np.array([1, 1])), {0: 1, 1: 1}]
        kinds = [type(manager.step(actions)[0].info["action"]) for actions in steps]
    finally:
        manager.close()
    assert kinds == [int, np.ndarray, np.ndarray, int]


@pytest.mark.parametrize("name", LISTS)
def test_actions_of_different_shapes_arrive(name):
    action = seen_action(LISTS[name](envs(), {}), [np.zeros(3), np.array([1.0, 2.0])])
    assert action.tolist() == [1.0, 2.0]
