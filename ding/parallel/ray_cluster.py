"""The connection of this process to a Ray cluster. Nothing here imports Ray before it is called."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from ding.utils import require_extra

logger = logging.getLogger("ding.entry")

LEAST_VERSION = (2, 60)
"""The oldest Ray that this was tested with."""


def require_ray() -> ModuleType:
    """Import and return Ray.

    Raises:
        MissingExtraError: it is missing or too old; the message says what to install.
    """
    return require_extra("ray", "ray", LEAST_VERSION)


@contextlib.contextmanager
def ray_cluster(address: str | None, init: Mapping[str, Any]) -> Iterator[None]:
    """Be connected to a cluster while the block lasts.

    A process that is connected already stays so, and its cluster is used.

    Args:
        address: of a running cluster, ``'auto'`` for that of this machine; None: one is started here, and ended with
            the block.
        init: keyword arguments of ``ray.init``.

    Raises:
        MissingExtraError: Ray is missing or too old.
        ConnectionError: there is no cluster at ``address``.
    """
    ray: Any = require_ray()
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, **init}
    if address is None:
        options = {"include_dashboard": False, **options}
    # Without an address, Ray would connect to any cluster that it finds on this machine.
    ray.init(address="local" if address is None else address, **options)
    try:
        yield
    finally:
        ray.shutdown()


def node_address() -> str:
    """Return the address at which other nodes reach this one."""
    return str(require_ray().util.get_node_ip_address())


def has_other_nodes() -> bool:
    """Whether actors may be on other nodes, now or later: the cluster was not started for this process alone."""
    ray: Any = require_ray()
    return len(ray.nodes()) > 1


def new_namespace() -> str:
    """Return a name that the named actors of one run have in common, and of no other."""
    return f"ding-{secrets.token_hex(6)}"
