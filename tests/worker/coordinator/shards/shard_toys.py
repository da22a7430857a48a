"""Buffers with shards that can be lost, in one process."""

import numpy as np

from ding.interaction import InprocTransport
from ding.utils.credentials import worker_token
from ding.worker.coordinator.shards.messages import ShardLost
from ding.worker.coordinator.shards.remote import RemoteShard, ShardServer
from ding.worker.coordinator.shards.shard import Shard
from ding.worker.coordinator.shards.sharded_buffer import ShardedBuffer

TOKEN = "a-token-of-this-run-0123456789"


def ref(name, rows, **meta):
    return {"chunk": name, "rows": rows, "bytes": 100, **meta}


class LosableShard(Shard):
    """Answers until it is lost."""

    lost = False

    def ask(self, message):
        if self.lost:
            raise ShardLost("it was killed")
        return super().ask(message)


class Shards:
    """What a buffer gets its shards from. ``down``: numbers of places for which there is none."""

    def __init__(self):
        self.down = set()
        self.made = {}

    def __call__(self, spec):
        if spec.number in self.down:
            raise ShardLost("it is down")
        self.made[spec.number] = LosableShard(spec)
        return self.made[spec.number]

    def lose(self, number, down=False):
        self.made[number].lost = True
        if down:
            self.down.add(number)


class ServedShards(Shards):
    """The same, each behind a server of its own on a network within the process."""

    def __init__(self):
        super().__init__()
        self.network = InprocTransport()
        self.servers = {}

    def serve(self, number):
        own = worker_token(TOKEN, "shard", f"shard{number}")
        server = ShardServer(run_token=own, transport=self.network)
        server.start()
        self.servers[number] = server

    def __call__(self, spec):
        if spec.number in self.down:
            raise ShardLost("it is down")
        if spec.number not in self.servers:
            self.serve(spec.number)
        address = self.servers[spec.number].my_address
        return RemoteShard(
            spec, f"shard{spec.number}", address, patience_s=5.0, run_token=TOKEN, transport=self.network
        )

    def lose(self, number, down=False):
        self.servers.pop(number).close()
        if down:
            self.down.add(number)

    def close(self):
        for server in self.servers.values():
            server.close()


def make(released=None, shards=3, connect=None, counts=None, **cfg):
    """A buffer with shards; ``counts``: a counter of what it counts."""
    return ShardedBuffer(
        {"shards": shards, **cfg},
        release=released.extend if released is not None else lambda refs: None,
        count=(lambda name, number: None) if counts is None else lambda name, number: counts.update({name: number}),
        connect=connect,
        retry_s=None,
    )


def drawn(batch):
    """The rows of a batch as pairs of chunk and row there."""
    return [(batch["chunks"][at], row) for at, row in np.asarray(batch["rows"]).tolist()]
