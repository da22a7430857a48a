"""Evaluator that measures a policy on a data set."""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, cast

import torch

from ding.data.roles import EvalMode, StateDict, attribute_of
from ding.torch_utils import to_tensor
from ding.utils import SERIAL_EVALUATOR_REGISTRY, allreduce_data
from ding.worker.collector.base_serial_evaluator import BEST_CKPT_NAME, SaveCheckpoint, SerialEvaluator

Metric = dict[str, Any]


class IMetric(ABC):
    """Metric of the outputs of a policy.

    The evaluator ``metric`` requires dicts of numbers; the ``metric_evaluator`` middleware accepts any metric type.
    """

    @abstractmethod
    def eval(self, inputs: Any, label: Any) -> Metric:
        """Return the metric of one batch, from the outputs of the policy and the labels."""

    @abstractmethod
    def reduce_mean(self, inputs: list[Any]) -> Any:
        """Return the metric over several batches."""

    @abstractmethod
    def gt(self, metric1: Any, metric2: Any) -> bool:
        """Return whether ``metric1`` is at least as good as ``metric2``; True when ``metric2`` is ``None``."""


DataAndMetric = tuple[Collection[tuple[Any, Any]], IMetric]


@SERIAL_EVALUATOR_REGISTRY.register("metric")
class MetricSerialEvaluator(SerialEvaluator):
    """Runs a policy over a data loader and compares the outputs with labels.

    ``env`` is a pair ``(dataloader, metric)``: an iterable of ``(inputs, label)`` with a length, and an
    :class:`IMetric`. ``cfg.stop_value`` is a metric dict. With ``cfg.multi_gpu`` the metrics are averaged over the
    ranks.
    """

    config = {
        # Train iterations between two evaluations.
        "eval_freq": 50,
        # First train iteration at which reaching stop_value ends the training.
        "stop_from_iter": 1,
    }

    _best: Metric | None = None

    def reset_env(self, _env: DataAndMetric | None = None) -> None:  # type: ignore[override]
        """Replace the pair ``(dataloader, metric)``; ``None`` keeps it."""
        if _env is not None:
            self._env = _env  # type: ignore[assignment]

    def _close_env(self) -> None:
        """Leave the data loader open: it belongs to the caller."""

    def check_target(self) -> None:
        """Do nothing: the data set says how much there is to evaluate."""

    def forget_best(self) -> None:
        """Treat the next metric as the best so far, so that its policy is saved."""
        super().forget_best()
        self._best = None

    def state_dict(self) -> StateDict:
        """Return the iteration of the last evaluation and the best metric so far."""
        return {**super().state_dict(), "best_metric": self._best}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore a :meth:`state_dict`."""
        super().load_state_dict(state_dict)
        self._best = state_dict.get("best_metric")  # missing in older states

    def eval(  # type: ignore[override]
        self, save_ckpt_fn: SaveCheckpoint | None = None, train_iter: int = -1, envstep: int = -1
    ) -> tuple[bool, dict[str, Any]]:
        """Measure the policy on the whole data loader.

        Args:
            save_ckpt_fn: Called with ``'ckpt_best.pth.tar'`` if the metric is at least as good as the best so far.
            train_iter: Train iterations so far.
            envstep: Env steps so far.

        Returns:
            ``(stop_flag, metric)``: whether the metric is at least as good as ``stop_value``, and the metric.

        Raises:
            RuntimeError: there is no data loader or no policy.
        """
        if self._env is None or self._policy is None:
            missing = "a (dataloader, metric) pair" if self._env is None else "a policy"
            raise RuntimeError(f"{self._instance_name}: eval needs {missing}; call reset(policy, env) first")
        data, judge = cast("DataAndMetric", self._env)
        start = time.perf_counter()
        metric = self._measure(data, judge, self._policy)  # type: ignore[arg-type]
        duration_s = time.perf_counter() - start
        assert self._log is not None
        if self._log.is_first_rank:
            result = {
                "data_length": len(data),
                "evaluate_time": duration_s,
                "avg_time_per_data": duration_s / max(len(data), 1),
                **metric,
            }
            self._log_result(result, train_iter, envstep)
        if judge.gt(metric, self._best):
            if save_ckpt_fn is not None:
                save_ckpt_fn(BEST_CKPT_NAME)
            self._best = metric
        return self._stops(judge.gt(metric, self._stop_value), f"metric {metric}", train_iter), metric

    def _measure(self, data: Collection[tuple[Any, Any]], judge: IMetric, policy: EvalMode) -> Metric:
        policy.reset()
        results = []
        for batch in data:
            inputs, label = to_tensor(batch)
            results.append(judge.eval(policy.forward(inputs), label))
        metric: Metric = judge.reduce_mean(results)
        if not self._cfg.get("multi_gpu", False):
            return metric
        device = attribute_of(policy, "device", "cpu")
        return {
            key: allreduce_data(torch.tensor(float(value), device=device), "avg").item()
            for key, value in metric.items()
        }
