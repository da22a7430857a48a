"""Optional encryption of the control plane."""

import ssl
from dataclasses import dataclass


@dataclass(frozen=True)
class TlsConfig:
    """PEM files of one process: its certificate and key, and the certificates that it trusts in others.

    ``certfile``/``keyfile`` are required to serve, ``cafile`` to verify others (by default the system's certificates).
    The certificate must name the address under which others reach the process. ``mutual=True`` also demands a
    certificate of ``cafile`` from clients.
    """

    certfile: str | None = None
    keyfile: str | None = None
    cafile: str | None = None
    mutual: bool = False

    def __post_init__(self) -> None:
        if self.certfile is None and self.cafile is None:
            raise ValueError("tls needs certfile (to serve) or cafile (to check others), got neither")
        if self.mutual and self.cafile is None:
            raise ValueError("tls.mutual=True needs tls.cafile: whose certificates should clients show?")

    def server_context(self) -> ssl.SSLContext:
        """Return the context of a server: TLS 1.2 or newer.

        Raises:
            ValueError: No certificate is configured.
        """
        if self.certfile is None:
            raise ValueError("tls.certfile is needed to serve over TLS")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certfile, self.keyfile)
        if self.mutual:
            context.load_verify_locations(self.cafile)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client_context(self) -> ssl.SSLContext:
        """Return the context of a client: it checks servers against ``cafile``, and with ``mutual`` shows its own
        certificate.
        """
        context = ssl.create_default_context(cafile=self.cafile)
        if self.mutual and self.certfile is not None:
            context.load_cert_chain(self.certfile, self.keyfile)
        return context
