"""A league: its players and their matches."""

import logging
import os
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from easydict import EasyDict

from ding.league.metric import LeagueMetricEnv, PlayerRating
from ding.league.player import ActivePlayer, HistoricalPlayer, Player, create_player
from ding.league.shared_payoff import create_payoff
from ding.utils import LEAGUE_REGISTRY, Configurable, deep_merge_dicts, import_module
from ding.utils.file_helper import atomic_write
from ding.utils.nested import iter_nested

log = logging.getLogger(__name__)


class BaseLeague(Configurable, ABC):
    """Hold the players, match opponents, count results, and take a snapshot of a player when one is due.

    Thread-safe.

    Args:
        cfg: config over :attr:`config`; ``path_policy`` is the folder of the weights.
        save_checkpoint_fn: ``fn(source id, target id)`` copies weights for a snapshot; by default a file in
            ``path_policy``.

    Attributes:
        league_uid: A random string, unique per league, even with equal configs.
        player_path: ``"./league"``, as in DI-engine. It is not used; weights are in ``path_policy``.
    """

    config: ClassVar[dict[str, Any]] = {}

    def __init__(self, cfg: Mapping[str, Any], save_checkpoint_fn: Callable[[str, str], None] | None = None) -> None:
        self.cfg = EasyDict(deep_merge_dicts(self.default_config(), cfg))
        # uuid4, because uuid1 contains the MAC address of the machine.
        self.league_uid = str(uuid.uuid4())
        self.player_path = "./league"
        self.path_policy = self.cfg.get("path_policy", ".")
        self._copy_weights = save_checkpoint_fn or self.save_checkpoint
        if save_checkpoint_fn is None:
            os.makedirs(self.path_policy, exist_ok=True)
        self._lock = threading.RLock()
        self.payoff = create_payoff(self.cfg.payoff)
        self.metric_env = LeagueMetricEnv.of(self.cfg.metric)
        self.active_players: list[ActivePlayer] = []
        self.historical_players: list[HistoricalPlayer] = []
        self._init_players()

    def _init_players(self) -> None:
        for category in self.cfg.player_category:
            for kind, number in self.cfg.active_players.items():
                for index in range(number):
                    name = f"{kind}_{category}_{index}"
                    settings, rating = self.cfg[kind], self.metric_env.create_rating()
                    path = os.path.join(self.path_policy, f"{name}_ckpt.pth")
                    facts = (settings, category, self.payoff, path, name, 0, rating)
                    player = create_player(self.cfg, kind, *facts)
                    if not isinstance(player, ActivePlayer):
                        raise TypeError(f"active_players.{kind}: {type(player).__name__} is no ActivePlayer")
                    self.active_players.append(player)
                    self.payoff.add_player(player)
        if self.cfg.use_pretrain or self.cfg.use_pretrain_init_historical:
            self._take_pretrained()

    def _take_pretrained(self) -> None:
        for category, path in self.cfg.pretrain_checkpoint_path.items():
            if self.cfg.use_pretrain:
                for player in self.active_players:
                    if player.category == category:
                        self._copy_weights(path, player.checkpoint_path)
            if self.cfg.use_pretrain_init_historical:
                main = next((kind for kind in self.cfg.active_players if "main_player" in kind), None)
                parent = "pretrain" if main is None else f"{main}_{category}_0"
                name = f"{category}_pretrain_historical" if main is None else f"{parent}_pretrain_historical"
                self._add_historical(category, path, name, 0, self.metric_env.create_rating(), parent)

    def _add_historical(
        self, category: str, path: str, name: str, step: int, rating: PlayerRating, parent: str
    ) -> None:
        player = HistoricalPlayer(self.cfg, category, self.payoff, path, name, step, rating, parent_id=parent)
        self._take_in(player)

    def _take_in(self, player: HistoricalPlayer) -> None:
        self.historical_players.append(player)
        self.payoff.add_player(player)

    def get_player_by_id(self, player_id: str) -> Player:
        """Return a player.

        Raises:
            KeyError: The id is unknown.
        """
        for player in [*self.active_players, *self.historical_players]:
            if player.player_id == player_id:
                return player
        raise KeyError(f"no player {player_id!r}; there are {self.payoff.players_ids}")

    @property
    def active_players_ids(self) -> list[str]:
        """Ids of the learning players."""
        return [player.player_id for player in self.active_players]

    def only_learning_player(self) -> ActivePlayer:
        """Return the first active player, for a run that trains one; a warning names the others."""
        first, *others = self.active_players
        if others:
            names = ", ".join(player.player_id for player in others)
            log.warning(
                "only %s learns in this run, of the active players of its league; not: %s", first.player_id, names
            )
        return first

    @property
    def active_players_ckpts(self) -> list[str]:
        """Files of the active players' weights."""
        return [player.checkpoint_path for player in self.active_players]

    @property
    def historical_players_ids(self) -> list[str]:
        """Ids of the snapshots."""
        return [player.player_id for player in self.historical_players]

    def get_job_info(self, player_id: str | None = None, eval_flag: bool = False) -> dict[str, Any]:
        """Return the next match, see the subclass; ``player_id`` defaults to the first active player."""
        player_id = self.active_players_ids[0] if player_id is None else player_id
        with self._lock:
            player = self._active(player_id)
            job = self._get_job_info(player, eval_flag)
        if player_id != job["launch_player"]:
            raise ValueError(f"the job of {player_id!r} names {job['launch_player']!r} as its player")
        return job

    @abstractmethod
    def _get_job_info(self, player: ActivePlayer, eval_flag: bool = False) -> dict[str, Any]:
        """Return the next match of this player."""

    def finish_job(self, job_info: Mapping[str, Any]) -> None:
        """Count the results of a finished job: ``{'player_id': [home, away], 'result': nested lists}``."""
        with self._lock:
            if not self.payoff.update(job_info):
                log.warning("the results of %s cannot be counted", job_info.get("player_id"))
                return
            home, away = (self.get_player_by_id(player_id) for player_id in job_info["player_id"])
            if home is not away:
                home.rating, away.rating = self.metric_env.rate_1vs1(
                    home.rating, away.rating, list(iter_nested(job_info["result"]))
                )

    def judge_snapshot(self, player_id: str, force: bool = False) -> bool:
        """Take a snapshot of a player if one is due; return whether one was taken."""
        with self._lock:
            player = self._active(player_id)
            before = player.state_dict()
            if not player.is_trained_enough() and not force:
                return False
            snapshot = player.snapshot(self.metric_env)
            if snapshot.player_id in self.historical_players_ids:
                return False
            try:
                self._copy_weights(player.checkpoint_path, snapshot.checkpoint_path)
            except OSError as error:
                log.warning("no snapshot of %s for now: %s", player_id, error)
                player.load_state_dict(before)
                return False
            self._take_in(snapshot)
            self._mutate_player(player)
        return True

    @abstractmethod
    def _mutate_player(self, player: ActivePlayer) -> None:
        """Change a player after a snapshot."""

    def update_active_player(self, player_info: Mapping[str, Any]) -> bool:
        """Report the progress of a player: ``{'player_id', 'train_iteration' or 'eval_win'}``.

        Returns:
            Whether its next evaluation uses a harder opponent.
        """
        with self._lock:
            return self._update_player(self._active(player_info["player_id"]), player_info)

    @abstractmethod
    def _update_player(self, player: ActivePlayer, player_info: Mapping[str, Any]) -> bool:
        """Same as :meth:`update_active_player`."""

    def _active(self, player_id: str) -> ActivePlayer:
        player = self.get_player_by_id(player_id)
        if not isinstance(player, ActivePlayer):
            raise KeyError(f"{player_id!r} does not learn; the active players are {self.active_players_ids}")
        return player

    def player_rank(self, string: bool = False) -> dict[str, float] | str:
        """Return a conservative skill estimate of each player (``rating.exposure``) by id, or as a text table."""
        players = [*self.active_players, *self.historical_players]
        rank = {player.player_id: player.rating.exposure for player in players}
        if not string:
            return rank
        width = max(map(len, rank))
        lines = [f"| {name:<{width}} | {skill:>16.3f} |" for name, skill in rank.items()]
        return "\n".join([f"| {'Player ID':<{width}} | Rank (TrueSkill) |", f"|:{'-' * width}-|-{'-' * 16}:|", *lines])

    def save_checkpoint(self, source: str, target: str) -> None:
        """Copy weights within ``path_policy`` atomically."""
        with open(self._path(source), "rb") as file:
            content = file.read()
        with atomic_write(self._path(target)) as copy_:
            copy_.write(content)

    def _path(self, name: str) -> str:
        root = os.path.realpath(self.path_policy)
        # Paths of players begin with the folder; those of a config may be relative to it.
        for path in (os.path.realpath(name), os.path.realpath(os.path.join(root, name))):
            if os.path.commonpath([root, path]) == root:
                return path
        raise ValueError(f"{name!r} lies outside of the policy folder")

    def state_dict(self) -> dict[str, Any]:
        """Return players and results as JSON data."""
        with self._lock:
            return {
                "active": {player.player_id: player.state_dict() for player in self.active_players},
                "historical": [_row(player) for player in self.historical_players],
                "payoff": self.payoff.state_dict(),
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from the state of a league with the same config."""
        with self._lock:
            for player_id, one in state["active"].items():
                self._active(player_id).load_state_dict(one)
            for player_id, category, path, step, rating, parent_id in state["historical"]:
                if player_id not in self.historical_players_ids:
                    self._add_historical(category, path, player_id, step, PlayerRating(*rating), parent_id)
            self.payoff.load_state_dict(state["payoff"])


def historical_weights(state: Mapping[str, Any]) -> list[str]:
    """Return the file names, in the policy folder, of the historical players' weights in a ``state_dict``."""
    return [os.path.basename(path) for _, _, path, *_ in state.get("historical", [])]


def _row(one: HistoricalPlayer) -> list[Any]:
    return [one.player_id, one.category, one.checkpoint_path, one.total_agent_step, list(one.rating), one.parent_id]


def create_league(cfg: Mapping[str, Any], *args: Any) -> BaseLeague:
    """Return the league that ``cfg.league_type`` names, after importing ``cfg.import_names``.

    Raises:
        KeyError: The type is unknown.
    """
    import_module(cfg.get("import_names", []))
    league: BaseLeague = LEAGUE_REGISTRY.build(cfg["league_type"], cfg, *args)
    return league
