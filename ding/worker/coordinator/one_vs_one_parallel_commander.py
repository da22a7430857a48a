"""Commander for self-play: one player learns from games against itself and its snapshots."""

import copy
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from easydict import EasyDict

from ding.league import BaseLeague, create_league
from ding.league.one_vs_one_league import OneVsOneLeague
from ding.parallel.planes import open_planes
from ding.utils import COMMANDER_REGISTRY, deep_merge_dicts, get_task_uid
from ding.utils.nested import iter_nested
from ding.worker.coordinator.solo_parallel_commander import SoloCommander

_WIN_RATE_TO_PASS = 0.7


@COMMANDER_REGISTRY.register("one_vs_one")
class OneVsOneCommander(SoloCommander):
    """Trains the first active player of a league.

    Collectors receive two policies; evaluations are played against a built-in opponent of the env
    (``env.eval_opponent``). The run ends once an evaluation against the hardest opponent is won and reaches
    ``env.stop_value``.

    Args:
        cfg: Main config; ``policy.other.commander.league`` is merged over the default of its league type, and
            ``path_policy`` is the folder of the weights.
        clock: Monotonic clock, in seconds.
    """

    config: ClassVar[dict[str, Any]] = {
        # (int) Number of concurrent tasks of each kind.
        "collector_task_space": 2,
        "learner_task_space": 1,
        # (float) Seconds between the end of an evaluation and the start of the next one.
        "eval_interval": 60,
        "league": {},
        # (str) Folder of the weights (or their common name, for weights in memory).
        "path_policy": ".",
        # (str) Type of the planes: 'file' or 'inproc'.
        "weights": "file",
    }

    def __init__(self, cfg: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        own = cfg["policy"]["other"]["commander"]
        league = deep_merge_dicts(OneVsOneLeague.default_config(), own.get("league") or {})
        self._path_policy = own.get("path_policy", ".")
        self._weights = own.get("weights", "file")
        league["path_policy"] = self._path_policy
        self._league = create_league(league, self._snapshot_weights)
        self._active_player = self._league.only_learning_player()
        self._current_player_id: dict[str, list[str]] = {}
        # Evaluation task -> opponent of the env.
        self._eval_opponents: dict[str, str] = {}
        self._last_opponent: str | None = None
        super().__init__(cfg, clock)

    @property
    def league(self) -> BaseLeague:
        """League with the players and their games."""
        return self._league

    def _forget_learner(self) -> None:
        super()._forget_learner()
        self._current_policy_id = []

    def get_collector_task(self) -> dict[str, Any] | None:
        if not self._takes_collector_task():
            return None
        eval_flag = self._eval_is_due()
        task_id = f"{'evaluator' if eval_flag else 'collector'}_task_{get_task_uid()}"
        job = self._league.get_job_info(self._active_player.player_id, eval_flag)
        self._current_player_id[task_id] = job["player_id"]
        env = copy.deepcopy(self._evaluator_env_cfg if eval_flag else self._collector_env_cfg)
        if eval_flag:
            self._evaluating = task_id
            self._eval_opponents[task_id] = env["eval_opponent"] = job["eval_opponent"]
        return {
            "task_id": task_id,
            "buffer_id": self._current_buffer_id,
            "collector_cfg": EasyDict(
                {
                    **copy.deepcopy(self._cfg["policy"]["collect"]["collector"]),
                    "collect_setting": self._collect_setting(),
                    "policy_update_path": [os.path.basename(path) for path in job["checkpoint_path"]],
                    "policy_update_flag": job["player_active_flag"],
                    "eval_flag": eval_flag,
                    "policy": [copy.deepcopy(self._cfg["policy"]) for _ in range(job["agent_num"])],
                    "exp_name": self._exp_name,
                    "env": env,
                }
            ),
        }

    def get_learner_task(self) -> dict[str, Any] | None:
        if self._end_flag or not self._learner_task_space.acquire_space():
            return None
        policy_id = f"policy_{get_task_uid()}"
        self._current_policy_id = [policy_id]
        self._current_buffer_id = f"buffer_{get_task_uid()}"
        task = self._learner_task(policy_id)
        task["league_save_checkpoint_path"] = os.path.basename(self._active_player.checkpoint_path)
        return task

    def finish_collector_task(self, task_id: str, finished_task: dict[str, Any]) -> bool:
        self._collector_task_space.release_space()
        player_ids = self._current_player_id.pop(task_id, None)
        if finished_task.get("eval_flag"):
            self._eval_is_over(task_id)
            opponent = self._eval_opponents.pop(task_id, self._last_opponent)
            if opponent != self._last_opponent:
                # Returns against different opponents are not comparable; the later opponent is harder.
                self._best_return, self._last_opponent = None, opponent
            self._report("evaluator", finished_task if opponent is None else {**finished_task, "opponent": opponent})
            return self._judge_evaluation(finished_task)
        self._total_collector_env_step += int(finished_task.get("step_count", 0))
        self._report("collector", finished_task)
        if player_ids is not None and "game_result" in finished_task:
            self._league.finish_job({"player_id": player_ids, "result": finished_task["game_result"]})
        return False

    def _judge_evaluation(self, finished_task: Mapping[str, Any]) -> bool:
        results = list(iter_nested(finished_task.get("game_result", [])))
        won = bool(results) and results.count("wins") / len(results) > _WIN_RATE_TO_PASS
        harder = self._league.update_active_player({"player_id": self._active_player.player_id, "eval_win": won})
        reached = self._judge(finished_task)
        self._end_flag = reached and won and not harder
        return self._end_flag

    def notify_fail_collector_task(self, task: Mapping[str, Any]) -> None:
        super().notify_fail_collector_task(task)
        self._current_player_id.pop(task.get("task_id", ""), None)
        self._eval_opponents.pop(task.get("task_id", ""), None)

    def update_learner_info(self, task_id: str, info: dict[str, Any]) -> bool:
        """Return True after a snapshot of the player, which a restarted coordinator must know."""
        super().update_learner_info(task_id, info)
        player_id = self._active_player.player_id
        self._league.update_active_player({"player_id": player_id, "train_iteration": info.get("learner_step", 0)})
        return self._league.judge_snapshot(player_id)

    def _snapshot_weights(self, source: str, target: str) -> None:
        """Copy the newest weights of a player to a snapshot, through the weight plane."""
        planes = open_planes(self._weights, "", self._path_policy)
        # The planes identify weights by their names in the folder.
        source, target = os.path.basename(source), os.path.basename(target)
        weights = planes.weights(source).fetch()
        if weights is None:
            raise FileNotFoundError(f"the player {source!r} has published no weights in {self._path_policy!r} yet")
        planes.weights(target).publish(weights.state, weights.version, weights.meta)

    # ------------------------------------------------------------------ restart and reports

    def state_dict(self) -> dict[str, Any]:
        opponents = {"of_tasks": self._eval_opponents, "last": self._last_opponent}
        players = {"players": self._current_player_id, "opponents": opponents}
        return {**super().state_dict(), "league": self._league.state_dict(), **players}

    def load_state_dict(self, state: Mapping[str, Any], collectors: int = 0, learners: int = 0) -> None:
        super().load_state_dict(state, collectors, learners)
        if state:
            self._league.load_state_dict(state["league"])
            self._current_player_id = dict(state["players"])
            opponents = state.get("opponents") or {"of_tasks": {}, "last": None}  # missing in older states
            self._eval_opponents, self._last_opponent = dict(opponents["of_tasks"]), opponents["last"]

    def status(self) -> dict[str, Any]:
        return {
            **super().status(),
            # Number of samples per step if the player plays itself.
            "samples_per_step": 2,
            "ratings": {player.player_id: player.rating.mu for player in self._league.payoff.players},
        }
