"""Data sets for offline training."""

import pickle
from itertools import pairwise

import gymnasium
import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.utils import MissingExtraError
from ding.utils.data import (
    BCODataset,
    D4RLDataset,
    D4RLDiffuserDataset,
    D4RLTrajectoryDataset,
    DatasetFieldError,
    DatasetFileError,
    DatasetValueError,
    HDF5Dataset,
    MinariDataset,
    NaiveRLDataset,
    PCDataset,
    SequenceDataset,
    create_dataset,
    load_bfs_datasets,
    naive_save,
    offline_data_save_type,
)


def config(path: object, data_type: str = "hdf5", **sections: object) -> EasyDict:
    return EasyDict(policy={"collect": {"data_type": data_type, "data_path": str(path)}}, **sections)


def transitions(dones: list[bool], action_dtype: torch.dtype = torch.int64) -> list[dict]:
    """Item i has obs (i, 0), action i and reward 1."""
    return [
        {
            "obs": torch.tensor([float(i), 0.0]),
            "next_obs": torch.tensor([float(i + 1), 0.0]),
            "action": torch.tensor([i], dtype=action_dtype),
            "reward": torch.ones(1),
            "done": done,
            "collect_iter": 0,
        }
        for i, done in enumerate(dones)
    ]


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py", reason="the extra hdf5 is not installed")


def saved(tmp_path, rows: list[dict]) -> str:
    offline_data_save_type(rows, str(tmp_path / "demo.pkl"), "hdf5")
    return str(tmp_path / "demo_demos.hdf5")


def test_hdf5_has_one_array_per_key(tmp_path, h5py) -> None:
    path = saved(tmp_path, transitions([False, True]))
    with h5py.File(path) as file:
        shapes = {key: (array.shape, str(array.dtype)) for key, array in file.items()}
    assert shapes == {
        "obs": ((2, 2), "float32"),
        "next_obs": ((2, 2), "float32"),
        "action": ((2, 1), "int64"),
        "reward": ((2, 1), "float32"),
        "done": ((2,), "bool"),
    }
    dataset = create_dataset(config(path))
    assert isinstance(dataset, HDF5Dataset)
    assert len(dataset) == 2
    item = dataset[1]
    assert item["obs"].tolist() == [1.0, 0.0]
    assert item["done"]
    assert dataset.statistics.action_bounds is None


def test_arrays_are_saved_like_tensors(tmp_path, h5py) -> None:
    rows = [{key: np.asarray(value) for key, value in row.items()} for row in transitions([False])]
    assert HDF5Dataset(config(saved(tmp_path, rows)))[0]["obs"].tolist() == [0.0, 0.0]


def test_statistics_of_continuous_actions(tmp_path, h5py) -> None:
    rows = transitions([False] * 5, torch.float32)
    norm = {"norm_obs": {"use_norm": True, "offline_stats": {"use_offline_stats": True}}}
    dataset = HDF5Dataset(config(saved(tmp_path, rows), env=norm))
    # Actions 0 to 4, widened by 5 % of 4 on both sides.
    np.testing.assert_allclose(dataset.action_bounds, [[-0.2], [4.2]], rtol=1e-6)
    np.testing.assert_allclose(dataset.mean, [2.0, 0.0])
    np.testing.assert_allclose(dataset.std, [np.sqrt(2) + 1e-3, 1e-3], rtol=1e-6)
    np.testing.assert_allclose(dataset[4]["obs"][0], 2 / (np.sqrt(2) + 1e-3), rtol=1e-6)
    plain = HDF5Dataset(config(saved(tmp_path, rows), env={"norm_obs": {"use_norm": False}}))
    assert plain[4]["obs"].tolist() == [4.0, 0.0]


