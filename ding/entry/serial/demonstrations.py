"""Trained policy as a source of data sets and demonstrations."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from easydict import EasyDict

from ding.config import ConfigValueError
from ding.data.roles import EnvManager, StateDict
from ding.entry.serial.parts import Collector, bind_world_model
from ding.entry.view.experiment import best_checkpoint
from ding.policy import CommandModePolicy, Policy, create_policy
from ding.rollout import statistics_of
from ding.torch_utils.data_helper import to_device
from ding.utils.checkpoint import is_checkpoint_folder, read_checkpoint
from ding.worker import create_serial_collector
from ding.worker.learner.saving import load_weights


class Demonstrator:
    """Policy that acts as during collection, but without epsilon-greedy exploration.

    Args:
        collector: Plays the policy.
        settings: Keyword arguments of each ``policy.forward``.
        on_cpu: Whether the policy leaves its outputs on the CPU.
    """

    def __init__(self, collector: Collector, settings: dict[str, Any], on_cpu: bool = True) -> None:
        self.collector, self._settings, self._on_cpu = collector, settings, on_cpu

    def collect(self, **count: int) -> Sequence[Any]:
        """Return ``n_sample`` training samples, or ``n_episode`` episodes, depending on the collector."""
        data = self.collector.collect(policy_kwargs=self._settings, **count)
        return data if self._on_cpu else to_device(list(data), "cpu")


@contextlib.contextmanager
def demonstrator(
    cfg: EasyDict,
    env: EnvManager,
    state: StateDict,
    model: torch.nn.Module | None = None,
    collector: str | None = None,
    eps: float = 0.0,
    **common: Any,
) -> Iterator[Demonstrator]:
    """Create the policy of a config with its weights, and a collector; both and ``env`` are closed with the block.

    Args:
        cfg: Compiled config; if ``policy.type`` ends with ``_command``, its command mode sets the collection arguments.
        env: Seeded env manager.
        state: Weights of the policy, e.g. a learner's checkpoint.
        model: Network; by default the policy's own.
        collector: ``sample`` or ``episode`` (whole ones, step by step); by default that of the config.
        eps: Probability of random actions, if the algorithm explores by epsilon.
        common: Further arguments of the collector: ``exp_name, tb_logger, instance_name``.
    """
    commanded = cfg.policy.type.endswith("_command")
    with contextlib.ExitStack() as ends:
        ends.callback(env.close)
        policy = create_policy(cfg.policy, model=model, enable_field=["collect", "command" if commanded else "eval"])
        bind_world_model(cfg, policy.collect_mode)
        load_weights(policy.collect_mode, state)
        statistics = statistics_of(policy.collect_mode)
        if statistics is not None:
            statistics.learns = False
        collector_cfg = cfg.policy.collect.collector
        if collector is not None:
            collector_cfg = EasyDict({**collector_cfg, "type": collector, "get_train_sample": False})
        made: Any = create_serial_collector(collector_cfg, env=env, policy=policy.collect_mode, **common)
        ends.callback(made.close)
        yield Demonstrator(made, _settings(policy, cfg, eps), on_cpu=not cfg.policy.cuda)


def _settings(policy: Policy, cfg: EasyDict, eps: float) -> dict[str, Any]:
    """Return the policy's collection arguments at the start of a run, with this epsilon."""
    if isinstance(policy, CommandModePolicy):
        settings = dict(policy.command_mode.get_setting_collect({"learner_step": 0, "envstep": 0}))
    else:
        settings = {"eps": eps} if "eps" in cfg.policy.other else {}
    return {**settings, "eps": eps} if "eps" in settings else settings


def read_state(path: str | None, wanted: str) -> StateDict:
    """Read the checkpoint ``path``, or the best one of the experiment folder ``path``.

    Args:
        wanted: Description of the expected path, for the error.

    Raises:
        ConfigValueError: There is no path, or the file does not exist (an ``AssertionError``, too).
        FileRefusedError: The file is not a checkpoint.
    """
    if not path:
        raise ConfigValueError(f"no weights of the policy: give {wanted}")
    if os.path.isdir(path) and not is_checkpoint_folder(path):
        best = best_checkpoint(path)
        if best is None:
            raise ConfigValueError(f"{wanted}: the experiment folder {path} holds no checkpoint")
        path = str(best)
    if not os.path.exists(path):
        raise ConfigValueError(f"{wanted}: there is no checkpoint {path}")
    return read_checkpoint(path)
