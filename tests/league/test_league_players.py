import math

import numpy as np
import pytest

from ding.league import (
    ActivePlayer,
    BaseLeague,
    EloCalculator,
    HistoricalPlayer,
    LeagueMetricEnv,
    OneVsOneLeague,
    create_league,
    create_payoff,
)
from ding.utils import LEAGUE_REGISTRY


class Someone:
    def __init__(self, player_id):
        self.player_id = player_id


def payoff(*names, decay=1.0, games=2):
    table = create_payoff({"type": "battle", "decay": decay, "min_win_rate_games": games})
    for name in names:
        table.add_player(Someone(name))
    return table


def league(tmp_path, **cfg):
    return create_league({"league_type": "one_vs_one", "path_policy": str(tmp_path), **cfg})


def test_win_rates_count_from_the_least_number_of_games_on():
    table = payoff("a", "b")
    assert table["a", "b"] == 0.5
    assert table.update({"player_id": ["a", "b"], "result": [["wins"]]})
    assert table["a", "b"] == 0.5
    table.update({"player_id": ["a", "b"], "result": [["draws"], ["wins", "wins"]]})
    assert table["a", "b"] == 3.5 / 4
    assert table["b", "a"] == 0.5 / 4
    assert table["a", ["b", "a"]] == [3.5 / 4, 0.5]
    assert table[["a", "b"], ["b"]] == [[3.5 / 4], [0.5]]


def test_old_games_fade():
    table = payoff("a", "b", decay=0.5, games=1)
    table.update({"player_id": ["a", "b"], "result": ["wins", "losses"]})
    assert table["a", "b"] == pytest.approx(0.5 / 1.5)


def test_results_that_make_no_sense_count_nothing():
    table = payoff("a", "b")
    for bad in ({"player_id": ["a", "x"], "result": ["wins"]}, {"player_id": ["a", "b"], "result": ["won"]}, {}):
        assert not table.update(bad)
    assert table.state_dict() == {"records": []}
    with pytest.raises(KeyError, match="battel"):
        create_payoff({"type": "battel"})


def test_elo_moves_by_half_the_factor_between_equals():
    assert EloCalculator.get_new_rating(1200, 1200, "wins") == (1216, 1184)
    high, low = EloCalculator.get_new_rating(1600, 1200, "draws")
    assert high == pytest.approx(1600 + 32 * (0.5 - 1 / 1.1))
    assert high + low == pytest.approx(2800)


def test_trueskill_matches_its_published_example():
    # Two new players, standard parameters (mu 25, sigma 25/3, beta 25/6, tau 25/300, draw probability 0.1).
    metric = LeagueMetricEnv(25, 25 / 3, 25 / 6, 25 / 300, 0.1)
    one, other = metric.rate_1vs1(metric.create_rating(), metric.create_rating())
    assert (one.mu, one.sigma) == pytest.approx((29.396, 7.171), abs=1e-3)
    assert (other.mu, other.sigma) == pytest.approx((20.604, 7.171), abs=1e-3)
    one, other = metric.rate_1vs1(metric.create_rating(), metric.create_rating(), "draws")
    assert (one.mu, one.sigma) == pytest.approx((25.0, 6.458), abs=1e-3)
    other, one = metric.rate_1vs1(metric.create_rating(), metric.create_rating(), ["losses"])
    assert one.mu == pytest.approx(29.396, abs=1e-3)
    assert one.exposure == pytest.approx(one.mu - 3 * one.sigma)


def test_a_league_of_one_against_one(tmp_path):
    assert LEAGUE_REGISTRY.get("one_vs_one") is OneVsOneLeague
    one = league(tmp_path)
    assert isinstance(one, BaseLeague)
    assert one.active_players_ids == ["naive_sp_player_default_0"]
    assert one.active_players_ckpts == ["naive_sp_player_default_0_ckpt.pth"]
    assert one.metric_env.beta == pytest.approx(25 / 6)
    evaluation = one.get_job_info(eval_flag=True)
    assert evaluation == {
        "agent_num": 1,
        "launch_player": "naive_sp_player_default_0",
        "player_id": ["naive_sp_player_default_0"],
        "checkpoint_path": ["naive_sp_player_default_0_ckpt.pth"],
        "player_active_flag": [True],
        "eval_opponent": "RULE_BASED",
    }
    job = one.get_job_info("naive_sp_player_default_0")
    assert (job["agent_num"], job["player_active_flag"]) == (2, [True, True])
    assert one.active_players[0].mutate({}) is None
    with pytest.raises(KeyError, match="no player 'x'"):
        one.get_job_info("x")


def test_a_snapshot_is_due_after_two_phases_or_after_a_strong_one(tmp_path):
    one = league(tmp_path)
    player = one.active_players[0]
    (tmp_path / player.checkpoint_path).write_bytes(b"weights")
    name = player.player_id
    for step, due in ((5, False), (19, False), (20, True), (29, False), (31, False), (40, True)):
        one.update_active_player({"player_id": name, "train_iteration": step})
        assert one.judge_snapshot(name) is due, step
    first, second = one.historical_players
    assert isinstance(first, HistoricalPlayer)
    assert first.parent_id == name
    assert (tmp_path / first.checkpoint_path).read_bytes() == b"weights"
    assert second.checkpoint_path == "naive_sp_player_default_0_ckpt_40.pth"
    for rival in (first, second):
        one.finish_job({"player_id": [name, rival.player_id], "result": [["wins"] * 10]})
    one.update_active_player({"player_id": name, "train_iteration": 51})
    assert one.judge_snapshot(name)
    assert player.rating.mu > first.rating.mu


def test_a_snapshot_without_weights_is_put_off(tmp_path):
    one = league(tmp_path)
    name = one.active_players_ids[0]
    one.update_active_player({"player_id": name, "train_iteration": 100})
    assert not one.judge_snapshot(name)
    (tmp_path / one.active_players_ckpts[0]).write_bytes(b"weights")
    assert one.judge_snapshot(name)
    one.active_players[0].checkpoint_path = "../x.pth"
    one.update_active_player({"player_id": name, "train_iteration": 101})
    with pytest.raises(ValueError, match="outside"):
        one.judge_snapshot(name, force=True)


def test_harder_former_selves_are_played_more_often(tmp_path):
    one = league(tmp_path, naive_sp_player={"one_phase_step": 1, "branch_probs": {"pfsp": 1.0, "sp": 0.0}})
    player = one.active_players[0]
    assert isinstance(player, ActivePlayer)
    assert player.get_job()["opponent"] is player
    (tmp_path / player.checkpoint_path).write_bytes(b"weights")
    for step in (10, 20):
        player.total_agent_step = step
        assert one.judge_snapshot(player.player_id)
    easy, hard = one.historical_players_ids
    one.finish_job({"player_id": [player.player_id, easy], "result": ["wins"] * 20})
    one.finish_job({"player_id": [player.player_id, hard], "result": ["losses"] * 20})
    np.random.seed(0)
    assert {player.get_job()["opponent"].player_id for _ in range(50)} == {hard}


def test_unknown_branches_are_told(tmp_path):
    with pytest.raises(KeyError, match="psfp"):
        league(tmp_path, naive_sp_player={"branch_probs": {"psfp": 1.0}})


def test_pretrained_weights_play_as_a_snapshot(tmp_path):
    (tmp_path / "pre.pth").write_bytes(b"pre")
    one = league(
        tmp_path,
        use_pretrain=True,
        use_pretrain_init_historical=True,
        pretrain_checkpoint_path={"default": "pre.pth"},
    )
    assert (tmp_path / one.active_players_ckpts[0]).read_bytes() == b"pre"
    assert one.historical_players_ids == ["default_pretrain_historical"]
    assert math.isclose(one.historical_players[0].rating.sigma, 25 / 3)