def test_windows_stay_within_episodes(tmp_path, h5py) -> None:
    # Episodes of 3, 1 and (cut) 2 steps; windows of 2.
    path = saved(tmp_path, transitions([False, False, True, True, False, False]))
    dataset = create_dataset(config(path, dataset={"context_len": 2}))
    assert len(dataset) == 4
    times, states, actions, togo, mask = zip(*(dataset[i] for i in range(4)))
    assert [one.tolist() for one in times] == [[0, 1], [1, 2], [0, 0], [0, 1]]
    assert [one[:, 0].tolist() for one in states] == [[0, 1], [1, 2], [3, 0], [4, 5]]
    assert [one.shape for one in actions] == [(2, 1)] * 4
    assert [one.tolist() for one in togo] == [[3, 2], [2, 1], [1, 0], [2, 1]]
    assert [one.tolist() for one in mask] == [[1, 1], [1, 1], [1, 0], [1, 1]]


def test_what_hdf5_cannot_hold_is_named(tmp_path, h5py) -> None:
    ragged = transitions([False, False])
    ragged[1]["obs"] = torch.zeros(3)
    with pytest.raises(TypeError, match="'obs' has several"):
        saved(tmp_path, ragged)
    nested = transitions([False])
    nested[0]["obs"] = {"a": torch.zeros(1)}
    with pytest.raises(TypeError, match="data_type='naive'"):
        saved(tmp_path, nested)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[hdf5\]'"):
        HDF5Dataset(config(tmp_path / "x.hdf5"))


def test_a_missing_file_is_named(tmp_path, h5py) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no data file .*x\.hdf5"):
        HDF5Dataset(config(tmp_path / "x.hdf5"))


def d4rl_file(h5py, path, timeouts: bool = True) -> None:
    """Two episodes: steps 0 to 2 (time limit), 3 and 4 (terminal), and a cut one of step 5."""
    with h5py.File(path, "w") as file:
        file["observations"] = np.arange(6, dtype=np.float64).reshape(6, 1)
        file["actions"] = np.linspace(-1, 1, 6).reshape(6, 1)
        file["rewards"] = np.ones(6)
        file["terminals"] = np.array([0, 0, 0, 0, 1, 0], bool)
        if timeouts:
            file["timeouts"] = np.array([0, 0, 1, 0, 0, 0], bool)
        file["infos/qpos"] = np.zeros((6, 1))


def test_d4rl_transitions(tmp_path, h5py) -> None:
    d4rl_file(h5py, tmp_path / "hopper_medium_expert-v2.hdf5")
    dataset = D4RLDataset(config(tmp_path, "d4rl", env={"env_id": "hopper-medium-expert-v2"}))
    rows = dataset.data
    assert isinstance(rows, list)
    assert [float(row["obs"][0]) for row in rows] == [0, 1, 3, 4]
    assert [float(row["next_obs"][0]) for row in rows] == [1, 2, 4, 5]
    assert {key: type(value) for key, value in rows[0].items()} == {
        **dict.fromkeys(("obs", "next_obs", "action", "reward"), torch.Tensor), "done": bool
    }  # fmt: skip
    for row in dataset.data:
        row["collect_iter"] = -1
    assert [row["collect_iter"] for row in dataset.data] == [-1] * 4
    item = dataset[3]
    assert item["reward"].shape == ()
    assert isinstance(item["obs"], torch.Tensor)
    assert item["done"]
    assert dataset.action_bounds.tolist()[0] == [-1.0]
    with pytest.raises(FileNotFoundError, match=r"walker2d_medium-v2\.hdf5"):
        D4RLDataset(config(tmp_path, "d4rl", env={"env_id": "walker2d-medium-v2"}))
    with pytest.raises(FileNotFoundError, match=r"env\.env_id"):
        D4RLDataset(config(tmp_path, "d4rl"))


