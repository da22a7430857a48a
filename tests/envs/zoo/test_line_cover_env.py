"""The cooperative game: what agents see, what they get, the best return."""

from itertools import product

import numpy as np
import pytest

from ding.envs.zoo.line_cover_env import LineCoverEnv


def cells(obs: dict[str, np.ndarray]) -> tuple[list[int], list[int]]:
    """The cells of the agents and of the landmarks, as the observation has them."""
    count = obs["agent_alone_state"].shape[1] // 2
    seen = obs["agent_state"]
    return seen[:, :count].argmax(1).tolist(), np.flatnonzero(seen[0, count : 2 * count]).tolist()


def played(seed: int, joint_actions: tuple[tuple[int, ...], ...]) -> float | None:
    """The return of these actions; None if one of them leaves the line."""
    env = LineCoverEnv({"n_cell": 4, "max_cycles": len(joint_actions)})
    env.seed(seed)
    obs = env.reset()
    for action in joint_actions:
        if not all(mask[one] for mask, one in zip(obs["action_mask"], action)):
            return None
        step = env.step(action)
        obs = step.obs
    assert step.done
    assert step.info["TimeLimit.truncated"]
    return step.info["eval_episode_return"]


@pytest.mark.parametrize("seed", range(3))
def test_the_best_return_is_that_of_the_best_actions(seed: int) -> None:
    env = LineCoverEnv({"n_cell": 4, "max_cycles": 3})
    env.seed(seed)
    env.reset()
    joint = list(product(range(3), repeat=2))
    returns = [played(seed, actions) for actions in product(joint, repeat=3)]
    assert env.best_return() == pytest.approx(max(value for value in returns if value is not None))


def test_what_agents_see() -> None:
    env = LineCoverEnv({"n_cell": 4, "agent_specific_global_state": True})
    env.seed(3)
    obs = env.reset()
    for key, space in env.observation_space.spaces.items():
        assert space.contains(obs[key]), key
    position, landmarks = cells(obs)
    for agent in range(2):
        seen = obs["agent_state"][agent]
        assert np.flatnonzero(seen[8:12]).tolist() == [position[1 - agent]]
        assert not seen[12:15].any()
        assert seen[15:].tolist() == [agent == 0, agent == 1]
        assert obs["global_state"][agent, : len(seen)].tolist() == seen.tolist()
        padded = obs["agent_alone_padding_state"][agent]
        assert not padded[8:12].any()
        assert padded[:8].tolist() == seen[:8].tolist()
    assert len(landmarks) == 2
    expected = [[1, at > 0, at < 3] for at in position]
    assert obs["action_mask"].tolist() == expected
    action = env.random_action()
    step = env.step(action)
    assert step.obs["agent_state"][:, 12:15].argmax(1).tolist() == action.tolist()
    assert step.reward.tolist() == [sum(at in cells(step.obs)[0] for at in landmarks) / 2]


def test_a_seed_gives_the_same_games() -> None:
    first, second = LineCoverEnv(), LineCoverEnv()
    for env in (first, second):
        env.seed(7)
    assert all(np.array_equal(first.reset()["agent_state"], second.reset()["agent_state"]) for _ in range(5))


def test_wrong_input_is_named() -> None:
    with pytest.raises(ValueError, match="n_agent=3, n_cell=2"):
        LineCoverEnv({"n_agent": 3, "n_cell": 2})
    env = LineCoverEnv({"n_agent": 1, "n_cell": 1})
    env.reset()
    with pytest.raises(ValueError, match="leaves the line"):
        env.step([1])
    with pytest.raises(ValueError, match="found"):
        env.step([0, 0])
