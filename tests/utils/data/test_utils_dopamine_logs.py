"""Replay logs of dopamine: files as it writes them, transitions as it draws them."""

import gzip
import pickle

import numpy as np
import pytest

from ding.utils.data import DatasetFieldError, DatasetFileError, FixedReplayBuffer

STACK = {"observation_shape": (2,), "stack_size": 2, "batch_size": 2}


def write(folder, name, value, suffix=0):
    with gzip.open(folder / f"{name}_ckpt.{suffix}.gz", "wb") as file:
        np.save(file, value, allow_pickle=False)


def log(folder, terminals, added, suffix=0):
    """Row i has the frame (i, 2i), action i and reward i."""
    rows = np.arange(len(terminals))
    write(folder, "$store$_observation", np.stack([rows, 2 * rows], 1).astype(np.uint8), suffix)
    write(folder, "$store$_action", rows.astype(np.int32), suffix)
    write(folder, "$store$_reward", rows.astype(np.float32), suffix)
    write(folder, "$store$_terminal", np.array(terminals, np.uint8), suffix)
    write(folder, "add_count", np.array(added), suffix)
    return str(folder)


def drawn(buffer, count=200):
    return set(buffer.sample_transition_batch(count)[-1].tolist())


def test_transitions(tmp_path) -> None:
    buffer = FixedReplayBuffer(log(tmp_path, [0, 0, 0, 0, 1, 0, 0, 0], 8), 0, **STACK, update_horizon=2, gamma=0.5)
    state, action, reward, next_state, next_action, next_reward, terminal, indices = buffer.sample_transition_batch(
        indices=[1, 3, 4]
    )
    # The frames of a state are its last axis.
    assert state.tolist() == [[[0, 1], [0, 2]], [[2, 3], [4, 6]], [[3, 4], [6, 8]]]
    assert next_state[0].tolist() == [[2, 3], [4, 6]]
    # 1 + 0.5 * 2; the episode ends with row 4, whose own reward counts and no later one.
    assert reward.tolist() == [2.0, 5.0, 4.0]
    assert (action.tolist(), next_action[0], next_reward[0]) == ([1, 3, 4], 3, 3.0)
    assert (terminal.tolist(), indices.tolist()) == ([0, 1, 1], [1, 3, 4])
    assert (state.dtype, action.dtype, reward.dtype, terminal.dtype) == (np.uint8, np.int32, np.float32, np.uint8)
    assert buffer.add_count == 8
    elements = buffer.get_transition_elements()
    assert [(one.name, one.shape) for one in elements] == [
        ("state", (2, 2, 2)),
        ("action", (2,)),
        ("reward", (2,)),
        ("next_state", (2, 2, 2)),
        ("next_action", (2,)),
        ("next_reward", (2,)),
        ("terminal", (2,)),
        ("indices", (2,)),
    ]
    batch = buffer.sample_transition_batch()
    assert [(part.shape, part.dtype) for part in batch] == [(one.shape, one.type) for one in elements]


@pytest.mark.parametrize(
    ("terminals", "added", "capacity", "rows"),
    [
        # The first row has one frame, the last one no next state.
        ([0] * 6, 6, None, {1, 2, 3, 4}),
        # Row 3 would see the episode before.
        ([0, 0, 1, 0, 0, 0], 6, None, {1, 2, 4}),
        # Four of six rows are filled.
        ([0] * 6, 4, None, {1, 2}),
        # A ring: row 2 is the oldest, row 1 the newest.
        ([0] * 6, 8, None, {3, 4, 5, 0}),
        # The first four rows of it: row 3 has no next one.
        ([0] * 6, 8, 4, set()),
        ([0] * 6, 7, 4, {2}),
    ],
)
def test_rows_that_are_drawn(tmp_path, terminals, added, capacity, rows) -> None:
    buffer = FixedReplayBuffer(log(tmp_path, terminals, added), 0, **STACK, replay_capacity=capacity)
    if rows:
        assert drawn(buffer) == rows
    else:
        with pytest.raises(DatasetFieldError, match="no episode is longer than 2 frames"):
            buffer.sample_transition_batch()


def test_several_checkpoints(tmp_path) -> None:
    log(tmp_path, [0] * 4, 4, suffix=3)
    log(tmp_path, [0] * 10, 10, suffix=12)
    buffer = FixedReplayBuffer(str(tmp_path), None, **STACK)
    assert buffer.add_count == 4
    rows = [drawn(buffer, 50) for _ in range(20)]
    assert {max(one) > 2 for one in rows} == {True, False}
    buffer.load_single_buffer(12)
    assert buffer.add_count == 10
    assert drawn(buffer) == set(range(1, 9))


def test_what_is_wrong_with_a_log(tmp_path, caplog) -> None:
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        FixedReplayBuffer(str(tmp_path), None)
    folder = log(tmp_path, [0] * 4, 4)
    with pytest.raises(FileNotFoundError, match=r"add_count_ckpt\.1\.gz"):
        FixedReplayBuffer(folder, 1)
    with pytest.raises(DatasetFieldError, match=r"are uint8 \(2,\), expected observation_dtype=uint8.*\(84, 84\)"):
        FixedReplayBuffer(folder, 0)
    with pytest.raises(TypeError, match="'bach_size'"):
        FixedReplayBuffer(folder, 0, bach_size=3)
    buffer = FixedReplayBuffer(folder, 0, **STACK, max_sample_attempts=9)
    with pytest.raises(IndexError, match="0 to 3, got 2 to 4"):
        buffer.sample_transition_batch(indices=[2, 4])
    with pytest.raises(ValueError, match="3, but there are 1"):
        buffer.sample_transition_batch(3, indices=[1])
    write(tmp_path, "episode_end_indices", np.zeros(1))
    FixedReplayBuffer(folder, 0, **STACK)
    assert "end without a terminal are not known" in caplog.text
    write(tmp_path, "$store$_action", np.zeros(3, np.int32))
    with pytest.raises(DatasetFieldError, match=r"several lengths.*'action': 3"):
        FixedReplayBuffer(folder, 0, **STACK)


def test_no_pickle_is_read(tmp_path) -> None:
    folder = log(tmp_path, [0] * 4, 4)
    path = tmp_path / "$store$_action_ckpt.0.gz"
    with gzip.open(path, "wb") as file:
        np.save(file, np.array([{}, {}, {}, {}]), allow_pickle=True)
    with pytest.raises(DatasetFileError, match="holds object"):
        FixedReplayBuffer(folder, 0, **STACK)
    with gzip.open(path, "wb") as file:
        pickle.dump([1], file)
    with pytest.raises(DatasetFileError, match="no gzip'ed numpy file"):
        FixedReplayBuffer(folder, 0, **STACK)
    whole = (tmp_path / "$store$_observation_ckpt.0.gz").read_bytes()
    path.write_bytes(whole[:-12])
    with pytest.raises(DatasetFileError, match="truncated"):
        FixedReplayBuffer(folder, 0, **STACK)