@pytest.mark.parametrize(
    ("kind", "rewards"),
    [
        ("normalize", [-1.34164, -0.447214, 0.447214, 1.34164]),
        # Returns of 0 + 1 and 2 + 3.
        ("iql_locomotion", [0, 250, 500, 750]),
        ("iql_antmaze", [-1, 0, 1, 2]),
        ("cql_antmaze", [-2, 2, 6, 10]),
        ("antmaze", [-0.5, 1.5, 3.5, 5.5]),
    ],
)
def test_rewards_on_the_scale_of_an_algorithm(tmp_path, h5py, kind, rewards) -> None:
    d4rl_file(h5py, tmp_path / "x.hdf5")
    with h5py.File(tmp_path / "x.hdf5", "a") as file:
        file["rewards"][:] = [0, 1, 9, 2, 3, 9]  # the third and the last one belong to no transition
    dataset = D4RLDataset(config(tmp_path / "x.hdf5", "d4rl", env={"reward_norm": kind}))
    assert [float(row["reward"]) for row in dataset.data] == pytest.approx(rewards)
    with pytest.raises(NotImplementedError, match="reward_norm: 'antmase' is unknown"):
        D4RLDataset(config(tmp_path / "x.hdf5", "d4rl", env={"reward_norm": "antmase"}))


def test_d4rl_trajectories(tmp_path, h5py) -> None:
    path = tmp_path / "d.hdf5"
    d4rl_file(h5py, path)
    window = {"data_dir_prefix": str(path), "rtg_scale": 2, "context_len": 2, "env_type": "mujoco"}
    dataset = create_dataset(config("", "d4rl_trajectory", dataset=window))
    assert isinstance(dataset, D4RLTrajectoryDataset)
    assert [len(one["rewards"]) for one in dataset.trajectories] == [3, 2, 1]
    starts = {int(dataset[0][0][0]) for _ in range(50)}
    assert starts == {0, 1}
    _times, states, actions, togo, mask = dataset[2]
    assert [tuple(one.shape) for one in (states, actions, togo, mask)] == [(2, 1), (2, 1), (2,), (2,)]
    assert (togo.tolist(), mask.tolist()) == ([0.5, 0.0], [1, 0])
    mean, std = dataset.get_state_stats()
    np.testing.assert_allclose([mean[0], std[0]], [2.5, np.arange(6).std() + 1e-6], rtol=1e-6)


def test_d4rl_without_timeouts_is_cut_after_1000_steps(tmp_path, h5py) -> None:
    path = tmp_path / "d.hdf5"
    with h5py.File(path, "w") as file:
        for key in ("observations", "actions"):
            file[key] = np.zeros((2500, 1))
        file["rewards"] = np.zeros(2500)
        file["terminals"] = np.zeros(2500, bool)
    window = {"data_dir_prefix": str(path), "rtg_scale": 1, "context_len": 2}
    dataset = create_dataset(config("", "d4rl_trajectory", dataset=window))
    assert [len(one["rewards"]) for one in dataset.trajectories] == [1000, 1000, 500]


def test_trajectories_in_a_safe_file(tmp_path) -> None:
    path = str(tmp_path / "trajectories")
    episode = {"observations": np.ones((2, 1)), "actions": np.ones((2, 1)), "rewards": np.ones(2)}
    naive_save([episode], path)
    window = {"data_dir_prefix": path, "rtg_scale": 1, "context_len": 2}
    assert len(create_dataset(config("", "d4rl_trajectory", dataset=window))) == 1
    with pytest.raises(NotImplementedError, match="no Atari logs"):
        create_dataset(config("", "d4rl_trajectory", dataset={**window, "env_type": "atari"}))


@pytest.mark.parametrize("data_type", ["d4rl_trajectory", "d4rl_diffuser"])
def test_images_of_trajectories_stay_as_they_are(tmp_path, data_type) -> None:
    path = str(tmp_path / "trajectories")
    pixels = np.arange(3 * 4, dtype=np.uint8).reshape(3, 1, 2, 2)
    naive_save([{"observations": pixels, "actions": np.arange(3), "rewards": np.ones(3)}], path)
    dataset = create_dataset(config("", data_type, dataset={"data_dir_prefix": path, "rtg_scale": 1, "context_len": 4}))
    states = dataset[0][1]
    assert (states.shape, states.dtype) == ((4, 1, 2, 2), torch.uint8)
    np.testing.assert_array_equal(states[:3], pixels)


