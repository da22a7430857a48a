"""``Policy``: an algorithm as up to four modes (learn, collect, eval, command), each a tuple of bound functions."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from easydict import EasyDict

from ding.data import EnvBatch
from ding.data.roles import ByEnv, Samples, StateDict
from ding.model import create_model
from ding.policy._acting import modes
from ding.policy._acting.act import act
from ding.policy._acting.compiled_acting import compile_acting
from ding.policy._learning.distributed import broadcast_module
from ding.policy._learning.loading import load_parts
from ding.policy._learning.normalized_state import loading_statistics, with_statistics
from ding.policy._learning.optimization import learn_forward, skip_nonfinite, use_threads
from ding.policy._learning.update import Learning
from ding.policy.compiled_updates import CompiledUpdates
from ding.policy.errors import PolicyAttributeError, PolicyConfigError, PolicyStateError, PolicyUsageError
from ding.policy.original_attributes import original_attribute, warn_of_unread
from ding.rl_utils.normalization import Normalization, attach_statistics
from ding.torch_utils.device import place_module
from ding.torch_utils.graph.flat_parameters import flatten_parameters
from ding.utils import POLICY_REGISTRY, deep_merge_dicts, get_rank
from ding.utils.names import did_you_mean

__all__ = ["CommandModePolicy", "Policy", "create_policy", "get_policy_cls"]


def create_policy(cfg: EasyDict, **kwargs: Any) -> Any:
    """Import ``cfg.import_names`` and build the policy that is registered as ``cfg.type``.

    Args:
        cfg: the ``policy`` section of the config.
        kwargs: ``model``, ``enable_field``.

    Raises:
        PolicyConfigError: ``cfg`` has no ``type``.
        UnknownNameError: no policy of that name is registered (a ``KeyError``).
    """
    return POLICY_REGISTRY.build(POLICY_REGISTRY.type_of(cfg, PolicyConfigError), cfg=cfg, **kwargs)


def get_policy_cls(cfg: EasyDict) -> "type[Policy]":
    """Import ``cfg.import_names`` and return the class that is registered as ``cfg.type``; raises like
    :func:`create_policy`.
    """
    return POLICY_REGISTRY.class_of(cfg, PolicyConfigError)


class Policy(Learning, ABC):
    """Base class of all algorithms.

    A subclass implements ``_init_<mode>``, ``_update`` (or all of ``_forward_learn``) and the functions of the other
    modes. It finds here the network (``_model``, on ``_device``), one optimisation step (:meth:`_optimize`), samples as
    tensors (:meth:`_learn_batch`), acting (:meth:`_act`) and state dicts (:attr:`learn_state`).

    The shipped ones take and return columns
    (:func:`ding.data.batched`); a subclass that overrides one of their methods without that mark gets the classic calls
    with one dict per environment or transition.

    ``_init_learn`` sets ``_learn_model`` and ``_optimizer`` (or what else :attr:`learn_state` names), ``_init_collect``
    sets ``_collect_model`` and ``_unroll_len``, ``_init_eval`` sets ``_eval_model``.

    Args:
        cfg: the ``policy`` section of the config.
        model: the network; by default created from ``cfg.model`` (its ``type`` falls back to :meth:`default_model`).
        enable_field: the modes to initialise, out of ``learn``, ``collect``, ``eval``; ``None`` means all of them.
            They are always initialised in that order, so that a seed fixes every random draw.

    Raises:
        PolicyUsageError: an unknown mode in ``enable_field`` (an ``AssertionError``).
        PolicyConfigError: ``model`` is not a ``torch.nn.Module`` (a ``RuntimeError``).
    """

    learn_function = modes.learn_function
    collect_function = modes.collect_function
    eval_function = modes.eval_function

    #: Whether actions lie in [-1, 1]: random ones do, too, and ``env.act_scale`` is ``'auto'`` where it has no value.
    acts_in_unit_range: ClassVar[bool] = False
    #: Whether ``model.action_shape`` is that of latent actions, which the policy turns into actions of the env.
    has_latent_actions: ClassVar[bool] = False
    #: Whether the network sees more than an observation, so that ``model.obs_shape`` is no shape of the env.
    extends_obs: ClassVar[bool] = False
    #: All modes, in the order in which they are initialised.
    total_field: ClassVar[tuple[str, ...]] = ("learn", "collect", "eval")

    #: The parts of the learn state: key -> the attribute whose ``state_dict`` it is. An object may have more of them.
    learn_state: dict[str, str] = {"model": "_learn_model", "optimizer": "_optimizer"}

    #: Keys that are read where they are given, and that :attr:`config` does not have: section -> names.
    optional_keys: ClassVar[dict[str, str]] = {"learn": "weight_decay grad_clip_type grad_clip_value"}

    config: ClassVar[dict[str, Any]] = {
        # (bool) Whether only data of the newest policy may be trained on.
        "on_policy": False,
        # (bool or 'auto') Whether to use a GPU: where there is one; without it True warns, and 'auto' does not.
        "cuda": False,
        # (bool) Whether several processes train replicas of the model and average their gradients.
        "multi_gpu": False,
        # (bool) Kept for configs of DI-engine: gradients are averaged after ``backward``.
        "bp_update_sync": True,
        # (bool) Whether collected trajectories are cut at the end of an episode only.
        "traj_len_inf": False,
        # (bool) Whether to compute the numbers of DI-engine where the default is a correction of them.
        "reference_numerics": False,
        # (int or None) Threads that torch uses; None picks a number that fits the network and the batch size.
        "num_threads": None,
        "model": {},
        "learn": {
            # (bool) Whether to go on from the iteration counters of a loaded checkpoint.
            "resume_training": False,
            # (dict or None) epoch_num, min_lr_lambda: linear decay over that many learn.forward to that share.
            "lr_scheduler": None,
            # (str) NaN or infinity in loss, gradient or weights: 'raise' ends the run with a report and the batch,
            # 'skip' leaves the update out, 'ignore' goes on.
            "on_nonfinite": "raise",
            # (str or None) 'bfloat16' learns in mixed precision, on a GPU or a CPU that has it.
            "amp": None,
            # (bool or 'auto') Whether updates are compiled; 'auto': in the background, in runs that last.
            "compile": False,
        },
    }

    # What the subclass builds.
    _learn_model: Any
    _optimizer: Any
    _collect_model: Any
    _eval_model: Any
    # Steps that a sequence shares with the one before it; whether transitions keep more of an output than its action.
    _sequence_overlap, _keeps_outputs = 0, True

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
        self, cfg: dict[str, Any], model: torch.nn.Module | None = None, enable_field: Iterable[str] | None = None
    ) -> None:
        self._cfg = cfg if isinstance(cfg, EasyDict) else EasyDict(cfg)
        self._on_policy = self._cfg.on_policy
        self._priority = bool(self._cfg.get("priority", False))
        self._priority_IS_weight = bool(self._cfg.get("priority_IS_weight", False))
        self._reference_numerics = bool(self._cfg.get("reference_numerics", False))
        self._has_agent_axis = bool(self._cfg.get("multi_agent", False))
        self._enable_field = self._checked_fields(enable_field)
        self._rank, self._cuda, self._multi_gpu, self._device = 0, False, False, "cpu"
        if set(self._enable_field) != {"command"}:
            self._init_model(model)
        self._compiled_updates = CompiledUpdates(self)
        for field in self._enable_field:
            getattr(self, "_init_" + field)()
            if field == "learn" and self._cfg.get("learn", {}).get("on_nonfinite") == "skip":
                skip_nonfinite([getattr(self, attribute, None) for attribute in self.learn_state.values()])
            if field == "learn" and self._multi_gpu:
                broadcast_module(self._model)  # some algorithms initialise the network here
        compile_acting(self)
        warn_of_unread(self)

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

    @property
    def cfg(self) -> EasyDict:
        """The config."""
        return self._cfg

    @property
    def learn_mode(self) -> modes.learn_function:
        """``learn_function``: forward, reset, info, monitor_vars, get_attribute, set_attribute, state_dict, load."""
        return self.learn_function(
            learn_forward(self),
            self._reset_learn,
            self.__repr__,
            self._monitor_vars_learn,
            self._get_attribute,
            self._set_attribute,
            with_statistics(self, self._state_dict_learn, self._get_normalization()),
            loading_statistics(self, self._load_state_dict_learn, self._get_normalization()),
        )

    @property
    def collect_mode(self) -> modes.collect_function:
        """``collect_function``: forward, process_transition, get_train_sample, reset, attributes, state dict."""
        return self.collect_function(
            self._forward_collect,
            self._process_transition,
            self._get_train_sample,
            self._reset_collect,
            self._get_attribute,
            self._set_attribute,
            with_statistics(self, self._state_dict_collect, self._get_normalization()),
            loading_statistics(self, self._load_state_dict_collect, self._get_normalization()),
        )

    @property
    def eval_mode(self) -> modes.eval_function:
        """``eval_function``: forward, reset, get_attribute, set_attribute, state_dict, load_state_dict."""
        return self.eval_function(
            self._forward_eval,
            self._reset_eval,
            self._get_attribute,
            self._set_attribute,
            with_statistics(self, self._state_dict_eval, self._get_normalization()),
            loading_statistics(self, self._load_state_dict_eval, self._get_normalization()),
        )

    # What an algorithm implements.

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
    def _forward_collect(self, data: ByEnv, **kwargs: Any) -> ByEnv:
        """``{env_id: obs}`` -> ``{env_id: {'action': ...}}`` with exploration, on the CPU."""

    @abstractmethod
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """Observation, policy output and timestep -> transition (``obs``, ``action``, ``reward``, ``done``, ...)."""

    @abstractmethod
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Transitions of one trajectory segment -> train samples."""

    @abstractmethod
    def _forward_eval(self, data: ByEnv) -> ByEnv:
        """``{env_id: obs}`` -> ``{env_id: {'action': ...}}`` without exploration, on the CPU."""

    # Most policies are stateless between calls: the three resets may be overridden, but need not.

    def _reset_learn(self, data_id: list[int] | None = None) -> None:
        """Forget per-sample state of learning (``None``: all)."""
        return

    def _reset_collect(self, data_id: list[int] | None = None) -> None:
        """Forget the state of these environments (``None``: all)."""
        return

    def _reset_eval(self, data_id: list[int] | None = None) -> None:
        """Forget the state of these environments (``None``: all)."""
        return

    def _monitor_vars_learn(self) -> list[str]:
        """Names of the values that a learner logs."""
        return ["cur_lr", "total_loss"]

    def default_model(self) -> tuple[str, list[str]]:
        """Registered name of the default network and the modules to import for it.

        Raises:
            PolicyConfigError: this policy has none (a ``RuntimeError``).
        """
        raise PolicyConfigError(f"{type(self).__name__} has no default model: give a model, or policy.model.type")

    # The network.

    def _init_model(self, model: torch.nn.Module | None) -> None:
        cfg = self._cfg
        self._model = self._create_model(cfg, model)
        # Replicas exist where learning does: one that only collects or evaluates waits for no other process.
        self._multi_gpu = "learn" in self._enable_field and bool(cfg.multi_gpu)
        self._rank = get_rank() if self._multi_gpu else 0
        self._device = place_module(self._model, cfg.cuda, self._rank)
        attach_statistics(self._model, self._get_normalization())
        flatten_parameters(self._model.parameters())
        self._cuda = self._device != "cpu"
        if self._multi_gpu:
            self._init_multi_gpu_setting(self._model, bool(cfg.bp_update_sync))
        use_threads(cfg.get("num_threads"), self._model, self._setting("batch_size", "learn") or 1)

    def _create_model(self, cfg: EasyDict, model: torch.nn.Module | None = None) -> torch.nn.Module:
        """The given network, or a new one of ``cfg.model``."""
        if model is None:
            model_cfg = copy.deepcopy(cfg.model)
            if "type" not in model_cfg:
                model_cfg.type, model_cfg.import_names = self.default_model()
            return create_model(model_cfg, self.default_config().get("model"))
        if not isinstance(model, torch.nn.Module):
            raise PolicyConfigError(f"model must be a torch.nn.Module, found {type(model).__name__}")
        return model

    def _init_multi_gpu_setting(self, model: torch.nn.Module, bp_update_sync: bool) -> None:
        """Start all replicas from the parameters of rank 0."""
        self._bp_update_sync = bp_update_sync
        broadcast_module(model)

    def _act(self, model: Any, data: EnvBatch, **kwargs: Any) -> EnvBatch:
        """The outputs of a (wrapped) network for observation columns: :func:`ding.policy._acting.act.act`."""
        return act(self._model, model, data, self._device, **kwargs)

    # Attributes that others read and set.

    if not TYPE_CHECKING:  # which knows the attributes that there are, and shall go on finding those that are missing

        def __getattr__(self, name: str) -> Any:
            """What subclasses that were written for DI-engine read; see :mod:`ding.policy.original_attributes`."""
            return original_attribute(self, name)

    def _get_attribute(self, name: str) -> Any:
        """``_get_<name>()`` where there is one, else ``_<name>``.

        Raises:
            PolicyAttributeError: neither exists (a ``NotImplementedError``).
        """
        getter = "_get_" + name
        if getter in vars(self) or hasattr(type(self), getter):
            return getattr(self, getter)()
        try:
            return getattr(self, "_" + name)
        except AttributeError:
            hint = did_you_mean(name, [key.removeprefix("_") for key in vars(self)])
            raise PolicyAttributeError(f"{type(self).__name__} has no attribute {name!r}.{hint}") from None

    def _set_attribute(self, name: str, value: object) -> None:
        """Set ``_<name>``."""
        setattr(self, "_" + name, value)

    def _get_normalization(self) -> Normalization:
        """The statistics of observations and rewards, which belong to the state of the policy."""
        found = vars(self).get("_normalization")
        if found is None:
            found = self._normalization = Normalization()
        return found

    def _get_batch_size(self) -> Any:
        return self._setting("batch_size", "learn")

    def _get_n_sample(self) -> int | None:
        num_samples: int | None = self._setting("n_sample", "collect")
        return num_samples

    def _get_n_episode(self) -> int | None:
        num_episodes: int | None = self._setting("n_episode", "collect")
        return num_episodes

    def _setting(self, key: str, section: str) -> Any:
        """Return ``cfg[key]``, or ``cfg[section][key]`` where that is not given."""
        value = self._cfg.get(key)
        return value if value is not None else self._cfg.get(section, {}).get(key)

    # State dicts.

    def _state_dict_learn(self) -> StateDict:
        """The state of each part that :attr:`learn_state` names."""
        return {key: getattr(self, attribute).state_dict() for key, attribute in self.learn_state.items()}

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        """Load what :meth:`_state_dict_learn` returned.

        Raises:
            PolicyStateError: the keys are not exactly those of :attr:`learn_state` (a ``KeyError``).
            PolicyWeightsError: parameters are missing, unknown or of another shape (a ``RuntimeError``, too).
        """
        load_parts(self, {key: getattr(self, attribute) for key, attribute in self.learn_state.items()}, state_dict)

    def _state_dict_collect(self) -> StateDict:
        return {"model": self._collect_model.state_dict()}

    def _load_state_dict_collect(self, state_dict: StateDict) -> None:
        load_parts(self, {"model": self._collect_model}, self._model_state(state_dict))

    def _state_dict_eval(self) -> StateDict:
        return {"model": self._eval_model.state_dict()}

    def _load_state_dict_eval(self, state_dict: StateDict) -> None:
        load_parts(self, {"model": self._eval_model}, self._model_state(state_dict))

    def _model_state(self, state_dict: StateDict) -> StateDict:
        # A checkpoint of the learner holds more than the model: the rest does not concern collecting and evaluating.
        if "model" not in state_dict:
            raise PolicyStateError(
                f"the state dict of {type(self).__name__} lacks 'model'; it has {sorted(map(str, state_dict))}"
            )
        return {"model": state_dict["model"]}

    def __repr__(self) -> str:
        model = getattr(self, "_model", None)
        return f"{type(self).__name__}(device={self._device}, modes={self._enable_field})\n{model}"


class CommandModePolicy(Policy):
    """A policy with a fourth mode, which gives the other modes their settings (such as the current epsilon)."""

    command_function = modes.command_function

    total_field = ("learn", "collect", "eval", "command")

    @property
    def command_mode(self) -> modes.command_function:
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
