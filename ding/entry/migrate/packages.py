"""Packages that have been replaced, and packages that a script needs but this package does not install."""

from ding.entry.migrate.lookup import find, first_missing
from ding.utils.names import nearest

#: Module -> its replacement.
MOVED = {
    "pettingzoo.mpe": "mpe2",
    "gym_minigrid": "minigrid",
    "gym_hybrid": "ding.envs.zoo.hybrid_move",
}
_OTHERS = {
    "treetensor": "trees of tensors are dicts with attribute access here (TransitionBatch.columns, ctx.train_data)",
    "ditk": "only its logging has a counterpart here: Python's",
    "mujoco_py": "the envs of gymnasium use the package mujoco",
    "d4rl": "its data sets are read from the published HDF5 files (docs/migration.md)",
}
# Modules of packages that pip installs with DI-engine, but not with this package.
_BROUGHT = {
    *("hickle", "trueskill", "requests", "responses", "tabulate", "yaml", "enum_tools", "urlobject", "pynng", "redis"),
    *("mpire", "einops", "sniffio", "matplotlib", "wandb", "yapf"),
}
# Packages with envs of the old gym.
_OF_GYM = {
    *("atari_py", "bsuite", "competitive_rl", "dmc2gym", "gfootball", "gym_anytrading", "gym_pybullet_drones"),
    *("gym_soccer", "gym_sokoban", "gym_super_mario_bros", "nes_py", "procgen", "pybullet_envs", "slimevolleygym"),
}
MUJOCO = "gym.envs.mujoco"
MUJOCO_TEXT = (
    "the classes of gymnasium.envs.mujoco are others (AntEnv is in ant_v5): they take an observation_space, and have "
    "data and model in place of sim"
)


def is_below(name: str, module: str) -> bool:
    """Return whether a full name is a module, or an object in it."""
    return f"{name}.".startswith(f"{module}.")


def moved(name: str) -> str | None:
    """Return the replacement of a full name; ``None`` if it is in no package of :data:`MOVED`."""
    old = next((old for old in MOVED if is_below(name, old)), None)
    return None if old is None else name.replace(old, MOVED[old], 1)


def moved_text(name: str) -> str:
    """Return advice about a moved name that cannot be replaced."""
    new = moved(name) or name
    package = new.partition(".")[0]
    if find(package) is None:
        return f"{name}: it is in the package {package} now, as {new}; install it and run this again"
    owner, _, last = (first_missing(new) or "").rpartition(".")
    near = nearest(last, dir(find(owner) or [])) if owner else None
    text = f"{name}: it is in the package {package} now"
    return f"{text}; the nearest name is {owner}.{near}" if near else f"{text}, as {new}"


def needed_text(module: str) -> str | None:
    """Return advice about an import of a third-party package; ``None`` if nothing needs to be done."""
    package = module.partition(".")[0]
    if package in _OTHERS:
        return f"{module}: {_OTHERS[package]}"
    if package in _OF_GYM:
        return f"{module}: its envs are those of gym; gymnasium needs a version of it that was written for gymnasium"
    if package in _BROUGHT and find(package) is None:
        return f"{module}: it comes with DI-engine and not with this package; `pip install` it"
    return None
