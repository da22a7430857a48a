"""``env.per_collector``: individual env settings per collector (seeds, levels, arguments)."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from easydict import EasyDict

from ding.config.errors import ConfigValueError
from ding.utils import SeedTree, deep_merge_dicts


def check_per_collector(env: Mapping[str, Any]) -> None:
    """Check the key.

    Raises:
        ConfigValueError: The value is not a list of dicts, or is empty.
    """
    entries = env.get("per_collector", [{}])
    if not isinstance(entries, (list, tuple)) or not entries or not all(isinstance(one, Mapping) for one in entries):
        raise ConfigValueError(
            f"main_config.env.per_collector must be a list of dicts, one for each collector, got {entries!r}"
        )


def own_env(main: Mapping[str, Any], index: int) -> EasyDict:
    """Return the entry of a collector; entries are assigned cyclically."""
    entries = main.get("env", {}).get("per_collector") or [{}]
    return EasyDict(entries[index % len(entries)])


def with_own_env(env: EasyDict, own: Mapping[str, Any], task_number: int) -> EasyDict:
    """Return the env config of a collector's task, with the collector's entry merged over it.

    A ``seed`` is varied per task, so that tasks play different episodes.
    """
    result: EasyDict = deep_merge_dicts(env, own)
    if "seed" in own:
        result.seed = SeedTree(int(own["seed"])).derived("collector", index=task_number)
    return result


def collector_section(cfg: EasyDict, like: str, index: int) -> EasyDict:
    """Return the section of a joining collector: that of ``like`` with a free port and its own entry.

    Args:
        cfg: Compiled config, ``{main, system}``.
        index: Number of the new collector.
    """
    return EasyDict({**deepcopy(cfg.system[like]), "port": 0, "env": own_env(cfg.main, index)})
