"""Main player and exploiters: whom they play, when a snapshot is due, when they begin anew."""

from collections import Counter

import numpy as np
import pytest

from ding.league import LeagueMetricEnv, create_payoff, create_player
from ding.league.algorithm import pfsp, uniform

PHASES = {"one_phase_step": 2000, "strong_win_rate": 0.7}
SETTINGS = {
    "main_player": {**PHASES, "branch_probs": {"pfsp": 0.5, "sp": 0.35, "verification": 0.15}},
    "main_exploiter": {**PHASES, "branch_probs": {"main_players": 1.0}, "min_valid_win_rate": 0.3},
    "league_exploiter": {**PHASES, "branch_probs": {"pfsp": 1.0}, "mutate_prob": 0.25},
}
METRIC = LeagueMetricEnv()


def made(kind, payoff, **changes):
    facts = ("zerg", payoff, f"{kind}_zerg_0_ckpt.pth", f"{kind}_zerg_0", 0, METRIC.create_rating())
    player = create_player({}, kind, {**SETTINGS[kind], **changes}, *facts)
    payoff.add_player(player)
    return player


def three_players():
    payoff = create_payoff({"type": "battle", "decay": 0.99, "min_win_rate_games": 8})
    return payoff, *(made(kind, payoff) for kind in SETTINGS)


@pytest.fixture
def league():
    """Three players, four snapshots and the games of DI-engine's numbers."""
    payoff, main, exploiter, other = three_players()
    for player, step in ((main, 100), (main, 200), (exploiter, 100), (other, 50)):
        player.total_agent_step = step
        payoff.add_player(player.snapshot(METRIC))
    names = {"M": main.player_id, "X": exploiter.player_id, "L": other.player_id}
    snapshots = ("M_100", "M_200", "X_100", "L_50")
    names |= {key: f"{names[key[0]]}_{key[2:]}_historical" for key in snapshots}
    games = ("M M_100 6 0 4", "M M_200 2 2 6", "M X_100 1 0 9", "M L_50 9 0 1", "X M 1 0 9", "L M_100 5 5 0")
    for home, away, *counts in map(str.split, games):
        result = [word for word, count in zip(("wins", "draws", "losses"), counts) for _ in range(int(count))]
        assert payoff.update({"player_id": [names[home], names[away]], "result": result})
    return payoff, (main, exploiter, other), names


def opponents(player, names, calls):
    short = {name: key for key, name in names.items()}
    np.random.seed(0)
    return Counter(short[player.get_job()["opponent"].player_id] for _ in range(calls))


def test_win_rates_and_snapshots(league):
    payoff, (main, exploiter, _), names = league
    former = [names[key] for key in ("M_100", "M_200", "X_100", "L_50")]
    np.testing.assert_allclose(payoff[main.player_id, former], [0.587902, 0.290012, 0.095538, 0.895417], rtol=1e-4)
    assert payoff[exploiter.player_id, main.player_id] == pytest.approx(0.0955383, rel=1e-4)
    snapshot = next(player for player in payoff.players if player.player_id == names["X_100"])
    assert (snapshot.parent_id, snapshot.checkpoint_path) == (names["X"], "main_exploiter_zerg_0_ckpt_100.pth")


def test_whom_they_play(league):
    _, (main, exploiter, other), names = league
    assert opponents(main, names, 2000) == {"X_100": 885, "M": 666, "M_200": 338, "M_100": 105, "L_50": 6}
    assert opponents(exploiter, names, 2000) == {"M_100": 1025, "M_200": 975}
    assert opponents(other, names, 2000) == {"L_50": 612, "M_200": 649, "X_100": 588, "M_100": 151}


def test_exploiters_are_verified_while_they_win(league):
    payoff, _, names = league
    cfg = {**PHASES, "branch_probs": {"verification": 1.0}}
    again = create_player({}, "main_player", cfg, "zerg", payoff, "p", names["M"], 0, None)
    assert opponents(again, names, 100) == {"X_100": 100}
    assert payoff.update({"player_id": [names["M"], names["X_100"]], "result": ["wins"] * 200})
    # Then the own former selves, until all of them are beaten, and then itself.
    assert set(opponents(again, names, 100)) == {"M_100", "M_200"}
    for former in ("M_100", "M_200"):
        assert payoff.update({"player_id": [names["M"], names[former]], "result": ["wins"] * 200})
    assert opponents(again, names, 100) == {"M": 100}


def test_when_a_snapshot_is_due(league):
    for player in league[1]:
        due = []
        for step in (100, 1999, 2000, 2500, 4000, 4001, 8000):
            player.total_agent_step = step
            due.append(player.is_trained_enough())
        assert due == [False, False, False, False, True, False, True]


def test_who_begins_anew():
    _, main, exploiter, other = three_players()
    info = {"reset_checkpoint_path": "first.pth"}
    np.random.seed(0)
    assert [other.mutate(info) for _ in range(12)] == [None] * 12
    assert {other.mutate(info) for _ in range(20)} == {None, "first.pth"}
    assert (main.mutate(info), exploiter.mutate(info)) == (None, "first.pth")


def test_without_a_history_they_play_themselves_or_the_main_player():
    """DI-engine fails with an AssertionError (C-51)."""
    _, main, exploiter, other = three_players()
    for _ in range(20):
        assert [player.get_job()["opponent"] for player in (main, exploiter, other)] == [main, main, other]


def test_a_win_over_everybody_gives_the_uniform_choice():
    """DI-engine's are NaN (C-51)."""
    assert pfsp(np.ones(4), "squared").tolist() == uniform(np.ones(4)).tolist() == [0.25] * 4
    assert pfsp(np.zeros(2), "variance").tolist() == [0.5, 0.5]


def test_probabilities_of_opponents():
    rates = np.array([0.1, 0.5, 0.9, 0.3])
    np.testing.assert_allclose(pfsp(rates, "squared"), [0.519231, 0.160256, 0.00641, 0.314103], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(pfsp(rates, "variance"), [0.140625, 0.390625, 0.140625, 0.328125])
    with pytest.raises(KeyError, match="'cubed' is unknown"):
        pfsp(rates, "cubed")
    for bad in (np.array([]), [0.5]):
        with pytest.raises(AssertionError, match="win_rates"):
            pfsp(bad, "squared")


def test_mistakes():
    payoff = create_payoff({"type": "battle", "decay": 0.99})
    with pytest.raises(AssertionError, match=r"mutate_prob=1\.5"):
        made("league_exploiter", payoff, mutate_prob=1.5)
    with pytest.raises(AssertionError, match="branch_probs must be"):
        made("main_player", payoff, branch_probs=[1.0])
    alone = made("main_exploiter", payoff)
    with pytest.raises(ValueError, match="there are none"):
        alone.get_job()
