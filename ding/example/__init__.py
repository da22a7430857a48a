"""Example scripts by the names that they have in DI-engine: ``from ding.example.dqn import main; main()``.

Each is a script of the folder ``examples/`` of the repository, or a config of ``configs/``, which runs as a script, and
has its names. The scripts are no part of an installed package; they are to be read and copied.
"""

import importlib.util
import runpy
import sys
from functools import cache, partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

SCRIPTS = {
    "bcq": "configs/pendulum/pendulum_bcq_config.py",
    "c51_nstep": "examples/c51.py",
    "collect_demo_data": "configs/cartpole/cartpole_dqn_generation_data_config.py",
    "dqn_new_env": "examples/own_env.py",
    "dqn_nstep_gymnasium": "examples/dqn_nstep.py",
    "iqn_nstep": "examples/iqn.py",
    "ppo_lunarlander": "configs/lunarlander/lunarlander_ppo_config.py",
    "ppo_lunarlander_continuous": "configs/lunarlander/lunarlander_ppo_continuous_config.py",
    "qrdqn_nstep": "examples/qrdqn.py",
    "sqil_continuous": "configs/pendulum/pendulum_sqil_sac_config.py",
    "trex": "configs/cartpole/cartpole_dqn_trex_config.py",
    **{
        name: f"examples/{name}.py"
        for name in (
            *("cql", "d4pg", "ddpg", "dqn", "dqn_eval", "dqn_frozen_lake", "dqn_her", "dqn_nstep", "dqn_per"),
            *("dqn_rnd", "dt", "edac", "impala", "mappo", "masac", "pdqn", "ppg_offpolicy", "ppo", "ppo_offpolicy"),
            *("ppo_with_complex_obs", "qgpo", "r2d2", "sac", "sqil", "sql", "td3"),
        )
    },
}
"""Name of the module -> the script in the repository."""


def script_path(name: str) -> Path:
    """Return the script of an example.

    Raises:
        FileNotFoundError: this is an installed package, without the repository around it.
    """
    path = Path(__file__).resolve().parents[2] / SCRIPTS[name]
    if not path.is_file():
        raise FileNotFoundError(f"ding.example.{name} is {SCRIPTS[name]} of the repository, which is not installed")
    return path


@cache
def _script(name: str) -> ModuleType:
    path = script_path(name)
    spec = importlib.util.spec_from_file_location(f"ding_example_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run(name: str) -> None:
    """Run the script."""
    runpy.run_path(str(script_path(name)), run_name="__main__")


def _attribute(name: str, attribute: str) -> object:
    """What the module of an example has: the names of the script, and ``main``, which runs it."""
    if attribute.startswith("__"):
        raise AttributeError(f"module 'ding.example.{name}' has no attribute {attribute!r}")
    found = vars(_script(name)).get(attribute, partial(_run, name) if attribute == "main" else None)
    if found is None:
        raise AttributeError(f"module 'ding.example.{name}' has no attribute {attribute!r}")
    return found


for _name, _path in SCRIPTS.items():
    _module = ModuleType(f"{__name__}.{_name}", f"``{_path}`` of the repository.")
    vars(_module).update(__spec__=ModuleSpec(_module.__name__, None), __getattr__=partial(_attribute, _name))
    sys.modules[_module.__name__] = globals()[_name] = _module
