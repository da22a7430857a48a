"""What the two parallel collectors share: making envs and policies, chunks and their metadata, progress."""

import time
import uuid
from functools import partial
from typing import Any

import numpy as np
from easydict import EasyDict

from ding.data import TransitionBatch
from ding.envs import create_env_manager, get_vec_env_setting
from ding.utils.compression_helper import get_data_compressor
from ding.worker.collector._lifecycle import episode_return
from ding.worker.collector._parallel_chunks import ChunkCutter
from ding.worker.collector._parallel_ledger import EpisodeTally, Span
from ding.worker.collector._parallel_policy import PolicyFeed
from ding.worker.collector.base_parallel_collector import BaseParallelCollector
from ding.worker.collector.base_serial_collector import INF

PARALLEL_CONFIG: dict[str, Any] = {
    # Vector steps between two lines of the log, which are at least 10 s apart.
    "print_freq": 5,
    # Kept for configs of the original API: chunks are read through memory maps, so they are never compressed.
    "compressor": "none",
    # Seconds between two looks for a new policy, where the comm layer cannot wait for one.
    "update_policy_second": 3,
    # Rows from which on a chunk of training samples is sent.
    "chunk_rows": 1024,
    # Seconds after which a smaller chunk is sent too.
    "chunk_seconds": 0.2,
    # Keep copies of observations: for env managers that write into arrays which they have handed out.
    "deepcopy_obs": False,
    # Give the policy float32 tensors.
    "transform_obs": False,
}


class ChunkingCollector(BaseParallelCollector):
    """A parallel collector that sends chunks of training samples."""

    def __init__(self, cfg: EasyDict) -> None:
        self._cutters: list[ChunkCutter] = []
        self._feeds: list[PolicyFeed] = []
        super().__init__(cfg)
        get_data_compressor(cfg.get("compressor", "none"))
        self.env_manager = make_env_manager(cfg.env, self._eval_flag)
        self._env_num = self._env_manager.env_num
        self._collector_done = False
        self._tally = EpisodeTally(self._env_num, cfg.env.manager.get("episode_num", INF))

    def _make_cutter(self, send: Any) -> ChunkCutter:
        cfg = {**PARALLEL_CONFIG, **self._cfg}
        return ChunkCutter(send, cfg["chunk_rows"], cfg["chunk_seconds"])

    def _make_feed(self, path: str) -> PolicyFeed:
        interval_s = self._cfg.get("update_policy_second", PARALLEL_CONFIG["update_policy_second"])
        feed = PolicyFeed(self.get_policy_update_info, path, interval_s)
        self._feeds.append(feed)
        if self._end.is_set():
            feed.close()
        return feed

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """See :meth:`BaseParallelCollector.start`; launches the envs first."""
        if self._env_manager.closed and not self._end.is_set():
            self._env_manager.launch()
        super().start()

    def stop(self, timeout_s: float = 10.0) -> bool:
        """See :meth:`BaseParallelCollector.stop`; a wait for a policy ends too."""
        self._end.set()
        for feed in self._feeds:
            feed.close()
        return super().stop(timeout_s)

    def _start_thread(self) -> None:
        if not self._eval_flag:
            for feed in self._feeds:
                feed.start()

    def _join_thread(self) -> None:
        for feed in self._feeds:
            feed.join(5.0)

    def _before_end(self) -> None:
        self._flush()

    def _flush(self) -> None:
        for cutter in self._cutters:
            cutter.flush()

    # ------------------------------------------------------------------ steps

    def _end_episode(self, info: Any, env_id: int) -> float:
        """Count a finished episode; returns its return (player 0's, if there is one per player)."""
        value = info[0] if isinstance(info, (list, tuple)) else info
        result = _first_player(value, env_id)
        self._tally.add_episode(result)
        return result

    def _send_progress(self) -> None:
        """Tell how far the collector is. All that was collected before is sent before."""
        done = self._collector_done = bool(self._env_manager.done)
        if done:
            self._flush()
        self.send_metadata(
            {
                "eval_flag": self._eval_flag,
                "get_info_time": time.time(),
                "collector_done": done,
                **self._tally.progress(),
            }
        )

    def _send_chunk(
        self, batch: TransitionBatch, spans: list[Span], policy_iter: Any, oldest: int, **more: Any
    ) -> None:
        """Store a chunk and tell of it.

        Args:
            batch: the training samples.
            spans: see :mod:`ding.worker.collector._parallel_ledger`.
            policy_iter: the iteration (for several players: the iterations) of the policy.
            oldest: smallest policy iteration among the samples.
            more: further entries of the metadata.
        """
        data_id = f"chunk_{self._collector_uid}_{uuid.uuid4().hex}"
        self.send_stepdata(data_id, batch)
        self.send_metadata(
            {
                "eval_flag": self._eval_flag,
                "data_id": data_id,
                "policy_iter": policy_iter,
                "collect_iter": oldest,
                "rows": len(batch),
                "unroll_len": sum(span[3] for span in spans),
                "spans": spans,
                "compressor": "none",
                "get_data_time": time.time(),
                "priority": 1.0,
                **self._tally.progress(),
                **more,
            }
        )


def make_env_manager(cfg: EasyDict, eval_flag: bool) -> Any:
    """The env manager of a collector or evaluator task, not launched yet."""
    env_fn, collector_cfg, evaluator_cfg = get_vec_env_setting(cfg, collect=not eval_flag, eval_=eval_flag)
    env_cfgs = evaluator_cfg if eval_flag else collector_cfg
    return create_env_manager(cfg.manager, [partial(env_fn, cfg=env_cfg) for env_cfg in env_cfgs or []])


def trajectory_length(policy: Any) -> float:
    """Steps after which a trajectory is cut: ``n_sample``, or no end when ``n_episode`` is set.

    Raises:
        AssertionError: neither is set.
    """
    if policy.get_attribute("n_episode") is not None:
        return INF
    n_sample = policy.get_attribute("n_sample")
    if n_sample is None:
        raise AssertionError("policy.collect needs n_sample or n_episode: how long a trajectory is, is unknown")
    return n_sample


def complete(env_ids: np.ndarray, done: np.ndarray, counts: np.ndarray, traj_len: float) -> np.ndarray:
    """The environments (of ``env_ids``) whose piece ends with this step."""
    return env_ids[(done | (counts[env_ids] >= traj_len)) & (counts[env_ids] > 0)]


def _first_player(info: Any, env_id: int) -> float:
    value: Any = info.get("eval_episode_return") if isinstance(info, dict) else None
    if isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) > 0:
        return float(value[0])
    return episode_return(info, env_id)
