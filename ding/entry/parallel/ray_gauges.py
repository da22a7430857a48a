"""Counters of a run as metrics of Ray, for its dashboard and Prometheus."""

from typing import Any

from ding.entry.view.status import RunStatus
from ding.utils import require_extra

_GAUGES = {
    "env_step": "Steps of all collector envs.",
    "train_iter": "Train iterations.",
    "last_return": "Mean return of the last evaluation.",
    "buffer_rows": "Rows in the buffers.",
    "pushed_rows": "Rows pushed so far.",
    "sampled_rows": "Rows sampled so far.",
    "restarts": "Processes that were started again.",
}


class RunGauges:
    """Sets a gauge ``ding_<name>`` with the tag ``run`` for each counter.

    Args:
        exp_name: Value of the tag.
    """

    def __init__(self, exp_name: str) -> None:
        metrics = require_extra("ray.util.metrics", "ray")
        self._tags = {"run": exp_name}
        self._gauges: dict[str, Any] = {
            name: metrics.Gauge(f"ding_{name}", description=text, tag_keys=("run",)) for name, text in _GAUGES.items()
        }

    def update(self, status: RunStatus) -> None:
        """Set the gauges to the values of a status."""
        restarts = sum(process.restarts for process in status.processes.values())
        for name, gauge in self._gauges.items():
            value = restarts if name == "restarts" else getattr(status, name)
            if value is not None:
                gauge.set(value, tags=self._tags)
