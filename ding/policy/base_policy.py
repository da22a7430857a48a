"""``Policy``: an algorithm as up to four modes (learn, collect, eval, command), each a tuple of bound functions."""

from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from easydict import EasyDict

from ding.policy._create import create_policy, get_policy_cls
from ding.policy._policy_model import PolicyModel
from ding.policy.errors import PolicyConfigError, PolicyUsageError
from ding.utils import deep_merge_dicts
from ding.utils.default_helper import did_you_mean

__all__ = ["CommandModePolicy", "Policy", "create_policy", "get_policy_cls"]


class Policy(PolicyModel, ABC):
    """Base class of all algorithms.

    A subclass implements ``_init_<mode>`` and the functions of each mode. The shipped ones take and return columns
    (:func:`ding.data.batched`); a subclass that overrides one of their methods without that mark gets the classic calls
    with one dict per environment or transition.

    Args:
        cfg: the ``policy`` section of the config.
        model: the network; by default created from ``cfg.model`` (its ``type`` falls back to :meth:`default_model`).
        enable_field: the modes to initialise, out of ``learn``, ``collect``, ``eval``; ``None`` means all of them.
            They are always initialised in that order, so that a seed fixes every random draw.

    Raises:
        PolicyUsageError: an unknown mode in ``enable_field`` (an ``AssertionError``).
        PolicyConfigError: ``model`` is not a ``torch.nn.Module`` (a ``RuntimeError``).
    """

    learn_function = namedtuple(
        "learn_function",
        [
            "forward",
            "reset",
            "info",
            "monitor_vars",
            "get_attribute",
            "set_attribute",
            "state_dict",
            "load_state_dict",
        ],
    )
    collect_function = namedtuple(
        "collect_function",
        [
            "forward",
            "process_transition",
            "get_train_sample",
            "reset",
            "get_attribute",
            "set_attribute",
            "state_dict",
            "load_state_dict",
        ],
    )
    eval_function = namedtuple(
        "eval_function", ["forward", "reset", "get_attribute", "set_attribute", "state_dict", "load_state_dict"]
    )

    #: All modes, in the order in which they are initialised.
    total_field: ClassVar[tuple[str, ...]] = ("learn", "collect", "eval")

    config: ClassVar[dict[str, Any]] = {
        # (bool) Whether only data of the newest policy may be trained on.
        "on_policy": False,
        # (bool) Whether to use a GPU, where there is one.
        "cuda": False,
        # (bool) Whether several processes train replicas of the model and average their gradients.
        "multi_gpu": False,
        # (bool) Kept for configs of the original API; gradients are averaged after ``backward`` either way.
        "bp_update_sync": True,
        # (bool) Whether collected trajectories are cut at the end of an episode only.
        "traj_len_inf": False,
        # (bool) Whether to compute the numbers of the original API where the default is a correction of them.
        "reference_numerics": False,
        # (int or None) Threads that torch uses; None picks a number that fits the network and the batch size.
        "num_threads": None,
        "model": {},
        "learn": {
            # (bool) Whether to go on from the iteration counters of a loaded checkpoint.
            "resume_training": False,
        },
    }

    @classmethod
    def default_config(cls) -> EasyDict:
        """The defaults of this class over those of its parents, plus ``cfg_type``; a fresh copy.

        Raises:
            PolicyConfigError: called on :class:`Policy` itself (a ``RuntimeError``).
        """
        if cls is Policy:
            raise PolicyConfigError("Policy has no default config of its own; ask one of its subclasses")
        parent = next(base for base in cls.__bases__ if issubclass(base, Policy))
        base_config = Policy.config if parent is Policy else parent.default_config()
        cfg = EasyDict(deep_merge_dicts(base_config, cls.config))
        cfg.cfg_type = cls.__name__ + "Dict"
        return cfg

    def __init__(
        self, cfg: dict, model: torch.nn.Module | None = None, enable_field: Iterable[str] | None = None
    ) -> None:
        self._cfg = cfg if isinstance(cfg, EasyDict) else EasyDict(cfg)
        self._on_policy = self._cfg.on_policy
        self._reference_numerics = bool(self._cfg.get("reference_numerics", False))
        self._enable_field = self._checked_fields(enable_field)
        if set(self._enable_field) != {"command"}:
            self._init_model(model)
        for field in self._enable_field:
            getattr(self, "_init_" + field)()

    def _checked_fields(self, enable_field: Iterable[str] | None) -> list[str]:
        if enable_field is None:
            return list(self.total_field)
        wanted = [enable_field] if isinstance(enable_field, str) else list(enable_field)
        for field in wanted:
            if field not in self.total_field:
                raise PolicyUsageError(
                    f"enable_field: {field!r} is not a mode of {type(self).__name__}."
                    + did_you_mean(field, self.total_field)
                )
        return [field for field in self.total_field if field in wanted]

    # ------------------------------------------------------------------ modes

    @property
    def learn_mode(self) -> Any:
        """``learn_function``: forward, reset, info, monitor_vars, get_attribute, set_attribute, state_dict, load."""
        return self.learn_function(
            self._forward_learn,
            self._reset_learn,
            self.__repr__,
            self._monitor_vars_learn,
            self._get_attribute,
            self._set_attribute,
            self._state_dict_learn,
            self._load_state_dict_learn,
        )

    @property
    def collect_mode(self) -> Any:
        """``collect_function``: forward, process_transition, get_train_sample, reset, attributes, state dict."""
        return self.collect_function(
            self._forward_collect,
            self._process_transition,
            self._get_train_sample,
            self._reset_collect,
            self._get_attribute,
            self._set_attribute,
            self._state_dict_collect,
            self._load_state_dict_collect,
        )

    @property
    def eval_mode(self) -> Any:
        """``eval_function``: forward, reset, get_attribute, set_attribute, state_dict, load_state_dict."""
        return self.eval_function(
            self._forward_eval,
            self._reset_eval,
            self._get_attribute,
            self._set_attribute,
            self._state_dict_eval,
            self._load_state_dict_eval,
        )

    @abstractmethod
    def _init_learn(self) -> None:
        """Build what learning needs: optimiser, target network."""

    @abstractmethod
    def _init_collect(self) -> None:
        """Build what collecting needs; sets ``_unroll_len``."""

    @abstractmethod
    def _init_eval(self) -> None:
        """Build what evaluating needs."""

    @abstractmethod
    def _forward_learn(self, data: Any) -> Any:
        """One update on a batch of samples -> dict (or list of dicts) of Python floats to log, plus ``priority``."""

    @abstractmethod
    def _forward_collect(self, data: Any, **kwargs: Any) -> Any:
        """``{env_id: obs}`` -> ``{env_id: {'action': ...}}`` with exploration, on the CPU."""

    @abstractmethod
    def _process_transition(self, obs: Any, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """Observation, policy output and timestep -> transition (``obs``, ``action``, ``reward``, ``done``, ...)."""

    @abstractmethod
    def _get_train_sample(self, transitions: Any) -> Any:
        """Transitions of one trajectory piece -> train samples."""

    @abstractmethod
    def _forward_eval(self, data: Any) -> Any:
        """``{env_id: obs}`` -> ``{env_id: {'action': ...}}`` without exploration, on the CPU."""

    # Most policies are stateless between calls: the three resets may be overridden, but need not.

    def _reset_learn(self, data_id: list[int] | None = None) -> None:
        """Forget per-sample state of learning (``None``: all)."""

    def _reset_collect(self, data_id: list[int] | None = None) -> None:
        """Forget the state of these environments (``None``: all)."""

    def _reset_eval(self, data_id: list[int] | None = None) -> None:
        """Forget the state of these environments (``None``: all)."""

    def _monitor_vars_learn(self) -> list[str]:
        """Names of the values that a learner logs."""
        return ["cur_lr", "total_loss"]

    def __repr__(self) -> str:
        model = getattr(self, "_model", None)
        return f"{type(self).__name__}(device={self._device}, modes={self._enable_field})\n{model}"


class CommandModePolicy(Policy):
    """A policy with a fourth mode, which tells the other modes their settings (such as the current epsilon)."""

    command_function = namedtuple("command_function", ["get_setting_learn", "get_setting_collect", "get_setting_eval"])
    total_field = ("learn", "collect", "eval", "command")

    @property
    def command_mode(self) -> Any:
        """``command_function``: get_setting_learn, get_setting_collect, get_setting_eval."""
        return self.command_function(self._get_setting_learn, self._get_setting_collect, self._get_setting_eval)

    @abstractmethod
    def _init_command(self) -> None:
        """Build what commanding needs."""

    @abstractmethod
    def _get_setting_learn(self, command_info: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments for ``learn.forward``."""

    @abstractmethod
    def _get_setting_collect(self, command_info: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments for ``collect.forward``, from ``learner_step`` and ``envstep``."""

    @abstractmethod
    def _get_setting_eval(self, command_info: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments for ``eval.forward``."""
