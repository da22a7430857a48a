"""Defaults of the prioritised buffer."""

from typing import Any

from ding.worker.replay_buffer._ring_config import LIMIT_CONFIG, STORAGE_CONFIG

ADVANCED_CONFIG: dict[str, Any] = {
    "type": "advanced",
    # (int) Number of elements that the ring holds.
    "replay_buffer_size": 4096,
    # (float) Number of draws after which an element is removed.
    "max_use": float("inf"),
    # (float) Number of train iterations since collection after which an element is removed.
    "max_staleness": float("inf"),
    # (float) How much priorities matter: 0 not at all, 1 fully.
    "alpha": 0.6,
    # (float) How much importance weights correct for it at first: 0 not at all, 1 fully.
    "beta": 0.4,
    # (int) Number of samples until beta is 1. 0: beta stays.
    "anneal_step": int(1e5),
    # (bool) Deep-copy what is pushed and what is sampled. Rows in columns are copied anyway.
    "deepcopy": False,
    # (bool) Remove the file ``data_id`` of every element that leaves the buffer.
    "enable_track_used_data": False,
    "thruput_controller": {
        # Limits of recent pushes per recent sample.
        "push_sample_rate_limit": {"max": float("inf"), "min": 0},
        # (float) Seconds after which 1 % of a count is left.
        "window_seconds": 30,
        # (float) Elements that must be there per element to sample.
        "sample_min_limit_ratio": 1,
    },
    "monitor": {
        "sampled_data_attr": {
            # (int) Sample calls to aggregate over.
            "average_range": 5,
            # (int) Sample calls between reports.
            "print_freq": 200,
        },
        # (float) Seconds between reports of the throughput.
        "periodic_thruput": {"seconds": 60},
    },
    "storage": STORAGE_CONFIG,
    # Limit of samples per insert, see SampleRatioLimiter.
    "rate_limit": LIMIT_CONFIG,
}
