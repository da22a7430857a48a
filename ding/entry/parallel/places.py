"""Place of a run by ``system_config.backend``: how its roles are started, and where its data is stored.

* ``flask_fs``, or no backend: processes of this machine; data and policies in folders.
* ``inproc``: threads of this process; data and policies in memory.
* ``ray``: actors of a Ray cluster; data and policies in its object store.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from easydict import EasyDict

from ding.config.utils import DEFAULT_HOST
from ding.entry.parallel.ray_gauges import RunGauges
from ding.entry.parallel.workers import COORDINATOR, NODE_HOST
from ding.entry.view.status import RunStatus
from ding.parallel.launch import shared_run_dir
from ding.parallel.launch.forked import ForkSpawner
from ding.parallel.launch.ray.options import ActorOptions
from ding.parallel.launch.ray.spawner import RaySpawner
from ding.parallel.launch.spawner import Spawner
from ding.parallel.launch.threads import ThreadSpawner
from ding.parallel.planes import forget_inproc_planes
from ding.parallel.planes.ray.store import start_store, stop_store
from ding.parallel.ray_cluster import has_other_nodes, new_namespace, node_address, ray_cluster
from ding.utils import SeedTree

_WORKERS = ("learner", "collector")


class Place(NamedTuple):
    """Place of a run."""

    run_dir: Path
    """Folder shared by the roles."""
    spawner: Spawner
    """Starts the roles."""
    report: Callable[[RunStatus], None] = lambda status: None
    """Called with each report of the run."""


@contextlib.contextmanager
def place_of(cfg: EasyDict) -> Iterator[Place]:
    """Prepare the place of a run, store the location of its data in ``cfg``, and clean up at the end.

    Raises:
        MissingExtraError: The backend needs a package that is not installed.
        ConnectionError: There is no cluster at ``system_config.ray.address``.
    """
    open_place = {"inproc": _threads, "ray": _actors}.get(cfg.system.get("backend"), _processes)
    with shared_run_dir(os.path.join(cfg.main.exp_name, "run")) as run_dir, open_place(cfg, run_dir) as place:
        yield place


@contextlib.contextmanager
def _processes(cfg: EasyDict, run_dir: Path) -> Iterator[Place]:
    for key in ("path_data", "path_policy"):
        set_folder(cfg, key, os.fspath(run_dir / key.removeprefix("path_")))
    yield Place(run_dir, ForkSpawner())


@contextlib.contextmanager
def _threads(cfg: EasyDict, run_dir: Path) -> Iterator[Place]:
    name = os.fspath(run_dir)
    _set_name(cfg, name)
    SeedTree(cfg.seed).seed_process("parallel", use_cuda=bool(cfg.main.policy.get("cuda", False)))
    try:
        yield Place(run_dir, ThreadSpawner())
    finally:
        forget_inproc_planes(name)


@contextlib.contextmanager
def _actors(cfg: EasyDict, run_dir: Path) -> Iterator[Place]:
    section: Mapping[str, Any] = cfg.system.get("ray", {})
    with ray_cluster(section.get("address"), section.get("init", {})):
        namespace = new_namespace()
        _set_name(cfg, namespace)
        if section.get("address") or has_other_nodes():
            _listen_to_other_nodes(cfg)
        groups = any(cfg.system[name].get("multi_gpu", False) for name in cfg.system.coordinator.learner)
        options = ActorOptions(section, gpus=int(bool(cfg.main.policy.get("cuda", False))), one_node=groups)
        store = start_store(namespace, os.fspath(run_dir), **options("store"))
        try:
            yield Place(run_dir, RaySpawner(namespace, options), RunGauges(cfg.main.exp_name).update)
        finally:
            stop_store(store)


def _listen_to_other_nodes(cfg: EasyDict) -> None:
    for section in [cfg.system[key] for key in cfg.system if key.startswith((COORDINATOR, *_WORKERS))]:
        if section.get("host") in (None, DEFAULT_HOST):
            # The processes of a learner are on the node of this one.
            section.host = node_address() if section.get("multi_gpu", False) else NODE_HOST


def _set_name(cfg: EasyDict, name: str) -> None:
    """Make all parts identify data and policies by a name instead of the config's folders."""
    for section in [cfg.system[key] for key in cfg.system if key.startswith(_WORKERS)]:
        section.update(path_data=name, path_policy=name)
    cfg.system.coordinator.path_data = name
    commander = cfg.main.policy.other.commander
    commander.path_policy = name
    if "weights" in commander:
        # A league copies weights itself.
        commander.weights = cfg.system.coordinator.planes


def set_folder(cfg: EasyDict, key: str, folder: str) -> None:
    """Replace ``'auto'`` under ``key`` by ``folder``, wherever the processes read it."""
    sections = [cfg.system[name] for name in cfg.system if name.startswith(_WORKERS)]
    paths = {os.path.abspath(folder) if one.get(key, "auto") == "auto" else one[key] for one in sections}
    for section in sections:
        if section.get(key, "auto") == "auto":
            section[key] = os.path.abspath(folder)
    for path in paths:
        os.makedirs(path, exist_ok=True)
    path = sections[0][key]
    if key == "path_data":
        cfg.system.coordinator.path_data = path
    else:
        cfg.main.policy.other.commander.path_policy = path
