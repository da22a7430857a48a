"""Client of a Kubernetes operator, which starts and stops workers."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ding.interaction import InteractionError
from ding.interaction.base import join_http_address, split_http_address
from ding.interaction.base.http import exchange, make_session
from ding.interaction.messages import AnswerBody, convert, dumps, loads
from ding.utils import did_you_mean
from ding.worker.coordinator.errors import OperatorError

_WORKER_TYPES = ("coordinator", "aggregator")
_TIMEOUT_S = 10.0


class OperatorAnswer(NamedTuple):
    """Answer of the operator: ``success``, ``code`` (0: OK), a message, and data."""

    success: bool
    code: int
    message: str
    data: Any


class _Body(AnswerBody):
    """Answer of the operator; other fields are ignored."""

    success: bool = False
    code: int = -1


class OperatorServer:
    """Requests workers ("replicas") from an operator on behalf of this pod.

    Args:
        host, port: Address of the operator; within a pod, ``KUBERNETES_SERVER_URL`` holds it.
        api_version: First part of the path.
        https: Use TLS.
        namespace, name: Namespace and name of this pod; by default ``KUBERNETES_POD_NAMESPACE`` and
            ``KUBERNETES_POD_NAME``.

    Raises:
        OperatorError: (by requests) The operator does not answer, or violates the protocol.
    """

    def __init__(
        self,
        host: str,
        port: int | None = None,
        api_version: str = "v1alpha1",
        https: bool = False,
        namespace: str | None = None,
        name: str | None = None,
    ) -> None:
        self._address = join_http_address(host, port or (443 if https else 80), https)
        self._session = make_session()
        self._api_version = api_version.strip("/")
        environ = os.environ
        self._namespace = environ.get("KUBERNETES_POD_NAMESPACE", "default") if namespace is None else namespace
        self._name = environ.get("KUBERNETES_POD_NAME", "dijob-example-coordinator") if name is None else name
        self._worker_type = "coordinator"

    @property
    def api_version(self) -> str:
        """First part of the path."""
        return self._api_version

    def set_worker_type(self, worker_type: str) -> None:
        """Set the type of the requesting process: coordinator or aggregator."""
        if worker_type not in _WORKER_TYPES:
            raise ValueError(f"unknown worker type {worker_type!r}.{did_you_mean(worker_type, _WORKER_TYPES)}")
        self._worker_type = worker_type

    def get_replicas(self, name: str | None = None) -> OperatorAnswer:
        """Return the addresses of the workers: ``data = {'collectors': ['host:port', ...], 'learners': [...]}``."""
        params = {"namespace": self._namespace}
        params.update({self._worker_type: self._name} if name is None else {"name": name})
        return self._request("GET", "/replicas", params=params)

    def post_replicas(self, data: Mapping[str, Any]) -> OperatorAnswer:
        """Request workers: ``data`` holds ``collectors`` and ``learners`` with ``replicas``, ``cpu``, ``gpu``, ..."""
        return self._request("POST", "/replicas", body={**data, **self._who()})

    def post_replicas_failed(self, collectors: Sequence[str] = (), learners: Sequence[str] = ()) -> OperatorAnswer:
        """Report workers that cannot be reached, by the names of their pods."""
        body = {**self._who(), "collectors": list(collectors), "learners": list(learners)}
        return self._request("POST", "/replicas/failed", body=body)

    def delete_replicas(self, n_collectors: int = 0, n_learners: int = 0) -> OperatorAnswer:
        """Release workers."""
        body = {**self._who(), "collectors": {"replicas": n_collectors}, "learners": {"replicas": n_learners}}
        return self._request("DELETE", "/replicas", body=body)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _who(self) -> dict[str, str]:
        return {"namespace": self._namespace, self._worker_type: self._name}

    def _request(
        self, method: str, path: str, params: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> OperatorAnswer:
        path = f"/{self.api_version}{path}"
        try:
            sent = None if body is None else dumps(body)
            response = exchange(self._session, method, f"{self._address}{path}", sent, {}, _TIMEOUT_S, params)
            answer = convert(loads(response.content), _Body, "answer")
        except (InteractionError, ValueError) as error:
            raise OperatorError(f"{method} {self._address}{path}: {error}") from error
        return OperatorAnswer(answer.success, answer.code, answer.message or "", answer.data)


def server_of(address: str, api_version: str = "v1alpha1", **options: Any) -> OperatorServer:
    """Return the client of the operator at ``address``: ``host``, ``host:port`` or a URL.

    Args:
        options: Further arguments of :class:`OperatorServer`.

    Raises:
        ValueError: ``address`` is not a valid address.
    """
    try:
        host, port, https, path = split_http_address(address)
    except ValueError as error:
        raise ValueError(f"the address of the operator must be host:port or an http(s) URL, got {address!r}") from error
    if path not in ("", "/"):
        raise ValueError(f"the address of the operator must have no path, got {address!r}")
    return OperatorServer(host, port, api_version, https, **options)
