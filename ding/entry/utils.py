"""Steps shared by several pipelines."""

from collections.abc import Callable
from typing import Any

import torch
from easydict import EasyDict

from ding.config import ConfigValueError
from ding.data.roles import Buffer, EnvManager
from ding.entry.serial.parts import Collector
from ding.policy import Policy
from ding.policy.policy_factory import warm_up_mode
from ding.worker import BaseSerialCommander, IMetric


def random_collect(
    policy_cfg: EasyDict,
    policy: Policy,
    collector: Collector,
    collector_env: EnvManager,
    commander: BaseSerialCommander,
    replay_buffer: Buffer,
    postprocess_data_fn: Callable[[Any], Any] | None = None,
) -> None:
    """Fill the buffer with ``policy_cfg.random_collect_size`` samples (or episodes) before training.

    The actions are random samples of ``collector_env.action_space``. With ``policy_cfg.transition_with_policy_data``
    they come from the policy, because its transitions need the network's output. The env steps count towards
    ``collector.envstep``; the samples are pushed with env step 0.

    Args:
        policy_cfg: ``cfg.policy`` of a compiled config.
        policy: Policy; its collect mode is restored in the collector afterwards, also after an error.
        collector, collector_env, commander, replay_buffer: Workers of the run.
        postprocess_data_fn: Applied to the samples before they are pushed.

    Raises:
        ConfigValueError: ``random_collect_size`` is not positive (an ``AssertionError``, too).
    """
    size = policy_cfg.get("random_collect_size", 0)
    if not size > 0:
        raise ConfigValueError(f"policy.random_collect_size must be positive, got {size!r}")
    collector.reset_policy(warm_up_mode(policy_cfg, policy.collect_mode, collector_env))
    try:
        kwargs = commander.step()
        if policy_cfg.collect.collector.type == "episode":
            data = collector.collect(n_episode=size, policy_kwargs=kwargs)
        else:
            data = collector.collect(
                n_sample=size, random_collect=True, record_random_collect=False, policy_kwargs=kwargs
            )
    finally:
        collector.reset_policy(policy.collect_mode)
    if postprocess_data_fn is not None:
        data = postprocess_data_fn(data)
    replay_buffer.push(data, cur_collector_envstep=0)


def mark_not_expert(ori_data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Set ``is_expert = 0`` in every sample, in place, and return the list."""
    for sample in ori_data:
        sample["is_expert"] = 0
    return ori_data


def mark_warm_up(ori_data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Set ``warm_up = True`` in every sample, in place, and return the list."""
    for sample in ori_data:
        sample["warm_up"] = True
    return ori_data


class AccMetric(IMetric):
    """Accuracy of DI-engine's supervised example: the fraction of rows whose logits sum up to the label.

    For outputs with one number per row. For class logits, write a custom metric that compares their ``argmax``.
    """

    def eval(self, inputs: dict[str, torch.Tensor], label: torch.Tensor) -> dict[str, float]:
        """Return ``{'Acc': fraction of rows}``; ``inputs['logit']`` is ``[B, N]``, ``label`` ``[B]``."""
        return {"Acc": (inputs["logit"].sum(dim=1) == label).float().mean().item()}

    def reduce_mean(self, inputs: list[dict[str, float]]) -> dict[str, float]:
        """Return the mean over batches."""
        return {"Acc": sum(one["Acc"] for one in inputs) / len(inputs)}

    def gt(self, metric1: dict[str, float], metric2: dict[str, float] | float | None) -> bool:
        """Return whether ``metric1`` exceeds ``metric2``, a metric or a number; True if that is None."""
        limit = metric2["Acc"] if isinstance(metric2, dict) else metric2
        return limit is None or metric1["Acc"] > limit
