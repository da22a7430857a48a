"""A league that several learning players share: the example, and what its collectors do."""

import importlib.util
from pathlib import Path

import pytest
from easydict import EasyDict

from ding.league import create_league
from ding.utils.file_helper import save_file
from ding.worker.league import LeagueSerialCollector
from tests.worker.league.test_league_collector import counts, made

EXAMPLE = Path(__file__).parents[3] / "examples" / "league.py"


def test_players_of_one_league_play_each_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    phases = {"one_phase_step": 10, "strong_win_rate": 0.7, "min_valid_win_rate": 0.0}
    kinds = {"naive_sp_player": 0, "main_player": 1, "main_exploiter": 1}
    cfg = {"main_player": {**phases, "branch_probs": {"sp": 1.0}}, "main_exploiter": phases, "active_players": kinds}
    league = create_league({"league_type": "one_vs_one", "path_policy": "players", **cfg})
    main, exploiter = league.active_players
    collectors = []
    for player in (main, exploiter):
        policy, alone, env = made("dqn")
        alone.close()
        save_file(player.checkpoint_path, policy.collect_mode.state_dict())
        settings = {"env": env, "policy": policy.collect_mode, "league": league, "player_id": player.player_id}
        collectors.append(LeagueSerialCollector(EasyDict(LeagueSerialCollector.default_config()), **settings))
    greedy = {"eps": 0.0}
    # The exploiter plays the weights of the main player, and alone leaves samples; player 0 of this game always wins.
    samples = collectors[1].collect(10, train_iter=0, policy_kwargs=greedy)
    assert {player for player, _ in counts(samples)} == {0}
    assert league.payoff[exploiter.player_id, main.player_id] == 1.0
    # The main player plays itself, and both sides leave samples.
    samples = collectors[0].collect(2, train_iter=20, policy_kwargs=greedy)
    assert {player for player, _ in counts(samples)} == {0, 1}
    (former,) = league.historical_players
    assert former.parent_id == main.player_id
    assert Path(former.checkpoint_path).is_file()
    for one in collectors:
        one.close()


@pytest.mark.slow
def test_the_example(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("example_league", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.chdir(tmp_path)
    result = module.main(seed=0, max_env_step=7_000)
    assert result["env steps"] >= 3 * 7_000 * (not result["solved"])
    assert result["lives"]["main_player_default_0"] == 1
    assert "main_exploiter_default_0" in result["win rates of the main player"]
