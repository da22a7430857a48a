"""Commander for one learner and its collectors."""

import copy
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from easydict import EasyDict

from ding.policy import create_policy
from ding.utils import COMMANDER_REGISTRY, build_logger, get_task_uid, write_scalars
from ding.worker.coordinator.base_parallel_commander import BaseCommander

_VALUES = (
    "episode_count", "step_count", "avg_step_per_episode", "avg_time_per_step", "avg_time_per_episode", "reward_mean",
    "reward_std", "reward_min", "reward_max",
)  # fmt: skip


class CommanderLog:
    """Text logs of collectors and evaluators, and their TensorBoard values.

    Tags: ``<who>_iter/<value>`` (x-axis: train iteration) and ``<who>_step/<value>`` (x-axis: env steps of all
        collectors).

    Args:
        exp_name: Experiment directory.
    """

    def __init__(self, exp_name: str) -> None:
        path = f"{exp_name}/log/commander"
        logger, writer = build_logger(path, "commander", need_tb=True)
        self.logger: Any = logger
        self._writer: Any = writer
        self._loggers: dict[str, Any] = {
            who: build_logger(path, f"commander_{who}", need_tb=False)[0] for who in ("collector", "evaluator")
        }
        self.last: dict[str, dict[str, Any]] = {}

    def report(self, who: str, finished_task: Mapping[str, Any], envstep: int) -> None:
        """Log a finished task. Its ``opponent``, if any, is stored in :attr:`last`.

        Args:
            who: ``collector`` or ``evaluator``.
            finished_task: Summary of a collector.
            envstep: Env steps so far.
        """
        info = {**finished_task, "episode_count": finished_task.get("real_episode_count")}
        values = {name: float(info[name]) for name in _VALUES if isinstance(info.get(name), (int, float))}
        train_iter = finished_task.get("train_iter", -1)
        if isinstance(train_iter, (list, tuple)):
            train_iter = max(train_iter, default=-1)
        opponent = {key: finished_task[key] for key in ("opponent",) if key in finished_task}
        if info["episode_count"] != 0:
            self.last[who] = {"train_iter": train_iter, "envstep": envstep, **values, **opponent}
        logger = self._loggers[who]
        logger.info("train iteration %s, env step %s%s", train_iter, envstep, logger.get_tabulate_vars_hor(values))
        if train_iter is not None and train_iter >= 0:
            write_scalars(self._writer, f"{who}_iter/", values, train_iter)
        write_scalars(self._writer, f"{who}_step/", values, envstep)

    def close(self) -> None:
        """Flush the values to disk."""
        self._writer.close()


