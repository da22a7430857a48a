"""The T-maze: rewards, observations, and that only the cue tells where to turn."""

import numpy as np
import pytest

from ding.envs.zoo.t_maze_env import TMazeEnv


def _walk(env: TMazeEnv, actions: list[int]) -> list[tuple[list[float], float, bool]]:
    steps = [env.step(action) for action in actions]
    return [(step.obs.tolist(), round(float(step.reward[0]), 6), step.done) for step in steps]


def test_the_cue_is_seen_once_and_a_turn_to_its_side_is_rewarded() -> None:
    env = TMazeEnv({"corridor_length": 2})
    env.seed(0)
    cues = []
    for right in (True, False) * 4:
        obs = env.reset()
        cues.append(obs[0])
        turn = int(obs[0] > 0) if right else int(obs[0] < 0)
        walked = _walk(env, [2, 2, turn])
        assert walked[:2] == [([0.0, 0.0], 0.0, False), ([0.0, 1.0], 0.0, False)]
        assert walked[2][1:] == (1.0 if right else -1.0, True)
    assert set(cues) == {-1.0, 1.0}


def test_vain_moves_cost_and_long_episodes_are_truncated() -> None:
    env = TMazeEnv({"corridor_length": 1})
    env.seed(1)
    cue = env.reset()[0]
    assert _walk(env, [0, 1, 2, 2]) == [
        ([cue, 0.0], -0.1, False), ([cue, 0.0], -0.1, False), ([0.0, 1.0], 0.0, False), ([0.0, 1.0], -0.1, False),
    ]  # fmt: skip
    env.reset()
    last = [env.step(np.array([0])) for _ in range(8)][-1]
    assert last.done
    assert last.info["TimeLimit.truncated"]
    assert last.info["eval_episode_return"] == pytest.approx(-0.8)


@pytest.mark.parametrize("config", [{"corridor_length": 0}])
def test_bad_lengths_and_moves_are_errors(config: dict) -> None:
    with pytest.raises(ValueError, match="corridor_length"):
        TMazeEnv(config)
    env = TMazeEnv()
    env.reset()
    with pytest.raises(ValueError, match="0, 1 or 2"):
        env.step(3)
