"""Collectors that cost next to nothing: they send chunks at a steady pace, and play no env.

What they send travels as that of any other collector: a file of the data plane, a reference in an answer, the journal.
For `many_collectors`, which imports this module in every process of its run.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from easydict import EasyDict

from ding.data import TransitionBatch
from ding.utils import PARALLEL_COLLECTOR_REGISTRY
from ding.worker.collector.base_parallel_collector import BaseParallelCollector


@PARALLEL_COLLECTOR_REGISTRY.register("paced")
class PacedCollector(BaseParallelCollector):
    """Sends ``rows_per_chunk`` CartPole transitions every ``chunk_every_s`` seconds, until its task is closed."""

    config = dict(rows_per_chunk=25, chunk_every_s=0.5)

    def __init__(self, cfg: EasyDict) -> None:
        super().__init__(cfg)
        self._sent = 0
        rows = int(cfg.rows_per_chunk)
        self._batch = TransitionBatch(
            {
                "obs": np.zeros((rows, 4), dtype=np.float32),
                "next_obs": np.zeros((rows, 4), dtype=np.float32),
                "action": np.zeros((rows, 1), dtype=np.int64),
                "reward": np.zeros((rows, 1), dtype=np.float32),
                "done": np.zeros(rows, dtype=bool),
                "collect_iter": np.zeros(rows, dtype=np.int64),
            }
        )

    def start(self) -> None:
        """Send until the end; begins at a random moment, so that not all send at once."""
        begun = time.monotonic() + float(np.random.default_rng().random()) * self._cfg.chunk_every_s
        try:
            while not self._end.wait(max(0.0, begun + self._sent * self._cfg.chunk_every_s - time.monotonic())):
                self._send()
        finally:
            self._loop_over.set()

    def _send(self) -> None:
        self._sent += 1
        data_id, rows = f"chunk_{self._collector_uid}_{self._sent}", len(self._batch)
        self.send_stepdata(data_id, self._batch)
        counts = {"cur_episode": 0, "cur_sample": rows * self._sent, "cur_step": rows * self._sent}
        self.send_metadata(
            {
                "eval_flag": False,
                "data_id": data_id,
                "policy_iter": 0,
                "collect_iter": 0,
                "rows": rows,
                "unroll_len": rows,
                "spans": [],
                "get_data_time": time.time(),
                **counts,
            }
        )

    def get_finish_info(self) -> dict[str, Any]:
        """What a commander reads of a task."""
        steps = self._sent * len(self._batch)
        return {"eval_flag": False, "step_count": steps, "sample_count": steps, "real_episode_count": 0}

    def __repr__(self) -> str:
        return f"PacedCollector({self._collector_uid})"

    def _policy_inference(self, obs: Any) -> Any:
        raise NotImplementedError

    _env_step = _process_timestep = _update_policy = _policy_inference  # type: ignore[assignment]
