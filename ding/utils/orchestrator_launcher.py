"""Install DI-orchestrator, the operator that starts the pods of parallel runs, in a Kubernetes cluster."""

import shutil

from ding.utils.k8s_helper import K8sLauncher, run_checked

_CERT_MANAGER = "https://github.com/jetstack/cert-manager/releases/download/{version}/cert-manager.yaml"
_ORCHESTRATOR = "https://raw.githubusercontent.com/opendilab/DI-orchestrator/{version}/config/di-manager.yaml"
_PARTS = ("operator", "webhook", "server")
_CERT_PARTS = ("cainjector", "controller", "webhook")


class OrchestratorLauncher:
    """Install DI-orchestrator and its dependency cert-manager with ``kubectl``.

    Args:
        version: Version of DI-orchestrator, e.g. ``v1.1.3``.
        name: Name of its components and images.
        cluster: Cluster into which images are preloaded; None leaves pulling to the cluster.
        registry: Image prefix of DI-orchestrator.
        cert_manager_version: Version of cert-manager.
        cert_manager_registry: Image prefix of cert-manager; None uses the prefix in its manifest.

    Raises:
        FileNotFoundError: ``kubectl`` is not installed.
    """

    def __init__(
        self,
        version: str,
        name: str = "di-orchestrator",
        cluster: K8sLauncher | None = None,
        registry: str = "diorchestrator",
        cert_manager_version: str = "v1.3.1",
        cert_manager_registry: str | None = None,
    ) -> None:
        self.name, self.version, self.cluster = name, version, cluster
        self._files = {
            "cert-manager": _CERT_MANAGER.format(version=cert_manager_version),
            name: _ORCHESTRATOR.format(version=version),
        }
        self._images = [f"{registry}/{name}-{part}:{version}" for part in _PARTS]
        if cert_manager_registry is not None:
            self._images += [
                f"{cert_manager_registry}/cert-manager-{part}:{cert_manager_version}" for part in _CERT_PARTS
            ]
        if shutil.which("kubectl") is None:
            raise FileNotFoundError("DI-orchestrator is installed by kubectl, and there is no kubectl on the path")

    def create_orchestrator(self) -> None:
        """Install both, waiting for the web hook of cert-manager before DI-orchestrator.

        Raises:
            RuntimeError: ``kubectl`` failed, or a web hook was not ready within 120 seconds.
        """
        if self.cluster is not None:
            self.cluster.preload_images(self._images)
        create_components_from_config(self._files["cert-manager"])
        wait_to_be_ready("cert-manager", "cert-manager-webhook")
        create_components_from_config(self._files[self.name])
        wait_to_be_ready("di-system", f"{self.name}-webhook")

    def delete_orchestrator(self) -> None:
        """Remove both; raises the same errors as :meth:`create_orchestrator`."""
        for path in reversed(list(self._files.values())):
            run_checked(["kubectl", "delete", "-f", path])


def create_components_from_config(config: str) -> None:
    """Create the objects described by a Kubernetes file or URL; existing ones are left as they are.

    Raises:
        RuntimeError: ``kubectl`` failed; the message is its own.
    """
    run_checked(["kubectl", "create", "-f", config])


def wait_to_be_ready(namespace: str, component: str, timeout: float = 120) -> None:
    """Wait until the pods of a deployment are ready, for at most ``timeout`` seconds.

    Raises:
        RuntimeError: They are not ready in time; the message is that of ``kubectl``.
    """
    place = [f"--namespace={namespace}", f"--timeout={timeout}s"]
    run_checked(["kubectl", "wait", "--for=condition=Available", f"deployment/{component}", *place])
