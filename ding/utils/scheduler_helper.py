"""Change a hyper-parameter when a metric stops getting better."""

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ding.utils.default_helper import check_choice, deep_merge_dicts
from ding.utils.design_helper import Configurable
from ding.utils.names import did_you_mean

_MODES: dict[str, Callable[[float, float], float]] = {
    "reduce": lambda value, factor: value - factor,
    "add": lambda value, factor: value + factor,
    "multi": lambda value, factor: value * factor,
    "div": lambda value, factor: value / factor,
}


class Scheduler(Configurable):
    """Moves a parameter by ``factor`` after ``patience`` calls of ``step`` in a row without a better metric.

    Config keys:
        schedule_flag: whether to change anything at all.
        schedule_mode: ``'reduce'`` (subtract the factor), ``'add'``, ``'multi'`` or ``'div'``.
        factor: above 0 (or 0 for the first two).
        change_range: ``[low, high]``, what the parameter is clipped to.
        threshold: how much better a metric must be to count.
        optimize_mode: ``'min'`` or ``'max'``, what better means.
        patience: how many worse metrics are let pass, >= 0.
        cooldown: how many calls after a change are not counted, >= 0.
    """

    config: ClassVar[dict[str, Any]] = {
        "schedule_flag": False,
        "schedule_mode": "reduce",
        "factor": 0.05,
        "change_range": [0, 1],
        "threshold": 1e-4,
        "optimize_mode": "min",
        "patience": 10,
        "cooldown": 0,
    }

    def __init__(self, merged_scheduler_config: Mapping[str, Any]) -> None:
        unknown = [key for key in merged_scheduler_config if key not in self.config and key != "cfg_type"]
        if unknown:
            raise KeyError(f"unknown scheduler key {unknown[0]!r}.{did_you_mean(unknown[0], self.config)}")
        cfg = deep_merge_dicts(self.config, merged_scheduler_config)
        self._check(cfg)
        self.schedule_flag = bool(cfg["schedule_flag"])
        self.schedule_mode = cfg["schedule_mode"]
        self.factor = cfg["factor"]
        self.low, self.high = cfg["change_range"]
        self.threshold = cfg["threshold"]
        self.optimize_mode = cfg["optimize_mode"]
        self.patience = cfg["patience"]
        self.cooldown = cfg["cooldown"]
        self.reset()

    @staticmethod
    def _check(cfg: Mapping[str, Any]) -> None:
        check_choice("schedule_mode", cfg["schedule_mode"], _MODES)
        check_choice("optimize_mode", cfg["optimize_mode"], ("min", "max"))
        needs_positive = cfg["schedule_mode"] in ("multi", "div")
        if cfg["factor"] < 0 or (needs_positive and cfg["factor"] == 0):
            raise ValueError(f"factor must be {'> 0' if needs_positive else '>= 0'}, got {cfg['factor']}")
        bounds = cfg["change_range"]
        if not (isinstance(bounds, (list, tuple)) and len(bounds) == 2 and bounds[0] < bounds[1]):
            raise ValueError(f"change_range must be [low, high] with low < high, got {bounds!r}")
        for key in ("patience", "cooldown"):
            if not (isinstance(cfg[key], int) and cfg[key] >= 0):
                raise ValueError(f"{key} must be an integer >= 0, got {cfg[key]!r}")

    def reset(self) -> None:
        """Forget the metrics seen so far."""
        self.best = math.inf if self.optimize_mode == "min" else -math.inf
        self.bad_count = 0
        self.cooldown_count = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether the next metric is not counted as a bad one."""
        return self.cooldown_count > 0

    def is_better(self, metric: float) -> bool:
        """Whether ``metric`` beats the best one by more than ``threshold``."""
        if self.optimize_mode == "min":
            return metric < self.best - self.threshold
        return metric > self.best + self.threshold

    def step(self, metrics: float, param: float) -> float:
        """Take in a metric and return the parameter to use from now on (``param`` itself if nothing is to change)."""
        if not self.schedule_flag:
            return param
        if self.is_better(metrics):
            self.best = metrics
            self.bad_count = 0
        else:
            self.bad_count += 1
        if self.in_cooldown:
            self.cooldown_count -= 1
            self.bad_count = 0
        if self.bad_count > self.patience:
            self.bad_count = 0
            self.cooldown_count = self.cooldown
            return self.update_param(param)
        return param

    def update_param(self, param: float) -> float:
        """The parameter after one change, inside ``change_range``."""
        return min(max(_MODES[self.schedule_mode](param, self.factor), self.low), self.high)
