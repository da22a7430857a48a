"""Context: the data that the middleware of a task reads and writes during one iteration."""

import dataclasses
from typing import Any, TypeVar

C = TypeVar("C", bound="Context")


@dataclasses.dataclass
class Context:
    """State of one iteration. Any attribute may be set on it.

    :meth:`renew` starts the next iteration with default values. Attributes passed to :meth:`keep` keep their values in
    all later iterations.

    Attributes:
        total_step: Number of the iteration, starting at 0.
    """

    _kept_keys: set[str] = dataclasses.field(default_factory=set)
    total_step: int = 0

    def renew(self: C) -> C:
        """Return the context of the next iteration."""
        following = type(self)()
        following._kept_keys |= self._kept_keys
        for name in following._kept_keys:
            if hasattr(self, name):
                setattr(following, name, getattr(self, name))
        following.total_step = self.total_step + 1
        return following

    def keep(self, *keys: str) -> None:
        """Keep the values of these attributes when the context is renewed."""
        self._kept_keys.update(keys)

    def has_attr(self, key: str) -> bool:
        """Return whether the context has this attribute."""
        return hasattr(self, key)


@dataclasses.dataclass
class OnlineRLContext(Context):
    """Context of training with environments. B is the number of transitions, E the number of environments."""

    # Common.
    total_step: int = 0
    env_step: int = 0
    env_episode: int = 0
    train_iter: int = 0
    train_data: Any = None
    train_output: Any = None
    # Collection: E observations, actions and outputs of one vector step, then the resulting data.
    collect_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    obs: Any = None
    action: Any = None
    inference_output: Any = None
    trajectories: Any = None
    episodes: Any = None
    trajectory_end_idx: list[Any] = dataclasses.field(default_factory=list)
    # Evaluation.
    eval_value: float = -float("inf")
    last_eval_iter: int = -1
    last_eval_value: float = -float("inf")
    eval_output: dict[str, Any] = dataclasses.field(default_factory=dict)
    # Logs.
    info_for_logging: dict[str, Any] = dataclasses.field(default_factory=dict)
    wandb_url: str = ""

    def __post_init__(self) -> None:
        self.keep("env_step", "env_episode", "train_iter", "last_eval_iter", "last_eval_value", "wandb_url")


@dataclasses.dataclass
class OfflineRLContext(Context):
    """Context of training on a data set."""

    # Common.
    total_step: int = 0
    trained_env_step: int = 0
    train_epoch: int = 0
    train_iter: int = 0
    train_data: Any = None
    train_output: Any = None
    # Evaluation.
    eval_value: float = -float("inf")
    last_eval_iter: int = -1
    last_eval_value: float = -float("inf")
    eval_output: dict[str, Any] = dataclasses.field(default_factory=dict)
    # Logs.
    info_for_logging: dict[str, Any] = dataclasses.field(default_factory=dict)
    wandb_url: str = ""

    def __post_init__(self) -> None:
        self.keep("trained_env_step", "train_epoch", "train_iter", "last_eval_iter", "last_eval_value", "wandb_url")
