"""The evaluator that measures a policy on a data set."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from ding.torch_utils import to_tensor
from ding.utils import SERIAL_EVALUATOR_REGISTRY, allreduce_data
from ding.worker.collector._evaluator_base import BEST_CKPT_NAME, SerialEvaluatorBase


class IMetric(ABC):
    """How good the outputs of a policy are."""

    @abstractmethod
    def eval(self, inputs: Any, label: Any) -> dict[str, Any]:
        """The metric of one batch: name -> number."""

    @abstractmethod
    def reduce_mean(self, inputs: list[Any]) -> dict[str, Any]:
        """The metric over several batches."""

    @abstractmethod
    def gt(self, metric1: Any, metric2: Any) -> bool:
        """Whether ``metric1`` is at least as good as ``metric2``; True when ``metric2`` is ``None``."""


@SERIAL_EVALUATOR_REGISTRY.register("metric")
class MetricSerialEvaluator(SerialEvaluatorBase):
    """Runs a policy over a data loader and compares the outputs with labels.

    Its ``env`` is a pair ``(dataloader, metric)``: an iterable of ``(inputs, label)`` with a length, and an
    :class:`IMetric`. ``cfg.stop_value`` is a metric dict; with ``cfg.multi_gpu`` metrics are averaged over the ranks.
    """

    config = {
        # Train iterations between two evaluations.
        "eval_freq": 50,
        # First train iteration at which reaching stop_value ends the training.
        "stop_from_iter": 1,
    }

    _max_avg_eval_result: Any = None

    def reset_env(self, _env: Any = None) -> None:
        """Replace the pair ``(dataloader, metric)``; ``None`` keeps it."""
        if _env is not None:
            self._env = _env
            self._dataloader, self._metric = _env

    def reset(self, _policy: Any = None, _env: Any = None) -> None:
        """Replace policy and env where given, and forget the best metric and the time of the last evaluation."""
        super().reset(_policy, _env)
        self._max_avg_eval_result = None

    def _close_env(self) -> None:
        """A data loader is not the evaluator's to close."""

    def eval(  # type: ignore[override]
        self, save_ckpt_fn: Callable[[str], Any] | None = None, train_iter: int = -1, envstep: int = -1
    ) -> tuple[bool, dict[str, Any]]:
        """Measure the policy on the whole data loader.

        Args:
            save_ckpt_fn: called with ``'ckpt_best.pth.tar'`` when the metric is at least as good as the best so far.
            train_iter: train iterations so far.
            envstep: env steps so far.

        Returns:
            ``(stop_flag, metric)``: whether the metric is at least as good as ``stop_value``, and the metric.

        Raises:
            RuntimeError: there is no data loader or no policy.
        """
        if self._env is None or self._policy is None:
            missing = "a (dataloader, metric) pair" if self._env is None else "a policy"
            raise RuntimeError(f"{self._instance_name}: eval needs {missing}; call reset(policy, env) first")
        start = time.perf_counter()
        metric = self._measure()
        duration_s = time.perf_counter() - start
        if self._rank == 0:
            num_batches = len(self._dataloader)
            result = {
                "train_iter": train_iter,
                "ckpt_name": f"iteration_{train_iter}.pth.tar",
                "data_length": num_batches,
                "evaluate_time": duration_s,
                "avg_time_per_data": duration_s / max(num_batches, 1),
                **metric,
            }
            self._log_result(result, train_iter, envstep)
        if self._metric.gt(metric, self._max_avg_eval_result):
            if save_ckpt_fn is not None:
                save_ckpt_fn(BEST_CKPT_NAME)
            self._max_avg_eval_result = metric
        stop = bool(self._metric.gt(metric, self._stop_value)) and train_iter >= self._cfg.get("stop_from_iter", 1)
        if stop and self._rank == 0:
            self._logger.info(f"[{self._instance_name}] {metric} reaches stop_value {self._stop_value}: converged")
        return stop, metric

    def _measure(self) -> dict[str, Any]:
        self._policy.reset()
        results = []
        for batch in self._dataloader:
            inputs, label = to_tensor(batch)
            results.append(self._metric.eval(self._policy.forward(inputs), label))
        metric = self._metric.reduce_mean(results)
        if not self._cfg.get("multi_gpu", False):
            return metric
        device = self._policy.get_attribute("device")
        return {
            key: allreduce_data(torch.tensor(float(value), device=device), "avg").item()
            for key, value in metric.items()
        }
