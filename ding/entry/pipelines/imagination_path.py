"""Learning with a world model: data paths that train the model, and provide imagined data for the policy.

World model and evaluator are scheduled by env steps instead of train iterations.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast

from easydict import EasyDict
from gymnasium import spaces

from ding.config import ConfigValueError
from ding.data.roles import Samples, StateDict, Writer
from ding.entry.serial.loop import ReplayPath, StopNow
from ding.entry.serial.parts import EnvSetting, ReplayBuffer, SerialParts
from ding.envs import get_vec_env_setting
from ding.policy.action_kind import as_tuple
from ding.utils import deep_merge_dicts, get_rank, get_world_size
from ding.utils.seed import generator_states, set_generator_states
from ding.worker import ElasticReplayBuffer, create_buffer, get_buffer_cls
from ding.world_model import DreamWorldModel, DynaWorldModel, WorldModel, create_world_model

# Keys of the sizes of latent states, in `policy.model` and `world_model.model`.
_LATENT_SIZES = ("dyn_stoch", "dyn_deter", "dyn_discrete")


class SequenceModel(Protocol):
    """World model of sequences; see ``ding.world_model.dreamer.DREAMERWorldModel``."""

    #: Number of trainings before the first collection.
    pretrain: int

    def should_pretrain(self) -> bool:
        """Return whether these trainings are still due; True once."""

    def train(
        self, env_buffer: Any, envstep: int, train_iter: int, batch_size: int, batch_length: int
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Train on ``batch_size`` sequences; return the latent states of all their steps, and other information."""


def world_model_of(parts: SerialParts, env_setting: EnvSetting | None, kind: Callable[..., WorldModel]) -> Any:
    """Create the world model of a run.

    Args:
        env_setting: Setting whose env class creates the env for the model; by default that of the config.
        kind: Class required by the pipeline.

    Raises:
        ConfigValueError: The config names no world model, or one of another class.
    """
    cfg = parts.cfg
    if "type" not in cfg.get("world_model", {}):
        raise ConfigValueError("create_config.world_model is missing: it must be a dict with a `type`, such as 'mbpo'")
    _fill_sizes(cfg)
    env_fn = (env_setting or get_vec_env_setting(cfg.env, False, False))[0]
    writer = parts.learner.tb_logger if get_rank() == 0 else None
    model = create_world_model(cfg.world_model, env_fn(cfg.env), writer)
    if isinstance(kind, type) and not isinstance(model, kind):
        raise ConfigValueError(
            f"create_config.world_model.type: {cfg.world_model.type!r} is no {kind.__name__}, which this pipeline needs"
        )
    return model


def sequence_model_of(parts: SerialParts, env_setting: EnvSetting | None) -> WorldModel:
    """Create a world model in whose latent states the policy acts; see :func:`world_model_of`.

    It is on the device of the policy, regardless of ``world_model.cuda``.

    Raises:
        ConfigValueError: The world model does not learn from sequences, its sizes differ from those of the policy, or
            its actions from those of the env; or several processes train one policy, each with another world model.
    """
    if parts.cfg.policy.get("multi_gpu", False) and get_world_size() > 1:
        raise ConfigValueError(
            "policy.multi_gpu=True: world models of several processes are not averaged, so a policy that acts in their "
            "latent states learns in one process"
        )
    if "world_model" in parts.cfg:
        parts.cfg.world_model.cuda = parts.cfg.policy.cuda
    model: WorldModel = world_model_of(parts, env_setting, WorldModel)
    if not hasattr(model, "should_pretrain"):
        raise ConfigValueError(
            f"create_config.world_model.type: {parts.cfg.world_model.type!r} does not learn latent states from "
            "sequences, which this pipeline needs (it has no should_pretrain): use 'dreamer'"
        )
    network, sizes = parts.policy.collect_mode.get_attribute("model"), model.cfg.model
    defaults = inspect.signature(type(network)).parameters
    for key, other in {**{key: key for key in _LATENT_SIZES}, "action_shape": "action_size"}.items():
        if key in defaults and other in sizes:
            own = parts.cfg.policy.model.get(key, defaults[key].default)
            if own != sizes[other]:
                raise ConfigValueError(
                    f"policy.model.{key} is {own}, but world_model.model.{other} is {sizes[other]}: they must be equal"
                )
    kind = "discrete" if isinstance(parts.collector_env.action_space, spaces.Discrete) else "continuous"
    if sizes.get("action_type", kind) != kind:
        raise ConfigValueError(
            f"world_model.model.action_type is {sizes.action_type!r}, but the env has {kind} actions: "
            f"{parts.collector_env.action_space}"
        )
    _check_observations(sizes, parts.collector_env.observation_space)
    return model