@COMMANDER_REGISTRY.register("solo")
class SoloCommander(BaseCommander):
    """Trains one policy on the data of all collectors; a collector evaluates it at intervals.

    The run ends once an evaluation reaches ``env.stop_value``.

    Args:
        cfg: Main config.
        clock: Monotonic clock, in seconds.
    """

    config: ClassVar[dict[str, Any]] = {
        # (int) Number of concurrent tasks of each kind.
        "collector_task_space": 1,
        "learner_task_space": 1,
        # (float) Seconds between the end of an evaluation and the start of the next one.
        "eval_interval": 60,
    }

    def __init__(self, cfg: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(cfg)
        self._clock = clock
        self._exp_name = cfg.get("exp_name", "default_experiment")
        self._eval_interval = float(self._commander_cfg["eval_interval"])
        self._collector_env_cfg = _env_cfg(cfg["env"], "collector_episode_num")
        self._evaluator_env_cfg = _env_cfg(cfg["env"], "evaluator_episode_num")
        if "seed" in cfg:
            # Each evaluation plays the same episodes, whichever collector runs it.
            self._evaluator_env_cfg.setdefault("seed", cfg["seed"])
        self._policy = create_policy(copy.deepcopy(cfg["policy"]), enable_field=["command"]).command_mode
        self._log = CommanderLog(self._exp_name)
        self._end_flag = False
        self._total_collector_env_step = 0
        self._best_return: float | None = None
        self._forget_learner()

    def _forget_learner(self) -> None:
        """Reset after a learner task: there is no policy to collect with, and an evaluation is due."""
        self._current_policy_id: Any = None
        self._current_buffer_id: str | None = None
        self._learner_step: dict[str, Any] = {"learner_step": 0}
        self._last_eval_time: float | None = None
        self._evaluating: str | None = None

    # ------------------------------------------------------------------ tasks

    def _takes_collector_task(self) -> bool:
        if self._end_flag or self._current_buffer_id is None:
            return False
        return self._collector_task_space.acquire_space()

    def _eval_is_due(self) -> bool:
        if self._evaluating is not None:
            return False
        return self._last_eval_time is None or self._clock() - self._last_eval_time > self._eval_interval

    def get_collector_task(self) -> dict[str, Any] | None:
        if not self._takes_collector_task():
            return None
        eval_flag = self._eval_is_due()
        task_id = f"collector_task_{get_task_uid()}"
        if eval_flag:
            self._evaluating = task_id
        env = self._evaluator_env_cfg if eval_flag else self._collector_env_cfg
        return {
            "task_id": task_id,
            "buffer_id": self._current_buffer_id,
            "collector_cfg": {
                **copy.deepcopy(self._cfg["policy"]["collect"]["collector"]),
                "collect_setting": self._collect_setting(),
                "policy_update_path": self._current_policy_id,
                "eval_flag": eval_flag,
                "policy": copy.deepcopy(self._cfg["policy"]),
                "exp_name": self._exp_name,
                "env": copy.deepcopy(env),
            },
        }

    def _collect_setting(self) -> dict[str, Any]:
        entries: dict[str, Any] = self._policy.get_setting_collect(
            {**self._learner_step, "envstep": self._total_collector_env_step}
        )
        return entries

    def get_learner_task(self) -> dict[str, Any] | None:
        if self._end_flag or not self._learner_task_space.acquire_space():
            return None
        self._current_policy_id = f"policy_{get_task_uid()}"
        self._current_buffer_id = f"buffer_{get_task_uid()}"
        return self._learner_task(self._current_policy_id)

    def _learner_task(self, policy_id: str) -> dict[str, Any]:
        policy = self._cfg["policy"]
        buffer_cfg = {"type": "on_policy"} if policy.get("on_policy") else policy["other"]["replay_buffer"]
        return {
            "task_id": f"learner_task_{get_task_uid()}",
            "policy_id": policy_id,
            "buffer_id": self._current_buffer_id,
            "learner_cfg": {**copy.deepcopy(policy["learn"]["learner"]), "exp_name": self._exp_name},
            "replay_buffer_cfg": copy.deepcopy(buffer_cfg),
            "policy": copy.deepcopy(policy),
        }

    # ------------------------------------------------------------------ ends

    def finish_collector_task(self, task_id: str, finished_task: dict[str, Any]) -> bool:
        self._collector_task_space.release_space()
        if not finished_task.get("eval_flag"):
            self._total_collector_env_step += int(finished_task.get("step_count", 0))
            self._report("collector", finished_task)
            return False
        self._eval_is_over(task_id)
        self._report("evaluator", finished_task)
        return self._judge(finished_task)

    def _eval_is_over(self, task_id: str) -> None:
        self._last_eval_time = self._clock()
        if self._evaluating in (task_id, None):
            self._evaluating = None

    def _judge(self, finished_task: Mapping[str, Any]) -> bool:
        """Return whether an evaluation ends the run."""
        reached = finished_task.get("reward_mean")
        if reached is None or not finished_task.get("real_episode_count", 1):
            return False
        self._best_return = max(reached, self._best_return if self._best_return is not None else reached)
        stop = self._cfg["env"].get("stop_value")
        if stop is None or reached < stop:
            return False
        self._end_flag = True
        return True

    def _report(self, who: str, finished_task: Mapping[str, Any]) -> None:
        self._log.report(who, finished_task, self._total_collector_env_step)

    def finish_learner_task(self, task_id: str, finished_task: dict[str, Any]) -> str | None:
        self._learner_task_space.release_space()
        self._forget_learner()
        found: str | None = finished_task["buffer_id"]
        return found

    def notify_fail_collector_task(self, task: Mapping[str, Any]) -> None:
        super().notify_fail_collector_task(task)
        if self._evaluating is not None and task.get("task_id") == self._evaluating:
            self._evaluating = None

    def notify_fail_learner_task(self, task: Mapping[str, Any]) -> None:
        super().notify_fail_learner_task(task)
        self._forget_learner()

    def update_learner_info(self, task_id: str, info: dict[str, Any]) -> bool | None:
        # Keep only the keys that settings depend on: an info also holds the priorities of a batch.
        self._learner_step = {"learner_step": info.get("learner_step", 0)}
        return None

    # ------------------------------------------------------------------ restart and reports

    def state_dict(self) -> dict[str, Any]:
        since = None if self._last_eval_time is None else self._clock() - self._last_eval_time
        return {
            "policy_id": self._current_policy_id,
            "buffer_id": self._current_buffer_id,
            "learner": self._learner_step,
            "envstep": self._total_collector_env_step,
            "since_eval_s": since,
            "evaluating": self._evaluating,
            "best_return": self._best_return,
            "end": self._end_flag,
        }

    def load_state_dict(self, state: Mapping[str, Any], collectors: int = 0, learners: int = 0) -> None:
        super().load_state_dict(state, collectors, learners)
        if not state:
            return
        since = state["since_eval_s"]
        self._current_policy_id, self._current_buffer_id = state["policy_id"], state["buffer_id"]
        self._learner_step = dict(state["learner"])
        self._total_collector_env_step = int(state["envstep"])
        self._last_eval_time = None if since is None else self._clock() - since
        self._evaluating = state["evaluating"] if collectors else None
        self._best_return = state["best_return"]
        self._end_flag = bool(state["end"])

    def status(self) -> dict[str, Any]:
        return {
            "envstep": self._total_collector_env_step,
            "best_return": self._best_return,
            "last_evaluation": self._log.last.get("evaluator"),
        }

    def close(self) -> None:
        self._log.close()


def _env_cfg(env: Mapping[str, Any], episode_key: str) -> EasyDict:
    """Copy the env config for one kind of collector, with its number of episodes for the env manager."""
    own = copy.deepcopy(env)
    episodes = own.get(episode_key)
    for key in ("collector_episode_num", "evaluator_episode_num", "per_collector"):
        own.pop(key, None)  # type: ignore[attr-defined]
    if episodes is not None:
        own.setdefault("manager", {})["episode_num"] = episodes  # type: ignore[attr-defined]
    return own
