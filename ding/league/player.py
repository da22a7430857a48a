"""The players of a league."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ding.league.algorithm import pfsp
from ding.league.metric import LeagueMetricEnv, PlayerRating
from ding.league.shared_payoff import BattleSharedPayoff
from ding.utils import PLAYER_REGISTRY, import_module
from ding.utils.errors import InvalidArgumentError


class Player:
    """A policy in a league.

    Args:
        cfg: config of the league.
        category: kind of player, e.g. a race.
        init_payoff: Win rates shared by all players.
        checkpoint_path: file of the weights, in the policy folder.
        player_id: unique name.
        total_agent_step: train iterations so far.
        rating: Belief about its skill.
    """

    _name = "BasePlayer"

    def __init__(
        self,
        cfg: Mapping[str, Any],
        category: str,
        init_payoff: BattleSharedPayoff,
        checkpoint_path: str,
        player_id: str,
        total_agent_step: int,
        rating: PlayerRating,
    ) -> None:
        self._cfg = cfg
        self.category = category
        self.payoff = init_payoff
        self.checkpoint_path = checkpoint_path
        self.player_id = player_id
        self.total_agent_step = total_agent_step
        self.rating = rating


@PLAYER_REGISTRY.register("historical_player")
class HistoricalPlayer(Player):
    """A snapshot that no longer learns. ``parent_id`` is the player it was taken from."""

    _name = "HistoricalPlayer"

    def __init__(self, *args: Any, parent_id: str) -> None:
        super().__init__(*args)
        self.parent_id = parent_id


def _is_historical(player: Player) -> bool:
    return isinstance(player, HistoricalPlayer)


class ActivePlayer(Player):
    """A player that learns.

    Config (of its kind): ``one_phase_step`` (train iterations of a phase), ``branch_probs`` (``{branch: probability}``;
    the method ``_<branch>_branch`` chooses the opponent) and ``strong_win_rate``. All players have the branch ``pfsp``:
    snapshots of any player, harder ones more often.

    Raises:
        KeyError: This kind of player has no such branch.
        InvalidArgumentError: ``branch_probs`` is not a dict.
    """

    _name = "ActivePlayer"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._one_phase_step = int(float(self._cfg["one_phase_step"]))
        self._last_enough_step = 0
        self._strong_win_rate = float(self._cfg["strong_win_rate"])
        if not isinstance(self._cfg["branch_probs"], Mapping):
            raise InvalidArgumentError(
                f"branch_probs must be {{branch: probability}}, got {self._cfg['branch_probs']!r}"
            )
        self._branch_probs: dict[str, float] = dict(self._cfg["branch_probs"])
        self._branches: dict[str, Callable[[], Player]] = {}
        for name in self._branch_probs:
            branch = getattr(self, f"_{name}_branch", None)
            if branch is None:
                raise KeyError(f"{self._name} has no branch {name!r} to choose opponents by")
            self._branches[name] = branch
        self._eval_opponent_difficulty = eval_opponents(self._cfg)
        self._eval_opponent_index = 0

    def is_trained_enough(self, select_fn: Callable[[Player], bool] | None = None) -> bool:
        """Return whether a snapshot is due: after two phases, or after one if it beats all reference opponents."""
        passed = self.total_agent_step - self._last_enough_step
        phases = 2 if passed >= 2 * self._one_phase_step else int(passed >= self._one_phase_step)
        due = phases == 2 or (phases == 1 and self._beats_all(self._get_players(select_fn or _is_historical)))
        if due:
            self._last_enough_step = self.total_agent_step
        return due

    def _beats_all(self, rivals: list[Player]) -> bool:
        """Return whether the win rate against each player is above ``strong_win_rate``; False without players."""
        return bool(rivals) and min(self._win_rates(rivals)) > self._strong_win_rate

    def snapshot(self, metric_env: LeagueMetricEnv) -> HistoricalPlayer:
        """Return a historical player with the current weights; the caller copies the weights to its checkpoint path."""
        head = self.checkpoint_path.removesuffix(".pth")
        return HistoricalPlayer(
            self._cfg,
            self.category,
            self.payoff,
            f"{head}_{self.total_agent_step}.pth",
            f"{self.player_id}_{self.total_agent_step}_historical",
            self.total_agent_step,
            metric_env.create_rating(mu=self.rating.mu),
            parent_id=self.player_id,
        )

    def mutate(self, info: Mapping[str, Any]) -> str | None:
        """Return the path of the weights to restart from; ``None`` to continue."""
        return None

    def get_job(self, eval_flag: bool = False) -> dict[str, Any]:
        """Return ``{'opponent': player or difficulty}``."""
        if eval_flag:
            return {"opponent": self._eval_opponent_difficulty[self._eval_opponent_index]}
        names = list(self._branch_probs)
        weights = np.array([self._branch_probs[name] for name in names], dtype=np.float64)
        name = names[int(np.random.choice(len(names), p=weights / weights.sum()))]
        return {"opponent": self._branches[name]()}

    def increment_eval_difficulty(self) -> bool:
        """Switch to a harder opponent for evaluations; return False if there is none."""
        if self._eval_opponent_index + 1 < len(self._eval_opponent_difficulty):
            self._eval_opponent_index += 1
            return True
        return False

    def _get_players(self, select_fn: Callable[[Player], bool]) -> list[Player]:
        return [player for player in self.payoff.players if select_fn(player)]

    def _get_opponent(self, players: list[Player], p: np.ndarray | None = None) -> Player:
        return players[int(np.random.choice(len(players), p=p))]

    def _win_rates(self, rivals: list[Player]) -> list[float]:
        rates: list[float] = self.payoff[self.player_id, [player.player_id for player in rivals]]
        return rates

    def _pfsp_branch(self) -> Player:
        """Return a historical player, or the player itself if there is none."""
        return self._prioritised(self._get_players(_is_historical), "squared") or self

    def _prioritised(self, rivals: list[Player], weighting: str) -> Player | None:
        """Draw one of these players with the weights of :func:`~ding.league.algorithm.pfsp`; None if there are none."""
        return self._get_opponent(rivals, pfsp(np.array(self._win_rates(rivals)), weighting)) if rivals else None

    def state_dict(self) -> dict[str, Any]:
        """Return its progress as JSON data."""
        return {
            "step": self.total_agent_step,
            "enough": self._last_enough_step,
            "difficulty": self._eval_opponent_index,
            "rating": list(self.rating),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a ``state_dict``."""
        self.total_agent_step, self._last_enough_step = int(state["step"]), int(state["enough"])
        self._eval_opponent_index = int(state["difficulty"])
        self.rating = PlayerRating(*state["rating"])


@PLAYER_REGISTRY.register("naive_sp_player")
class NaiveSpPlayer(ActivePlayer):
    """A player that plays itself (``sp``), or its snapshots, harder ones more often (``pfsp``)."""

    _name = "NaiveSpPlayer"

    def _sp_branch(self) -> Player:
        return self


def eval_opponents(player_cfg: Mapping[str, Any]) -> list[str]:
    """Return the opponents of a player's evaluations, weaker ones first."""
    return list(player_cfg.get("eval_opponent_difficulty") or ["RULE_BASED"])


def create_player(cfg: Mapping[str, Any], player_type: str, *args: Any, **kwargs: Any) -> Player:
    """Return the player that is registered as ``player_type``, after importing ``cfg.import_names``.

    Raises:
        KeyError: The type is unknown.
    """
    import_module(cfg.get("import_names", []))
    player: Player = PLAYER_REGISTRY.build(player_type, *args, **kwargs)
    return player
