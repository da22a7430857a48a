"""``BaseRewardModel``: what estimates the rewards of samples, and the factory of its registered classes."""

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
    """Learns from samples what they are worth.

    :meth:`collect_data` keeps new samples, :meth:`train` learns from what is kept, :meth:`estimate` returns samples
    with other rewards. None of them changes the samples that it is given, unless a subclass says so.

    A saved run holds :meth:`run_state`. With :meth:`state_dict` and :meth:`load_state_dict` a model of yours goes on
    with what it learned; one that keeps samples from one training to the next also has :meth:`collected_state` and
    :meth:`load_collected_state`.

    Args:
        config: section ``reward_model`` of a compiled config.
        device: ``'cpu'`` or a CUDA device.
        tb_logger: gets the numbers of training and estimation; ``None`` for none.

    Raises:
        AssertionError: another device.
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
        """N samples with estimated rewards, as a new list or batch."""

    @abstractmethod
    def train(self) -> object:
        """Learn from what was collected."""

    @abstractmethod
    def collect_data(self, data: Samples) -> None:
        """Keep what :meth:`train` needs of N new samples."""

    @abstractmethod
    def clear_data(self) -> None:
        """Forget what was collected."""

    def load_expert_data(self, data: Any) -> None:
        """Take over demonstrations; nothing to do for models without."""
        return

    def state_dict(self) -> StateDict:
        """Return all that was learned."""
        return {}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load what :meth:`state_dict` returned."""
        return

    def collected_state(self) -> StateDict | None:
        """What was collected and not forgotten, and what else later trainings follow from; ``None``: not known.

        Plain data: dicts, lists, tensors, arrays, numbers and texts. It may share memory with the model.
        """
        return None

    def load_collected_state(self, state_dict: StateDict) -> None:
        """Take up what :meth:`collected_state` returned; not called for ``None``."""
        return

    def run_state(self) -> StateDict:
        """Return all that a run needs to go on as if it had not been interrupted: what was learned, what was collected,
        and where the curves in tensorboard end. What is missing is logged once.
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
        """Take up what :meth:`run_state` returned."""
        self.load_state_dict(state_dict["learned"])
        if state_dict["collected"] is not None:
            self.load_collected_state(state_dict["collected"])
        self._log_counts = dict(state_dict["log_counts"])

    def reward_deepcopy(self, train_data: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """New dicts that share all values but ``reward``, which is copied."""
        return [{**sample, "reward": copy.deepcopy(sample["reward"])} for sample in train_data]

    def save(self, path: str | None = None, name: str = "best") -> str:
        """Write the state to ``<path>/reward_model/ckpt/ckpt_<name>.pth.tar`` and return where.

        Args:
            path: by default ``exp_name`` of the config.
        """
        file = checkpoint_path(self.cfg.exp_name if path is None else path, name)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        save_file(file, self.state_dict())
        return file

    def log(self, prefix: str, **values: torch.Tensor | float) -> None:
        """Write numbers to tensorboard; the x axis counts the calls for this prefix."""
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

    A config with a section ``reward_model`` is given to the model as a whole; its ``type`` stands in that section. Keys
    that are not given have the defaults of the model.

    Raises:
        KeyError: the type is missing or not registered; the message names the nearest one.
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
