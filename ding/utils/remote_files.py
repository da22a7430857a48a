"""Files by path and values in redis, as DI-engine's ``file_helper`` reads them; objects in DI-store.

Values have the format of :func:`ding.utils.save_file`: tensors and plain containers, read without executing their
contents. The addresses of servers come from ``REDIS_URL`` and ``REDIS_CLUSTER_URL``.
"""

import importlib
import os
from collections.abc import Callable
from functools import cache
from typing import Protocol

from ding.utils import _plain_data
from ding.utils.file_helper import read_file
from ding.utils.import_helper import require_extra
from ding.utils.import_helper import try_import_redis as get_redis_package
from ding.utils.import_helper import try_import_rediscluster as get_rediscluster_package

__all__ = [
    "get_redis_package",
    "get_rediscluster_package",
    "read_from_di_store",
    "read_from_file",
    "read_from_path",
    "read_from_redis",
    "read_from_rediscluster",
    "save_file_redis",
    "save_file_rediscluster",
    "save_to_di_store",
]


class _Store(Protocol):
    def put(self, data: object) -> object: ...

    def get(self, object_id: object) -> object: ...

    def delete(self, object_id: object) -> object: ...


class _Client(Protocol):
    def get(self, name: str) -> bytes | None: ...

    def set(self, name: str, value: bytes) -> object: ...


def read_from_file(path: str) -> object:
    """Read a file like :func:`ding.utils.read_file`; other pickles are refused.

    Raises:
        FileRefusedError: The file is damaged, or contains anything but tensors and plain containers.
    """
    return read_file(path)


def read_from_path(path: str) -> object:
    """Read a file like :func:`read_from_file`; ceph paths are refused.

    Raises:
        FileRefusedError: See :func:`read_from_file`.
        ValueError: The path begins with ``s3:``.
    """
    return read_file(path)


def read_from_redis(path: str) -> object:
    """Return the value of a key of the redis server at ``REDIS_URL`` (``redis://127.0.0.1:6379/0``).

    Raises:
        KeyError: there is no such key.
        ImportError: the package ``redis`` is missing; the message says how to install it.
        redis.exceptions.ConnectionError: there is no server.
    """
    return _loaded(_redis().get(path), path)


def save_file_redis(path: str, data: object) -> None:
    """Set a key on the server of :func:`read_from_redis`.

    Raises:
        TypeError: A value in ``data`` has no safe form; the message says where.
        ImportError, redis.exceptions.ConnectionError: see :func:`read_from_redis`.
    """
    _redis().set(path, _plain_data.dumps(data))


def read_from_rediscluster(path: str) -> object:
    """Return the value of a key of the redis cluster that contains the node ``REDIS_CLUSTER_URL``
    (``redis://127.0.0.1:7000``); raises the errors of :func:`read_from_redis`.
    """
    return _loaded(_cluster().get(path), path)


def save_file_rediscluster(path: str, data: object) -> None:
    """Set a key on the cluster of :func:`read_from_rediscluster`; raises the errors of :func:`save_file_redis`."""
    _cluster().set(path, _plain_data.dumps(data))


def _redis() -> _Client:
    url = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")
    client: _Client = require_extra("redis", "redis").Redis.from_url(url)
    return client


def _cluster() -> _Client:
    url = os.environ.get("REDIS_CLUSTER_URL", "redis://127.0.0.1:7000")
    client: _Client = require_extra("redis", "redis").cluster.RedisCluster.from_url(url)
    return client


def _loaded(raw: bytes | None, path: str) -> object:
    if raw is None:
        raise KeyError(f"redis has no key {path!r}")
    return _plain_data.loads(raw)


@cache
def _store() -> _Store:
    store: _Store = importlib.import_module("di_store").Client(
        os.environ.get("DI_STORE_CONFIG_PATH", "./di_store.yaml")
    )
    return store


def _save_to_di_store(data: object) -> object:
    return _store().put(data)


def _read_from_di_store(object_id: object) -> object:
    data = _store().get(object_id)
    _store().delete(object_id)
    return data


_STORES = os.environ.get("DI_STORE", "off").lower() == "on"
save_to_di_store: Callable[[object], object] | None = _save_to_di_store if _STORES else None
"""Put an object into DI-store and return its id; None unless the variable ``DI_STORE`` is ``on``.

The package ``di_store``, which no extra installs, connects by the file that ``DI_STORE_CONFIG_PATH`` names.
"""
read_from_di_store: Callable[[object], object] | None = _read_from_di_store if _STORES else None
"""Return the object of an id and delete it in DI-store; None unless the variable ``DI_STORE`` is ``on``."""
