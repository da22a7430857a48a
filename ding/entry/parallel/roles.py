"""Roles of a run.

The payload of each role is the compiled config of the run (``ding.config.compile_config_parallel``) with folders
instead of ``'auto'``, so that all roles use the same settings. The coordinator announces its address; the workers enrol
there from whatever port they got. The coordinator has the token of the run, each worker its own.
"""

from collections.abc import Mapping

from easydict import EasyDict

from ding.entry.parallel.coordinator import coordinate
from ding.entry.parallel.learner_group import aggregate, aggregator_config, make_ranks
from ding.entry.parallel.shards import shard_roles
from ding.entry.parallel.workers import COORDINATOR, collect_beside_others, learn
from ding.parallel.launch import Role
from ding.utils.credentials import WorkerName

PRELOAD = (
    *("gymnasium", "torch", "ding.envs", "ding.policy", "ding.worker"),
    # Imports of scripts that start runs, whose main module each role imports again, and of the roles' servers.
    *("ding.entry.parallel_entry", "ding.interaction.base.wsgi"),
)
"""Modules that every role needs: heavy imports of the library that start no thread."""


def make_roles(cfg: EasyDict, limits: Mapping[str, int]) -> list[Role]:
    """Return the roles of a run: the coordinator, the shards of its buffers, then the workers.

    A learner of several processes consists of an aggregator, under the learner's name, and its ranks.

    Args:
        cfg: Compiled config with actual folders.
        limits: ``train_iter`` and ``env_step`` at which the run ends.
    """
    payload = {"cfg": cfg, "limits": dict(limits)}
    shards = shard_roles(cfg, payload)
    roles = [Role(COORDINATOR, coordinate, {**payload, "shard_roles": len(shards)}, ends_run=True, stop_phase=0)]
    roles += shards
    for name in cfg.system.coordinator.learner:
        worker = WorkerName("learner", name)
        if not cfg.system[name].get("multi_gpu", False):
            roles.append(Role(name, learn, payload, worker=(worker,)))
            continue
        world_size = int(cfg.system[name].gpu_num)
        own = {**payload, "aggregator": aggregator_config(cfg, name), "restarts_with_ranks": True}
        roles.append(Role(name, aggregate, own, group=name, worker=(worker,)))
        roles += make_ranks(name, payload, range(world_size), world_size, within=(worker,))
    return roles + [collector_role(cfg, limits, name) for name in cfg.system.coordinator.collector]


def collector_role(cfg: EasyDict, limits: Mapping[str, int], name: str) -> Role:
    """Return the role of the collector ``name``, which has a section in ``cfg.system``."""
    payload = {"cfg": cfg, "limits": dict(limits)}
    return Role(name, collect_beside_others, payload, worker=(WorkerName("collector", name),))
