"""Matrix games of two players: payoffs, results, and battle workers on them."""

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.envs import BaseEnvManager
from ding.envs.zoo.game_env import GameEnv
from ding.worker import BattleSampleSerialCollector
from ding.worker.testing import ScriptedPolicy


@pytest.mark.parametrize(
    ("game", "actions", "rewards", "results"),
    [
        ("prisoner_dilemma", [0, 0], [-1, -1], ["draws", "draws"]),
        ("prisoner_dilemma", [0, 1], [-20, 0], ["losses", "wins"]),
        ("prisoner_dilemma", [1, 0], [0, -20], ["wins", "losses"]),
        ("prisoner_dilemma", [1, 1], [-10, -10], ["draws", "draws"]),
        ("zero_sum", [0, 0], [3, -3], ["wins", "losses"]),
        ("zero_sum", [0, 1], [-2, 2], ["losses", "wins"]),
        ("zero_sum", [np.array([1]), np.array([0])], [-2, 2], ["losses", "wins"]),
        ("zero_sum", [np.array([1]), torch.zeros(1)], [-2, 2], ["losses", "wins"]),
        ("zero_sum", [1, 1], [1, -1], ["wins", "losses"]),
    ],
)
def test_payoffs(game, actions, rewards, results):
    env = GameEnv(game)
    assert env.reset().tolist() == [[1, 0], [0, 1]]
    timestep = env.step(actions)
    assert timestep.reward.tolist() == [[rewards[0]], [rewards[1]]]
    assert timestep.done is True
    assert [info["result"] for info in timestep.info] == results
    assert [info["eval_episode_return"].item() for info in timestep.info] == rewards


def test_the_equilibrium_leaves_nothing_to_gain():
    env = GameEnv("zero_sum")
    values = [
        sum(p * env.step([own, other]).reward[0, 0] for other, p in enumerate(env.optimal_policy)) for own in (0, 1)
    ]
    assert values == pytest.approx([-0.125, -0.125])
    assert GameEnv().optimal_policy.tolist() == [0, 1]


def test_a_battle(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cfg = EasyDict(on_policy=False, collect={"n_sample": 4})
    modes = [ScriptedPolicy(action, attributes={"cfg": cfg}).collect_mode for action in (0, 1)]
    env = BaseEnvManager([GameEnv] * 2, BaseEnvManager.default_config())
    collector = BattleSampleSerialCollector(BattleSampleSerialCollector.default_config(), env, modes)
    samples, infos = collector.collect()
    assert [[row["reward"].item() for row in rows] for rows in samples] == [[-20.0] * 4, [0.0] * 4]
    assert [info["result"] for info in infos[0]] == ["losses"] * 4


def test_mistakes():
    with pytest.raises(ValueError, match=r"game_type='zero_sun' is unknown. Did you mean 'zero_sum'"):
        GameEnv("zero_sun")
    for actions in ([0], [0, 2], [0, 1, 1]):
        with pytest.raises(ValueError, match="expected two actions"):
            GameEnv().step(actions)
