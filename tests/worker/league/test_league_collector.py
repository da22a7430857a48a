"""The collector of a league: who plays whom, whose steps come back, what is counted and kept."""

from pathlib import Path

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.data import TransitionBatch
from ding.envs import BaseEnvManager
from ding.envs.testing_game import CountingGame
from ding.policy import create_policy, get_policy_cls
from ding.utils import deep_merge_dicts
from ding.worker import create_serial_collector
from ding.worker.league import LeagueSerialCollector

MODEL = {"obs_shape": 2, "action_shape": 2, "encoder_hidden_size_list": [4, 4]}


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.random.seed(0)
    torch.manual_seed(0)


def made(name="ppo", lengths=(2, 3), branch="pfsp", phase=10, **cfg):
    default = get_policy_cls(EasyDict(type=name)).default_config()
    sizes = {"actor_head_hidden_size": 4, "critic_head_hidden_size": 4} if name == "ppo" else {}
    changes = {"model": {**MODEL, **sizes}, "collect": {"n_episode": 3, "n_sample": None, "unroll_len": 1}}
    policy = create_policy(EasyDict(deep_merge_dicts(default, {"type": name, **changes})))
    env = BaseEnvManager(
        [lambda length=length: CountingGame({"episode_length": length}) for length in lengths],
        BaseEnvManager.default_config(),
    )
    chances = {"pfsp": 0.0, "sp": 0.0, branch: 1.0}
    players = {"one_phase_step": phase, "branch_probs": chances, "strong_win_rate": 0.7}
    settings = deep_merge_dicts(LeagueSerialCollector.default_config(), {"league": {"naive_sp_player": players}, **cfg})
    collector = create_serial_collector(
        EasyDict(type="league", **settings), env=env, policy=policy.collect_mode, exp_name="exp"
    )
    return policy, collector, env


def counts(samples):
    """(player, step) of each sample."""
    return [(int(row["obs"][0]) // 100, int(row["obs"][1])) for row in samples]


def test_both_sides_of_a_game_against_itself():
    _, collector, _ = made(branch="sp")
    samples = collector.collect(2, train_iter=3)
    assert isinstance(samples, TransitionBatch)
    assert counts(samples) == [(player, step) for player in range(2) for length in (2, 3) for step in range(length)]
    assert set(samples.columns["collect_iter"].tolist()) == {3}
    assert collector.envstep == 5
    # Nobody gains a rating by beating itself.
    assert collector.league.active_players[0].rating.mu == 0


def prefer(policy, action):
    """Let the Q value of one action be the highest everywhere."""
    with torch.no_grad():
        for parameter in policy.collect_mode.get_attribute("model").parameters():
            parameter.zero_()
            if parameter.shape == (2,):
                parameter[action] = 1.0


def actions(env):
    """(action of player 0, action of player 1) of each step since the last call."""
    played = [tuple(int(one.item()) for one in joint) for core in env.core for joint in core.actions]
    for core in env.core:
        core.actions.clear()
    return played


@pytest.mark.parametrize("frozen", ["eval", "collect"])
def test_games_against_a_snapshot(frozen):
    policy, collector, env = made("dqn", frozen_players=frozen)
    greedy = {"eps": 0.0}
    prefer(policy, 0)
    assert len(collector.collect(2, train_iter=0, policy_kwargs=greedy)) == 10
    assert collector.league.historical_players == []
    # Two phases are over after this one: a snapshot is due.
    collector.collect(2, train_iter=20, policy_kwargs=greedy)
    (former,) = collector.league.historical_players
    assert former.total_agent_step == 20
    # In the folder of this run, and not where other runs look for theirs.
    assert [path.as_posix() for path in Path().rglob("*.pth")] == ["exp/league/naive_sp_player_default_0_ckpt_20.pth"]
    assert set(actions(env)) == {(0, 0)}
    # The policy learns on; the snapshot stays as it was, and leaves no samples.
    prefer(policy, 1)
    samples = collector.collect(3, train_iter=21, policy_kwargs=greedy)
    assert counts(samples) == [(0, step) for length in (2, 3, 2) for step in range(length)]
    assert set(actions(env)) == {(1, 0)}
    # When it explores, a snapshot does or does not.
    for _ in range(2):
        collector.collect(3, train_iter=22, policy_kwargs={"eps": 1.0})
    explored = actions(env)
    assert {first for first, _ in explored} == {0, 1}
    assert {second for _, second in explored} == ({0} if frozen == "eval" else {0, 1})
    # Player 0 of the counting game always wins; from eight games on that counts.
    learning = collector.league.active_players[0]
    assert collector.league.payoff[learning.player_id, former.player_id] == 1.0
    assert learning.rating.mu > former.rating.mu
    assert collector.envstep == 2 * 5 + 3 * 7


def test_a_state_is_taken_up():
    _, collector, _ = made()
    for train_iter in (0, 20, 21):
        collector.collect(3, train_iter=train_iter)
    _, other, _ = made()
    other.load_state_dict(collector.state_dict())
    assert other.envstep == collector.envstep
    assert other.league.historical_players_ids == collector.league.historical_players_ids
    assert len(other.collect(2, train_iter=22)) == 5


def test_players_that_do_not_learn_are_named(caplog):
    made(league={"active_players": {"naive_sp_player": 2}})
    assert "only naive_sp_player_default_0 learns in this run" in caplog.text
    assert "not: naive_sp_player_default_1" in caplog.text
    caplog.clear()
    made()
    assert "learns in this run" not in caplog.text


def test_mistakes():
    with pytest.raises(ValueError, match=r"collector\.frozen_players='greedy' is unknown"):
        made(frozen_players="greedy")
    with pytest.raises(ValueError, match="use_pretrain"):
        made(league={"use_pretrain": True})
    policy, collector, _ = made()
    with pytest.raises(AssertionError, match="one policy learns in a league, found 2"):
        collector.reset_policy([policy.collect_mode] * 2)
    with pytest.raises(AssertionError, match=r"n_episode is 1, but env\.collector_env_num is 2"):
        collector.collect(1)
