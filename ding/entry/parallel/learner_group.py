"""Learner group, a learner of several processes: an aggregator in its place, and one process per rank.

The coordinator communicates with the aggregator, which splits each batch among the ranks; these average their gradients
by ``torch.distributed`` and enrol at the aggregator. All of them form one group of roles: if one ends, all are
restarted.

On one machine the ranks find each other through a file in the run folder, readable only by its owner, and exchange
gradients over the loopback interface. On several machines they follow ``torchrun``: rank 0 listens at
``MASTER_ADDR:MASTER_PORT``.
"""

import datetime
import os
import secrets
import sys
import threading
from collections.abc import Mapping
from typing import Any

import torch.distributed as dist
from easydict import EasyDict

from ding.config.utils import AGGREGATOR_PORT, env_number
from ding.entry.parallel.workers import (
    COORDINATOR,
    PEER_TIMEOUT_S,
    bind_mistakes,
    prepare,
    serve,
    threads_for,
    wait_for_port,
    work,
)
from ding.interaction import TlsConfig
from ding.parallel.launch import Role, RoleContext
from ding.utils.credentials import WorkerName
from ding.worker.adapter import LearnerAggregator, WorkersMissing
from ding.worker.learner.comm import DEFAULT_GROUP_TIMEOUT_S, create_comm_learner, group_backend, join_group

CONNECT_TIMEOUT_S = 120.0


def rank_name(learner: str, rank: int) -> str:
    """Return the role name of a rank: ``learner0_rank1``."""
    return f"{learner}_rank{rank}"


def make_ranks(
    learner: str,
    payload: dict[str, Any],
    ranks: range,
    world_size: int,
    within: tuple[WorkerName, ...] = (),
    **more: Any,
) -> list[Role]:
    """Return the roles of some ranks of a learner.

    Args:
        within: Worker name of their aggregator, from whose token theirs are derived; empty if aggregator and ranks use
            the token of the run.
        more: Further arguments of each ``Role``.
    """
    group = {"learner": learner, "world_size": world_size, "local_processes": len(ranks)}
    return [
        Role(
            rank_name(learner, rank),
            learn_rank,
            {**payload, **group, "rank": rank, "local_rank": local_rank},
            group=learner,
            worker=(*within, WorkerName("learner", rank_name(learner, rank))) if within else (),
            **more,
        )
        for local_rank, rank in enumerate(ranks)
    ]


def aggregate(context: RoleContext) -> None:
    """Run the aggregator of a learner until asked to stop, with the config in the payload's ``aggregator``.

    With ``restarts_with_ranks`` in the payload it ends when a rank does not answer any more, so that all are restarted.

    Raises:
        ConfigValueError: A port is in use.
        WorkersMissing: A rank did not connect.
    """
    config = EasyDict(context.payload["aggregator"])
    if "cfg" in context.payload:
        prepare(context, threads=1)
    coordinator = context.wait_for_peer(COORDINATOR, PEER_TIMEOUT_S)
    if coordinator is None:
        return
    over = threading.Event()
    context.on_peer(lambda name, data: over.set() if name == COORDINATOR and data != coordinator else None)
    config.slave.coordinator_address = coordinator["address"]
    where = f"the aggregator of {context.name}"
    if context.incarnation > 0:
        for side in (config.slave, config.master):
            wait_for_port(context, side.get("host"), side.get("port"))
    with bind_mistakes(where):
        aggregator = LearnerAggregator(config)

    def stop() -> None:
        over.set()
        aggregator.cancel()

    context.stop.on_set(stop)
    missing: list[str] = []
    if context.payload.get("restarts_with_ranks"):

        def give_up(sentence: str) -> None:
            missing.append(sentence)
            over.set()

        aggregator.on_incomplete = give_up
    try:
        with bind_mistakes(where):
            context.announce({"address": aggregator.listen()})
            aggregator.start()
        serve(aggregator, context, over)
        if missing and not context.stop.is_set():
            raise WorkersMissing(f"{context.name}: {missing[0]}; the others do not answer any more")
    except WorkersMissing:
        if not context.stop.is_set():
            raise
    finally:
        aggregator.close()


