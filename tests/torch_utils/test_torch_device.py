"""What ``policy.cuda`` means with and without a GPU."""

import pytest
import torch

from ding.policy import DQNPolicy
from ding.torch_utils.device import DeviceError, use_cuda, warn_of_missing_gpu
from ding.utils import deep_merge_dicts


@pytest.mark.parametrize(
    ("setting", "there", "expected"),
    [
        (True, True, True),
        ("auto", True, True),
        ("auto", False, False),
        (False, True, False),
        (0, False, False),
        (True, False, False),
    ],
)
def test_the_gpu_is_used_where_it_is_asked_for(monkeypatch, setting, there, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert use_cuda(setting) is expected


def policy_of(setting):
    shapes = {"obs_shape": 4, "action_shape": 2}
    return DQNPolicy(deep_merge_dicts(DQNPolicy.default_config(), {"cuda": setting, "model": shapes}))


def test_without_a_gpu_the_cpu_learns_and_one_warning_says_so(monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    warn_of_missing_gpu.cache_clear()
    policies = [policy_of(True), policy_of(True)]
    assert [policy.learn_mode.get_attribute("device") for policy in policies] == ["cpu", "cpu"]
    assert caplog.text.count("finds no CUDA device") == 1


def test_another_setting_is_an_error():
    with pytest.raises(DeviceError, match="found 'yes'"):
        policy_of("yes")
