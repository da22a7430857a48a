"""The maze: another one from each seed, one way between any two rooms, one reward."""

import numpy as np
import pytest

from ding.envs.zoo.maze_env import Maze
from ding.utils import get_vi_sequence

MOVES = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])


def made(seed, **cfg):
    env = Maze(cfg)
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
    with pytest.raises(ValueError, match=r"env.size must be at least 5 .* found 4, 100"):
        Maze({"size": 4})
    env = made(0)
    env.reset()
    with pytest.raises(ValueError, match="one of 0 to 3, found 4"):
        env.step(4)


def test_observations_are_made_of_a_map_and_a_cell():
    env = Maze({"size": 8})
    env.seed(0, dynamic_seed=False)
    obs = env.reset()
    maze_map = env.get_maze_map()
    assert maze_map.shape == (8, 8, 2)
    assert (maze_map == obs[..., :2]).all()
    agent = np.argwhere(obs[..., 2])[0]
    assert (env.process_states(agent, maze_map) == obs).all()
    path = get_vi_sequence(env, obs)[1]
    assert (path[0][0].numpy() == obs).all()
    assert env.step(path[0][1]).obs[..., 2].argmax() == path[1][0][..., 2].argmax()