def aggregator_config(
    cfg: EasyDict, learner: str, slave: Mapping[str, Any] | None = None, master: Mapping[str, Any] | None = None
) -> EasyDict:
    """Return the config of the aggregator of a learner.

    Args:
        slave, master: ``host`` and ``port`` for the coordinator and for the ranks; by default free ports.
    """
    section = cfg.system[learner]
    host = {"host": section.get("host"), "port": 0}
    result = EasyDict(
        slave={**host, **(slave or {}), "name": learner},
        master={**host, **(master or {})},
        learner_num=int(section.gpu_num),
        connect_timeout_s=CONNECT_TIMEOUT_S,
        log_path=os.path.join(cfg.main.exp_name, "log"),
    )
    if cfg.system.get("tls"):
        result.slave.tls = result.master.tls = TlsConfig(**cfg.system.tls)
    return result


def aggregator_addresses(
    cfg: EasyDict | None, learner: str, host: str | None, port: int | None
) -> dict[str, dict[str, Any]]:
    """Return the addresses of an aggregator: for the coordinator (``slave``) and for the learners (``master``).

    Args:
        cfg: Compiled config, if any.
        learner: Learner that the aggregator represents.
        host: Address to listen on; ``None``: that of the config.
        port: Port for the coordinator, followed by that for the learners; ``None``: environment variable
            ``AGGREGATOR_PORT``, else those of the config, else 22272.
    """
    known = {} if cfg is None else cfg.system.get(learner.replace("learner", "learner_aggregator"), {})
    slave, master = dict(known.get("slave", {})), dict(known.get("master", {}))
    default = "127.0.0.1" if cfg is None else cfg.system[learner].host if learner in cfg.system else None
    given = port if port is not None else env_number("AGGREGATOR_PORT")
    slave_port = given if given is not None else slave.get("port", AGGREGATOR_PORT + 2 * int(learner[len("learner") :]))
    master_port = slave_port + 1 if given is not None or "port" not in master else master["port"]
    return {
        "slave": {"host": host or slave.get("host") or default, "port": slave_port},
        "master": {"host": host or master.get("host") or default, "port": master_port},
    }


def learn_rank(context: RoleContext) -> dict[str, Any] | None:
    """Run one of the processes of a learner until asked to stop, or until its aggregator is absent for too long.

    Raises:
        GroupBroken: The other processes have ended, or do not respond.
    """
    payload = context.payload
    learner, rank, world_size = payload["learner"], int(payload["rank"]), int(payload["world_size"])
    threads = threads_for(payload["cfg"], "learner")
    names = prepare(context, threads)
    if not _join(context, learner, rank, world_size):
        return None
    section = dict(payload["cfg"].system[learner])
    section["multi_gpu"] = True
    outlasted = work(context, create_comm_learner, names, section, learner)
    return {"ended": f"{learner}: the aggregator did not come back"} if outlasted else None


def _join(context: RoleContext, learner: str, rank: int, world_size: int) -> bool:
    """Join the group of ranks; return ``False`` if asked to stop meanwhile."""
    payload = context.payload
    cfg, local_processes = payload["cfg"], payload["local_processes"]
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(payload["local_rank"]), WORLD_SIZE=str(world_size))
    timeout_s = float(cfg.system[learner].get("group_timeout_s", DEFAULT_GROUP_TIMEOUT_S))
    store = None
    if not payload.get("rendezvous_by_env"):
        path = _meeting_file(context, learner, rank)
        if path is None:
            return False
        store = dist.FileStore(path, world_size)  # type: ignore[attr-defined]
        store.set_timeout(datetime.timedelta(seconds=timeout_s))
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform.startswith("linux") else "lo0")
    backend = group_backend(bool(cfg.main.policy.get("cuda", False)), local_processes)
    join_group(timeout_s, backend=backend, rank=rank, world_size=world_size, store=store)
    return True


def _meeting_file(context: RoleContext, learner: str, rank: int) -> str | None:
    """Return the rendezvous file of the group's current incarnation, chosen by rank 0."""
    if rank == 0:
        path = os.path.join(context.run_dir, f"{learner}_{secrets.token_hex(8)}.group")
        context.announce({"group": path})
        return path
    first = context.wait_for_peer(rank_name(learner, 0), PEER_TIMEOUT_S)
    return None if first is None else first["group"]
