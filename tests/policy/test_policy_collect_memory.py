"""What a policy remembers while it collects, taken up by another policy of its kind."""

import pytest
import torch

from ding.data import EnvBatch
from ding.data.safe_file import read_tree, write_tree
from ding.policy import DDPGPolicy, DQNPolicy, NGUPolicy, R2D2Policy, TDMPC2Policy
from ding.policy.collect_memory import collect_memory, set_collect_memory
from ding.policy.errors import PolicyAttributeError
from ding.rl_utils.exploration import OUNoise
from ding.utils import deep_merge_dicts

SMALL = {"model": {"obs_shape": 4, "action_shape": 2}, "collect": {"env_num": 2}, "eval": {"env_num": 2}}
OBS = torch.arange(8.0).reshape(2, 4) / 8
PREVIOUS = {"prev_action": torch.tensor([0, 1]), "prev_reward_extrinsic": torch.tensor([[0.5], [0.1]])}


def mode(cls: type, **changes):
    torch.manual_seed(0)
    return cls(deep_merge_dicts(deep_merge_dicts(cls.default_config(), SMALL), changes)).collect_mode


def acted(one, **kwargs) -> list[torch.Tensor]:
    torch.manual_seed(1)
    obs = {"obs": OBS, **PREVIOUS} if "beta" in kwargs else OBS
    kwargs.pop("beta", None)
    columns = one.forward(EnvBatch([0, 1], obs), **kwargs).columns
    return [columns[key] for key in ("action", "logit", "beta") if key in columns]


@pytest.mark.parametrize(
    ("cls", "changes", "kwargs"),
    [
        (R2D2Policy, {}, {"eps": 0.0}),
        (NGUPolicy, {"model": {"collector_env_num": 2}}, {"eps": 0.0, "beta": True}),
        (DDPGPolicy, {"model": {"action_shape": 2}, "action_space": "continuous"}, {}),
        (TDMPC2Policy, {"plan": {"num_samples": 16, "num_elites": 4, "num_policy_trajectories": 2}}, {}),
    ],
)
def test_another_policy_remembers_the_same(cls, changes, kwargs, tmp_path) -> None:
    first, second = mode(cls, **changes), mode(cls, **changes)
    if cls is DDPGPolicy:
        for one in (first, second):
            next(one.get_attribute("collect_model").chain()).noise_generator = OUNoise(sigma=0.0, x0=0.5)
    for _ in range(3):
        acted(first, **kwargs)
    write_tree(tmp_path / "memory", collect_memory(first), "test")
    fresh = [tensor.clone() for tensor in acted(second, **kwargs)]
    set_collect_memory(second, read_tree(tmp_path / "memory", "test"))
    expected = acted(first, **kwargs)
    assert all(map(torch.equal, acted(second, **kwargs), expected))
    assert not all(map(torch.equal, fresh, expected))


class Remembers(DQNPolicy):
    def _reset_collect(self, data_id=None) -> None:
        self._seen = {}


class Says(Remembers):
    _remembered = ("seen",)
    _seen = {0: 1}

    def _reset_collect(self, data_id=None) -> None:
        super()._reset_collect(data_id)


def test_a_policy_says_what_its_reset_forgets() -> None:
    with pytest.raises(PolicyAttributeError, match="Remembers does not say in `_remembered`"):
        collect_memory(mode(Remembers))
    assert collect_memory(mode(Says))["seen"] == {0: 1}
