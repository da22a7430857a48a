"""A league for one-versus-one games."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ding.league.base_league import BaseLeague
from ding.league.player import ActivePlayer, Player
from ding.utils import LEAGUE_REGISTRY


@LEAGUE_REGISTRY.register("one_vs_one")
class OneVsOneLeague(BaseLeague):
    """Active players play themselves and each other's snapshots."""

    config: ClassVar[dict[str, Any]] = {
        "league_type": "one_vs_one",
        "import_names": ["ding.league"],
        # Kinds of players, e.g. races.
        "player_category": ["default"],
        # Number of learning players per type and category.
        "active_players": {"naive_sp_player": 1},
        "naive_sp_player": {
            # (int) Train iterations per phase; a snapshot is due after one or two phases.
            "one_phase_step": 10,
            # Probabilities of the ways to choose an opponent.
            "branch_probs": {"pfsp": 0.5, "sp": 0.5},
            # (float) Win rate against all snapshots above which one phase suffices.
            "strong_win_rate": 0.7,
        },
        # Player types of AlphaStar; set `active_players` to use them.
        "main_player": {
            "one_phase_step": 10,
            "branch_probs": {"pfsp": 0.5, "sp": 0.35, "verification": 0.15},
            "strong_win_rate": 0.7,
        },
        "main_exploiter": {
            "one_phase_step": 10,
            "branch_probs": {"main_players": 1.0},
            "strong_win_rate": 0.7,
            # (float) Win rate against a main player below which its snapshots play instead.
            "min_valid_win_rate": 0.3,
        },
        "league_exploiter": {
            "one_phase_step": 10,
            "branch_probs": {"pfsp": 1.0},
            "strong_win_rate": 0.7,
            # (float) Probability of a reset to the initial weights after a snapshot.
            "mutate_prob": 0.25,
        },
        # (bool) Start from pretrained weights.
        "use_pretrain": False,
        # (bool) Add pretrained weights as a snapshot.
        "use_pretrain_init_historical": False,
        "pretrain_checkpoint_path": {"default": "default_cate_pretrain.pth"},
        # decay: factor of old games per new game; min_win_rate_games: with fewer games, a win rate is 0.5.
        "payoff": {"type": "battle", "decay": 0.99, "min_win_rate_games": 8},
        # Parameters of the TrueSkill ratings.
        "metric": {"mu": 0, "sigma": 25 / 3, "beta": 25 / 3 / 2, "tau": 0.0, "draw_probability": 0.02},
    }

    def _get_job_info(self, player: ActivePlayer, eval_flag: bool = False) -> dict[str, Any]:
        """Return ``{'agent_num', 'launch_player', 'player_id', 'checkpoint_path', 'player_active_flag'}``, the last
        three as lists of one entry (evaluation, with ``eval_opponent``) or two.
        """
        opponent = player.get_job(eval_flag)["opponent"]
        if not eval_flag and not isinstance(opponent, Player):
            raise TypeError(f"{player.player_id} chose {opponent!r} as its opponent, expected a player")
        players: list[Player] = [player] if eval_flag else [player, opponent]
        job = {
            "agent_num": len(players),
            "launch_player": player.player_id,
            "player_id": [one.player_id for one in players],
            "checkpoint_path": [one.checkpoint_path for one in players],
            "player_active_flag": [isinstance(one, ActivePlayer) for one in players],
        }
        return {**job, "eval_opponent": opponent} if eval_flag else job

    def _mutate_player(self, player: ActivePlayer) -> None:
        """Leave the player unchanged."""

    def _update_player(self, player: ActivePlayer, player_info: Mapping[str, Any]) -> bool:
        if "train_iteration" in player_info:
            player.total_agent_step = int(player_info["train_iteration"])
        if player_info.get("eval_win"):
            return player.increment_eval_difficulty()
        return False