def _check_observations(model_cfg: Mapping[str, Any], space: object) -> None:
    """Compare ``world_model.model.obs_type`` and ``state_size`` with the observations of the env.

    Raises:
        ConfigValueError: The observations are not arrays, or have another shape.
    """
    kind, size = model_cfg.get("obs_type"), model_cfg.get("state_size")
    if isinstance(space, (spaces.Dict, spaces.Tuple, spaces.Discrete)):
        parts = {name: part.shape for name, part in space.items()} if isinstance(space, spaces.Dict) else space
        found = f"a dict of {parts}" if isinstance(space, spaces.Dict) else f"of {parts}"
        raise ConfigValueError(
            f"world_model.model.obs_type is {kind!r}, which takes arrays (vectors, or images (C, H, W)), but "
            f"observations of the env are {found}: begin env.env_wrapper with {{'type': 'flatten_obs'}}, which makes "
            "vectors"
        )
    if size is not None and isinstance(space, spaces.Box) and space.shape != as_tuple(size):
        raise ConfigValueError(f"world_model.model.state_size is {size}, but observations of the env are {space.shape}")


def _fill_sizes(cfg: EasyDict) -> None:
    """Fill missing sizes in the world model's config from the policy's network."""
    sizes, shapes = cfg.world_model.get("model", {}), cfg.policy.model
    for size, shape in (("state_size", "obs_shape"), ("action_size", "action_shape")):
        if sizes.get(size, 0) is None and isinstance(shapes.get(shape), int):
            sizes[size] = shapes[shape]


def create_img_buffer(
    cfg: EasyDict,
    input_cfg: tuple[Mapping[str, Any], Mapping[str, Any]],
    world_model: DynaWorldModel,
    tb_logger: Writer | None = None,
) -> ReplayBuffer:
    """Create the imagination buffer.

    Args:
        cfg: Compiled config; ``world_model.other.imagination_buffer`` configures the buffer and is completed.
        input_cfg: Pair of configs; ``create_config.imagination_buffer`` has the ``type``, e.g. ``elastic``.
        world_model: Defines the number of transitions that an elastic buffer samples from.
        tb_logger: TensorBoard writer of the run.
    """
    section = deep_merge_dicts(cfg.world_model.other.imagination_buffer, input_cfg[1].get("imagination_buffer", {}))
    kind: Any = get_buffer_cls(section)
    section = EasyDict(deep_merge_dicts(kind.default_config(), section))
    if issubclass(kind, ElasticReplayBuffer):
        section.set_buffer_size = world_model.buffer_size_scheduler
    cfg.world_model.other.imagination_buffer = section
    buffer = create_buffer(section, tb_logger=tb_logger, exp_name=cfg.exp_name, instance_name="img_buffer")
    return cast(ReplayBuffer, buffer)