def test_no_pickle_is_read(tmp_path) -> None:
    path = tmp_path / "data.pkl"
    path.write_bytes(pickle.dumps([EasyDict(a=1)], protocol=2))
    with pytest.raises(DatasetFileError, match=r"is refused: it holds easydict\.EasyDict"):
        NaiveRLDataset(str(path))


def test_a_slice_of_transitions_is_a_list() -> None:
    assert NaiveRLDataset([1, 2, 3])[1:] == [2, 3]


def test_data_sets_in_memory() -> None:
    arrays = {"obs": np.arange(3), "action": np.arange(3)}
    dataset = create_dataset(config("", "bco"), data=arrays)
    assert isinstance(dataset, BCODataset)
    assert dataset[2] == {"obs": 2, "action": 2}
    assert dataset.obs is arrays["obs"]
    assert PCDataset((np.arange(2), np.arange(2), np.arange(2)))[1] == {"obs": 1, "bfs_in": 1, "bfs_out": 1}
    with pytest.raises(ValueError, match="got None"):
        BCODataset()
    with pytest.raises(ValueError, match="one length"):
        BCODataset({"obs": np.arange(2), "action": np.arange(3)})


def test_wrong_hdf5_files_are_named(tmp_path, h5py) -> None:
    path = saved(tmp_path, transitions([False] * 3))
    whole = (tmp_path / "demo_demos.hdf5").read_bytes()
    (tmp_path / "cut.hdf5").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DatasetFileError, match=r"cut\.hdf5 is truncated"):
        HDF5Dataset(config(tmp_path / "cut.hdf5"))
    with h5py.File(path, "a") as file:
        file["obs"][1, 0] = np.nan
    with pytest.raises(DatasetValueError, match="field 'obs' holds NaN or infinity in row 1"):
        HDF5Dataset(config(path))
    with h5py.File(path, "a") as file:
        del file["obs"]
    with pytest.raises(DatasetFieldError, match="there is no field 'obs'"):
        HDF5Dataset(config(path))
    with h5py.File(tmp_path / "short.hdf5", "w") as file:
        file["obs"], file["action"] = np.zeros((3, 1)), np.zeros((2, 1))
    with pytest.raises(DatasetFieldError, match="one length"):
        HDF5Dataset(config(tmp_path / "short.hdf5"))


def test_a_wrong_d4rl_file_is_named(tmp_path, h5py) -> None:
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["observations"], file["actions"], file["terminals"] = np.zeros((3, 1)), np.zeros((3, 1)), np.zeros(3)
    with pytest.raises(DatasetFieldError, match="there is no field 'rewards'"):
        D4RLDataset(config(tmp_path / "x.hdf5", "d4rl"))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_minari_transitions(tmp_path, monkeypatch) -> None:
    minari = pytest.importorskip("minari", reason="the extra offline is not installed")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    spaces = {
        "observation_space": gymnasium.spaces.Dict(
            {"a": gymnasium.spaces.Box(-9, 9, (1,), np.float32), "b": gymnasium.spaces.Box(-9, 9, (1,), np.float32)}
        ),
        "action_space": gymnasium.spaces.Box(-1, 1, (1,), np.float32),
    }
    episodes = [
        minari.data_collector.EpisodeBuffer(
            observations={"a": np.arange(count + 1.0, dtype=np.float32)[:, None], "b": np.zeros((count + 1, 1))},
            actions=np.full((count, 1), 0.5, np.float32),
            rewards=np.arange(count),
            terminations=[False] * (count - 1) + [ended],
            truncations=[False] * (count - 1) + [not ended],
        )
        for count, ended in ((2, True), (1, False))
    ]
    minari.create_dataset_from_buffers("toy/made-v0", episodes, **spaces)
    dataset = create_dataset(config("toy/made-v0", "minari"))
    assert isinstance(dataset, MinariDataset)
    rows = dataset.rows_at(np.arange(len(dataset)))
    assert rows["obs"].tolist() == [[0, 0], [1, 0], [0, 0]]
    assert rows["next_obs"].tolist() == [[1, 0], [2, 0], [1, 0]]
    assert rows["action"].tolist() == [[0.5]] * 3
    assert rows["reward"].tolist() == [[0], [1], [0]]
    assert rows["done"].tolist() == [False, True, False]
    with pytest.raises(FileNotFoundError, match="no Minari data set 'toy/other-v0'"):
        create_dataset(config("toy/other-v0", "minari"))


