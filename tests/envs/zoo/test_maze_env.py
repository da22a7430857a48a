"""The maze: another one from each seed, walls of several kinds, one reward."""

import numpy as np
import pytest

from ding.envs.zoo.maze_env import Maze, generate_maze
from ding.utils import get_vi_sequence

MOVES = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])


def made(seed, wall_type="tree", **cfg):
    env = Maze({"wall_type": wall_type, **cfg})
    env.seed(seed, dynamic_seed=False)
    return env


@pytest.mark.parametrize("size", [5, 8, 9])
def test_a_maze_is_a_tree_of_rooms(size):
    for seed in range(5):
        walls, goal, agent = np.moveaxis(made(seed, size=size).reset(), -1, 0)
        assert goal.sum() == agent.sum() == 1
        assert not (walls * (goal + agent)).any()
        assert not (goal * agent).any()
        assert walls[[0, -1]].all()
        assert walls[:, [0, -1]].all()
        rooms = ((size - 1) // 2) ** 2
        assert (1 - walls).sum() == 2 * rooms - 1
        reached, edge = set(), [tuple(np.argwhere(agent)[0])]
        while edge:
            cell = edge.pop()
            if cell not in reached and not walls[cell]:
                reached.add(cell)
                edge += [tuple(cell + move) for move in MOVES]
        assert len(reached) == 2 * rooms - 1


# Size, seed, goal, start and best path of DI-engine's mazes.
TUNNELS = [
    (8, 0, (4, 1), (1, 4), "333000"),
    (16, 0, (5, 4), (14, 13), "333222222333333222"),
    (16, 1, (10, 2), (1, 11), "333333300033000000"),
]


@pytest.mark.parametrize(("size", "seed", "goal", "start", "actions"), TUNNELS)
def test_tunnels_are_those_of_di_engine(size, seed, goal, start, actions):
    env = Maze({"size": size})
    env.seed(seed)
    obs = env.reset()
    assert env.target_location == goal
    assert tuple(np.argwhere(obs[..., 2])[0]) == start
    maps, path = get_vi_sequence(env, obs)
    assert "".join(str(action) for _, action in path) == actions
    assert {type(action) for _, action in path} == {np.int32}
    assert maps.shape == (len(actions), size, size)
    if size == 8:
        rows = ["xxxxxxxx", "x   S xx", "x     xx", "x  x  xx", "xT    xx", "x     xx", "xxxxxxxx", "xxxxxxxx"]
        assert ["".join(row) for row in env.nav_map] == rows
        assert maps[-1].tolist() == [
            [4] * 8, [4, 0, 3, 3, 3, 4, 4, 4], [4, 0, 3, 3, 3, 3, 4, 4], [4, 0, 3, 4, 0, 3, 4, 4],
            [4, 4, 3, 3, 3, 3, 4, 4], [4, 2, 3, 3, 3, 3, 4, 4], [4] * 8, [4] * 8,
        ]  # fmt: skip


@pytest.mark.parametrize("wall_type", ["tunnel", "tree", "none", "blocks:4"])
def test_walls_of_each_kind(wall_type):
    cells = generate_maze(16, 3, wall_type)
    assert (generate_maze(16, 3, wall_type) == cells).all()
    assert (np.bincount(cells.ravel(), minlength=4)[2:] == 1).all()
    inside = (cells[1:-1, 1:-1] == 1).sum()
    assert (inside == 0) == (wall_type == "none")
    env = made(3, wall_type)
    obs = env.reset()
    assert (obs[..., 0] == (cells == 1)).all()
    other = env.random_start()
    assert (other[..., :2] == obs[..., :2]).all()
    assert not (other[..., 2] * other[..., :2].sum(-1)).any()


def test_a_seed_is_a_maze():
    env, other = made(3), made(4)
    first = env.reset()
    assert (env.reset() == first).all()
    assert (made(3).reset() == first).all()
    assert (other.reset() != first).any()
    env.seed(3)
    assert (env.reset() != env.reset()).any()


def test_steps_walls_goal_and_limit():
    env = made(0, size=5, max_step=4, flat_obs=True)
    obs = env.reset()
    assert obs.shape == env.observation_space.shape == (75,)
    assert obs.dtype == np.float32
    walls, goal, agent = np.moveaxis(obs.reshape(5, 5, 3), -1, 0)
    start, target = np.argwhere(agent)[0], np.argwhere(goal)[0]
    blocked = next(action for action, move in enumerate(MOVES) if walls[tuple(start + move)])
    for number in range(4):
        timestep = env.step(np.array([blocked]))
        assert (timestep.obs == obs).all()
        assert timestep.done is (number == 3)
    assert timestep.info == {"eval_episode_return": 0.0, "final_eval_reward": 0.0, "TimeLimit.truncated": True}
    # Next to the goal, one step wins.
    for seed in range(50):
        env.seed(seed, dynamic_seed=False)
        _, goal, agent = np.moveaxis(env.reset().reshape(5, 5, 3), -1, 0)
        way = np.argwhere(goal)[0] - np.argwhere(agent)[0]
        if np.abs(way).sum() == 1:
            break
    timestep = env.step(int(np.flatnonzero((way == MOVES).all(axis=1))[0]))
    assert timestep.done is True
    assert timestep.reward.tolist() == [1.0]
    assert timestep.info == {"eval_episode_return": 1.0, "final_eval_reward": 1.0}
    assert len(target) == 2


def test_mistakes():
    for size, wall_type in ((3, "none"), (4, "tree"), (6, "tunnel")):
        with pytest.raises(ValueError, match=rf"env.size must be at least {size + 1} .*{wall_type}.* found {size},"):
            Maze({"size": size, "wall_type": wall_type})
    with pytest.raises(ValueError, match=r"env.wall_type .* found 'tunel'.*tunnel"):
        Maze({"wall_type": "tunel"})
    env = made(0)
    env.reset()
    with pytest.raises(ValueError, match="one of 0 to 3, found 4"):
        env.step(4)


def test_observations_are_made_of_a_map_and_a_cell():
    env = made(0, size=8)
    obs = env.reset()
    maze_map = env.get_maze_map()
    assert maze_map.shape == (8, 8, 2)
    assert (maze_map == obs[..., :2]).all()
    agent = np.argwhere(obs[..., 2])[0]
    assert (env.process_states(agent, maze_map) == obs).all()
    path = get_vi_sequence(env, obs)[1]
    assert (path[0][0].numpy() == obs).all()
    assert env.step(path[0][1]).obs[..., 2].argmax() == path[1][0][..., 2].argmax()


def test_images_of_a_maze():
    env, image = made(2, size=5, wall_type="tree"), made(2, size=5, wall_type="tree", pixels=16)
    planes, pixels = env.reset(), image.reset()
    assert image.observation_space.contains(pixels)
    assert (pixels.shape, pixels.dtype) == ((3, 16, 16), np.uint8)
    # The middle of each cell, and all of a colour or nothing.
    middles = [1, 4, 8, 11, 14]
    assert (np.moveaxis(planes, -1, 0) * 255 == pixels[:, middles][:, :, middles]).all()
    assert set(np.unique(pixels)) == {0, 255}
    with pytest.raises(ValueError, match=r"env.pixels must be at least env.size, found 4 and 5"):
        made(0, size=5, wall_type="tree", pixels=4)
