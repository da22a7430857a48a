"""Nodes of a run: their numbers, addresses and connections."""

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
    """A process of a run and the settings of its message queue.

    Attributes:
        node_id: Number of the node in the run.
        local_id: Number among the nodes that are started together.
        num_peers: Number of connections to wait for before ``main`` starts.
        mq_kwargs: Constructor arguments of the message queue.
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
    """Job of a node's process.

    Attributes:
        main: The function, or its location: module and qualified name.
        recovers: Whether the node is restarted after an exception.
        is_supervised: Whether a launcher, or the process itself, handles an exception of ``main``.
        retries: Number of restarts within the same process.
    """

    node: Node
    main: "Callable[..., Any] | tuple[str, str]"
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    recovers: bool = False
    is_supervised: bool = False
    retries: int = 0


def padded(value: "int | Sequence[int] | None", num: int, start: int) -> list[int]:
    """Return a number for each of ``num`` nodes: the values, or a count starting at the single value or at ``start``.

    Raises:
        AssertionError: There are several values, but not one for each node.
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
        protocol: ``ipc`` (socket files in ``folder``, by default the system's temporary folder) or ``tcp``.
        address: For ``tcp``; the default accepts only local connections.
        ports: For ``tcp``; by default counted from 50515.

    Raises:
        ValueError: The protocol is unknown.
        AssertionError: The number of ports does not match the number of nodes.
    """
    if protocol == "ipc":
        run = secrets.token_hex(6)
        return [f"ipc://{os.path.join(folder or tempfile.gettempdir(), f'ditask_{run}_{i}.ipc')}" for i in range(num)]
    if protocol == "tcp":
        return [f"tcp://{address or LOCAL_HOST}:{port}" for port in padded(ports, num, FIRST_PORT)]
    raise ValueError(f"the protocol of a node is ipc or tcp, got {protocol!r}")


def dialled(topology: str, own: Sequence[str], number: int, attach_to: Iterable[str] = ()) -> list[str]:
    """Return the addresses that node ``number`` of ``own`` dials; connections are bidirectional.

    Raises:
        ValueError: The topology is unknown.
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
    """Create the nodes that are started together on this machine.

    Raises:
        AssertionError: ``num`` is not positive, or the number of ports or ids does not match.
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
