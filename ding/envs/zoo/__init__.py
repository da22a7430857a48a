"""Env types under the names of DI-engine's zoo: one module per type, which registers it on import.

A config that names a type of `MODULES` gets it, unless another class is registered under that name. If ``dizoo`` is not
installed, its module names in ``import_names`` (``dizoo.classic_control.cartpole.envs.cartpole_env``) have the same
effect.
"""

import importlib

MODULES = {
    "acrobot": "acrobot_env",
    "atari": "atari_env",
    "bipedalwalker": "bipedalwalker_env",
    "bitflip": "bitflip_env",
    "cartpole": "cartpole_env",
    "cliffwalking": "cliffwalking_env",
    "frozen_lake": "frozen_lake_env",
    "gym_hybrid": "gym_hybrid_env",
    "line_cover": "line_cover_env",
    "lunarlander": "lunarlander_env",
    "maze": "maze_env",
    "minigrid": "minigrid_env",
    "mountain_car": "mtcar_env",
    "mujoco": "mujoco_env",
    "mbmujoco": "mujoco_env",
    "pendulum": "pendulum_env",
    "mbpendulum": "pendulum_env",
    "petting_zoo": "petting_zoo_env",
    "point_mass": "point_mass_env",
    "tabmwp": "tabmwp_env",
    "t_maze": "t_maze_env",
    "taxi": "taxi_env",
    "word_match": "word_match_env",
}
"""Type -> the module of this package that registers it."""


def import_type(name: str) -> None:
    """Import the module that registers an env type of the zoo; other names are ignored.

    Called only when a config requests the type: a user's registration under the same name takes precedence.
    """
    if name in MODULES:
        importlib.import_module(f"{__name__}.{MODULES[name]}")
