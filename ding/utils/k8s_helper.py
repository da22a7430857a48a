"""Kubernetes: the operator's address inside a pod, commands in pods, and local clusters of ``k3d``."""

import ast
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from enum import Enum, unique
from typing import Any, TypeVar

from ding.utils.import_helper import import_yaml

DEFAULT_K8S_COLLECTOR_PORT = 22270
DEFAULT_K8S_LEARNER_PORT = 22271
DEFAULT_K8S_AGGREGATOR_SLAVE_PORT = 22272
DEFAULT_K8S_COORDINATOR_PORT = 22273
DEFAULT_K8S_AGGREGATOR_MASTER_PORT = 22273

ValueT = TypeVar("ValueT")

_HARMLESS = ("already exists", "NotFound")


def exist_operator_server() -> bool:
    """Return whether an operator is configured: ``KUBERNETES_SERVER_URL`` is set."""
    return "KUBERNETES_SERVER_URL" in os.environ


def get_operator_server_kwargs(cfg: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``api_version``, ``namespace``, ``name``, ``host`` and ``port`` for a connection to the operator.

    Args:
        cfg: ``system_addr`` (``host:port`` or an http address) and ``api_version``, by default those of the environment
            variables ``KUBERNETES_SERVER_URL`` and ``KUBERNETES_SERVER_API_VERSION``.

    Raises:
        AssertionError: no address is given, or it has no port.
    """
    url = str(cfg.get("system_addr") or os.environ.get("KUBERNETES_SERVER_URL") or "")
    host, _, port = url.rpartition("://")[2].strip("/").partition(":")
    if not host or not port.isdigit():
        raise AssertionError(f"system_addr or KUBERNETES_SERVER_URL must be host:port of the operator, got {url!r}")
    return {
        "api_version": cfg.get("api_version") or os.environ.get("KUBERNETES_SERVER_API_VERSION", "/v1alpha1"),
        "namespace": os.environ.get("KUBERNETES_POD_NAMESPACE", "default"),
        "name": os.environ.get("KUBERNETES_POD_NAME", "dijob-example-coordinator"),
        "host": host,
        "port": int(port),
    }


def pod_exec_command(kubeconfig: str, name: str, namespace: str, cmd: str) -> tuple[int, str]:
    """Run a command of ``/bin/sh`` in a running pod, by ``kubectl``.

    Args:
        kubeconfig: path of the config of the cluster.
        name, namespace: Name and namespace of the pod.
        cmd: Command that prints a Python dict with ``code`` and ``message``.

    Returns:
        ``(code, message)``, or ``(-1, reason)`` if the pod is missing, is not running, or printed anything else.
    """
    kubectl = ["kubectl", f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]
    found = _run([*kubectl, "get", "pod", name, "-o", "json"])
    if found.returncode:
        return -1, f"there is no pod {name} in {namespace}: {found.stderr.strip()}"
    phase = json.loads(found.stdout).get("status", {}).get("phase")
    if phase != "Running":
        return -1, f"the pod {name} is not running, it is {phase}"
    done = _run([*kubectl, "exec", name, "--", "/bin/sh", "-c", cmd])
    try:
        answer = ast.literal_eval(done.stdout.strip())
        return int(answer["code"]), str(answer["message"])
    except (ValueError, SyntaxError, KeyError, TypeError):
        return -1, f"the command in {name} printed no code and message: {(done.stdout or done.stderr).strip()[:200]}"


@unique
class K8sType(Enum):
    """Kinds of cluster: the current one, or one created by ``k3d``."""

    Local = 1
    K3s = 2


class K8sLauncher:
    """A ``k3d`` cluster on this machine. For type ``local``, an existing cluster is used and the methods do nothing.

    Args:
        config_path: YAML file: ``name``, ``servers`` (1), ``agents`` (0), ``type`` (``k3s`` or ``local``) and
            ``preload_images`` ([]).

    Raises:
        TypeError: an entry has another type.
        ValueError: ``type`` is unknown.
        FileNotFoundError: The type is ``k3s`` and ``k3d`` is not installed.
        ImportError: PyYAML is not installed.
    """

    def __init__(self, config_path: str | None = None) -> None:
        cfg: object = {}
        if config_path is not None:
            with open(config_path, encoding="utf-8") as file:
                cfg = import_yaml().safe_load(file)
        self.name = _entry(cfg, "name", str, "")
        self.servers = _entry(cfg, "servers", int, 1)
        self.agents = _entry(cfg, "agents", int, 0)
        self.type = _type_of(_entry(cfg, "type", str, "local"))
        self._images = _entry(cfg, "preload_images", list, [])
        if self.type is K8sType.K3s and shutil.which("k3d") is None:
            raise FileNotFoundError("a cluster of type k3s needs k3d, and there is no k3d on the path")

    def create_cluster(self) -> None:
        """Create the cluster unless it exists, and load its images.

        Raises:
            RuntimeError: ``k3d`` failed; the message is its own.
        """
        self._k3d("cluster", "create", self.name, f"--servers={self.servers}", f"--agents={self.agents}")
        self.preload_images(self._images)

    def delete_cluster(self) -> None:
        """Remove the cluster, if it exists; raises as :meth:`create_cluster`."""
        self._k3d("cluster", "delete", self.name)

    def preload_images(self, images: Sequence[str]) -> None:
        """Load images into the cluster; raises as :meth:`create_cluster`."""
        if images:
            self._k3d("image", "import", *images, f"--cluster={self.name}")

    def _k3d(self, *arguments: str) -> None:
        if self.type is K8sType.K3s:
            run_checked(["k3d", *arguments])


def run_checked(command: Sequence[str]) -> None:
    """Run a command. Errors about objects that already exist, or are already gone, are ignored.

    Raises:
        RuntimeError: The command failed; the message is its own.
    """
    done = _run(command)
    if done.returncode and not any(text in done.stderr for text in _HARMLESS):
        raise RuntimeError(f"{' '.join(command[:3])} failed: {done.stderr.strip()}")


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _entry(cfg: object, key: str, kind: type[ValueT], default: ValueT) -> ValueT:
    if not isinstance(cfg, Mapping):
        raise TypeError(f"the config of a cluster must be a dict, got {cfg!r}")
    value = cfg.get(key, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{key} of a cluster must be of type {kind.__name__}, got {value!r}")
    return value


def _type_of(name: str) -> K8sType:
    kinds = {"local": K8sType.Local, "k3s": K8sType.K3s}
    if name not in kinds:
        raise ValueError(f"type of a cluster must be k3s or local, got {name!r}")
    return kinds[name]
