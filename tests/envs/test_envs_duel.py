import numpy as np
import pytest

from ding.envs import BaseEnvManager
from ding.envs.duel_env import DuelEnv
from ding.envs.env.base_env import get_env_cls


def greedy(row):
    """The action that shortens the longer way to the coin, from what a player sees."""
    axis = int(abs(row[1]) > abs(row[0]))
    return 0 if row[axis] == 0 else 1 + 2 * axis + int(row[axis] > 0)


def lead(opponent, choose, games=40):
    env = DuelEnv({"eval_opponent": opponent})
    env.seed(7)
    leads = []
    for _ in range(games):
        obs, done = env.reset(), False
        while not done:
            obs, _, done, info = env.step(choose(env, obs))
        leads.append(info["eval_episode_return"])
    return np.array(leads)


def test_two_players_see_the_same_game_from_their_sides():
    env = DuelEnv({"size": 4, "steps": 12})
    env.seed(3)
    obs, total = env.reset(), np.zeros(2)
    for step in range(1, 13):
        assert obs.shape == (2, 8)
        assert obs.dtype == np.float32
        assert obs[0, :4].tolist() == obs[1, [2, 3, 0, 1]].tolist()
        # Way and cell add up to the cell of the coin, for both.
        assert (obs[0, :2] + obs[0, 4:6]).tolist() == (obs[1, :2] + obs[1, 4:6]).tolist()
        assert obs[:, 6].tolist() == pytest.approx((total / 10).tolist())
        assert obs[:, 7].tolist() == pytest.approx([(13 - step) / 12] * 2)
        # Both do not stand on the coin when they choose.
        assert obs[:, :2].any(axis=1).all()
        obs, reward, done, info = env.step([greedy(obs[0]), 0])
        assert reward.dtype == np.float32
        assert reward[0] == -reward[1]
        total += reward
        assert done is (step == 12)
        assert [bool(one) for one in info] == [done, done]
    assert total[0] > 0
    assert [one["eval_episode_return"] for one in info] == total.tolist()


def test_a_coin_that_both_reach_at_once_goes_to_nobody_and_moves():
    env = DuelEnv({"size": 3})
    for seed in range(1000):
        env.seed(seed)
        obs = env.reset()
        if (obs[0, 4:6] == obs[1, 4:6]).all() and np.abs(obs[0, :2]).sum() == pytest.approx(1 / 3):
            break
    action = greedy(obs[0])
    after, reward, _, _ = env.step([action, action])
    assert reward.tolist() == [0, 0]
    assert (after[0, 4:6] == after[1, 4:6]).all()
    assert after[0, :2].any()


def test_with_an_opponent_it_is_an_env_of_one_player():
    env = get_env_cls({"type": "duel", "import_names": ["ding.envs.duel_env"]})({"steps": 1, "eval_opponent": "RANDOM"})
    obs = env.reset()
    assert obs.shape == (8,)
    assert env.random_action().shape == (1,)
    # As a collector for one policy gives it.
    timestep = env.step(np.array(2))
    assert timestep.obs.shape == (8,)
    assert timestep.reward.shape == (1,)
    assert timestep.done is True
    assert timestep.info == {"eval_episode_return": float(timestep.reward[0])}


def test_opponents_differ_in_skill():
    def play_greedy(env, obs):
        return greedy(obs)

    def play_random(env, obs):
        return env.random_action()

    assert (lead("RULE_BASED", play_greedy) > 0).mean() > 0.9
    random = lead("RULE_BASED", play_random)
    assert (random < 0).mean() > 0.7
    assert abs(lead("RANDOM", play_random).mean()) < 1
    assert lead("GREEDY", play_random).mean() < random.mean() < lead("RANDOM", play_greedy).mean()
    assert abs(lead("GREEDY", play_greedy).mean()) < 1


def test_seeds():
    def starts(dynamic, seed=5):
        env = DuelEnv()
        env.seed(seed, dynamic_seed=dynamic)
        return [env.reset().tolist() for _ in range(4)]

    assert starts(True) == starts(True) != starts(True, seed=6)
    assert starts(True)[0] != starts(True)[1]
    assert starts(False) == [starts(False)[0]] * 4


def test_env_managers_take_rewards_and_infos_of_two_players():
    manager = BaseEnvManager([lambda: DuelEnv({"steps": 2})] * 3, {"episode_num": 1})
    manager.launch()
    try:
        assert np.stack(list(manager.ready_obs.values())).shape == (3, 2, 8)
        manager.step({env_id: np.array([0, 1]) for env_id in range(3)})
        timesteps = manager.step({env_id: np.array([4, 3]) for env_id in range(3)})
        for timestep in timesteps.values():
            home, away = (one["eval_episode_return"] for one in timestep.info)
            assert home == -away
        assert manager.done
    finally:
        manager.close()


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        ({"size": 1}, r"env\.size must be at least 2 and env\.steps at least 1, found 1, 30"),
        ({"eval_opponent": "RULEBASED"}, r"one of \['RANDOM', 'RULE_BASED', 'GREEDY'\], found 'RULEBASED'.*RULE_BASED"),
    ],
)
def test_wrong_configs_are_refused(cfg, message):
    with pytest.raises(ValueError, match=message):
        DuelEnv(cfg)


@pytest.mark.parametrize("action", [1, [1, 5], [1, -1], [1, 2, 3]])
def test_wrong_actions_are_refused(action):
    env = DuelEnv()
    env.reset()
    with pytest.raises(ValueError, match=r"expected 2 action\(s\) below 5"):
        env.step(action)
