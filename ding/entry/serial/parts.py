"""Creation of the parts of a serial run from a compiled config, and their orderly end."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from easydict import EasyDict

from ding.config import ConfigValueError
from ding.config.checks.values import check_buffer_fits
from ding.data.roles import Buffer, CollectMode, EnvManager, EvalMode, Samples, StateDict, attribute_of
from ding.entry.serial.shape_check import check_model_shapes, check_obs_shape, check_observations
from ding.envs import create_env_manager, get_vec_env_setting
from ding.policy import Policy, create_policy, get_policy_cls
from ding.policy.action_kind import check_action_kind
from ding.rollout import seed_evaluation
from ding.utils import BUFFER_REGISTRY, LazyWriter, SeedTree, get_rank
from ding.utils.seed import set_generator_states
from ding.worker import (
    BaseLearner,
    BaseSerialCommander,
    ISerialEvaluator,
    MultiReplayBuffer,
    create_serial_collector,
    create_serial_evaluator,
)
from ding.worker.collector.base_serial_collector import SerialCollector
from ding.worker.collector.base_serial_evaluator import SerialEvaluator
from ding.world_model import create_world_model

EnvSetting = tuple[Callable[..., Any], Sequence[Any], Sequence[Any]]
"""``(env class, collector env configs, evaluator env configs)``"""


def env_class(env_setting: EnvSetting | None) -> Callable[..., Any] | None:
    """Return the env class of a setting; ``None`` for that of the config."""
    return None if env_setting is None else env_setting[0]


class Collector(Protocol):
    """Interface of a serial collector for pipelines."""

    envstep: int

    def collect(self, **kwargs: Any) -> Sequence[Any]:
        """Collect samples or episodes."""

    def reset_policy(self, _policy: CollectMode | None = None) -> None:
        """Reset the policy, or replace it."""

    def close(self) -> None:
        """Release the resources of the collector."""


class NoCollector:
    """Placeholder for the collector of a run that learns from a data set; it has made no env steps."""

    envstep = 0

    def collect(self, **kwargs: Any) -> Samples:
        """Raise ``RuntimeError``."""
        raise RuntimeError("this run learns from a data set and collects nothing")

    def reset_policy(self, _policy: CollectMode | None = None) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def state_dict(self) -> StateDict:
        """Return an empty state."""
        return {}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Do nothing."""


