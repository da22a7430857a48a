"""Adjust a hyper-parameter when a metric stops improving."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ding.utils.design_helper import Configurable
from ding.utils.dict_helper import deep_merge_dicts
from ding.utils.errors import InvalidArgumentError
from ding.utils.messages import one_time_warning
from ding.utils.names import check_choice, did_you_mean

_MODES: dict[str, Callable[[float, float], float]] = {
    "reduce": lambda value, factor: value - factor,
    "add": lambda value, factor: value + factor,
    "multi": lambda value, factor: value * factor,
    "div": lambda value, factor: value / factor,
}


class Scheduler(Configurable):
    """Change a parameter by ``factor`` after more than ``patience`` metrics in a row without improvement over the one
    before.

    Config keys (an unknown one is ignored, with a warning; a missing one has its default):
        schedule_flag: whether a policy uses its scheduler; ``step`` does not read it.
        schedule_mode: ``'reduce'`` (subtract the factor), ``'add'``, ``'multi'`` or ``'div'``.
        factor: above 0.
        change_range: ``[low, high]``, bounds of the parameter.
        threshold: Minimum improvement that counts.
        optimize_mode: Direction of improvement, ``'min'`` or ``'max'``.
        patience: Number of metrics without improvement that are tolerated, >= 0.
        cooldown: Number of metrics ignored at the start and after a change, >= 0.

    Attributes: the keys but ``schedule_flag``; ``last_metrics``, the metric of the last ``step`` (None at first);
    ``bad_epochs_num``, the number of metrics in a row without improvement; ``cooldown_counter``, the number still to be
    ignored.

    Raises:
        InvalidArgumentError: a key has a value that is not allowed.
    """

    config: ClassVar[dict[str, Any]] = {
        "schedule_flag": False,
        "schedule_mode": "reduce",
        "factor": 0.05,
        "change_range": [-1, 1],
        "threshold": 1e-4,
        "optimize_mode": "min",
        "patience": 10,
        "cooldown": 0,
    }

    def __init__(self, merged_scheduler_config: Mapping[str, Any]) -> None:
        for key in merged_scheduler_config:
            if key not in self.config and key != "cfg_type":
                one_time_warning(f"Scheduler ignores the key {key!r}.{did_you_mean(key, self.config)}")
        cfg = deep_merge_dicts(self.config, merged_scheduler_config)
        self._check(cfg)
        self.schedule_mode = cfg["schedule_mode"]
        self.factor = cfg["factor"]
        self.change_range = cfg["change_range"]
        self.threshold = cfg["threshold"]
        self.optimize_mode = cfg["optimize_mode"]
        self.patience = cfg["patience"]
        self.cooldown = cfg["cooldown"]
        self.cooldown_counter = self.cooldown
        self.last_metrics: float | None = None
        self.bad_epochs_num = 0

    @staticmethod
    def _check(cfg: Mapping[str, Any]) -> None:
        check_choice("schedule_mode", cfg["schedule_mode"], _MODES)
        check_choice("optimize_mode", cfg["optimize_mode"], ("min", "max"))
        if not (_is_number(cfg["factor"]) and cfg["factor"] > 0):
            raise InvalidArgumentError(f"factor must be a float/int greater than 0, got {cfg['factor']!r}")
        if not _is_number(cfg["threshold"]):
            raise InvalidArgumentError(f"threshold must be a number, got {cfg['threshold']!r}")
        bounds = cfg["change_range"]
        is_pair = isinstance(bounds, (list, tuple)) and len(bounds) == 2 and all(map(_is_number, bounds))
        if not is_pair or bounds[0] >= bounds[1]:
            raise InvalidArgumentError(
                f"change_range must be a list of two float/int, the first one smaller, got {bounds!r}"
            )
        for key in ("patience", "cooldown"):
            if not (isinstance(cfg[key], int) and cfg[key] >= 0):
                raise InvalidArgumentError(f"{key} must be an integer equal to or greater than 0, got {cfg[key]!r}")

    @property
    def in_cooldown(self) -> bool:
        """Whether the next metric is ignored."""
        return bool(self.cooldown_counter > 0)

    def is_better(self, metrics: float) -> bool:
        """Return whether ``metrics`` improves on the last ``step`` by more than ``threshold``; True for the first."""
        if self.last_metrics is None:
            return True
        if self.optimize_mode == "min":
            return bool(metrics < self.last_metrics - self.threshold)
        return bool(metrics > self.last_metrics + self.threshold)

    def step(self, metrics: float, param: float) -> float:
        """Process a metric and return the parameter to use from now on (``param`` itself if unchanged).

        Raises:
            InvalidArgumentError: ``metrics`` is not a number.
        """
        if not _is_number(metrics):
            raise InvalidArgumentError(f"metrics must be a number, got {metrics!r}")
        self.bad_epochs_num = 0 if self.is_better(metrics) else self.bad_epochs_num + 1
        self.last_metrics = metrics
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.bad_epochs_num = 0
        if self.bad_epochs_num > self.patience:
            self.bad_epochs_num = 0
            self.cooldown_counter = self.cooldown
            return self.update_param(param)
        return param

    def update_param(self, param: float) -> float:
        """Return the parameter after one change, inside ``change_range``."""
        low, high = self.change_range
        value: float = min(max(_MODES[self.schedule_mode](param, self.factor), low), high)
        return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))
