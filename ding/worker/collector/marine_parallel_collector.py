"""The parallel collector for games of two players, and for a player against an opponent that the env plays."""

from typing import Any

import numpy as np
from easydict import EasyDict

from ding.data import TransitionBatch
from ding.policy import create_policy
from ding.utils import PARALLEL_COLLECTOR_REGISTRY
from ding.worker.collector._parallel_common import PARALLEL_CONFIG, ChunkingCollector, complete, trajectory_length
from ding.worker.collector._parallel_ledger import PieceLedger, Span
from ding.worker.collector._parallel_players import joint_actions, obs_by_player, player_timesteps, result_of
from ding.worker.collector._parallel_policy import PolicyFeed
from ding.worker.collector._rollout import Rollout, VectorStep, drop_abnormal
from ding.worker.collector._transitions import make_transitions


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
        self._players = range(expected)
        self._policy_iter = [-1] * expected
        self._updates = [bool(flag) for flag in cfg.policy_update_flag]
        self._game_result: list[list[str]] = [[] for _ in range(self._env_num)]
        frozen = cfg.get("frozen_players", self.config["frozen_players"])
        if frozen not in ("eval", "collect"):
            raise ValueError(f"collector.frozen_players must be 'eval' or 'collect', found {frozen!r}")
        self._explores = [not self._eval_flag and (flag or frozen == "collect") for flag in self._updates]
        self.policy = [_mode(policy_cfg, explores) for policy_cfg, explores in zip(cfg.policy, self._explores)]

    @property
    def policy(self) -> Any:
        """The list of modes, one per player. Setting it forgets all trajectories that have begun."""
        return self._policy

    @policy.setter
    def policy(self, _policy: Any) -> None:
        self._policy = _policy
        self._records = [not self._eval_flag and flag for flag in self._updates]
        # One per player: each joins the timesteps with what that player saw and did.
        deepcopy = self._cfg.get("deepcopy_obs", False)
        transform = self._cfg.get("transform_obs", False)
        self._rollouts = [Rollout(self._env_manager, policy, transform, deepcopy) for policy in _policy]
        self._ledgers = [PieceLedger(self._env_num) for _ in self._players]
        self._acted_iter = np.full((len(_policy), self._env_num), -1, dtype=np.int64)
        if not self._eval_flag:
            recorded = [player for player in self._players if self._records[player]]
            self._traj_lens = {player: trajectory_length(_policy[player]) for player in recorded}
            self._transitions = {
                player: make_transitions(_policy[player], self._env_num, length, deepcopy)
                for player, length in self._traj_lens.items()
            }
            self._cutters = [self._make_cutter(self._sender(player)) for player in self._players]

    # ------------------------------------------------------------------ steps

    def _policy_inference(self, obs: Any) -> Any:
        self._load_newer_policies()
        seen = obs_by_player(obs, len(self._players))
        outputs = []
        for player in self._players:
            outputs.append(self._rollouts[player].outputs(seen[player], self._setting(player)))
            self._acted_iter[player, list(seen[player])] = self._policy_iter[player]
        return joint_actions(outputs)

    def _setting(self, player: int) -> dict[str, Any]:
        setting = (self._cfg.get("collect_setting", None) or {}) if self._explores[player] else {}
        return dict(setting[player] if isinstance(setting, (list, tuple)) else setting)

    def _env_step(self, action: Any) -> list[VectorStep]:
        timesteps = self._env_manager.step(action)
        return [
            rollout.join(player_timesteps(timesteps, player, len(self._players)))
            for player, rollout in enumerate(self._rollouts)
        ]

    def _process_timestep(self, timestep: list[VectorStep]) -> None:
        parts = [drop_abnormal(step) for step in timestep]
        # Abnormal for one player is abnormal for the game.
        abnormal = np.unique(np.concatenate([ids for _, ids in parts]))
        if len(abnormal):
            self._restart(abnormal)
        steps = [_without(step, abnormal) for step, _ in parts]
        timesteps = steps[0].timesteps
        if len(timesteps):
            self._tally.step_count += len(timesteps)
            for player in self._players:
                self._ledgers[player].advance(timesteps.env_ids)
                if self._records[player]:
                    self._record(player, steps[player])
            if timesteps.done.any():
                self._finish_episodes(steps)
        for cutter in self._cutters:
            cutter.flush_if_old()

    def _record(self, player: int, step: VectorStep) -> None:
        env_ids, transitions = step.timesteps.env_ids, self._transitions[player]
        transitions.append(step, {"collect_iter": self._acted_iter[player]})
        full = complete(env_ids, step.timesteps.done, transitions.counts, self._traj_lens[player])
        if len(full):
            samples, per_piece = transitions.pop_samples(full)
            self._tally.sample_count += len(samples)
            self._cutters[player].add(samples, self._ledgers[player].cut(full, per_piece))

    def _finish_episodes(self, steps: list[VectorStep]) -> None:
        timesteps = steps[0].timesteps
        ended = np.flatnonzero(timesteps.done)
        for position in ended.tolist():
            env_id = int(timesteps.env_ids[position])
            result = self._end_episode(timesteps.info_at(position), env_id)
            self._game_result[env_id].append(result_of(result))
            for policy in self._policy:
                policy.reset([env_id])
        for ledger in self._ledgers:
            ledger.end_episodes(timesteps.env_ids[ended])
        self._send_progress()

    def _restart(self, env_ids: np.ndarray) -> None:
        ids = env_ids.tolist()
        for env_id in ids:
            self._env_manager.reset({env_id: None})
        self.info(f"envs {ids} returned an abnormal step and were reset; the pieces that they had begun are dropped")
        for player in self._players:
            self._rollouts[player].forget(ids)
            self._ledgers[player].end_episodes(env_ids)
            self._policy[player].reset(ids)
            if self._records[player]:
                self._transitions[player].clear(env_ids)

    # ------------------------------------------------------------------ policy

    def _update_policy(self) -> None:
        self._feed_of: list[PolicyFeed | None] = []
        for player in self._players:
            feed = self._make_feed(self._cfg.policy_update_path[player])
            self._feed_of.append(feed)
            self._load(player, feed.first())
        # A player whose flag is not set keeps the version that it began with.
        self._feeds = [feed for feed, flag in zip(self._feeds, self._updates) if flag]

    def _load_newer_policies(self) -> None:
        if not self._eval_flag:
            for player, feed in enumerate(self._feed_of):
                if self._updates[player] and feed is not None:
                    self._load(player, feed.take())

    def _load(self, player: int, version: "tuple[int, dict[str, Any]] | None") -> None:
        if version is not None:
            self._policy_iter[player], state = version
            self._policy[player].load_state_dict(state)
            self.debug(f"player {player} loaded policy iteration {self._policy_iter[player]}")

    # ------------------------------------------------------------------ what is told

    def _sender(self, player: int) -> Any:
        def send(batch: TransitionBatch, spans: list[Span], iterations: tuple[int, int]) -> None:
            self._send_chunk(batch, spans, list(self._policy_iter), iterations[0], player=player)

        return send

    def get_finish_info(self) -> dict[str, Any]:
        """The summary of the task, with ``game_result``: per env a list of ``wins``, ``draws`` and ``losses`` of player
        0, and ``train_iter``: per player the iteration of its policy (-1: none was loaded).
        """
        info = {
            "eval_flag": self._eval_flag,
            "train_iter": list(self._policy_iter),
            **self._tally.finish_info(self._collector_done),
            "game_result": [list(results) for results in self._game_result],
        }
        if not self._eval_flag:
            info["collect_setting"] = self._cfg.get("collect_setting", None)
        return info

    def __repr__(self) -> str:
        return f"MarineParallelCollector({self._prefix.lower()}, {self._env_num} envs, {self._collector_uid})"


def _mode(policy_cfg: Any, explores: bool) -> Any:
    policy = create_policy(policy_cfg, enable_field=["collect" if explores else "eval"])
    return policy.collect_mode if explores else policy.eval_mode


def _without(step: VectorStep, env_ids: np.ndarray) -> VectorStep:
    if not len(env_ids):
        return step
    return step.take(np.flatnonzero(~np.isin(step.timesteps.env_ids, env_ids)))
