"""``BaseRewardModel``: the base class of reward models, and the factory of registered classes."""

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from easydict import EasyDict

from ding.data.roles import Samples, StateDict, Writer
from ding.utils import REWARD_MODEL_REGISTRY, deep_merge_dicts, one_time_warning, write_scalars
from ding.utils.file_helper import save_file


class BaseRewardModel(ABC):
    """Base class of models that estimate the rewards of samples.

    :meth:`collect_data` stores new samples, :meth:`train` learns from the stored ones, :meth:`estimate` returns samples
    with other rewards. None of them modifies its input, unless a subclass documents it.

    A saved run contains :meth:`run_state`. Custom models implement :meth:`state_dict` and :meth:`load_state_dict` to
    resume; models that keep samples between trainings also implement :meth:`collected_state` and
    :meth:`load_collected_state`.

    Args:
        config: section ``reward_model`` of a compiled config.
        device: ``'cpu'`` or a CUDA device.
        tb_logger: Writer of training and estimation values; ``None`` for none.

    Raises:
        AssertionError: The device is not supported.
    """

    config: ClassVar[dict[str, Any]] = {}

    def __init__(self, config: Mapping[str, Any], device: str = "cpu", tb_logger: Writer | None = None) -> None:
        if device != "cpu" and not str(device).startswith("cuda"):
            raise AssertionError(f"device must be 'cpu' or a CUDA device, got {device!r}")
        self.cfg = EasyDict(config)
        self.device = device
        self.tb_logger = tb_logger

    @classmethod
    def default_config(cls) -> EasyDict:
        """Return a fresh copy of the defaults, plus ``cfg_type``."""
        return EasyDict({**copy.deepcopy(cls.config), "cfg_type": cls.__name__ + "Dict"})

    @abstractmethod
    def estimate(self, data: Samples) -> Any:
        """Return N samples with estimated rewards, as a new list or batch."""

    @abstractmethod
    def train(self) -> object:
        """Learn from the collected samples."""

    @abstractmethod
    def collect_data(self, data: Samples) -> None:
        """Store the parts of N new samples that :meth:`train` needs."""

    @abstractmethod
    def clear_data(self) -> None:
        """Remove the collected samples."""

    def load_expert_data(self, data: Any) -> None:
        """Load demonstrations; does nothing for models without them."""
        return

    def state_dict(self) -> StateDict:
        """Return the learned state."""
        return {}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load what :meth:`state_dict` returned."""
        return

    def collected_state(self) -> StateDict | None:
        """Return the collected samples and other state of later trainings; ``None`` if unknown.

        Plain data: dicts, lists, tensors, arrays, numbers and strings. It may share memory with the model.
        """
        return None

    def load_collected_state(self, state_dict: StateDict) -> None:
        """Restore what :meth:`collected_state` returned; not called for ``None``."""
        return

    def run_state(self) -> StateDict:
        """Return the complete state for an exact resume: learned parameters, collected samples and the ends of the
        tensorboard curves. Missing parts are logged once.
        """
        collected = self.collected_state()
        missing = ["state_dict"] if type(self).state_dict is BaseRewardModel.state_dict else []
        missing += ["collected_state"] if collected is None else []
        if missing:
            then = "begins" if "state_dict" in missing else "collects"
            one_time_warning(
                f"{type(self).__name__} has no {' and no '.join(missing)}: in a resumed run it {then} anew"
            )
        counts = dict(self.__dict__.get("_log_counts", {}))
        return {"learned": self.state_dict(), "collected": collected, "log_counts": counts}

    def load_run_state(self, state_dict: StateDict) -> None:
        """Restore what :meth:`run_state` returned."""
        self.load_state_dict(state_dict["learned"])
        if state_dict["collected"] is not None:
            self.load_collected_state(state_dict["collected"])
        self._log_counts = dict(state_dict["log_counts"])

    def reward_deepcopy(self, train_data: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return new dicts that share all values except ``reward``, which is copied."""
        return [{**sample, "reward": copy.deepcopy(sample["reward"])} for sample in train_data]

    def save(self, path: str | None = None, name: str = "best") -> str:
        """Write the state to ``<path>/reward_model/ckpt/ckpt_<name>.pth.tar`` and return the path.

        Args:
            path: Folder; by default ``exp_name`` of the config.
        """
        file = checkpoint_path(self.cfg.exp_name if path is None else path, name)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        save_file(file, self.state_dict())
        return file

    def log(self, prefix: str, **values: torch.Tensor | float) -> None:
        """Write numbers to tensorboard; the x axis counts the calls per prefix."""
        if self.tb_logger is None:
            return
        counts = self.__dict__.setdefault("_log_counts", {})
        counts[prefix] = counts.get(prefix, 0) + 1
        write_scalars(self.tb_logger, f"{prefix}/", values, counts[prefix])


def checkpoint_path(exp_name: str, name: str) -> str:
    """Return the file of a reward model's state in an experiment folder."""
    return os.path.join(exp_name, "reward_model", "ckpt", f"ckpt_{name}.pth.tar")


def create_reward_model(cfg: Mapping[str, Any], device: str = "cpu", tb_logger: Writer | None = None) -> Any:
    """Build the reward model that is registered as ``cfg.type``, after importing ``cfg.import_names``.

    A config with a section ``reward_model`` is passed to the model entirely; its ``type`` is read from that section.
    Missing keys take the defaults of the model.

    Raises:
        KeyError: The type is missing or not registered; the message names the nearest one.
    """
    config = EasyDict(copy.deepcopy(dict(cfg)))
    section = config.get("reward_model", config)
    name = REWARD_MODEL_REGISTRY.type_of(section)
    defaults = copy.deepcopy(getattr(REWARD_MODEL_REGISTRY.get(name), "config", {}))
    section.update(deep_merge_dicts(defaults, section))
    del section["type"]
    return REWARD_MODEL_REGISTRY.build(name, config, device, tb_logger)


def get_reward_model_cls(cfg: Mapping[str, Any]) -> type:
    """Return the class that is registered as ``cfg.type``, after importing ``cfg.import_names``.

    Raises:
        KeyError: the type is missing or not registered.
    """
    return REWARD_MODEL_REGISTRY.class_of(cfg)
