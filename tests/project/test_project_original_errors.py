"""Errors are also of the type that DI-engine 0.5.3 raises in the same place, so that ``except`` clauses catch them."""

import pytest
import torch
from easydict import EasyDict

from ding.data import DequeBuffer
from ding.envs import BaseEnvManager
from ding.envs.testing import CountingEnv
from ding.league import EloCalculator, LeagueMetricEnv
from ding.rl_utils import create_noise_generator, get_epsilon_greedy_fn, tb_cross_entropy
from ding.torch_utils import (
    MLP,
    CategoricalPd,
    ResBlock,
    ScatterConnection,
    build_activation,
    conv2d_block,
    fc_block,
    get_lstm,
    to_item,
)
from ding.utils import LimitedSpaceContainer, Scheduler, build_time_helper, default_get, split_data_generator
from ding.utils.default_helper import deep_update

LSTM_INPUT = torch.ones(1, 2, 3)
LOGIT, LABEL = torch.ones(3, 2, 4), torch.zeros(3, 2, dtype=torch.long)


def failing_step():
    manager = BaseEnvManager([lambda: CountingEnv({"fault": {"kind": "raise", "step": 1}})], {"max_retry": 1})
    manager.launch()
    manager.step({0: 0})


# What is called -> what DI-engine raises, and what Python calls the mistake.
CALLS = {
    "deep_update, new key": (lambda: deep_update({"a": 1}, {"b": 2}), RuntimeError, KeyError),
    "default_get, missing": (lambda: default_get({}, "a"), AssertionError, KeyError),
    "default_get, bad default": (lambda: default_get({}, "a", 1, judge_fn=lambda x: x > 2), AssertionError, ValueError),
    "build_time_helper, nothing": (lambda: build_time_helper(), RuntimeError, ValueError),
    "build_time_helper, unknown": (lambda: build_time_helper(wrapper_type="x"), KeyError, KeyError),
    "LimitedSpaceContainer": (lambda: LimitedSpaceContainer(2, 1), AssertionError, ValueError),
    "split_data_generator, a list": (lambda: next(split_data_generator([1, 2], 1)), AssertionError, ValueError),
    "Scheduler": (lambda: Scheduler(EasyDict(factor=0)), AssertionError, ValueError),
    "build_activation, unknown": (lambda: build_activation("x"), KeyError, KeyError),
    "build_activation, inplace": (lambda: build_activation("tanh", True), AssertionError, ValueError),
    "get_lstm, unknown": (lambda: get_lstm("x", 2, 2), AssertionError, ValueError),
    "get_lstm, layers of a GRU": (lambda: get_lstm("gru", 2, 2, num_layers=2), AssertionError, ValueError),
    "get_lstm, states": (lambda: get_lstm("normal", 3, 2)(LSTM_INPUT, [None]), RuntimeError, ValueError),
    "get_lstm, type of a state": (lambda: get_lstm("normal", 3, 2)(LSTM_INPUT, 3), TypeError, TypeError),
    "MLP": (lambda: MLP(2, 3, 4, -1), AssertionError, ValueError),
    "fc_block": (lambda: fc_block(2, 3, norm_type="x"), NotImplementedError, NotImplementedError),
    "conv2d_block, norm": (lambda: conv2d_block(2, 3, 3, norm_type="x"), KeyError, NotImplementedError),
    "conv2d_block, padding": (lambda: conv2d_block(2, 3, 3, pad_type="x"), AssertionError, ValueError),
    "ResBlock": (lambda: ResBlock(2, res_type="x"), AssertionError, ValueError),
    "ScatterConnection": (lambda: ScatterConnection("x"), AssertionError, ValueError),
    "CategoricalPd": (lambda: CategoricalPd(torch.ones(1, 2)).entropy("x"), AssertionError, ValueError),
    "to_item": (lambda: to_item(torch.ones(3), ignore_error=False), RuntimeError, ValueError),
    "upgo, labels": (lambda: tb_cross_entropy(LOGIT[0], LABEL[0, :1]), AssertionError, ValueError),
    "epsilon": (lambda: get_epsilon_greedy_fn(1.0, 0.1, 10, "x"), AssertionError, AssertionError),
    "noise": (lambda: create_noise_generator("x", {}), KeyError, KeyError),
    "DequeBuffer, size": (lambda: DequeBuffer(2).sample(), AssertionError, ValueError),
    "DequeBuffer, too few": (lambda: DequeBuffer(2).sample(1), ValueError, ValueError),
    "DequeBuffer, index": (lambda: DequeBuffer(2).sample(indices=["x"]), KeyError, ValueError),
    "league, result of Elo": (lambda: EloCalculator.get_new_rating(1, 2, 3), AssertionError, ValueError),
    "league, result": (lambda: LeagueMetricEnv().rate_1vs1(*[(1.0, 1.0, 1)] * 2, ["x"]), RuntimeError, KeyError),
    "env step": (failing_step, RuntimeError, RuntimeError),
}


@pytest.mark.parametrize("call", CALLS)
def test_errors_are_also_what_the_reference_raises(call):
    function, original, ours = CALLS[call]
    with pytest.raises(original) as caught:
        function()
    assert isinstance(caught.value, ours)
