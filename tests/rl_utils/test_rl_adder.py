"""n-step data, advantages and unrolling: golden vectors, and columns against the classic lists."""

import copy
from collections import deque

import numpy as np
import pytest
import torch
from golden_values import assert_golden, f
from hypothesis import given, settings
from hypothesis import strategies as st

from ding.data import TransitionBatch
from ding.rl_utils import adder, get_gae, get_gae_with_default_last_value, get_nstep_return_data, get_train_sample
from ding.rl_utils.adder import Adder


def piece(length, start=0):
    """obs = i, next_obs = i + 1, reward = [i + 1], done at the end only."""
    return [
        {
            "obs": torch.tensor(float(start + i)),
            "next_obs": torch.tensor(float(start + i + 1)),
            "action": torch.tensor([i % 2]),
            "reward": torch.tensor([float(start + i + 1)]),
            "done": i == length - 1,
        }
        for i in range(length)
    ]


def nstep_rows(data):
    return [[*d["reward"].tolist(), d["next_obs"].item(), d["done"], d["value_gamma"]] for d in data]


GOLDEN_NSTEP = [
    [1.0, 2.0, 3.0, 3.0, False, 0.729],
    [2.0, 3.0, 4.0, 4.0, False, 0.729],
    [3.0, 4.0, 5.0, 5.0, True, 0.81],
    [4.0, 5.0, 0.0, 5.0, True, 0.9],
    [5.0, 0.0, 0.0, 5.0, True, 1.0],
]


def test_nstep_golden_with_the_reference_tail():
    data = piece(5)
    result = get_nstep_return_data(data, 3, gamma=0.9, reference_tail=True)
    assert result is data
    assert_golden(nstep_rows(result), GOLDEN_NSTEP)


def test_nstep_tail_is_discounted_by_the_steps_that_are_left():
    corrected = [row[:-1] + [gamma] for row, gamma in zip(GOLDEN_NSTEP, [0.729, 0.729, 0.729, 0.81, 0.9])]
    assert_golden(nstep_rows(get_nstep_return_data(piece(5), 3, gamma=0.9)), corrected)


def test_nstep_without_a_correction_has_no_discounts_of_its_own():
    rows = get_nstep_return_data(piece(5), 3, correct_terminate_gamma=False)
    batch = get_nstep_return_data(TransitionBatch.from_rows(piece(5)), 3, correct_terminate_gamma=False)
    assert [set(row) for row in (*rows, *batch)] == [{"obs", "next_obs", "action", "reward", "done"}] * 10


@pytest.mark.parametrize(
    ("reference_tail", "gammas"),
    [(True, [0.729, 0.729, 0.81, 0.9, 1.0]), (False, [0.729, 0.729, 0.729, 0.81, 0.9])],
)
def test_nstep_golden_cumulated(reference_tail, gammas):
    data = get_nstep_return_data(piece(5), 3, cum_reward=True, gamma=0.9, reference_tail=reference_tail)
    assert_golden([d["reward"] for d in data], [5.23, 7.94, 10.65, 8.5, 5.0])
    assert_golden([d["value_gamma"] for d in data], gammas)


def test_one_step_changes_nothing():
    data = piece(3)
    before = copy.deepcopy(data)
    assert get_nstep_return_data(data, 1) is data
    assert data == before
    batch = TransitionBatch.from_rows(piece(3))
    assert get_nstep_return_data(batch, 1) is batch
    assert get_train_sample(batch, 1) is batch
    with pytest.raises(ValueError, match="nstep"):
        get_nstep_return_data(data, 0)


def test_nstep_bootstraps_the_same_return_as_step_by_step_targets():
    # With exact values V(s_i) = discounted return the n-step target must be V again, cut piece or not.
    gamma, rewards = 0.9, [1.0, -2.0, 3.0, 0.5, 4.0, 1.5]
    values = [0.0] * 7
    for i in reversed(range(6)):
        values[i] = rewards[i] + gamma * values[i + 1]
    rows = [{"obs": i, "next_obs": i + 1, "reward": torch.tensor([rewards[i]]), "done": False} for i in range(4)]
    for i, row in enumerate(get_nstep_return_data(rows, 3, gamma=gamma)):
        discounted = sum(gamma**k * r for k, r in enumerate(row["reward"].tolist()))
        assert discounted + row["value_gamma"] * values[row["next_obs"]] == pytest.approx(values[i])


def make_rows(rng, length, obs_kind, reward_kind):
    rows = []
    for i in range(length):
        obs, after = rng.normal(size=3).astype(np.float32), rng.normal(size=3).astype(np.float32)
        wrap = {
            "tensor": torch.as_tensor,
            "array": lambda x: x,
            "dict": lambda x: {"a": torch.as_tensor(x), "b": {"c": x[:1]}},
            "text": str,
        }[obs_kind]
        reward = {
            "tensor": lambda: torch.as_tensor(rng.normal(size=1).astype(np.float32)),
            "scalar_tensor": lambda: torch.tensor(float(rng.normal())),
            "agents": lambda: torch.as_tensor(rng.normal(size=2).astype(np.float32)),
            "array": lambda: rng.normal(size=1),
            "float": lambda: float(rng.normal()),
        }[reward_kind]()
        rows.append({"obs": wrap(obs), "next_obs": wrap(after), "reward": reward, "done": bool(rng.random() < 0.3)})
        rows[-1]["collect_iter"] = i
    return rows


