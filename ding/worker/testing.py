"""Test doubles for workers: policies without a network that say what they were asked.

:class:`ScriptedPolicy` speaks the classic per-env dicts, :class:`BatchedScriptedPolicy` the same in columns.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from easydict import EasyDict

from ding.data import EnvBatch, batched


class LearnMode(NamedTuple):
    """The functions of a policy that a learner calls."""

    forward: Callable
    reset: Callable
    info: Callable
    monitor_vars: Callable
    get_attribute: Callable
    set_attribute: Callable
    state_dict: Callable
    load_state_dict: Callable


class CollectMode(NamedTuple):
    """The functions of a policy that a collector calls."""

    forward: Callable
    process_transition: Callable
    get_train_sample: Callable
    reset: Callable
    get_attribute: Callable
    set_attribute: Callable
    state_dict: Callable
    load_state_dict: Callable


class EvalMode(NamedTuple):
    """The functions of a policy that an evaluator calls."""

    forward: Callable
    reset: Callable
    get_attribute: Callable
    set_attribute: Callable
    state_dict: Callable
    load_state_dict: Callable


class CommandMode(NamedTuple):
    """The functions of a policy that a commander calls."""

    get_setting_learn: Callable
    get_setting_collect: Callable
    get_setting_eval: Callable


class ScriptedPolicy:
    """A policy that acts by script, in the classic form ``{env_id: ...}``.

    Args:
        action: an action for all, or ``action(env_id, step) -> action``, where ``step`` counts the actions of that env
            since its last reset. An int or a list of numbers.
        learn_output: what ``learn_mode.forward`` returns (a copy): a dict, a list of dicts, or ``fn(data) -> either``.
        collect_setting: what the command mode answers.
        attributes: values for ``get_attribute``, over the defaults ``n_sample``, ``n_episode``, ``unroll_len``,
            ``on_policy``, ``batch_size``, ``device``, ``priority`` and ``cfg``.

    Attributes:
        forwards: ``(mode, env ids, kwargs)`` of each call of a collect or eval forward.
        inputs: the data of each of these calls.
        resets: ``(mode, env ids or None)`` of each reset.
        learned: the data of each learn forward.
    """

    def __init__(
        self,
        action: "int | Sequence[float] | Callable[[int, int], Any]" = 0,
        learn_output: Any = None,
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
    def learn_mode(self) -> LearnMode:
        """What a learner takes."""
        return LearnMode(
            self._forward_learn,
            self._reset_learn,
            self.__repr__,
            self._monitor_vars,
            self._get_attribute,
            self._set_attribute,
            self._state_dict,
            self._load_state_dict,
        )

    @property
    def collect_mode(self) -> CollectMode:
        """What a collector takes."""
        return CollectMode(
            self._forward_collect,
            self._process_transition,
            self._get_train_sample,
            self._reset_collect,
            self._get_attribute,
            self._set_attribute,
            self._state_dict,
            self._load_state_dict,
        )

    @property
    def eval_mode(self) -> EvalMode:
        """What an evaluator takes."""
        return EvalMode(
            self._forward_eval,
            self._reset_eval,
            self._get_attribute,
            self._set_attribute,
            self._state_dict,
            self._load_state_dict,
        )

    @property
    def command_mode(self) -> CommandMode:
        """What a commander takes."""
        return CommandMode(dict, self._get_setting_collect, dict)

    # collect and eval

    def _act(self, mode: str, data: Mapping[int, Any], kwargs: dict[str, Any]) -> torch.Tensor:
        """Actions ``[N, 1]`` (or ``[N, d]`` for list-valued scripts) for the envs of ``data``."""
        env_ids = [int(env_id) for env_id in data]
        self.forwards.append((mode, env_ids, kwargs))
        self.inputs.append(data)
        return torch.stack([self._next_action(mode, env_id) for env_id in env_ids])

    def _next_action(self, mode: str, env_id: int) -> torch.Tensor:
        step = self._steps.get((mode, env_id), 0)
        self._steps[mode, env_id] = step + 1
        action = self._action(env_id, step) if callable(self._action) else self._action
        return torch.as_tensor([action] if np.isscalar(action) else action)

    def _forward_collect(self, data: Any, **kwargs: Any) -> Any:
        return self._by_env("collect", data, kwargs)

    def _forward_eval(self, data: Any, **kwargs: Any) -> Any:
        return self._by_env("eval", data, kwargs)

    def _by_env(self, mode: str, data: Mapping[int, Any], kwargs: dict[str, Any]) -> dict[int, dict[str, Any]]:
        return {env_id: {"action": action} for env_id, action in zip(data, self._act(mode, data, kwargs))}

    def _process_transition(self, obs: Any, policy_output: Any, timestep: Any) -> dict[str, Any]:
        return {
            "obs": obs,
            "next_obs": timestep.obs,
            "action": policy_output["action"],
            "reward": timestep.reward,
            "done": timestep.done,
        }

    def _get_train_sample(self, transitions: Any) -> Any:
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

    def _forward_learn(self, data: Any, **kwargs: Any) -> Any:
        self.learned.append(data)
        output = self._learn_output(data, **kwargs) if callable(self._learn_output) else self._learn_output
        if isinstance(output, list):
            return [dict(item) if isinstance(item, dict) else item for item in output]
        return dict(output) if isinstance(output, dict) else output

    def _reset_learn(self, data_id: Any = None) -> None:
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

    def _set_attribute(self, name: str, value: Any) -> None:
        self.attributes[name] = value

    def _get_setting_collect(self, info: dict[str, Any]) -> dict[str, Any]:
        self.last_command_info = info
        return dict(self._collect_setting)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class BatchedScriptedPolicy(ScriptedPolicy):
    """The same script in columns: an :class:`~ding.data.EnvBatch` in, an ``EnvBatch`` with ``action [N, 1]`` out."""

    @batched
    def _forward_collect(self, data: Any, **kwargs: Any) -> Any:
        return self._in_columns("collect", data, kwargs)

    @batched
    def _forward_eval(self, data: Any, **kwargs: Any) -> Any:
        return self._in_columns("eval", data, kwargs)

    def _in_columns(self, mode: str, data: EnvBatch, kwargs: dict[str, Any]) -> EnvBatch:
        return EnvBatch(data.env_ids, {"action": self._act(mode, data, kwargs)})

    @batched
    def _process_transition(self, obs: Any, policy_output: Any, timestep: Any) -> dict[str, Any]:
        return super()._process_transition(obs, policy_output, timestep)

    @batched
    def _get_train_sample(self, transitions: Any) -> Any:
        return transitions

    @batched
    def _forward_learn(self, data: Any, **kwargs: Any) -> Any:
        return super()._forward_learn(data, **kwargs)
