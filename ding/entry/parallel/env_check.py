"""Check of the config against the env, before a process starts."""

import contextlib
from functools import partial

from easydict import EasyDict

from ding.config.experiment_dir import unused_dir_removed
from ding.entry.serial.shape_check import check_model_shapes
from ding.envs import create_env_manager, get_vec_env_setting
from ding.policy import get_policy_cls


def check_env(main: EasyDict, strict: bool) -> None:
    """Create one env of a run, and compare the network with its spaces.

    Args:
        main: Compiled main config.
        strict: See :func:`~ding.entry.serial.shape_check.check_model_shapes`.

    Raises:
        ConfigValueError: ``obs_shape`` or ``action_shape`` does not match; the experiment folder is removed.
    """
    policy_cls = get_policy_cls(main.policy)
    env_fn, _, cfgs = get_vec_env_setting(main.env, collect=False)
    manager = create_env_manager(EasyDict({"type": "base"}), [partial(env_fn, cfg=cfg) for cfg in (cfgs or [])[:1]])
    with unused_dir_removed(main.exp_name), contextlib.closing(manager):
        check_model_shapes(policy_cls, main.policy.get("model", {}), manager, _num_players(main), strict)


def _num_players(main: EasyDict) -> int:
    """Return the number of players per env: two with the commander of a league."""
    return 2 if main.policy.other.commander.get("type") == "one_vs_one" else 1