def assert_same_value(left, right):
    # A row of a batch is a dict with attributes.
    assert isinstance(left, type(right)) or isinstance(right, type(left))
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same_value(left[key], right[key])
    elif isinstance(left, list):
        assert len(left) == len(right)
        for a, b in zip(left, right):
            assert_same_value(a, b)
    elif isinstance(left, torch.Tensor):
        assert left.dtype == right.dtype
        torch.testing.assert_close(left, right, rtol=0, atol=0)
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    else:
        assert left == right


piece_lengths = st.lists(st.integers(1, 7), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(
    lengths=piece_lengths,
    nstep=st.integers(1, 5),
    cum_reward=st.booleans(),
    correct=st.booleans(),
    reference_tail=st.booleans(),
    obs_kind=st.sampled_from(["tensor", "array", "dict", "text"]),
    reward_kind=st.sampled_from(["tensor", "scalar_tensor", "agents", "array", "float"]),
    next_obs=st.booleans(),
)
def test_columns_give_the_rows_of_the_classic_version(
    lengths, nstep, cum_reward, correct, reference_tail, obs_kind, reward_kind, next_obs
):
    pieces = [make_rows(np.random.default_rng(i), length, obs_kind, reward_kind) for i, length in enumerate(lengths)]
    if not next_obs:
        for row in (row for rows in pieces for row in rows):
            del row["next_obs"]
    columns = TransitionBatch.from_rows(copy.deepcopy([row for rows in pieces for row in rows])).columns
    untouched = copy.deepcopy(columns)
    batch = TransitionBatch(columns, lengths=lengths)
    options = {
        "cum_reward": cum_reward,
        "correct_terminate_gamma": correct,
        "gamma": 0.9,
        "reference_tail": reference_tail,
    }
    result = get_nstep_return_data(batch, nstep, **options)
    assert_same_value(columns, untouched)
    assert isinstance(result, TransitionBatch)
    assert result.lengths.tolist() == lengths
    classic = [row for rows in pieces for row in get_nstep_return_data(rows, nstep, **options)]
    assert_same_value(list(result), classic)


def test_a_batch_without_lengths_is_one_piece():
    batch = TransitionBatch(TransitionBatch.from_rows(piece(5)).columns)
    assert_golden(nstep_rows(get_nstep_return_data(batch, 3, gamma=0.9, reference_tail=True)), GOLDEN_NSTEP)


def test_columnar_reward_must_be_numeric():
    batch = TransitionBatch({"obs": [1, 2], "reward": ["a", "b"], "done": np.zeros(2, dtype=bool)})
    with pytest.raises(TypeError, match="reward column"):
        get_nstep_return_data(batch, 2)


def gae_rows(length):
    return [{"value": torch.tensor(0.1 * i), "reward": torch.tensor([float(i + 1)])} for i in range(length)]


def test_gae_golden():
    data = get_gae(gae_rows(3), torch.tensor(0.5), 0.9, 0.8, cuda=False)
    assert_golden([d["adv"] for d in data], [4.2724, 4.42, 3.25])


@pytest.mark.parametrize("container", [list, deque])
def test_gae_with_default_last_value_golden(container):
    data = container(gae_rows(4))
    get_gae_with_default_last_value(data, False, 0.9, 0.8, cuda=False)
    assert_golden([len(data), *[d["adv"] for d in data]], [3, 4.179089, 4.290401, 3.07])
    data = container(gae_rows(4))
    get_gae_with_default_last_value(data, True, 0.9, 0.8, cuda=False)
    assert_golden([len(data), *[d["adv"] for d in data]], [4, 5.560107, 6.208481, 5.734, 3.7])


def test_columnar_gae_is_the_classic_one_per_piece():
    lengths, value, reward, last = [2, 4, 1], f((7, 1), 0), f((7, 1), 1), f((3, 1), 2)
    batch = get_gae(TransitionBatch({"value": value, "reward": reward}, lengths=lengths), last, 0.9, 0.8, False)
    start = 0
    for i, length in enumerate(lengths):
        rows = [{"value": value[j], "reward": reward[j]} for j in range(start, start + length)]
        expected = torch.stack([row["adv"] for row in get_gae(rows, last[i], 0.9, 0.8, False)])
        torch.testing.assert_close(batch.columns["adv"][start : start + length], expected)
        start += length


@pytest.mark.parametrize(
    ("last_fn_type", "expected"),
    [
        ("last", [[[0, 1], [False, False]], [[2, 3], [False, False]], [[3, 4], [False, True]]]),
        ("drop", [[[0, 1], [False, False]], [[2, 3], [False, False]]]),
        ("null_padding", [[[0, 1], [False, False]], [[2, 3], [False, False]], [[4, 0], [True, True]]]),
    ],
)
def test_train_sample_golden(last_fn_type, expected):
    samples = get_train_sample(piece(5), 2, last_fn_type)
    assert [[[o.item() for o in s["obs"]], s["done"]] for s in samples] == expected


def test_train_sample_pads_a_piece_that_is_too_short():
    (sample,) = get_train_sample(piece(1), 2)
    assert [o.item() for o in sample["obs"]] == [0, 0]
    assert sample["done"] == [True, True]
    assert sample.get("null") is None
    assert sample["reward"][1].item() == 0
    assert get_train_sample(piece(1), 2, "drop") == []
    marked = get_train_sample([{**piece(1)[0], "null": False, "value_gamma": 0.9}], 3, "null_padding")
    assert marked[0]["null"] == [False, True, True]
    assert marked[0]["value_gamma"] == [0.9, 0.0, 0.0]


def test_train_sample_uses_the_given_null_transition():
    null = {**piece(1)[0], "obs": torch.tensor(-1.0)}
    (sample,) = get_train_sample(piece(1), 3, "null_padding", null)
    assert [o.item() for o in sample["obs"]] == [0, -1, -1]


def test_train_sample_borrows_copies_and_keeps_prev_state():
    rows = [{**row, "info": {"x": i}, "prev_state": {"h": i}} for i, row in enumerate(piece(3))]
    first, last = get_train_sample(rows, 2)
    assert first["info"] == {"x": [0, 1]}
    assert first["prev_state"] == [{"h": 0}, {"h": 1}]
    assert last["obs"][0].item() == first["obs"][1].item()
    assert last["obs"][0].data_ptr() != first["obs"][1].data_ptr()


def test_train_sample_rejects_unknown_choices():
    with pytest.raises(ValueError, match=r"last_fn_type='nul_padding'.*Did you mean 'null_padding'"):
        get_train_sample(piece(2), 2, "nul_padding")
    with pytest.raises(ValueError, match="unroll_len"):
        get_train_sample(piece(2), 0)


def stacked(value):
    """A sequence of the classic form, a list of T steps for each field, as arrays."""
    if isinstance(value, dict):
        return {key: item[0] if key == "prev_state" else stacked(item) for key, item in value.items()}
    if isinstance(value[0], torch.Tensor):
        return torch.stack(value)
    return value if isinstance(value[0], str) else np.array(value)


def marked(length, start):
    """A piece with a field of each kind."""
    return [
        {
            **row,
            "obs": {"a": row["obs"], "b": row["obs"].numpy()[None] + 1},
            "next_obs": {"a": row["next_obs"], "b": row["next_obs"].numpy()[None] + 1},
            "prev_state": {"h": torch.full((1, 2), float(start + number))},
            "name": f"{start}-{number}",
            "null": False,
            "value_gamma": 0.5,
        }
        for number, row in enumerate(piece(length, start=start))
    ]


@settings(max_examples=40, deadline=None)
@given(
    lengths=piece_lengths,
    unroll=st.integers(2, 4),
    last_fn_type=st.sampled_from(["last", "drop", "null_padding"]),
    given_null=st.sampled_from(["none", "one", "each"]),
)
def test_columnar_unrolling_equals_the_classic_one(lengths, unroll, last_fn_type, given_null):
    pieces = [marked(length, start=10 * i) for i, length in enumerate(lengths)]
    batch = TransitionBatch(
        TransitionBatch.from_rows([row for rows in pieces for row in rows]).columns, lengths=lengths
    )
    nulls = [{**rows[-1], "obs": rows[-1]["next_obs"], "null": True, "name": "filled"} for rows in pieces]
    if given_null == "none":
        nulls = [None] * len(pieces)
    elif given_null == "one":
        nulls = nulls[:1] * len(pieces)
    null = {"none": None, "one": nulls[0], "each": TransitionBatch.from_rows(nulls) if nulls[0] else None}[given_null]
    result = get_train_sample(batch, unroll, last_fn_type, null)
    assert isinstance(result, TransitionBatch)
    per_piece = [get_train_sample(rows, unroll, last_fn_type, own) for rows, own in zip(pieces, nulls)]
    counts = [len(samples) for samples in per_piece]
    assert (None if result.lengths is None else result.lengths.tolist()) == (counts if all(counts) else None)
    assert_same_value(list(result), [stacked(sample) for samples in per_piece for sample in samples])


def test_the_functions_are_also_those_of_a_class():
    assert [Adder.get_gae, Adder.get_train_sample] == [adder.get_gae, adder.get_train_sample]
    assert Adder.get_nstep_return_data is adder.get_nstep_return_data
    assert Adder.get_gae_with_default_last_value is adder.get_gae_with_default_last_value
