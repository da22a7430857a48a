"""Envs of PettingZoo as one env: forms of observations, rewards, ends, masks, errors."""

import numpy as np
import pytest

from ding.envs.env.base_env import EnvConfigError
from ding.envs.zoo.petting_zoo_env import PettingZooEnv

pytest.importorskip("pettingzoo")
mpe2 = pytest.importorskip("mpe2")
from mpe2 import simple_spread_v3  # noqa: E402


def spread(**cfg) -> PettingZooEnv:
    env = PettingZooEnv({"env_id": "simple_spread_v2", "n_agent": 3, "max_cycles": 4, **cfg})
    env.seed(0)
    return env


def test_simple_spread_has_the_forms_of_the_original() -> None:
    env = spread()
    obs = env.reset()
    shapes = {"agent_state": (3, 18), "global_state": (30,), "agent_alone_state": (3, 14), "action_mask": (3, 5),
              "agent_alone_padding_state": (3, 18), "agent_mask": (3,)}  # fmt: skip
    assert {key: value.shape for key, value in obs.items()} == shapes
    assert all(env.observation_space[key].contains(value) for key, value in obs.items())
    seen = obs["agent_state"]
    # Velocity, position, landmarks, others, what they say.
    expected = np.concatenate([seen[0, 2:14], seen[:, :2].ravel(), seen[:, 14:].ravel()])
    assert np.array_equal(obs["global_state"], expected)
    assert np.array_equal(obs["agent_alone_state"], np.delete(seen, range(10, 14), axis=1))
    assert not obs["agent_alone_padding_state"][:, 10:14].any()
    assert spread(agent_specific_global_state=True).reset()["global_state"].shape == (3, 48)
    assert spread(agent_obs_only=True).reset().shape == (3, 18)


def test_rewards_are_summed_and_episodes_truncated() -> None:
    env = spread()
    env.seed(5, dynamic_seed=False)
    env.reset()
    raw = simple_spread_v3.parallel_env(N=3, local_ratio=0.5, max_cycles=4)
    raw.reset(seed=5)
    total = 0.0
    for step in range(4):
        action = np.array([step % 5, 1, 2])
        timestep = env.step(action)
        _, rewards, *_ = raw.step({agent: int(action[i]) for i, agent in enumerate(raw.possible_agents)})
        assert timestep.reward.tolist() == pytest.approx([2 * sum(rewards.values())])
        total += float(timestep.reward[0])
        assert timestep.done is (step == 3)
    assert timestep.info["TimeLimit.truncated"]
    assert timestep.info["eval_episode_return"] == pytest.approx(total, rel=1e-5)
    env.close()


def test_seeds() -> None:
    first, second = spread(), spread()
    states = [first.reset()["agent_state"] for _ in range(2)]
    assert not np.array_equal(*states)
    assert np.array_equal(states[0], second.reset()["agent_state"])
    second.seed(3, dynamic_seed=False)
    assert np.array_equal(second.reset()["agent_state"], second.reset()["agent_state"])


def test_continuous_actions_are_scaled() -> None:
    env = spread(continuous_actions=True, act_scale=True)
    assert env.action_space.shape == (3, 5)
    assert (env.action_space.low == -1).all()
    assert "action_mask" not in env.reset()
    assert np.isfinite(env.step(env.random_action()).reward).all()
    with pytest.raises(ValueError, match="3 agents"):
        env.step(np.zeros((2, 5)))


def test_games_in_turns_have_masks() -> None:
    env = PettingZooEnv({"env_family": "classic", "env_id": "tictactoe_v3"})
    env.seed(0)
    assert env.reset()["action_mask"][0].all()
    obs = env.step(np.array([4, 0])).obs
    assert obs["action_mask"][1].tolist() == [1, 1, 1, 1, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        ({"env_id": "simple_sprad_v3"}, "simple_spread"),
        ({"env_family": "mpf"}, "env_family: 'mpf'"),
        ({"n_landmark": 4, "n_agent": 3}, "n_landmark"),
        ({"env_id": "simple_tag_v3"}, "different shapes"),
    ],
)
def test_wrong_configs_are_named(cfg: dict, message: str) -> None:
    with pytest.raises(EnvConfigError, match=message):
        PettingZooEnv(cfg)
