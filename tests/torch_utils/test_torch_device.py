"""What ``policy.cuda`` means with and without a GPU."""

import pytest
import torch

from ding.policy import DQNPolicy
from ding.torch_utils.device import DeviceError, use_cuda
from ding.utils import deep_merge_dicts


@pytest.mark.parametrize(
    ("setting", "there", "expected"),
    [(True, True, True), ("auto", True, True), ("auto", False, False), (False, True, False), (0, False, False)],
)
def test_the_gpu_is_used_where_it_is_asked_for(monkeypatch, setting, there, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert use_cuda(setting) is expected


@pytest.mark.parametrize(("setting", "message"), [(True, "finds no CUDA device"), ("yes", "found 'yes'")])
def test_a_gpu_that_is_not_there_is_an_error(monkeypatch, setting, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    shapes = {"obs_shape": 4, "action_shape": 2}
    with pytest.raises(DeviceError, match=message):
        DQNPolicy(deep_merge_dicts(DQNPolicy.default_config(), {"cuda": setting, "model": shapes}))
