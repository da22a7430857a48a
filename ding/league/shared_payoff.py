"""Payoffs: win rates between players."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from ding.utils.nested import iter_nested

# Result from the other player's view.
_MIRRORED = {"wins": "losses", "losses": "wins", "draws": "draws"}


class BattleRecordDict(dict[str, float]):
    """Faded counts ``wins``, ``draws``, ``losses`` and ``games``; missing ones are 0."""

    data_keys: ClassVar[list[str]] = ["wins", "draws", "losses", "games"]

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(self.data_keys, 0))

    def __mul__(self, decay: float) -> "BattleRecordDict":
        result = BattleRecordDict()
        for key in self.data_keys:
            result[key] = self[key] * decay
        return result


class HasPlayerId(Protocol):
    """Role protocol of a player in a payoff."""

    @property
    def player_id(self) -> str:
        """Unique name."""


class BattleSharedPayoff:
    """Win rates between all players of a league. Thread-safe.

    ``payoff[home, away]`` is the win rate of ``home``, draws counting half; 0.5 before ``min_win_rate_games`` games.

    Args:
        cfg: ``decay`` (factor of old games per new game; lower values follow recent results faster) and
            ``min_win_rate_games`` (8).
    """

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        self._decay = float(cfg["decay"])
        self._min_games = float(cfg.get("min_win_rate_games", 8))
        self._players: list[Any] = []
        self._records: dict[tuple[str, str], BattleRecordDict] = {}
        self._lock = threading.RLock()

    def add_player(self, player: HasPlayerId) -> None:
        """Add a player; an existing one is kept."""
        with self._lock:
            if player.player_id not in self.players_ids:
                self._players.append(player)

    @property
    def players(self) -> list[Any]:
        """All players."""
        return list(self._players)

    @property
    def players_ids(self) -> list[str]:
        """Ids of all players."""
        return [player.player_id for player in self._players]

    def update(self, job_info: Mapping[str, Any]) -> bool:
        """Count the games of a finished job.

        Args:
            job_info: ``{'player_id': [home, away], 'result': nested lists of 'wins', 'draws', 'losses'}`` from the view
                of the first player.

        Returns:
            False, without counting anything, for unknown players or results.
        """
        try:
            home, away = job_info["player_id"]
            results = list(iter_nested(job_info["result"]))
        except (KeyError, ValueError, TypeError):
            return False
        with self._lock:
            if not {home, away} <= set(self.players_ids) or not all(result in _MIRRORED for result in results):
                return False
            for result in results:
                self._count(home, away, result)
        return True

    def _count(self, home: str, away: str, result: str) -> None:
        sides = [(home, away, result)] if home == away else [(home, away, result), (away, home, _MIRRORED[result])]
        for one, other, what in sides:
            record = self._records.get((one, other), BattleRecordDict()) * self._decay
            record["games"] += 1
            record[what] += 1
            self._records[one, other] = record

    def _win_rate(self, home: str, away: str) -> float:
        record = self._records.get((home, away))
        if record is None or record["games"] < self._min_games:
            return 0.5
        return (record["wins"] + 0.5 * record["draws"]) / record["games"]

    def __getitem__(self, pair: tuple[Any, Any]) -> Any:
        """Return the win rate of one or several players (or ids) against one or several: a float or nested lists."""
        home, away = pair
        with self._lock:
            table = [[self._win_rate(one, other) for other in _ids(away)] for one in _ids(home)]
        if not isinstance(home, (list, tuple)):
            return table[0] if isinstance(away, (list, tuple)) else table[0][0]
        return table if isinstance(away, (list, tuple)) else [row[0] for row in table]

    def get_key(self, home: str, away: str) -> tuple[str, bool]:
        """Return a common name for a pair of players, and whether it begins with ``away``."""
        order = self.players_ids
        turned = order.index(home) > order.index(away)
        return (f"{away}-{home}" if turned else f"{home}-{away}"), turned

    def state_dict(self) -> dict[str, Any]:
        """Return the records as JSON data."""
        with self._lock:
            return {"records": [[home, away, dict(record)] for (home, away), record in self._records.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a ``state_dict``."""
        with self._lock:
            self._records = {}
            for home, away, record in state["records"]:
                self._records[home, away] = BattleRecordDict()
                self._records[home, away].update(record)


def game_result(lead: float) -> str:
    """Return ``wins``, ``losses`` or ``draws`` of a player, by the sign of the game's return."""
    return "wins" if lead > 0 else "losses" if lead < 0 else "draws"


def create_payoff(cfg: Mapping[str, Any]) -> BattleSharedPayoff:
    """Return the payoff that ``cfg['type']`` names; only ``battle`` is known.

    Raises:
        KeyError: The type is unknown.
    """
    if cfg["type"] != "battle":
        raise KeyError(f"payoff.type: unknown {cfg['type']!r}; known: 'battle'")
    return BattleSharedPayoff(cfg)


def _ids(players: Any) -> list[str]:
    """Return the ids of one or several players or ids."""
    several: Sequence[Any] = players if isinstance(players, (list, tuple)) else [players]
    return [one if isinstance(one, str) else one.player_id for one in several]
