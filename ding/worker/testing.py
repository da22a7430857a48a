"""Test doubles for workers: policies without a network and env managers without envs that record their calls.

:class:`NaiveCollector` and :class:`NaiveLearner` answer a coordinator without an env or a network.

:class:`ScriptedPolicy` uses the classic per-env dicts, :class:`BatchedScriptedPolicy` the columnar batches;
:class:`ScriptedEnvManager` supports both.
"""

import os
import threading
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from easydict import EasyDict

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch, batched, roles
from ding.interaction import Slave, TaskFail
from ding.utils.file_helper import save_file

# Number of data tasks of a naive collector, and of infos of a naive learner, before it is done.
_DATA_TASKS = 19
_INFOS_BEFORE_DONE = 5


class ScriptedPolicy:
    """Policy with scripted actions, in the classic form ``{env_id: ...}``.

    Args:
        action: Action of all envs, or ``action(env_id, step) -> action``, where ``step`` counts the actions of that env
            since its last reset. An int or a list of numbers.
        learn_output: Return value of ``learn_mode.forward`` (copied): a dict, a list of dicts, or
            ``fn(data) -> either``.
        collect_setting: Return value of the command mode's ``get_setting_collect``.
        attributes: Values of ``get_attribute``, merged over the defaults ``n_sample``, ``n_episode``, ``unroll_len``,
            ``on_policy``, ``batch_size``, ``device``, ``priority`` and ``cfg``.

    Attributes:
        forwards: ``(mode, env ids, kwargs)`` of each collect or eval forward.
        inputs: Input data of each of these calls.
        resets: ``(mode, env ids or None)`` of each reset.
        learned: Input data of each learn forward.
    """

    def __init__(
        self,
        action: "int | Sequence[float] | Callable[[int, int], Any]" = 0,
        learn_output: object = None,
        collect_setting: dict[str, Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self._action = action
        self._learn_output = {"cur_lr": 0.001, "total_loss": 0.5} if learn_output is None else learn_output
        self._collect_setting = {} if collect_setting is None else collect_setting
        self.attributes: dict[str, Any] = {
            "cfg": EasyDict(type="scripted", traj_len_inf=False, on_policy=False, collect={}, learn={}),
            "n_sample": None,
            "n_episode": None,
            "unroll_len": 1,
            "on_policy": False,
            "batch_size": 4,
            "device": "cpu",
            "priority": False,
            **(attributes or {}),
        }
        self.weights = {"weight": torch.zeros(2)}
        self.forwards: list[tuple[str, list[int], dict[str, Any]]] = []
        self.inputs: list[Any] = []
        self.resets: list[tuple[str, list[int] | None]] = []
        self.learned: list[Any] = []
        self._steps: dict[tuple[str, int], int] = {}

    # modes

    @property
    def learn_mode(self) -> roles.LearnMode:
        """Functions for a learner."""
        made: roles.LearnMode = self._mode(
            forward=self._forward_learn, reset=self._reset_learn, info=self.__repr__, monitor_vars=self._monitor_vars
        )
        return made

    @property
    def collect_mode(self) -> roles.CollectMode:
        """Functions for a collector."""
        made: roles.CollectMode = self._mode(
            forward=self._forward_collect,
            process_transition=self._process_transition,
            get_train_sample=self._get_train_sample,
            reset=self._reset_collect,
        )
        return made

    @property
    def eval_mode(self) -> roles.EvalMode:
        """Functions for an evaluator."""
        made: roles.EvalMode = self._mode(forward=self._forward_eval, reset=self._reset_eval)
        return made

    @property
    def command_mode(self) -> roles.CommandMode:
        """Functions for a commander."""
        made: roles.CommandMode = self._mode(
            get_setting_learn=dict, get_setting_collect=self._get_setting_collect, get_setting_eval=dict
        )
        return made

    def _mode(self, **functions: Callable[..., Any]) -> Any:
        """Return a named tuple, like the modes of a policy."""
        functions |= {
            "get_attribute": self._get_attribute,
            "set_attribute": self._set_attribute,
            "state_dict": self._state_dict,
            "load_state_dict": self._load_state_dict,
        }
        return namedtuple("Mode", functions)(**functions)

    # collect and eval

    def _act(self, mode: str, data: Mapping[int, Any], kwargs: dict[str, Any]) -> torch.Tensor:
        """Return actions ``[N, 1]`` (``[N, d]`` for list-valued scripts) for the envs of ``data``."""
        env_ids = [int(env_id) for env_id in data]
        self.forwards.append((mode, env_ids, kwargs))
        self.inputs.append(data)
        return torch.stack([self._next_action(mode, env_id) for env_id in env_ids])

    def _next_action(self, mode: str, env_id: int) -> torch.Tensor:
        step = self._steps.get((mode, env_id), 0)
        self._steps[mode, env_id] = step + 1
        action = self._action(env_id, step) if callable(self._action) else self._action
        return torch.as_tensor([action] if np.isscalar(action) else action)

    def _forward_collect(self, data: roles.ByEnv, **kwargs: Any) -> roles.ByEnv:
        return self._by_env("collect", data, kwargs)

    def _forward_eval(self, data: roles.ByEnv, **kwargs: Any) -> roles.ByEnv:
        return self._by_env("eval", data, kwargs)

    def _by_env(self, mode: str, data: Mapping[int, Any], kwargs: dict[str, Any]) -> dict[int, dict[str, Any]]:
        return {env_id: {"action": action} for env_id, action in zip(data, self._act(mode, data, kwargs))}

    def _process_transition(
        self, obs: object, policy_output: Mapping[str, Any], timestep: BaseEnvTimestep | TimestepBatch
    ) -> dict[str, Any]:
        return {
            "obs": obs,
            "next_obs": timestep.obs,
            "action": policy_output["action"],
            "reward": timestep.reward,
            "done": timestep.done,
        }

    def _get_train_sample(self, transitions: roles.Samples) -> roles.Samples:
        return transitions

    def _reset_collect(self, env_ids: Sequence[int] | None = None) -> None:
        self._reset("collect", env_ids)

    def _reset_eval(self, env_ids: Sequence[int] | None = None) -> None:
        self._reset("eval", env_ids)

    def _reset(self, mode: str, env_ids: Sequence[int] | None) -> None:
        self.resets.append((mode, None if env_ids is None else [int(env_id) for env_id in env_ids]))
        for key in [key for key in self._steps if key[0] == mode and (env_ids is None or key[1] in env_ids)]:
            del self._steps[key]

    # learn

    def _forward_learn(self, data: roles.Samples, **kwargs: Any) -> object:
        self.learned.append(data)
        output = self._learn_output(data, **kwargs) if callable(self._learn_output) else self._learn_output
        if isinstance(output, list):
            return [dict(item) if isinstance(item, dict) else item for item in output]
        return dict(output) if isinstance(output, dict) else output

    def _reset_learn(self, data_id: Sequence[int] | None = None) -> None:
        self.resets.append(("learn", None))

    def _monitor_vars(self) -> list[str]:
        return ["cur_lr", "total_loss"]

    def _state_dict(self) -> dict[str, Any]:
        return {"model": self.weights}

    def _load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.weights = state_dict["model"]

    # attributes and command

    def _get_attribute(self, name: str) -> Any:
        if name not in self.attributes:
            raise NotImplementedError(f"the scripted policy has no attribute {name!r}")
        return self.attributes[name]

    def _set_attribute(self, name: str, value: object) -> None:
        self.attributes[name] = value

    def _get_setting_collect(self, info: dict[str, Any]) -> dict[str, Any]:
        self.last_command_info = info
        return dict(self._collect_setting)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class BatchedScriptedPolicy(ScriptedPolicy):
    """Scripted policy on columns: maps an :class:`~ding.data.EnvBatch` to an ``EnvBatch`` with ``action [N, 1]``."""

    @batched
    def _forward_collect(self, data: roles.ByEnv, **kwargs: Any) -> roles.ByEnv:
        return self._in_columns("collect", data, kwargs)  # type: ignore[arg-type]

    @batched
    def _forward_eval(self, data: roles.ByEnv, **kwargs: Any) -> roles.ByEnv:
        return self._in_columns("eval", data, kwargs)  # type: ignore[arg-type]

    def _in_columns(self, mode: str, data: EnvBatch, kwargs: dict[str, Any]) -> EnvBatch:
        return EnvBatch(data.env_ids, {"action": self._act(mode, data, kwargs)})

    @batched
    def _process_transition(
        self, obs: object, policy_output: Mapping[str, Any], timestep: BaseEnvTimestep | TimestepBatch
    ) -> dict[str, Any]:
        return super()._process_transition(obs, policy_output, timestep)

    @batched
    def _get_train_sample(self, transitions: roles.Samples) -> roles.Samples:
        return transitions

    @batched
    def _forward_learn(self, data: roles.Samples, **kwargs: Any) -> object:
        return super()._forward_learn(data, **kwargs)


class ScriptedEnvManager:
    """Env manager with episodes of fixed lengths.

    Observation: float32 ``[env id, step]``, starting at step 0. Each step has reward 1, so the return of an episode
    equals its length. A finished env starts its next episode at once.

    Args:
        episode_lengths: Episode lengths of each env, repeated cyclically.
        in_columns: Use :class:`~ding.data.EnvBatch` and ``TimestepBatch``; otherwise plain dicts.
        abnormal: ``(env id, episode)`` of episodes, counted from 0, whose last step is abnormal instead of done.
        episode_info: Fields that each finished episode reports as ``info['episode_info']``.
        num_players: Number of players of a game: ``obs``, ``reward`` and ``info`` then have one entry per player.
            Player ``i`` receives the reward ``1 - 2 * i``.

    Attributes:
        actions: Actions of each env, as arrays.
        resets: Arguments of each ``reset`` since the launch.
        num_episodes: Number of started episodes of each env since the launch.
    """

    def __init__(
        self,
        episode_lengths: Sequence[Sequence[int]],
        in_columns: bool = False,
        abnormal: Sequence[tuple[int, int]] = (),
        episode_info: dict[str, Any] | None = None,
        num_players: int = 1,
    ) -> None:
        self._lengths = [list(lengths) for lengths in episode_lengths]
        self._in_columns = in_columns
        self._abnormal = set(abnormal)
        self._episode_info = episode_info
        self._num_players = num_players
        self.env_num = len(self._lengths)
        self.actions: dict[int, list[Any]] = {env_id: [] for env_id in range(self.env_num)}
        self.resets: list[Any] = []
        self.figures: list[tuple[int, str]] = []
        self.num_episodes = [0] * self.env_num
        self.closed = True
        self._time = [0] * self.env_num
        self._broken: set[int] = set()

    def launch(self, reset_param: Mapping[int, Any] | None = None) -> None:
        """Open the manager and reset all envs."""
        if not self.closed:
            raise AssertionError("launch() needs a closed env manager")
        self.closed = False
        self.reset(reset_param)

    def reset(self, reset_param: Mapping[int, Any] | None = None) -> None:
        """Start a new episode in all envs, or in the envs of ``reset_param``."""
        self.resets.append(reset_param)
        for env_id in range(self.env_num) if reset_param is None else reset_param:
            self._begin(env_id)

    def _begin(self, env_id: int) -> None:
        self._time[env_id] = 0
        self.num_episodes[env_id] += 1
        self._broken.discard(env_id)

    def observation(self, env_id: int) -> np.ndarray | list[np.ndarray]:
        """Return the current observation of an env."""
        obs = np.array([env_id, self._time[env_id]], dtype=np.float32)
        return obs if self._num_players == 1 else [obs + 100 * player for player in range(self._num_players)]

    @property
    def ready_obs(self) -> Mapping[int, Any]:
        """Observations of the envs that wait for an action."""
        ready = {env_id: self.observation(env_id) for env_id in range(self.env_num) if env_id not in self._broken}
        return EnvBatch.from_dict(ready) if self._in_columns else ready

    @property
    def ready_imgs(self) -> dict[int, np.ndarray]:
        """Frames of the ready envs, uint8 ``[2, 3, 1]``, filled with the step number."""
        return {env_id: np.full((2, 3, 1), self._time[env_id], dtype=np.uint8) for env_id in self.ready_obs}

    def step(self, actions: Mapping[int, Any]) -> Mapping[int, Any]:
        """Step each of the given envs once."""
        if not actions:
            raise AssertionError("step() needs at least one action")
        steps = {env_id: self.step_env(env_id, action) for env_id, action in dict(actions).items()}
        return TimestepBatch.from_dict(steps) if self._in_columns else steps

    def step_env(self, env_id: int, action: object) -> BaseEnvTimestep:
        """Step one env."""
        if env_id in self._broken:
            raise AssertionError(f"env {env_id} needs a reset")
        self.actions[env_id].append(action)
        self._time[env_id] += 1
        lengths, episode = self._lengths[env_id], self.num_episodes[env_id] - 1
        obs, last = self.observation(env_id), self._time[env_id] >= lengths[episode % len(lengths)]
        info: dict[str, Any] = {}
        done = last and (env_id, episode) not in self._abnormal
        if last and not done:
            info["abnormal"] = True
            self._broken.add(env_id)
        if done:
            info["eval_episode_return"] = float(self._time[env_id])
            if self._episode_info is not None:
                info["episode_info"] = dict(self._episode_info)
            self._begin(env_id)
        if self._num_players == 1:
            return BaseEnvTimestep(obs, np.ones(1, dtype=np.float32), done, info)
        signs = [1.0 - 2 * player for player in range(self._num_players)]
        infos: Any = [
            {**info, "eval_episode_return": sign * info["eval_episode_return"]} if done else dict(info)
            for sign in signs
        ]
        return BaseEnvTimestep(obs, [np.array([sign], dtype=np.float32) for sign in signs], done, infos)

    def enable_save_figure(self, env_id: int, figure_path: str) -> None:
        """Record the call in ``figures``."""
        self.figures.append((env_id, figure_path))

    def close(self) -> None:
        """Close the manager."""
        self.closed = True


class _CountingSlave(Slave):
    """Base class of both test slaves: counts the messages of a task."""

    def __init__(self, *args: Any, prefix: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._prefix = prefix
        self._task_info: dict[str, Any] = {}
        self._count = 0
        self._lock = threading.Lock()


class NaiveCollector(_CountingSlave):
    """Slave that answers the tasks of a coordinator like a collector.

    The first 19 data tasks return one transition each, stored in ``./<prefix>_<task id>_<number>``; the 20th reports
    that the collector is done. ``collector_close_task`` is an unknown task, because there is nothing to close.

    Args:
        prefix: Prefix of the file names.
    """

    def _process_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """Process a task; raises :class:`TaskFail` if it is unknown."""
        name = task["name"]
        if name == "resource":
            return {"cpu": "20", "gpu": "1"}
        if name == "collector_start_task":
            with self._lock:
                self._task_info = dict(task["task_info"])
                self._count = 0
            return {"message": "collector task has started"}
        if name == "collector_data_task":
            with self._lock:
                self._count += 1
                return self._data(self._count)
        raise TaskFail(result={"message": "task name error"}, message=f"illegal collector task <{name}>")

    def _data(self, number: int) -> dict[str, Any]:
        """Return the answer to a data task, both in DI-engine's form and as references."""
        ids = {"task_id": self._task_info["task_id"], "buffer_id": self._task_info["buffer_id"]}
        if number > _DATA_TASKS:
            info = {"collector_done": True, "cur_episode": 1, "cur_step": 314, "cur_sample": 314}
            return {**ids, **info, "seq": _DATA_TASKS, "refs": [], "info": info}
        data_id = f"{self._prefix}_{ids['task_id']}_{number}"
        save_file(f"./{data_id}", self._get_timestep())
        ref = {"seq": number, "chunk": data_id, "rows": 1, "bytes": os.path.getsize(data_id), "data_id": data_id}
        ref = {**ref, **ids, "policy_iter": 0, "collect_iter": 0, "unroll_split_begin": 0}
        return {**ids, "data_id": data_id, "unroll_split_begin": 0, "seq": number, "refs": [ref], "info": None}

    def _get_timestep(self) -> list[dict[str, Any]]:
        """Return a list with one transition."""
        return [{"obs": [0.0] * 4, "next_obs": [0.0] * 4, "action": [0], "reward": [0.0], "done": False}]


class NaiveLearner(_CountingSlave):
    """Slave that answers the tasks of a coordinator like a learner, with batches of size 2.

    The first five infos hold priorities. From the sixth on, the infos report that the learner is done and the file
    ``./<prefix>_final_model.pth`` exists.

    Args:
        prefix: Prefix of the file name.
    """

    def _process_task(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """Process a task; raises :class:`TaskFail` if it is unknown, or if ``learner_learn_task`` has no data."""
        name = task["name"]
        if name == "resource":
            return {"cpu": "20", "gpu": "1"}
        with self._lock:
            if name == "learner_start_task":
                self._task_info = dict(task["task_info"])
                self._count = 0
                return {"message": "learner task has started"}
            ids = {key: self._task_info.get(key) for key in ("task_id", "buffer_id")}
            if name == "learner_get_data_task":
                return {**ids, "batch_size": 2, "cur_learner_iter": 1}
            if name == "learner_learn_task":
                if task.get("data") is None:
                    raise TaskFail(result={"message": "no data"}, message="learner_learn_task needs data")
                return {**ids, "info": self._learn(task["data"])}
            if name == "learner_close_task":
                self._task_info = {}
                return ids
        raise TaskFail(result={"message": "task name error"}, message=f"illegal learner task <{name}>")

    def _learn(self, data: list[dict[str, Any]]) -> dict[str, Any]:
        self._count += 1
        info: dict[str, Any] = {
            "learner_step": self._count,
            "priority_info": {
                "replay_unique_id": [meta["replay_unique_id"] for meta in data],
                "replay_buffer_idx": [meta["replay_buffer_idx"] for meta in data],
                "priority": [1.0 for _ in data],
            },
        }
        if self._count > _INFOS_BEFORE_DONE:
            info["learner_done"] = True
            save_file(f"./{self._prefix}_final_model.pth", {})
        return info