class WorldModelPath(ReplayPath):
    """Collects into a replay buffer that also trains a world model.

    A snapshot contains the model's full state for resumption.

    Args:
        parts: Workers of the run.
        interruptible: Context manager for sections that a signal may interrupt at any point.
        world_model: World model.
    """

    def __init__(
        self,
        parts: SerialParts,
        interruptible: Callable[[], AbstractContextManager[None]],
        world_model: WorldModel,
    ) -> None:
        super().__init__(parts, interruptible)
        self.world_model = world_model
        parts.saved["world_model"] = self

    def evaluation_clock(self) -> int | None:
        return int(self._parts.collector.envstep)

    def batches(self) -> Iterator[Samples]:
        model, train_iter = self.world_model, self._parts.learner.train_iter
        envstep = int(self._parts.collector.envstep)
        if self.buffer.count() and model.should_eval(envstep):
            model.eval(self.buffer, envstep, train_iter)
        if self.buffer.count() and model.should_train(envstep):
            self._train_model(envstep, train_iter)
            self._imagine(envstep)
        if model.last_train_step:
            yield from super().batches()

    def _train_model(self, envstep: int, train_iter: int) -> None:
        """Train the model, which may take minutes. A signal leaves the training, and the model is as before it.

        Raises:
            StopNow: a signal came.
        """
        before, random_state = copy.deepcopy(self.world_model.run_state()), generator_states()
        try:
            with self._interruptible():
                self.world_model.train(self.buffer, envstep, train_iter)
        except StopNow:
            self.world_model.load_run_state(before)
            set_generator_states(random_state)
            raise

    def _imagine(self, envstep: int) -> None:
        """Called after a training of the model; does nothing by default."""

    def state_dict(self) -> StateDict:
        """Return the state that the model needs to resume."""
        return {"model": self.world_model.run_state()}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore a :meth:`state_dict`."""
        self.world_model.load_run_state(state_dict["model"])


class DynaPath(WorldModelPath):
    """Fills an imagination buffer after each training of the model, and mixes its transitions with real ones.

    Args:
        parts: Workers of the run.
        interruptible: Context manager for sections that a signal may interrupt at any point.
        world_model: World model.
        img_buffer: Stores the imagined transitions; part of the snapshot.
    """

    world_model: DynaWorldModel

    def __init__(
        self,
        parts: SerialParts,
        interruptible: Callable[[], AbstractContextManager[None]],
        world_model: DynaWorldModel,
        img_buffer: ReplayBuffer,
    ) -> None:
        super().__init__(parts, interruptible, world_model)
        if self._uses_priority:
            raise ConfigValueError("policy.priority=True: batches with imagined transitions have no priorities")
        self.img_buffer = img_buffer

    def _imagine(self, envstep: int) -> None:
        parts = self._parts
        self.world_model.fill_img_buffer(
            parts.policy.collect_mode, self.buffer, self.img_buffer, envstep, parts.learner.train_iter
        )
        self._resize()

    def _resize(self) -> None:
        if isinstance(self.img_buffer, ElasticReplayBuffer):
            self.img_buffer.update(self.world_model.last_train_step)

    def batches(self) -> Iterator[Samples]:
        yield from super().batches()
        if self._parts.cfg.policy.on_policy:
            self.buffer.clear()
            self.img_buffer.clear()

    def _draw(self, count: int) -> Samples | None:
        return self._joined_batches(count)

    def _batch(self) -> Samples | None:
        train_iter = self._parts.learner.train_iter
        return self.world_model.sample(self.buffer, self.img_buffer, self._batch_size, train_iter)

    def state_dict(self) -> StateDict:
        """Return the state that the model needs to resume, and the imagined transitions."""
        return {**super().state_dict(), "img_buffer": self.img_buffer.state_dict()}

    def load_state_dict(self, state_dict: StateDict) -> None:
        super().load_state_dict(state_dict)
        self.img_buffer.load_state_dict(state_dict["img_buffer"])
        self._resize()


class DreamPath(WorldModelPath):
    """Samples real transitions from which the policy imagines; longer imagination means fewer updates.

    Args:
        parts: Workers of the run.
        interruptible: Context manager for sections that a signal may interrupt at any point.
        world_model: World model.
    """

    world_model: DreamWorldModel

    def batches(self) -> Iterator[Samples]:
        envstep, updates = int(self._parts.collector.envstep), int(self._parts.cfg.policy.learn.update_per_collect)
        self._updates = max(1, updates // max(1, self.world_model.rollout_length_scheduler(envstep)))
        for batch in super().batches():
            self.train_kwargs = {"world_model": self.world_model, "envstep": envstep}
            yield batch


class DreamerPath(WorldModelPath):
    """Trains a world model on sequences of real steps, and the policy on sequences imagined from their latent states.

    A pass trains before it collects: initially ``world_model.pretrain`` times, later once every
    ``world_model.train_freq`` env steps.

    Args:
        parts: Workers of the run.
        interruptible: Context manager for sections that a signal may interrupt at any point.
        world_model: World model, in whose latent states the policy acts.
    """

    def __init__(
        self,
        parts: SerialParts,
        interruptible: Callable[[], AbstractContextManager[None]],
        world_model: WorldModel,
    ) -> None:
        super().__init__(parts, interruptible, world_model)
        self._model = cast(SequenceModel, world_model)
        self._shape = (int(self._batch_size), int(parts.cfg.policy.learn.batch_length))
        parts.policy.collect_mode.set_attribute("world_model", world_model)

    def collect(self) -> None:
        """Do nothing: :meth:`batches` collects after the training of this pass."""

    def batches(self) -> Iterator[Any]:
        for _ in range(self._num_trainings()):
            envstep, train_iter = int(self._parts.collector.envstep), self._parts.learner.train_iter
            post, _ = self._model.train(self.buffer, envstep, train_iter, *self._shape)
            self.train_kwargs = {"world_model": self.world_model, "envstep": envstep}
            yield post
        super().collect()

    def _num_trainings(self) -> int:
        """Return the number of trainings in this pass; 0 until the buffer can provide a batch."""
        buffer, train_iter = cast(Any, self.buffer), self._parts.learner.train_iter
        if self.world_model.last_train_step == 0:
            if buffer.sample(*self._shape, train_iter) is None:
                return 0
            if self._model.should_pretrain():
                return self._model.pretrain
        return int(self.world_model.should_train(int(self._parts.collector.envstep)))
