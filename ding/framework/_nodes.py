"""The nodes of a run: their numbers, their addresses, and who dials whom."""

import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

FIRST_PORT = 50515
LOCAL_HOST = "127.0.0.1"
TOPOLOGIES = ("mesh", "star", "alone")


@dataclass(frozen=True)
class Node:
    """A process of a run, and what its message queue is made with.

    Attributes:
        node_id: its number in the run.
        local_id: its number among those that are started together.
        num_peers: connections that it waits for before its ``main`` begins.
        mq_kwargs: for the constructor of the message queue.
    """

    node_id: int
    local_id: int
    attach_to: list[str]
    num_peers: int
    labels: frozenset[str] = frozenset()
    mq_type: str = "nng"
    mq_kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeJob:
    """What the process of a node does.

    Attributes:
        main: the function, or where it is found: module and qualified name.
        recovers: whether it is started again after an exception.
        is_supervised: whether a launcher, or its own process, deals with an exception of ``main``.
        retries: how often it was started again in this same process.
    """

    node: Node
    main: "Callable[..., Any] | tuple[str, str]"
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    recovers: bool = False
    is_supervised: bool = False
    retries: int = 0


def padded(value: "int | Sequence[int] | None", num: int, start: int) -> list[int]:
    """Return a number for each of ``num`` nodes: ``value`` itself, or counted up from it, or from ``start``.

    Raises:
        AssertionError: there is more than one value, and not one for each node.
    """
    if value is None:
        return list(range(start, start + num))
    values = [value] if isinstance(value, int) else list(value)
    if len(values) == 1:
        return list(range(values[0], values[0] + num))
    if len(values) != num:
        raise AssertionError(f"{len(values)} values for {num} nodes: {values}; expected one, or one for each")
    return values


def addresses(
    num: int,
    protocol: str = "ipc",
    address: str | None = None,
    ports: "int | Sequence[int] | None" = None,
    folder: str | None = None,
) -> list[str]:
    """Return the addresses of ``num`` nodes.

    Args:
        protocol: ``ipc`` (socket files in ``folder``, by default that of the system) or ``tcp``.
        address: for ``tcp``; by default this machine alone can connect.
        ports: for ``tcp``, from 50515 on by default.

    Raises:
        ValueError: there is no such protocol.
        AssertionError: the number of ports does not fit.
    """
    if protocol == "ipc":
        run = secrets.token_hex(6)
        return [f"ipc://{os.path.join(folder or tempfile.gettempdir(), f'ditask_{run}_{i}.ipc')}" for i in range(num)]
    if protocol == "tcp":
        return [f"tcp://{address or LOCAL_HOST}:{port}" for port in padded(ports, num, FIRST_PORT)]
    raise ValueError(f"the protocol of a node is ipc or tcp, got {protocol!r}")


def dialled(topology: str, own: Sequence[str], number: int, attach_to: Iterable[str] = ()) -> list[str]:
    """Return the addresses that node ``number`` of ``own`` dials; a connection carries messages both ways.

    Raises:
        ValueError: there is no such topology.
    """
    if topology not in TOPOLOGIES:
        raise ValueError(f"the topology of a run is one of {', '.join(TOPOLOGIES)}, got {topology!r}")
    inside = {"mesh": own[:number], "star": own[: min(number, 1)], "alone": []}[topology]
    return [*inside, *attach_to]


def make_nodes(
    num: int,
    mq_type: str = "nng",
    attach_to: "str | Sequence[str] | None" = None,
    protocol: str = "ipc",
    address: str | None = None,
    ports: "int | Sequence[int] | None" = None,
    topology: str = "mesh",
    labels: "Iterable[str] | None" = None,
    node_ids: "int | Sequence[int] | None" = None,
    folder: str | None = None,
    **mq_kwargs: Any,
) -> list[Node]:
    """Return the nodes that are started together on this machine.

    Raises:
        AssertionError: ``num`` is not positive, or the number of ports or ids does not fit.
    """
    if num <= 0:
        raise AssertionError(f"n_parallel_workers must be positive, got {num}")
    outside = [attach_to] if isinstance(attach_to, str) else list(attach_to or ())
    ids = padded(node_ids, num, 0)
    if mq_type == "redis":
        listened, dials = [""] * num, [list[str]() for _ in range(num)]
    else:
        listened = addresses(num, protocol, address, ports, folder)
        dials = [dialled(topology, listened, i, outside) for i in range(num)]
    ends = dict.fromkeys(listened, 0)
    for address_ in (one for each in dials for one in each if one in ends):
        ends[address_] += 1
    return [
        Node(
            ids[i],
            i,
            dials[i],
            len(dials[i]) + (ends[listened[i]] if mq_type != "redis" else num - 1),
            frozenset(labels or ()),
            mq_type,
            {"listen_to": listened[i], **mq_kwargs},
        )
        for i in range(num)
    ]
