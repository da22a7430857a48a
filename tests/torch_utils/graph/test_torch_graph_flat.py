"""Parameters in one tensor: what changes, and what stays."""

import copy

import pytest
import torch
from torch import nn

from ding.torch_utils.graph.flat_parameters import flatten_parameters, paired_runs, runs


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def test_flat_parameters_are_the_same_objects_with_the_same_values():
    model = network()
    before, state = list(model.parameters()), copy.deepcopy(model.state_dict())
    flatten_parameters(model.parameters())
    assert all(one is other for one, other in zip(model.parameters(), before, strict=True))
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    (run,) = runs(model.parameters())
    run.flat.zero_()
    assert not any(value.any() for value in model.state_dict().values())
    model.load_state_dict(state)
    assert len(runs(model.parameters())) == 1


def test_what_other_processes_share_stays_shared():
    model = network().share_memory()
    places = [param.data_ptr() for param in model.parameters()]
    flatten_parameters(model.parameters())
    assert [param.data_ptr() for param in model.parameters()] == places


def test_runs_come_in_the_order_in_which_they_are_given():
    """Graphs take their inputs in this order; by addresses, no other process would find them in the cache on disk."""
    memory = torch.arange(12.0)
    first, second, third = memory[8:10], memory[0:2], memory[4:8]
    assert [run.numel for run in runs([second, first, third])] == [2, 6]
    assert [run.numel for run in runs([third, second, first])] == [6, 2]
    assert [run.members[0] is third for run in runs([first, second, third])] == [False, True]


def test_runs_end_where_the_memory_does():
    first, second = torch.arange(6.0), torch.arange(4.0)
    found = runs([second, first[4:], first[:2], first[2:4]])
    assert sorted(run.numel for run in found) == [4, 6]
    with pytest.raises(ValueError, match="not contiguous"):
        runs([torch.zeros(3, 2).T])


def test_pairs_follow_the_order_of_the_first():
    model, other = network(), network()
    flatten_parameters(model.parameters())
    assert len(paired_runs(model.parameters(), other.parameters())) == 4
    flatten_parameters(other.parameters())
    ((run, partner),) = paired_runs(model.parameters(), other.parameters())
    assert torch.equal(run.flat, partner.flat)
