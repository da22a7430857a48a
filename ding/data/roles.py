"""The parts that a worker works with, each as a protocol: what it may call, and nothing more.

A worker knows no algorithm, env or storage: it holds these. Any object with the methods of a role plays it, also one
that a script brings along; nothing has to be inherited.

================  ==========================================================  ===============================
role              played by                                                   used by
================  ==========================================================  ===============================
``LearnMode``     ``policy.learn_mode``                                       learners
``CollectMode``   ``policy.collect_mode``                                     collectors
``EvalMode``      ``policy.eval_mode``                                        evaluators
``CommandMode``   ``policy.command_mode``                                     commanders
``EnvManager``    everything in ``ding.envs.env_manager``                     collectors, evaluators
``Buffer``        everything in ``ding.worker.replay_buffer``                 pipelines, coordinator, commanders
``Writer``        tensorboard writers, ``ding.utils.LazyWriter``              whatever draws curves
================  ==========================================================  ===============================

Shapes: N is the number of environments of a call, B the number of samples of a batch.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

if TYPE_CHECKING:
    from gymnasium import Space


Transition: TypeAlias = dict[str, Any]
"""One step of one environment, or one training sample: field name -> value."""

Samples: TypeAlias = Sequence[Transition]
"""Transitions or training samples: a list of dicts, or a ``TransitionBatch``, which is the same over columns."""

ByEnv: TypeAlias = Mapping[int, Any]
"""Environment id -> value: a dict, or an ``EnvBatch``, which is the same over columns."""

StateDict: TypeAlias = dict[str, Any]


class _Attributes(Protocol):
    """What every mode of a policy has."""

    def get_attribute(self, name: str) -> Any:
        """Return a setting of the policy (``batch_size``, ``cuda``, ...). Raises ``NotImplementedError`` without it."""

    def set_attribute(self, name: str, value: object) -> None:
        """Replace a setting of the policy."""

    def state_dict(self) -> StateDict:
        """Return the state of this mode; its tensors share memory with the policy."""

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore what :meth:`state_dict` returned."""


def attribute_of(policy: object, name: str, default: Any = None) -> Any:
    """Return a setting of a policy (``n_sample``, ``model``, ...), or ``default`` for a policy that has none.

    A policy of a script may have no ``get_attribute``: a mode is asked for its settings this way, and nothing is
    required of it but what is called.
    """
    try:
        return only_declared(policy).get_attribute(name)  # type: ignore[attr-defined]
    except (AttributeError, KeyError, NotImplementedError):
        return default


class LearnMode(_Attributes, Protocol):
    """How a policy learns."""

    def forward(self, data: Samples, **kwargs: Any) -> Any:
        """Update on B samples; returns a dict of values to log, or one dict per optimisation step."""

    def reset(self, data_id: list[int] | None = None) -> None:
        """Forget the state of these samples (``None``: all)."""

    def info(self) -> str:
        """Return a text about the policy and its network."""

    def monitor_vars(self) -> list[str]:
        """Return the names of the logged values that are averaged and shown."""


class CollectMode(_Attributes, Protocol):
    """How a policy acts with exploration, and what becomes of its steps."""

    def forward(self, data: ByEnv, **kwargs: Any) -> ByEnv:
        """Return an output with ``action`` for each of the N environments of ``data`` (their observations)."""

    def process_transition(self, obs: Any, policy_output: Any, timestep: Any) -> Transition:
        """Return the transition of one environment, or the columns of N where the method is ``@batched``."""

    def get_train_sample(self, transitions: Any) -> Samples:
        """Return the training samples of a trajectory segment."""

    def reset(self, data_id: list[int] | None = None) -> None:
        """Forget the state of these environments (``None``: all)."""


class EvalMode(_Attributes, Protocol):
    """How a policy acts without exploration."""

    def forward(self, data: ByEnv, **kwargs: Any) -> ByEnv:
        """Return an output with ``action`` for each of the N environments of ``data`` (their observations)."""

    def reset(self, data_id: list[int] | None = None) -> None:
        """Forget the state of these environments (``None``: all)."""


