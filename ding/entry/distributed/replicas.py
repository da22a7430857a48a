"""Workers of a run on Kubernetes, requested from the operator: add, remove or restart them.

Within a pod the operator's address is ``KUBERNETES_SERVER_URL``. From outside, pass an address at which it can be
reached, e.g. that of ``kubectl port-forward``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ding.config import ConfigValueError
from ding.utils import did_you_mean

if TYPE_CHECKING:
    from ding.worker.coordinator.operator_server import OperatorAnswer, OperatorServer

KINDS = ("collector", "learner")
ADDRESS_VARIABLE = "KUBERNETES_SERVER_URL"


def dist_add_replicas(
    replicas_type: str,
    kubeconfig: str | None = None,
    replicas: int = 1,
    coordinator_name: str | None = None,
    namespace: str | None = None,
    cpus: int = 0,
    gpus: int = 0,
    memory: str | None = None,
    *,
    operator_server: str | None = None,
) -> str:
    """Request additional collectors or learners; return a description of the result.

    Args:
        replicas_type: ``'collector'`` or ``'learner'``.
        kubeconfig: Not used to find the operator; an error without ``operator_server``.
        replicas: Number of additional workers.
        coordinator_name: Name of the coordinator's pod; by default ``KUBERNETES_POD_NAME`` of the environment.
        namespace: Its namespace; by default ``KUBERNETES_POD_NAMESPACE``.
        cpus, gpus: Resources of each new worker; 0: chosen by the operator.
        memory: Memory of each new worker in Kubernetes notation (``'4Gi'``); ``None``: chosen by the operator.
        operator_server: ``host:port`` or URL of the operator; by default ``KUBERNETES_SERVER_URL``.

    Raises:
        ConfigValueError: A value is invalid, or the operator or the run of the workers is unknown.
        OperatorError: The operator does not answer, or refuses the request.
    """
    count = _checked(replicas_type, replicas)
    wanted: dict[str, Any] = {"replicas": count}
    wanted.update({key: value for key, value in (("cpus", cpus), ("gpus", gpus), ("memory", memory)) if value})
    with _operator(kubeconfig, coordinator_name, namespace, operator_server) as operator:
        _accepted(lambda: operator.post_replicas({f"{replicas_type}s": wanted}), f"add {count} {replicas_type}(s)")
    return f"{count} {replicas_type}(s) more are asked for"


def dist_delete_replicas(
    replicas_type: str,
    kubeconfig: str | None = None,
    replicas: int = 1,
    coordinator_name: str | None = None,
    namespace: str | None = None,
    *,
    operator_server: str | None = None,
) -> str:
    """Remove collectors or learners; see ``dist_add_replicas`` for arguments, result and errors."""
    count = _checked(replicas_type, replicas)
    with _operator(kubeconfig, coordinator_name, namespace, operator_server) as operator:
        _accepted(
            lambda: operator.delete_replicas(**{f"n_{replicas_type}s": count}), f"delete {count} {replicas_type}(s)"
        )
    return f"{count} {replicas_type}(s) are given back"


def dist_restart_replicas(
    replicas_type: str,
    kubeconfig: str | None = None,
    coordinator_name: str | None = None,
    namespace: str | None = None,
    restart_pod_name: str | None = None,
    *,
    operator_server: str | None = None,
) -> str:
    """Make the operator restart a collector or learner; see ``dist_add_replicas`` for other arguments, result and
    errors.

    Args:
        restart_pod_name: Name of its pod.
    """
    _checked(replicas_type, 1)
    if not restart_pod_name:
        raise ConfigValueError(f"which {replicas_type}? give the name of its pod (-rpn, --restart-pod-name)")
    with _operator(kubeconfig, coordinator_name, namespace, operator_server) as operator:
        pods: dict[str, Any] = {f"{replicas_type}s": [restart_pod_name]}
        _accepted(lambda: operator.post_replicas_failed(**pods), f"restart {restart_pod_name}")
    return f"{replicas_type} {restart_pod_name} is started anew"


def _checked(replicas_type: str, replicas: object) -> int:
    if replicas_type not in KINDS:
        hint = did_you_mean(replicas_type, KINDS)
        raise ConfigValueError(f"replicas are of type {' or '.join(KINDS)}, got {replicas_type!r}.{hint}")
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 1:
        raise ConfigValueError(f"the number of replicas must be at least 1, got {replicas!r}")
    return replicas


@contextmanager
def _operator(
    kubeconfig: str | None, name: str | None, namespace: str | None, address: str | None
) -> Iterator[OperatorServer]:
    from ding.worker.coordinator.operator_server import server_of

    address = address or os.environ.get(ADDRESS_VARIABLE)
    if not address:
        hint = "; --kubeconfig alone does not lead there, kubectl port-forward does" if kubeconfig else ""
        raise ConfigValueError(f"where is the operator? give --operator-server, or set {ADDRESS_VARIABLE}{hint}")
    for value, option, variable in (
        (name, "-cdn, --coordinator-name", "KUBERNETES_POD_NAME"),
        (namespace, "-ns, --namespace", "KUBERNETES_POD_NAMESPACE"),
    ):
        if not value and not os.environ.get(variable):
            raise ConfigValueError(f"whose workers? give {option}, or set {variable}")
    version = os.environ.get("KUBERNETES_SERVER_API_VERSION", "v1alpha1")
    try:
        # None: read from the environment.
        operator = server_of(address, version, namespace=namespace or None, name=name or None)
    except ValueError as error:
        raise ConfigValueError(str(error)) from error
    try:
        yield operator
    finally:
        operator.close()


def _accepted(ask: Callable[[], OperatorAnswer], what: str) -> None:
    from ding.worker.coordinator.errors import OperatorError

    answer = ask()
    if not answer.success:
        raise OperatorError(
            f"the operator refused to {what}: code {answer.code}: {answer.message or 'no reason given'}"
        )
