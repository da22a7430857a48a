"""Nodes, partitions and ports of a Slurm cluster, from its commands and environment variables."""

import os
import re
import subprocess
import sys

_FREE_PORT = "import socket; s = socket.socket(); s.bind(('', 0)); print(s.getsockname()[1])"
_USABLE = ("idle", "mix")


def node_to_host(node: str) -> str:
    """Return the address in the name of a node, e.g. ``10.1.2.3`` of ``gpu-node-10-1-2-3``.

    Raises:
        ValueError: the name does not end with four numbers.
    """
    found = re.search(r"(\d+)-(\d+)-(\d+)-(\d+)$", node)
    if found is None:
        raise ValueError(f"the node {node!r} does not end with an address such as 10-1-2-3")
    return ".".join(found.groups())


def node_to_partition(node: str) -> str:
    """Return the partition of a node.

    Raises:
        RuntimeError: ``sinfo`` does not list it.
    """
    for name, partition, _ in _sinfo():
        if name == node:
            return partition
    raise RuntimeError(f"sinfo lists no node {node!r}")


def get_cls_info() -> dict[str, list[str]]:
    """Return the nodes of each partition that take jobs: idle ones, and those with free cores."""
    nodes: dict[str, list[str]] = {}
    for name, partition, state in _sinfo():
        if state.startswith(_USABLE):
            nodes.setdefault(partition, []).append(name)
    return nodes


def find_free_port_slurm(node: str) -> int:
    """Return a currently free port on a node, found by ``srun`` on that node."""
    place = [f"--partition={node_to_partition(node)}", f"--nodelist={node}"]
    return int(_run("srun", "--ntasks=1", *place, sys.executable, "-c", _FREE_PORT).split()[-1])


def get_ip() -> str:
    """Return the address of the node of this process.

    Raises:
        KeyError: This is not a Slurm process (``SLURMD_NODENAME`` is not set).
        ValueError: see :func:`node_to_host`.
    """
    return node_to_host(os.environ["SLURMD_NODENAME"])


def get_manager_node_ip(node_ip: str | None = None) -> str:
    """Return the host from which the jobs are submitted: 127.0.0.1 outside of Slurm, else ``SLURM_SUBMIT_HOST``.

    DI-engine looks up ``node_ip`` in a table of its own clusters instead.

    Raises:
        KeyError: the job has no ``SLURM_SUBMIT_HOST``.
    """
    return os.environ["SLURM_SUBMIT_HOST"] if "SLURM_JOB_ID" in os.environ else "127.0.0.1"


def _sinfo() -> list[list[str]]:
    """Return name, partition and state of each node."""
    lines = _run("sinfo", "-N", "-h", "-o", "%N %P %t").splitlines()
    rows = [line.split() for line in lines if len(line.split()) == 3]
    return [[name, partition.rstrip("*"), state] for name, partition, state in rows]


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout
