"""Layout of the system config: hosts and ports of the processes.

A port of 0 means any free one: the process binds it and reports it on enrolment, so that no port is guessed in advance.
The functions modify the given config in place and return it.
"""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from easydict import EasyDict

from ding.config.checks.parallel import check_communication_mode, checked_port
from ding.config.errors import ConfigValueError
from ding.config.per_collector import own_env
from ding.config.testing import parallel_test_create_config as parallel_test_create_config
from ding.config.testing import parallel_test_main_config as parallel_test_main_config
from ding.config.testing import parallel_test_system_config as parallel_test_system_config
from ding.utils.system_helper import find_free_port

DEFAULT_HOST = "127.0.0.1"
K8S_HOST = "0.0.0.0"  # a pod is reached from other pods; without a token such an address is rejected
K8S_COORDINATOR_PORT, K8S_LEARNER_PORT, K8S_COLLECTOR_PORT = 22273, 22271, 22270
AGGREGATOR_PORT = 22272
# DI-engine's names. Processes here listen at DEFAULT_HOST, on a free port.
default_host, default_port = K8S_HOST, K8S_COLLECTOR_PORT

Hosts = str | Sequence[str] | None


def set_system_cfg(cfg: EasyDict) -> EasyDict:
    """Return the system part with one section per process, before hosts and ports are assigned.

    Args:
        cfg: ``{main, system}``; ``system`` is the user's, with ``comm_learner`` and ``comm_collector`` sections.

    Raises:
        ConfigValueError: ``communication_mode`` is not ``'auto'``.
    """
    system = cfg.system
    check_communication_mode(system)
    gpu_num = int(system.get("learner_gpu_num", 0))
    result = EasyDict(coordinator=EasyDict(system.get("coordinator", {})))
    for index in range(cfg.main.policy.learn.learner.learner_num):
        section = _worker_section(system, "learner", index)
        section.update(multi_gpu=gpu_num > 1, gpu_num=gpu_num, aggregator=False)
        result[f"learner{index}"] = section
    for index in range(cfg.main.policy.collect.collector.collector_num):
        result[f"collector{index}"] = section = _worker_section(system, "collector", index)
        section.env = own_env(cfg.main, index)
    for key in ("tls", "backend", "ray"):
        if key in system:
            result[key] = system[key]
    return result


def _worker_section(system: Mapping[str, Any], kind: str, index: int) -> EasyDict:
    comm = system[f"comm_{kind}"]
    ports = system.get(f"{kind}_port", "auto")
    return EasyDict(
        {key: deepcopy(value) for key, value in comm.items() if key not in ("type", "import_names")},
        type=comm["type"],
        import_names=list(comm.get("import_names", [])),
        host=system.get(f"{kind}_host"),
        port=ports[index % len(ports)] if isinstance(ports, (list, tuple)) else ports,
        path_data=system.get("path_data", "auto"),
        path_policy=system.get("path_policy", "auto"),
    )


def set_host_port(cfg: EasyDict, coordinator_host: str | None, learner_host: Hosts, collector_host: Hosts) -> EasyDict:
    """Assign host and port to every section of a system config, and the workers' addresses to the coordinator.

    Args:
        cfg: Result of ``set_system_cfg``.
        coordinator_host: Address that the coordinator binds; ``None``: its ``host``, or 127.0.0.1.
        learner_host, collector_host: One host for all, or hosts that are assigned cyclically.

    Raises:
        ConfigValueError: A port is invalid, or a list of hosts is empty.
    """
    coordinator = cfg.coordinator
    coordinator.host = coordinator_host or coordinator.get("host") or DEFAULT_HOST
    coordinator.port = checked_port(coordinator.get("port"), "system_config.coordinator.port")
    for kind, given in (("learner", learner_host), ("collector", collector_host)):
        hosts = _hosts(given, f"{kind}_host")
        for name in worker_names(cfg, kind):
            section = cfg[name]
            section.host = (next(hosts) if hosts is not None else None) or section.get("host") or DEFAULT_HOST
            section.port = _ports(section, name)
    return set_collector_interaction_for_coordinator(set_learner_interaction_for_coordinator(cfg))


def set_learner_interaction_for_coordinator(cfg: EasyDict) -> EasyDict:
    """Add the address of each learner, or of its aggregator, to the coordinator of a system config:
    ``coordinator.learner[name] = [name, host, port]``.
    """
    addresses = EasyDict()
    for index, name in enumerate(worker_names(cfg, "learner")):
        place = cfg[f"learner_aggregator{index}"].slave if cfg[name].get("aggregator") else cfg[name]
        addresses[name] = [name, place.host, place.port]
    cfg.coordinator.learner = addresses
    return cfg


def set_collector_interaction_for_coordinator(cfg: EasyDict) -> EasyDict:
    """Add the address of each collector to the coordinator of a system config:
    ``coordinator.collector[name] = [name, host, port]``.
    """
    names = worker_names(cfg, "collector")
    cfg.coordinator.collector = EasyDict({name: [name, cfg[name].host, cfg[name].port] for name in names})
    return cfg


def choose_free_ports(system: EasyDict) -> None:
    """Replace each port 0 in a system config of :func:`set_host_port` by a currently free one."""
    coordinator = system.coordinator
    coordinator.port = coordinator.port or find_free_port(coordinator.host)
    for kind in ("learner", "collector"):
        for name, address in coordinator[kind].items():
            section = system[name]
            ports = section.port if isinstance(section.port, list) else [section.port]
            chosen = [port or find_free_port(section.host) for port in ports]
            section.port = address[2] = chosen if isinstance(section.port, list) else chosen[0]


def _ports(section: Mapping[str, Any], name: str) -> int | list[int]:
    port = section.get("port")
    if section.get("multi_gpu", False) and not isinstance(port, list):
        first = checked_port(port, f"system_config.{name}.port")
        return [first + rank if first else 0 for rank in range(section["gpu_num"])]
    return checked_port(port, f"system_config.{name}.port")


def worker_names(system: Mapping[str, Any], kind: str) -> list[str]:
    """Return the names of the sections of a kind (``'learner'``: learner0, learner1, ...), in order."""
    numbers = sorted(int(key[len(kind) :]) for key in system if key.startswith(kind) and key[len(kind) :].isdigit())
    return [f"{kind}{number}" for number in numbers]


def _hosts(given: Hosts, where: str) -> Iterator[str] | None:
    if given is None:
        return None
    hosts = [given] if isinstance(given, str) else list(given)
    if not hosts:
        raise ConfigValueError(f"{where}: the list of hosts is empty")
    return itertools.cycle(hosts)


def parallel_transform(
    cfg: EasyDict, coordinator_host: str | None = None, learner_host: Hosts = None, collector_host: Hosts = None
) -> EasyDict:
    """Adapt ``cfg.system`` to processes on one machine, or on machines with known hosts.

    Raises:
        ConfigValueError: See ``set_system_cfg`` and ``set_host_port``.
    """
    cfg = EasyDict(cfg)
    cfg.system = set_host_port(set_system_cfg(cfg), coordinator_host, learner_host, collector_host)
    return cfg


def parallel_transform_slurm(
    cfg: EasyDict, coordinator_host: str | None = None, learner_node: Hosts = None, collector_node: Hosts = None
) -> EasyDict:
    """Adapt ``cfg.system`` to a Slurm cluster: nodes are assigned cyclically.

    A learner with several GPUs gets an aggregator on its node, to which the coordinator connects instead. The partition
    is that of the current job (``SLURM_JOB_PARTITION``), or ``None``.

    Raises:
        ConfigValueError: See ``set_system_cfg`` and ``set_host_port``.
    """
    cfg = EasyDict(cfg)
    cfg.system = set_host_port_slurm(set_system_cfg(cfg), coordinator_host, learner_node, collector_node)
    return cfg


def set_host_port_slurm(
    cfg: EasyDict, coordinator_host: str | None, learner_node: Hosts, collector_node: Hosts
) -> EasyDict:
    """Assign node, partition, host and port to every section of a system config; see :func:`parallel_transform_slurm`.

    Args:
        cfg: Result of ``set_system_cfg``.
        coordinator_host, learner_node, collector_node: As in ``set_host_port``; a node is addressed by its name.

    Raises:
        ConfigValueError: See ``set_host_port``.
    """
    cfg = set_host_port(cfg, coordinator_host, learner_node, collector_node)
    partition = os.environ.get("SLURM_JOB_PARTITION")
    for name in worker_names(cfg, "learner") + worker_names(cfg, "collector"):
        cfg[name].update(node=cfg[name].host, partition=partition)
    for index, name in enumerate(worker_names(cfg, "learner")):
        section = cfg[name]
        if not section.multi_gpu:
            continue
        section.aggregator = True
        cfg[f"learner_aggregator{index}"] = EasyDict(
            master=dict(host=section.host, port=AGGREGATOR_PORT + 1 + 2 * index),
            slave=dict(host=section.host, port=AGGREGATOR_PORT + 2 * index),
            learner={str(rank): [str(rank), section.host, port] for rank, port in enumerate(section.port)},
            node=section.host,
            partition=partition,
        )
    return set_learner_interaction_for_coordinator(cfg)


def parallel_transform_k8s(
    cfg: EasyDict,
    coordinator_port: int | None = None,
    learner_port: int | None = None,
    collector_port: int | None = None,
) -> EasyDict:
    """Adapt ``cfg.system`` to Kubernetes: fixed ports, one template per kind; the operator announces the workers.

    Raises:
        ConfigValueError: See ``set_system_cfg``; or a port is invalid.
    """
    cfg = EasyDict(cfg)
    system = set_host_port_k8s(set_system_cfg(cfg), coordinator_port, learner_port, collector_port)
    cfg.system = EasyDict({key: system[key] for key in ("coordinator", "learner", "collector")})
    cfg.system.coordinator.update(learner=EasyDict(), collector=EasyDict())
    return cfg


def set_host_port_k8s(
    cfg: EasyDict,
    coordinator_port: int | None = None,
    learner_port: int | None = None,
    collector_port: int | None = None,
) -> EasyDict:
    """Assign a port to every section of a system config, and add the pod templates ``learner`` and ``collector``.

    Args:
        cfg: Result of ``set_system_cfg``.
        coordinator_port, learner_port, collector_port: Default 22273, 22271 and 22270.

    Raises:
        ConfigValueError: A port is invalid.
    """
    cfg.coordinator.host = K8S_HOST
    cfg.coordinator.port = checked_port(coordinator_port, "coordinator_port") or K8S_COORDINATOR_PORT
    for kind, given, default in (
        ("learner", learner_port, K8S_LEARNER_PORT),
        ("collector", collector_port, K8S_COLLECTOR_PORT),
    ):
        names = worker_names(cfg, kind)
        for name in names:
            cfg[name].port = checked_port(given, f"{kind}_port") or default
        cfg[kind] = EasyDict({**deepcopy(cfg[names[0]]), "host": K8S_HOST})
    return cfg


def env_number(variable: str) -> int | None:
    """Return the number in an environment variable; ``None`` if it is not set.

    Raises:
        ConfigValueError: The variable is not a number.
    """
    text = os.environ.get(variable)
    if text is None:
        return None
    if not text.isdigit():
        what = "a port number" if variable.endswith("_PORT") else "a whole number"
        raise ConfigValueError(f"the environment variable {variable} must be {what}, got {text!r}")
    return int(text)
