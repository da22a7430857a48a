import math

import numpy as np
import pytest
import torch

from ding.league import (
    ActivePlayer,
    BaseLeague,
    EloCalculator,
    HistoricalPlayer,
    LeagueMetricEnv,
    OneVsOneLeague,
    PlayerRating,
    create_league,
    create_payoff,
    get_elo,
    get_elo_array,
)
from ding.league.shared_payoff import BattleSharedPayoff
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
    assert (high, low) == (round(1600 + 32 * (0.5 - 1 / 1.1)), round(1200 - 32 * (0.5 - 1 / 1.1)))
    assert EloCalculator.get_new_rating(1600, 1200, 1) == EloCalculator.get_new_rating(1600, 1200, "wins")
    with pytest.raises(AssertionError, match="result=2 is unknown"):
        get_elo(1600, 1200, 2)


def test_elo_of_several_players():
    # The scores count for as many games as the expectation; DI-engine counts them once (C-52).
    rating, result = np.array([1613, 1573, 1601]), np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]])
    assert get_elo_array(rating, result, np.array([[0, 1, 2], [1, 0, 4], [2, 4, 0]])).tolist() == [1594, 1628, 1565]
    one_game = get_elo_array(rating, result, np.ones((3, 3)) - np.eye(3))
    assert one_game.tolist() == [1611, 1576, 1600]
    with pytest.raises(AssertionError, match="mean of 1, 0, -1"):
        get_elo_array(rating, 2 * result, np.ones((3, 3)))


def test_ratings_are_made_and_rated_as_in_the_reference():
    metric = LeagueMetricEnv()
    assert metric.create_rating().elo == 1200
    assert repr(PlayerRating()) == "ding.league.metric.PlayerRating(mu=25.000, sigma=8.333, exposure=0.000, elo=1200)"
    former = metric.create_rating(mu=1, sigma=2, elo_init=1600)
    assert former == (1, 2, 1600)
    win, loss = metric.rate_1vs1(PlayerRating(30, 4, 1600), PlayerRating(20, 6, 1500))
    assert (win[:2], loss[:2]) == (
        pytest.approx((30.498, 3.861), abs=1e-3),
        pytest.approx((18.880, 5.518), abs=1e-3),
    )
    assert (win.elo, loss.elo) == (1612, 1488)
    against = metric.rate_1vsC(metric.create_rating(), PlayerRating(25, 1e-6, 1500), ["wins", "draws"])
    assert against == pytest.approx((27.705, 4.299, 1237), abs=1e-3)
    assert metric.rate_1vsC(metric.create_rating(), former, ["wins", "draws", "losses"]).elo == 1238
    with pytest.raises(RuntimeError, match="result='x' is unknown"):
        metric.rate_1vs1(former, former, ["x"])


def test_a_payoff_has_defaults_and_takes_players():
    table = create_payoff({"type": "battle", "decay": 1.0})
    home, away = Someone("home"), Someone("away")
    for player in (home, away):
        table.add_player(player)
    table.update({"player_id": ["home", "away"], "result": ["wins"] * 7})
    assert table[home, away] == 0.5
    table.update({"player_id": ["home", "away"], "result": ["wins"]})
    assert (table[home, away], table[[home], [away]], table["home", "away"]) == (1.0, [[1.0]], 1.0)
    assert table.get_key("home", "away") == ("home-away", False)
    assert table.get_key("away", "home") == ("home-away", True)
    assert BattleSharedPayoff is type(table)


def test_a_script_saves_where_the_player_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = create_league({"league_type": "one_vs_one", "path_policy": "./policies"})
    player = one.active_players[0]
    assert player.checkpoint_path == "./policies/naive_sp_player_default_0_ckpt.pth"
    torch.save({"weight": torch.ones(1)}, player.checkpoint_path)
    assert one.judge_snapshot(player.player_id, force=True)
    assert torch.load(one.historical_players[0].checkpoint_path)["weight"].tolist() == [1]
    assert one.player_rank() == {player.player_id: -25.0, one.historical_players[0].player_id: -25.0}
    assert f"| {player.player_id} " in one.player_rank(string=True)


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
    assert one.active_players_ckpts == [str(tmp_path / "naive_sp_player_default_0_ckpt.pth")]
    assert one.metric_env.beta == pytest.approx(25 / 6)
    evaluation = one.get_job_info(eval_flag=True)
    assert evaluation == {
        "agent_num": 1,
        "launch_player": "naive_sp_player_default_0",
        "player_id": ["naive_sp_player_default_0"],
        "checkpoint_path": [str(tmp_path / "naive_sp_player_default_0_ckpt.pth")],
        "player_active_flag": [True],
        "eval_opponent": "RULE_BASED",
    }
    job = one.get_job_info("naive_sp_player_default_0")
    assert (job["agent_num"], job["player_active_flag"]) == (2, [True, True])
    assert one.active_players[0].mutate({}) is None
    with pytest.raises(KeyError, match="no player 'x'"):
        one.get_job_info("x")


def test_leagues_have_ids_of_their_own(tmp_path):
    one, other = league(tmp_path), league(tmp_path)
    assert isinstance(one.league_uid, str)
    assert one.league_uid != other.league_uid
    assert one.player_path == "./league"


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
    assert second.checkpoint_path == str(tmp_path / "naive_sp_player_default_0_ckpt_40.pth")
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


def test_a_drawn_game_needs_no_result() -> None:
    metric = LeagueMetricEnv()
    players = metric.create_rating(elo_init=1613), metric.create_rating(elo_init=1573)
    first, second = metric.rate_1vs1(*players, drawn=True)
    assert (first, second) == metric.rate_1vs1(*players, "draws")
    assert (first.elo, second.elo) == (1611, 1575)
    assert first.sigma == pytest.approx(6.458, abs=1e-3)
    assert metric.rate_1vs1(*players, drawn=False)[0].elo == 1627
    with pytest.raises(ValueError, match="drawn=True"):
        metric.rate_1vs1(*players, result="wins", drawn=True)
