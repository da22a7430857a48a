import numpy as np
import pytest

from ding.worker import BattleInteractionSerialEvaluator
from ding.worker.testing import ScriptedEnvManager, ScriptedPolicy


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make(env, policies, **changes):
    cfg = BattleInteractionSerialEvaluator.default_config()
    cfg.update({"n_episode": 2, "stop_value": 3.0, **changes})
    return BattleInteractionSerialEvaluator(cfg, env, [policy.eval_mode for policy in policies])


@pytest.mark.parametrize("num_players", [2, 3])
def test_battle(num_players):
    env = ScriptedEnvManager([[1, 2], [3]], num_players=num_players, episode_info={"kills": 1})
    policies = [ScriptedPolicy(player) for player in range(num_players)]
    evaluator = make(env, policies, n_episode=3)
    saved = []
    stop, infos = evaluator.eval(saved.append, train_iter=1)
    # Env 0 plays episodes 1 and 2 (lengths 2 and 1), env 1 one of length 3; all end at step 3 or before.
    assert [[info["eval_episode_return"] for info in player] for player in infos] == [
        [(1.0 - 2 * player) * length for length in (2, 1, 3)] for player in range(num_players)
    ]
    assert infos[0][0]["episode_info"] == {"kills": 1}
    assert saved == ["ckpt_best.pth.tar"]
    assert stop is False  # the mean of player 0 is 2
    assert policies[1].inputs[0][1].tolist() == [101.0, 100.0]
    assert [np.asarray(action).tolist() for action in env.actions[0][0]] == [[player] for player in range(num_players)]
    assert len(env.actions[0]) == 3
    assert len(env.actions[1]) == 3


def test_stop():
    evaluator = make(ScriptedEnvManager([[3]], num_players=2), [ScriptedPolicy(), ScriptedPolicy()])
    assert evaluator.eval(train_iter=0)[0] is False
    assert evaluator.eval(train_iter=1)[0] is True


def test_broken_game_is_begun_anew():
    env = ScriptedEnvManager([[2, 2, 5]], num_players=2, abnormal=[(0, 1)])
    _, infos = make(env, [ScriptedPolicy(), ScriptedPolicy()], n_episode=1).eval()
    assert env.resets[-1] == {0: None}
    assert [info["eval_episode_return"] for info in infos[1]] == [-5.0]


def test_one_policy_is_no_battle():
    with pytest.raises(AssertionError, match="more than one policy"):
        make(ScriptedEnvManager([[1]], num_players=2), [ScriptedPolicy()])


def test_should_eval_answers_true_once():
    evaluator = make(ScriptedEnvManager([[1]], num_players=2), [ScriptedPolicy(), ScriptedPolicy()])
    assert [evaluator.should_eval(i) for i in (0, 0, 49, 50, 99, 100)] == [True, False, False, True, False, True]
