"""Roles that hold the shards of replay buffers, and the coordinator's connection to them.

With ``policy.other.replay_buffer.shards`` above 1 there are that many roles ``shard0``, ``shard1``, ..., each holding
one shard of each buffer of the run. Like other roles they are processes or Ray actors. Threads of one process would
share its lock, so there, and without a launcher, the shards are objects of the coordinator.
"""

from collections.abc import Mapping
from typing import Any

from easydict import EasyDict

from ding.entry.parallel.workers import LOOK_EVERY_S, bind_mistakes, prepare
from ding.interaction import TlsConfig
from ding.parallel.launch import Role, RoleContext
from ding.utils.credentials import WorkerName
from ding.worker.coordinator.shards.messages import ShardLink, ShardLost
from ding.worker.coordinator.shards.remote import ROLE, RemoteShard, ShardServer
from ding.worker.coordinator.shards.shard import ShardSpec
from ding.worker.coordinator.shards.sharded_buffer import Connect


def shard_roles(cfg: EasyDict, payload: Mapping[str, Any]) -> list[Role]:
    """Return the roles of the shards of a run; empty if its buffers have no shards in separate processes."""
    count = int(cfg.main.policy.other.get("replay_buffer", {}).get("shards", 1))
    if count == 1 or cfg.system.get("backend") == "inproc":
        return []
    names = [f"{ROLE}{number}" for number in range(count)]
    return [Role(name, hold_shards, dict(payload), worker=(WorkerName(ROLE, name),)) for name in names]


def hold_shards(context: RoleContext) -> None:
    """Serve a shard of each buffer of the run until asked to stop.

    Raises:
        ConfigValueError: The coordinator's host cannot be listened on.
    """
    cfg = context.payload["cfg"]
    prepare(context, threads=1)
    server = ShardServer(cfg.system.coordinator.get("host"), tls=_tls(cfg))
    with bind_mistakes("system_config.coordinator.host"):
        server.start()
    try:
        context.announce({"address": server.my_address})
        while not context.stop.wait(LOOK_EVERY_S):
            if server.asked:
                context.progress()
    finally:
        server.close()


def connector(context: RoleContext) -> Connect | None:
    """Return a function that connects the coordinator to shards; ``None`` if they are objects of its process."""
    cfg = context.payload["cfg"]
    if not context.payload.get("shard_roles"):
        return None
    patience_s = float(cfg.system.coordinator.get("lease_s", 10.0))

    def connect(spec: ShardSpec) -> ShardLink:
        name = f"{ROLE}{spec.number}"
        found = context.peers().get(name)
        if found is None:
            raise ShardLost(f"{name} has not begun yet")
        return RemoteShard(spec, name, found["address"], patience_s, tls=_tls(cfg))

    return connect


def _tls(cfg: EasyDict) -> TlsConfig | None:
    return TlsConfig(**cfg.system.tls) if cfg.system.get("tls") else None
