"""The counters of a run among the metrics of Ray, as Prometheus reads them."""

import threading
import time
import urllib.request

import pytest

from ding.entry.parallel.ray_gauges import RunGauges
from ding.entry.view.status import RunStatus


@pytest.mark.slow
def test_prometheus_gets_the_counters_with_the_run_as_a_tag_by_ray(ray_connection):
    import ray

    RunGauges("exp/one").update(RunStatus("exp/one", env_step=70, train_iter=3, sampled_rows=9))
    address = f"http://127.0.0.1:{ray.nodes()[0]['MetricsExportPort']}/metrics"
    deadline_s, tick = time.monotonic() + 60.0, threading.Event()
    found: dict[str, float] = {}
    while "ray_ding_sampled_rows" not in found and time.monotonic() < deadline_s:
        tick.wait(0.2)
        lines = urllib.request.urlopen(address, timeout=30).read().decode().splitlines()
        found = {line.partition("{")[0]: float(line.split()[-1]) for line in lines if 'run="exp/one"' in line}
    wanted = {"env_step": 70, "train_iter": 3, "sampled_rows": 9, "buffer_rows": 0, "restarts": 0}
    # What has no value yet, the return of the first evaluation, is left out.
    assert found == {f"ray_ding_{name}": float(value) for name, value in wanted.items()}