class CommandMode(Protocol):
    """What the other modes are called with as training proceeds (the current epsilon, say)."""

    def get_setting_learn(self, command_info: dict[str, Any]) -> dict[str, Any]:
        """Return keyword arguments of ``learn_mode.forward``."""

    def get_setting_collect(self, command_info: dict[str, Any]) -> dict[str, Any]:
        """Return keyword arguments of ``collect_mode.forward``."""

    def get_setting_eval(self, command_info: dict[str, Any]) -> dict[str, Any]:
        """Return keyword arguments of ``eval_mode.forward``."""


class EnvManager(Protocol):
    """Several environments that are stepped together."""

    @property
    def env_num(self) -> int:
        """Number of environments."""

    @property
    def observation_space(self) -> "Space[Any]":
        """The gymnasium space of the observations of one environment."""

    @property
    def action_space(self) -> "Space[Any]":
        """The gymnasium space of the actions of one environment."""

    @property
    def ready_obs(self) -> ByEnv:
        """The observations of the environments that wait for an action."""

    @property
    def done(self) -> bool:
        """Whether every environment has played its ``episode_num`` episodes."""

    @property
    def closed(self) -> bool:
        """Whether there are no environments: before :meth:`launch` and after :meth:`close`."""

    def launch(self, reset_param: Any = None) -> None:
        """Make the environments and reset them."""

    def reset(self, reset_param: Any = None) -> None:
        """Reset all environments, or those that ``reset_param`` names, with these keyword arguments."""

    def step(self, actions: Any) -> ByEnv:
        """Send an action to each given environment; returns timesteps by environment id."""

    def seed(self, seed: Any, dynamic_seed: bool | None = None) -> None:
        """Seed the environments from their next reset on."""

    def enable_save_replay(self, replay_path: "list[str] | str") -> None:
        """Record videos from the next reset on."""

    def close(self) -> None:
        """End all environments; a second call does nothing."""


@runtime_checkable
class Buffer(Protocol):
    """A replay buffer."""

    def push(self, data: Any, cur_collector_envstep: int) -> None:
        """Add samples; the oldest leave when there is no free slot."""

    def sample(self, batch_size: int, cur_learner_iter: int) -> Any:
        """Return ``batch_size`` samples, or ``None`` when there are too few."""

    def update(self, info: Any) -> None:
        """Take over new priorities of sampled transitions."""

    def clear(self) -> None:
        """Remove all samples."""

    def count(self) -> int:
        """Return the number of valid samples."""

    def state_dict(self) -> StateDict:
        """Return everything that :meth:`load_state_dict` needs."""

    def load_state_dict(self, state: StateDict, /) -> None:
        """Restore what :meth:`state_dict` returned."""


class Writer(Protocol):
    """A tensorboard writer, as far as the workers use one."""

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None) -> object:
        """Add a point to a curve."""

    def flush(self) -> object:
        """Write out what is waiting."""

    def close(self) -> object:
        """Write out what is waiting and close the file."""


# A mock answers to every name, so that what is optional of an object would be found on it.
Thing = TypeVar("Thing")

_MOCKS = "unittest.mock"
# What is called of any collect, eval or learn mode.
MODE_METHODS = frozenset({"forward", "process_transition", "reset"})


def is_mock(thing: object) -> bool:
    """Return whether ``thing`` is a mock, or of a subclass of one."""
    return any(cls.__module__ == _MOCKS for cls in type(thing).__mro__)


def only_declared(thing: Thing, needed: Collection[str] = MODE_METHODS) -> Thing:
    """Return ``thing``; of a mock a view that has only what was set on it, what its class defines, and ``needed``."""
    return cast(Thing, _Declared(thing, needed)) if is_mock(thing) else thing


class _Declared:
    def __init__(self, mock: Any, needed: Collection[str]) -> None:
        self._mock, self._needed = mock, needed

    def __getattr__(self, name: str) -> Any:
        if name in self._needed or _declares(self._mock, name):
            return getattr(self._mock, name)
        raise AttributeError(f"{type(self._mock).__name__} declares no {name!r}")


def _declares(mock: object, name: str) -> bool:
    own = vars(mock)
    if name in own or name in own.get("_mock_children", ()):
        return True
    return any(name in vars(cls) for cls in type(mock).__mro__ if cls.__module__ not in (_MOCKS, "builtins"))
