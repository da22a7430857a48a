"""The parallel collector for games of two players, and for a player against an opponent that the env plays."""

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
    """Collects with two policies that play each other, or evaluates one.

    An observation and a reward are indexed by the player; ``done`` is shared, and so is ``info`` unless it is a list.
    Only policies whose flag in ``policy_update_flag`` is set are updated while they play, and only they leave data.
    The others are frozen: they act as in an evaluation, unless ``frozen_players`` is ``'collect'``. Everything that was
    collected until an episode ends is sent. The samples of different players go into chunks of their own.

    Args:
        cfg: as for :class:`ZerglingParallelCollector`, with lists ``policy``, ``policy_update_path`` and
            ``policy_update_flag``.

    Raises:
        AssertionError: not two policies to collect with or one to evaluate, lists of different lengths, or a policy
            that has neither ``n_sample`` nor ``n_episode``.
        ValueError: ``frozen_players`` is something else.
    """

    config = {
        **PARALLEL_CONFIG,
        # How players that are not updated act: 'eval' (greedily), or 'collect' (they explore as the learning player).
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
        """The list of modes, one per player. Setting it forgets all trajectories that have begun."""
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
        # A player whose flag is not set keeps the version that it began with.
        self._fetch_policies(self._cfg.policy_update_path, self._updates)

    def _end_episode(self, env_id: int) -> float:
        result = super()._end_episode(env_id)
        self._game_result[env_id].append(game_result(result))
        return result

    def get_finish_info(self) -> dict[str, Any]:
        """The summary of the task, with ``game_result``: per env a list of ``wins``, ``draws`` and ``losses`` of player
        0.
        """
        return {**super().get_finish_info(), "game_result": [list(results) for results in self._game_result]}


def _mode(policy_cfg: EasyDict, explores: bool) -> "CollectMode | EvalMode":
    policy = create_policy(policy_cfg, enable_field=["collect" if explores else "eval"])
    mode: CollectMode | EvalMode = policy.collect_mode if explores else policy.eval_mode
    return mode