def test_trajectories_for_diffusion(tmp_path) -> None:
    path = str(tmp_path / "episodes")
    naive_save([[{"obs": [float(i)], "action": [i], "reward": [1.0]} for i in range(3)]], path)
    window = {"data_dir_prefix": path, "rtg_scale": 1, "context_len": 4}
    dataset = create_dataset(config("", "d4rl_diffuser", dataset=window))
    assert isinstance(dataset, D4RLDiffuserDataset)
    times, states, actions, togo, mask = D4RLDiffuserDataset(path, 4, 1)[0]
    assert times.tolist() == [0, 1, 2, 0]
    assert states[:, 0].tolist() == [0, 1, 2, 0]
    assert actions[:, 0].tolist() == [0, 1, 2, 0]
    assert togo.tolist() == [3, 2, 1, 0]
    assert mask.tolist() == [1, 1, 1, 0]


def test_sequences_for_diffusion(tmp_path, h5py) -> None:
    d4rl_file(h5py, tmp_path / "hopper_medium-v2.hdf5")
    env = {
        "env_id": "hopper-medium-v2", "returns_scale": 1.0, "horizon": 2, "max_path_length": 4, "use_padding": True,
        "include_returns": True, "termination_penalty": -5.0, "normed": False,
    }  # fmt: skip
    made = config(tmp_path, "diffuser_traj", env=env)
    made.policy.update(normalizer="LimitsNormalizer", learn={"discount_factor": 0.5})
    dataset = create_dataset(made)
    assert isinstance(dataset, SequenceDataset)
    # The begin of an episode behind them is left out.
    assert (dataset.n_episodes, dataset.observation_dim, dataset.action_dim) == (2, 1, 1)
    assert dataset.indices == [(0, 0, 2), (0, 1, 3), (0, 2, 4), (1, 0, 2), (1, 1, 3)]
    item = dataset[3]
    # Steps 3 and 4 of observations 0 to 4 and actions -1 to 0.6.
    np.testing.assert_allclose(item["trajectories"], [[0.5, 0.5], [1.0, 1.0]], atol=1e-6)
    assert item["condition_id"].tolist() == [0]
    np.testing.assert_allclose(item["condition_val"], [[0.5]], atol=1e-6)
    assert item["done"].tolist() == [[0], [1]]
    # 1 and, with the penalty, -4.
    assert item["returns"].tolist() == [-1.0]
    made.env.use_padding = False
    assert create_dataset(made).indices == [(0, 0, 2), (0, 1, 3), (1, 0, 2)]


