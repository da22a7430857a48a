"""Parallel collector of two-player games, and of one player against a built-in opponent."""

from collections.abc import Sequence
from typing import Any

from easydict import EasyDict

from ding.data.roles import CollectMode, EvalMode
from ding.league.shared_payoff import game_result
from ding.policy import create_policy
from ding.rollout import Game
from ding.utils import PARALLEL_COLLECTOR_REGISTRY
from ding.worker.collector._chunking import PARALLEL_CONFIG, ChunkingCollector


@PARALLEL_COLLECTOR_REGISTRY.register("marine")
class MarineParallelCollector(ChunkingCollector):
    """Collects with two policies that play against each other, or evaluates one policy.

    Observation and reward are indexed by player; ``done`` is shared, and so is ``info`` unless it is a list. Only
    policies with a set flag in ``policy_update_flag`` are updated during play, and only their data is recorded. The
    other policies are frozen and act as in an evaluation, unless ``frozen_players`` is ``'collect'``. All data
    collected before the end of an episode is sent. Each player's samples are sent in separate chunks.

    Args:
        cfg: Config of :class:`ZerglingParallelCollector`, with lists for ``policy``, ``policy_update_path`` and
            ``policy_update_flag``.

    Raises:
        AssertionError: There are not exactly two policies to collect with or one to evaluate, the lists differ in
            length, or a policy has neither ``n_sample`` nor ``n_episode``.
        ValueError: ``frozen_players`` is neither ``'eval'`` nor ``'collect'``.
    """

    config = {
        **PARALLEL_CONFIG,
        # Behaviour of players that are not updated: 'eval' (greedy), or 'collect' (explore like the learning player).
        "frozen_players": "eval",
    }

    def __init__(self, cfg: EasyDict) -> None:
        super().__init__(cfg)
        expected = 1 if self._eval_flag else 2
        for key in ("policy", "policy_update_path", "policy_update_flag"):
            if not isinstance(cfg[key], (list, tuple)) or len(cfg[key]) != expected:
                raise AssertionError(
                    f"a marine {self._prefix.lower()} needs a list of {expected} in collector_cfg.{key}, "
                    f"found {cfg[key] if not isinstance(cfg[key], (list, tuple)) else len(cfg[key])!r}"
                )
        self._updates = [bool(flag) for flag in cfg.policy_update_flag]
        self._game_result: list[list[str]] = [[] for _ in range(self._env_manager.env_num)]
        frozen = cfg.get("frozen_players", self.config["frozen_players"])
        if frozen not in ("eval", "collect"):
            raise ValueError(f"collector.frozen_players must be 'eval' or 'collect', found {frozen!r}")
        self._explores = [not self._eval_flag and (flag or frozen == "collect") for flag in self._updates]
        self.policy = [_mode(policy_cfg, explores) for policy_cfg, explores in zip(cfg.policy, self._explores)]

    @property
    def policy(self) -> "Sequence[CollectMode | EvalMode]":
        """List of modes, one per player. Setting it discards all unfinished trajectories."""
        return self._policies

    @policy.setter
    def policy(self, _policy: "Sequence[CollectMode | EvalMode]") -> None:
        recorded = [not self._eval_flag and flag for flag in self._updates]
        settings = [self._setting(player) for player in range(len(_policy))]
        self._set_players(_policy, settings, recorded, Game(len(_policy), joint_array=True))

    def _setting(self, player: int) -> dict[str, Any]:
        setting = (self._cfg.get("collect_setting", None) or {}) if self._explores[player] else {}
        return dict(setting[player] if isinstance(setting, (list, tuple)) else setting)

    def _update_policy(self) -> None:
        # A player without the flag keeps its first version.
        self._fetch_policies(self._cfg.policy_update_path, self._updates)

    def _end_episode(self, env_id: int) -> float:
        result = super()._end_episode(env_id)
        self._game_result[env_id].append(game_result(result))
        return result

    def get_finish_info(self) -> dict[str, Any]:
        """Return the summary of the task, with ``game_result``: for each env a list of ``wins``, ``draws`` and
        ``losses`` of player 0.
        """
        return {**super().get_finish_info(), "game_result": [list(results) for results in self._game_result]}


def _mode(policy_cfg: EasyDict, explores: bool) -> "CollectMode | EvalMode":
    policy = create_policy(policy_cfg, enable_field=["collect" if explores else "eval"])
    mode: CollectMode | EvalMode = policy.collect_mode if explores else policy.eval_mode
    return mode