class HasState(Protocol):
    """Object that is part of a saved run.

    An optional method ``go_on()`` is called after each snapshot: if a resumed run starts in another state than the
    saved one, it switches to that state.
    """

    def state_dict(self) -> StateDict:
        """Return a state that can be saved safely."""

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore a :meth:`state_dict`."""


class ReplayBuffer(Buffer, Protocol):
    """Replay buffer of a run."""

    @property
    def replay_buffer_size(self) -> int:
        """Return the capacity of the buffer."""

    def close(self) -> None:
        """Release the resources of the buffer."""


def new_buffer(cfg: EasyDict, ends: contextlib.ExitStack, **options: Any) -> ReplayBuffer:
    """Create a replay buffer, which ``ends`` closes.

    Args:
        cfg: Config of the buffer, with its ``type``.
        options: Constructor arguments, such as ``exp_name`` and ``instance_name``.
    """
    buffer: ReplayBuffer = BUFFER_REGISTRY.create(cfg, **options)
    close_with(ends, buffer)
    return buffer


def close_with(ends: contextlib.ExitStack, buffer: Buffer) -> None:
    """Register a buffer to be closed by ``ends``; user-defined buffers need not have ``close``."""
    close = getattr(buffer, "close", None)
    if close is not None:
        ends.callback(close)


@dataclass
class Kept:
    """State that persists between the runs of an agent, which may be trained repeatedly.

    Attributes:
        policy: Policy that is reused instead of created anew.
        random: States of the global generators after the policy was created.
        buffer: Replay buffer; ``None`` before the first run, and without one.
        stopped: End state of the last run, see :func:`ding.entry.serial.run_state.copied_state`; ``None`` before the
            first.
        exp_name: Experiment folder of the last run.
        wandb_url: Its page at Weights & Biases; empty without one.
        wandb_sweep: Whether runs belong to a sweep of Weights & Biases.
        config_makes_envs: Whether the config defines the envs, so that another process can resume a run.
    """

    policy: Policy
    random: dict[str, Any]
    buffer: ReplayBuffer | None = None
    stopped: StateDict | None = None
    exp_name: str | None = None
    wandb_url: str = ""
    wandb_sweep: bool = False
    config_makes_envs: bool = True


@dataclass
class SerialParts:
    """Workers of a serial loop. Close them through the context manager that created them.

    Without collection, ``collector`` is a ``NoCollector``, ``collector_env`` is the evaluator's, and the commander has
    no policy.
    """

    cfg: EasyDict
    policy: Policy
    learner: BaseLearner
    collector: Collector
    evaluator: ISerialEvaluator
    buffer: ReplayBuffer | None
    commander: BaseSerialCommander
    collector_env: EnvManager
    evaluator_env: EnvManager
    #: Role of the collector in the seed tree of the run.
    collector_role: str = "collector"
    #: Additional parts of a saved run, by name.
    saved: dict[str, HasState] = field(default_factory=dict)
    #: State of the agent, if the run belongs to one.
    kept: Kept | None = None


@contextlib.contextmanager
def serial_parts(
    cfg: EasyDict,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    dynamic_seed: bool = True,
    with_buffer: bool = True,
    collects: bool = True,
    strict: bool = False,
    kept: Kept | None = None,
) -> Iterator[SerialParts]:
    """Create envs, policy and workers, and close all of them when the block ends, for whatever reason.

    Args:
        cfg: Compiled config.
        env_setting: ``(env class, collector env configs, evaluator env configs)``; by default from ``cfg.env``.
        model: Network; by default the policy's own.
        dynamic_seed: Draw a new seed at each reset of a collector env.
        with_buffer: Whether to create a replay buffer.
        collects: Whether to create a collector with its envs; otherwise the policy has only learn and eval mode.
        strict: See :func:`check_model_shapes`.
        kept: Policy and buffer of an agent, which stay open.

    Raises:
        ConfigValueError: The shapes of ``policy.model`` do not match the env.
    """
    with contextlib.ExitStack() as ends:
        yield _build(cfg, env_setting, model, dynamic_seed, with_buffer, collects, strict, kept, ends)


def _build(
    cfg: EasyDict,
    env_setting: EnvSetting | None,
    model: torch.nn.Module | None,
    dynamic_seed: bool,
    with_buffer: bool,
    collects: bool,
    strict: bool,
    kept: Kept | None,
    ends: contextlib.ExitStack,
) -> SerialParts:
    if with_buffer and collects:
        check_buffer_fits(cfg.policy)
    # Processes that train one model explore independently, each with its own envs and random numbers; all start from
    # the network of rank 0.
    rank = get_rank() if cfg.policy.get("multi_gpu", False) else 0
    seeds = SeedTree(cfg.seed)
    collector_env, evaluator_env = env_managers(cfg, env_setting, collects)
    ends.callback(evaluator_env.close)
    if collects:
        ends.callback(collector_env.close)
        collector_seeds = seeds.env_seeds(collector_env.env_num, "collector", process=rank)
        collector_env.seed(collector_seeds, dynamic_seed=dynamic_seed)
    seed_evaluation(evaluator_env, cfg.seed)
    if model is None:
        check_obs_shape(get_policy_cls(cfg.policy), cfg.policy.model, evaluator_env)
    policy: Any = _policy(cfg, model, seeds, rank, collects, kept)
    model_used = policy.learn_mode.get_attribute("model")
    check_action_kind(cfg.policy.type, model_used, evaluator_env, getattr(policy, "acts_in_unit_range", False))
    if model is None:
        check_model_shapes(type(policy), cfg.policy.model, evaluator_env, strict=strict)
    writer = LazyWriter(os.path.join(cfg.exp_name, "log", "serial")) if get_rank() == 0 else None
    if writer is not None:
        ends.callback(writer.close)
    common = {"tb_logger": writer, "exp_name": cfg.exp_name}
    learner = BaseLearner(cfg.policy.learn.learner, policy.learn_mode, **common)
    ends.callback(learner.close)
    collector: Any = NoCollector()
    if collects:
        collector = create_serial_collector(
            cfg.policy.collect.collector, env=collector_env, policy=policy.collect_mode, **common
        )
    ends.callback(collector.close)
    evaluator = create_serial_evaluator(cfg.policy.eval.evaluator, env=evaluator_env, policy=policy.eval_mode, **common)
    ends.callback(evaluator.close)
    if model is None:
        for env in [collector_env, evaluator_env] if collects else [evaluator_env]:
            check_observations(type(policy), cfg.policy.model, env)
    _check_targets(cfg, collector, evaluator)
    buffer = _replay_buffer(cfg, common, kept, ends) if with_buffer else None
    commander = BaseSerialCommander(
        cfg.policy.other.commander, learner, collector, evaluator, buffer, policy.command_mode if collects else None
    )
    trained_in = collector_env if collects else evaluator_env
    workers = (learner, collector, evaluator, buffer, commander)
    return SerialParts(cfg, policy, *workers, trained_in, evaluator_env, kept=kept)


def _check_targets(cfg: EasyDict, collector: object, evaluator: object) -> None:
    """Check that the workers know how much to collect, and how many episodes to evaluate, before the first env step."""
    if isinstance(collector, SerialCollector):
        collector.check_target()
    if isinstance(evaluator, SerialEvaluator) and cfg.env.get("n_evaluator_episode") != 0:
        evaluator.check_target()


def bind_world_model(cfg: EasyDict, mode: CollectMode | EvalMode) -> None:
    """Attach a new world model to a policy that acts in one, so that its weights can be loaded; do nothing for others.

    Args:
        cfg: Compiled config.
        mode: Mode of the policy.

    Raises:
        ConfigValueError: The config names no world model.
    """
    if not attribute_of(mode, "acts_in_world_model", False):
        return
    if "type" not in cfg.get("world_model", {}):
        raise ConfigValueError(
            f"create_config.world_model is missing: policy.type {cfg.policy.type!r} acts in the states of a world model"
        )
    mode.set_attribute("world_model", create_world_model({**cfg.world_model, "cuda": cfg.policy.cuda}, None, None))


def _policy(
    cfg: EasyDict, model: torch.nn.Module | None, seeds: SeedTree, rank: int, collects: bool, kept: Kept | None
) -> Policy:
    """Return a new policy or that of an agent; the global generators have their states after its creation."""
    if kept is not None:
        set_generator_states(kept.random)
        return kept.policy
    seeds.seed_process("learner", process=rank, use_cuda=cfg.policy.cuda)
    fields = ["learn", "collect", "eval", "command"] if collects else ["learn", "eval"]
    policy: Policy = create_policy(cfg.policy, model=model, enable_field=fields)
    return policy


def _replay_buffer(cfg: EasyDict, common: dict[str, Any], kept: Kept | None, ends: contextlib.ExitStack) -> Any:
    """Return a new replay buffer, closed with the parts; the buffer of an agent is created once and closed with it."""
    if kept is not None and kept.buffer is not None:
        return kept.buffer
    section = cfg.policy.other.replay_buffer
    make = MultiReplayBuffer if section.get("multi_buffer", False) else BUFFER_REGISTRY.create
    buffer: Any = make(section, **common)
    if kept is None:
        close_with(ends, buffer)
    else:
        kept.buffer = buffer
    return buffer


def env_managers(
    cfg: EasyDict, env_setting: EnvSetting | None, collect: bool = True, evaluate: bool = True
) -> tuple[Any, Any]:
    """Return the env managers of collector and evaluator; ``None`` for one that is not needed."""
    env_fn, collector_cfgs, evaluator_cfgs = env_setting or get_vec_env_setting(cfg.env, collect, evaluate)

    def create(cfgs: Sequence[Any] | None) -> EnvManager:
        return create_env_manager(cfg.env.manager, [functools.partial(env_fn, cfg=one) for one in cfgs or ()])

    return create(collector_cfgs) if collect else None, create(evaluator_cfgs) if evaluate else None