def test_sequences_of_the_original(tmp_path, h5py) -> None:
    """DI-engine's numbers; it leaves out the last start of each episode, number 4 and 9 here."""

    def wave(shape: tuple[int, ...], phase: float) -> np.ndarray:
        return np.sin(0.7 * np.arange(np.prod(shape)) + phase).reshape(shape)

    with h5py.File(tmp_path / "hopper_medium-v2.hdf5", "w") as file:
        file["observations"], file["actions"], file["rewards"] = (
            wave((12, 2), 0.1),
            wave((12, 1), 0.4),
            wave((12,), 0.2),
        )
        file["terminals"], file["timeouts"] = np.arange(12) == 4, np.arange(12) == 9
    env = {
        "env_id": "hopper-medium-v2", "returns_scale": 2.0, "horizon": 2, "max_path_length": 6, "use_padding": True,
        "include_returns": True, "termination_penalty": -10, "normed": False,
    }  # fmt: skip
    made = config(tmp_path, "diffuser_traj", env=env)
    made.policy.update(normalizer="GaussianNormalizer", learn={"discount_factor": 0.9})
    dataset = create_dataset(made)
    assert dataset.path_lengths == [5, 5]
    rewards = dataset.fields["rewards"][0, :, 0]
    np.testing.assert_allclose(rewards, [0.198669, 0.783327, 0.999574, 0.745705, -9.85888, 0], rtol=1e-5)
    rows = dataset.rows_at(np.array([0, 1, 2, 3, 5, 6, 7, 8]))
    returns = [-2.10574, -2.45008, -3.15749, -4.06364, -1.16687, -1.00217, -0.584855, -0.135497]
    np.testing.assert_allclose(rows["returns"][:, 0], returns, rtol=1e-5)
    expected = [0.512349, 0.130964, 0.911523, 1.24944, 1.46769, 1.04072]
    np.testing.assert_allclose(rows["trajectories"][0].ravel(), expected, rtol=1e-5)
    np.testing.assert_allclose(rows["condition_val"][0], [[0.130964, 0.911523]], rtol=1e-5)
    # Scaled to [-1, 1] whatever the scale is.
    made.env.normed = True
    normed = create_dataset(made)
    scaled = normed.rows_at(np.arange(len(normed)))["returns"]
    assert (scaled.min(), scaled.max()) == (-1, 1)


def test_searches_of_mazes() -> None:
    train, test = load_bfs_datasets(train_seeds=1, test_seeds=1)
    assert len(train) == len(test) == 171
    first = train[0]
    assert [first[name].sum() for name in ("obs", "bfs_in", "bfs_out")] == [108, 1024, 1017]
    rows = train.rows_at(slice(None))
    kinds = {name: (column.dtype, column.shape[1:]) for name, column in rows.items()}
    assert kinds == {"obs": ("f4", (16, 16, 3)), "bfs_in": ("i8", (16, 16)), "bfs_out": ("i4", (16, 16))}
    # A search begins with an empty map, and each of its steps with what the one before it gave.
    begins = np.append(np.flatnonzero((rows["bfs_in"] == 4).all((1, 2))), len(train))
    assert len(begins) - 1 == 18  # one for each cell of the path but the goal
    goal = tuple(np.argwhere(rows["obs"][0, :, :, 1])[0])
    moves = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
    for begin, end in pairwise(begins):
        assert (rows["bfs_in"][begin + 1 : end] == rows["bfs_out"][begin : end - 1]).all()
        (cell,) = np.argwhere(rows["obs"][begin, :, :, 2])
        # The last map leads from the agent to the goal, in as many steps as the search took.
        for _ in range(end - begin):
            cell = cell + moves[rows["bfs_out"][end - 1][tuple(cell)]]
            assert rows["obs"][begin][(*cell, 0)] == 0
        assert tuple(cell) == goal
    again = load_bfs_datasets(2, 1)[0].rows_at(slice(171, None))
    assert (again["obs"] == test.rows_at(slice(None))["obs"]).all()
    others = load_bfs_datasets(1, 1, size=9, wall_type="tree")[0].rows_at(slice(None))
    assert others["obs"].shape[1:] == (9, 9, 3)
    with pytest.raises(ValueError, match="at least 1, got 0 and 5"):
        load_bfs_datasets(0)
