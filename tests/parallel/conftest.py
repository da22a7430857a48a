"""Clusters and stores of Ray for tests; tests that need one skip where the extra is not installed."""

import pytest

from ding.parallel.planes.ray.store import start_store, stop_store
from ding.parallel.ray_cluster import new_namespace, ray_cluster


@pytest.fixture(scope="session")
def ray_connection(tmp_path_factory):
    """A cluster of one node, to which this process is connected."""
    pytest.importorskip("ray", reason="Ray is the extra 'ray'")
    init = {"num_cpus": 4, "object_store_memory": 200 * 2**20, "_node_ip_address": "127.0.0.1"}
    with ray_cluster(None, init):
        yield


@pytest.fixture(scope="session")
def ray_run(ray_connection):
    """The name of a run with a store, which all tests share."""
    namespace = new_namespace()
    store = start_store(namespace)
    yield namespace
    stop_store(store)
