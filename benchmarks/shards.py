"""``python -m benchmarks.shards``: a coordinator's replay buffer in 2 and 4 shards beside one buffer.

The same pushes, draws and updates of priorities take turns: over one buffer, over shards that are objects of the same
process, and over shards in processes of their own (``ShardServer``, HTTP over the loopback interface). For each there
are the milliseconds of a call, as medians over the rounds: CPU of this process, which stands for the coordinator, and
time on the clock. Shards pay where the first is below that of one buffer.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from ding.utils.credentials import worker_token
from ding.worker.coordinator.buffers.metadata_buffer import MetadataBuffer
from ding.worker.coordinator.shards.messages import ShardLink
from ding.worker.coordinator.shards.remote import ROLE, RemoteShard, ShardServer
from ding.worker.coordinator.shards.shard import ShardSpec
from ding.worker.coordinator.shards.sharded_buffer import ShardedBuffer

TOKEN = "the-token-of-this-benchmark"
SHARDS = (2, 4)
#: Rows of a chunk, and rows of all batches that are drawn at once.
ROWS = (25, 1_000)
DRAWN = (512, 8_192)


def serve(number: int, pipe: Connection) -> None:
    """Be the process of a shard until the pipe is closed."""
    server = ShardServer(run_token=worker_token(TOKEN, ROLE, f"{ROLE}{number}"))
    with contextlib.closing(server):
        server.start()
        pipe.send(server.my_address)
        with contextlib.suppress(EOFError):
            pipe.recv()


@contextlib.contextmanager
def processes(count: int) -> Iterator[list[str]]:
    """Run processes of shards; yields their addresses."""
    context = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as ends:
        addresses = []
        for number in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(number, theirs))
            process.start()
            theirs.close()
            ends.callback(process.join)
            ends.callback(ours.close)
            addresses.append(ours.recv())
        yield addresses


class Side:
    """A buffer that is full, and what is done with it."""

    def __init__(self, buffer: MetadataBuffer | ShardedBuffer, size: int) -> None:
        self._buffer = buffer
        self._pushed = 0
        while self._pushed * 1_000 < size:
            self.push(1_000, 1)

    def push(self, rows: int, times: int) -> None:
        """Push chunks one by one."""
        for _ in range(times):
            self._pushed += 1
            self._buffer.push_chunks([{"chunk": f"c{self._pushed}", "rows": rows, "collect_iter": self._pushed}])

    def draw(self, rows: int, times: int) -> None:
        """Draw batches of 32, so many rows at once, which arrive at once."""
        for number in range(times):
            batches = self._buffer.sample_batches(32, [self._pushed + number] * (rows // 32))
            self._buffer.batch_loaded(batches[-1]["batch"])

    def update(self, rows: int, times: int) -> None:
        """Draw once; set new priorities of these rows again and again."""
        batches = self._buffer.sample_batches(32, [0] * (rows // 32))
        self._buffer.batch_loaded(batches[-1]["batch"])
        ids, slots = (np.concatenate([batch[key] for batch in batches]) for key in ("unique_id", "buffer_idx"))
        for number in range(times):
            priority = np.linspace(1, 2 + number, len(ids))
            self._buffer.update({"replay_unique_id": ids, "replay_buffer_idx": slots, "priority": priority})


def sides(size: int, addresses: list[str]) -> dict[str, Side]:
    """The buffers that take turns."""
    cfg: dict[str, Any] = {"replay_buffer_size": size}

    def connect(spec: ShardSpec) -> ShardLink:
        return RemoteShard(spec, f"{ROLE}{spec.number}", addresses[spec.number], 60.0, run_token=TOKEN)

    found = {"one buffer": Side(MetadataBuffer(cfg), size)}
    for count in SHARDS:
        own = {**cfg, "shards": count}
        found[f"{count} shards, objects"] = Side(ShardedBuffer(own), size)
        found[f"{count} shards, processes"] = Side(ShardedBuffer(own, f"b{count}", connect=connect), size)
    return found


def measure(found: Mapping[str, Side], rounds: int) -> dict[tuple[str, str], tuple[float, float]]:
    """Medians of the milliseconds of a call, ``(CPU, clock)``, by what was done and by side."""
    works = [("push", rows, 40) for rows in ROWS]
    works += [(what, rows, 10) for what in ("draw", "update") for rows in DRAWN]
    seen: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for what, rows, times in works:
            for name, side in found.items():
                cpu_s, clock_s = time.process_time(), time.perf_counter()
                getattr(side, what)(rows, times)
                spent = (time.process_time() - cpu_s, time.perf_counter() - clock_s)
                figures = seen.setdefault((f"{what} {rows}", name), [])
                figures.append((spent[0] / times * 1e3, spent[1] / times * 1e3))
    return {
        key: (statistics.median(one[0] for one in all_), statistics.median(one[1] for one in all_))
        for key, all_ in seen.items()
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--size", type=int, default=100_000, help="rows that the buffers hold")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, processes(max(SHARDS)) as addresses:
        os.chdir(folder)  # for the logs
        medians = measure(sides(args.size, addresses), args.rounds)
    print(f"{args.size} rows, {args.rounds} rounds, load {os.getloadavg()[0]:.0f}; ms of a call: CPU here (clock)")
    for (what, name), (cpu_ms, clock_ms) in medians.items():
        print(f"{what:>12} rows  {name:22} {cpu_ms:7.3f}  ({clock_ms:.3f})")


if __name__ == "__main__":
    main()
