"""Pipelines that train on a data set, with an env only for evaluations, or also for collection."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from easydict import EasyDict

from ding.config import ConfigValueError
from ding.data import create_dataset
from ding.entry.pipelines.finetune_path import FinetunePath, shares_of_data
from ding.entry.serial.arguments import ENDLESS, RunArguments, called_as, learning, learning_offline
from ding.entry.serial.offline_path import TRANSITION, OfflinePath, check_data_set, complete_data_set
from ding.entry.serial_entry import opened_run
from ding.policy import Policy
from ding.rollout import statistics_of
from ding.utils.data.dataset import ColumnDataset


@called_as(learning_offline)
def serial_pipeline_offline(arguments: RunArguments) -> tuple[Policy, bool]:
    """Train on the data set of ``policy.collect.data_type`` and ``policy.collect.data_path``.

    Each of the ``policy.learn.train_epoch`` epochs samples every row once, in an order derived from the seed; without
    that key the number of epochs follows from ``max_train_iter``. The env is used only for evaluations, every
    ``policy.eval.evaluator.eval_freq`` train iterations. ``env.norm_obs.offline_stats`` receives the mean and standard
    deviation of the data set's observations; those of a data set of standardised windows are written to
    ``policy.state_mean`` and ``policy.state_std``. See ``ding.entry.serial_entry.serial_pipeline`` for other arguments,
    output files and the end of a run.

    Returns:
        The policy, and whether it reached ``env.stop_value``.

    Raises:
        ConfigError: The config is invalid; see ``ding.config.errors``.
        DatasetError: The data set is broken, or does not match ``policy.model``.
    """
    with opened_run(arguments) as run:
        cfg = run.cfg
        epochs = cfg.policy.learn.get("train_epoch", math.inf if arguments.max_train_iter < ENDLESS else None)
        if not isinstance(epochs, (int, float)) or epochs <= 0:
            raise ConfigValueError(
                f"policy.learn.train_epoch must be the number of epochs, got {epochs!r}; or give max_train_iter"
            )
        dataset: Any = create_dataset(cfg)
        _pass_on_statistics(dataset, cfg)
        with run.parts(with_buffer=False, collects=False) as parts:
            policy = parts.policy
            _fit_together(policy, dataset, cfg.policy.model if arguments.model is None else None)
            data = OfflinePath(parts, dataset)
            limit = int(min(arguments.max_train_iter, epochs * data.batches_per_epoch))
            status = run.train(parts, data, "serial_offline", max_train_iter=limit)
            return policy, status.solved


@called_as(learning)
def serial_pipeline_finetune(arguments: RunArguments) -> Policy:
    """Train on a data set and then online, mixing its rows with the agent's own samples, and return the policy.

    The first ``policy.learn.offline_train_iter`` train iterations (default 0) use only the data set, as in
    :func:`serial_pipeline_offline`. Then the agent collects as in :func:`~ding.entry.serial_entry.serial_pipeline`, and
    a fraction ``policy.learn.offline_share`` of each batch (default 0.5) consists of rows of the data set; an epoch of
    these uses every row once, except those after the last whole batch. All policies that learn from transitions with
    the fields of
    the data set are supported: RLPD (``rlpd``) from the start, Cal-QL, IQL, ReBRAC and others after training on the
        data
    alone. ``policy.random_collect_size`` applies only without that first phase. See ``serial_pipeline`` for other
    arguments, output files and the end of a run.

    Raises:
        ConfigError: The config is invalid; see ``ding.config.errors``.
        DatasetError: The data set is broken, or does not match ``policy.model``.
    """
    with opened_run(arguments, mixes_data=True) as run:
        cfg = run.cfg
        alone, share = shares_of_data(cfg)
        dataset = create_dataset(cfg)
        if getattr(dataset, "standardises_obs", False):
            raise ConfigValueError(
                "env.norm_obs.offline_stats: own samples beside a data set are not standardised by it"
            )
        with run.parts() as parts:
            policy = parts.policy
            fields = _fit_together(policy, dataset, cfg.policy.model if arguments.model is None else None)
            data = FinetunePath(parts, run.interruptible, dataset, (*TRANSITION, *fields), alone, share)
            run.train(parts, data, "serial_finetune")
            return policy


def _fit_together(policy: Policy, dataset: Any, model_cfg: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Exchange the settings that policy and data set need from each other; return the names of the added fields.

    Args:
        model_cfg: Config of a built-in network, to compare with the data set.
    """
    if model_cfg is not None:
        check_data_set(type(policy), model_cfg, dataset)
    use_data_statistics(policy, dataset)
    if hasattr(policy, "set_statistic"):
        policy.set_statistic(dataset.statistics)
    if hasattr(policy, "init_data_normalizer"):
        policy.init_data_normalizer(dataset.normalizer)
    return complete_data_set(policy, dataset)


def use_data_statistics(policy: Policy, dataset: object) -> None:
    """Make evaluations, and users of the saved policy, standardise observations like the data set, if it does."""
    statistics = statistics_of(policy.learn_mode)
    if statistics is not None and isinstance(dataset, ColumnDataset) and dataset.standardises_obs:
        statistics.fix_obs(dataset.mean, dataset.std, len(dataset))


def _pass_on_statistics(dataset: Any, cfg: EasyDict) -> None:
    """Write mean and standard deviation of the data set to the config of the evaluator's env and of the policy."""
    stats = cfg.env.get("norm_obs", {}).get("offline_stats")
    if stats is not None and hasattr(dataset, "mean"):
        stats.update(mean=dataset.mean, std=dataset.std)
    if hasattr(dataset, "get_state_stats"):
        cfg.policy.state_mean, cfg.policy.state_std = (one.tolist() for one in dataset.get_state_stats())


# Name by which scripts train a decision transformer (``dt``).
serial_pipeline_dt = serial_pipeline_offline
