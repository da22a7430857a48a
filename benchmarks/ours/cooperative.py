"""The cooperative game of the line for both libraries: this project's module, which DI-engine reads as a file."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

from ding_parts import OWN

#: The entry ``policy`` of QMIX on two agents and six cells, the numbers of ``line_cover_qmix_config``.
QMIX: dict[str, Any] = {
    "cuda": False,
    "priority": False,
    "priority_IS_weight": False,
    "model": {
        "agent_num": 2,
        "obs_shape": 23,
        "global_obs_shape": 18,
        "action_shape": 3,
        "hidden_size_list": [64, 64],
        "mixer": True,
    },
    "learn": {
        "update_per_collect": 20,
        "batch_size": 32,
        "learning_rate": 0.0005,
        "double_q": True,
        "target_update_theta": 0.01,
        "discount_factor": 0.95,
    },
    "collect": {"n_sample": 32, "unroll_len": 8, "env_num": 8},
    "eval": {"env_num": 8},
    "other": {
        "eps": {"type": "exp", "start": 1, "end": 0.05, "decay": 5000},
        "replay_buffer": {"replay_buffer_size": 5000},
    },
}
ENV = {"n_agent": 2, "n_cell": 6, "max_cycles": 8, "collector_env_num": 8, "evaluator_env_num": 8}


def line_cover_entry() -> dict[str, Any]:
    """The ``env`` entry of a create config."""
    if not OWN:
        _register_in_the_reference()
    return {"type": "line_cover", "import_names": ["ding.envs.zoo.line_cover_env"] if OWN else ["ding.envs"]}


@functools.cache
def _register_in_the_reference() -> None:
    import ding.data
    from ding.envs import BaseEnvTimestep

    ding.data.BaseEnvTimestep = BaseEnvTimestep
    file = Path(__file__).parents[2] / "ding/envs/zoo/line_cover_env.py"
    spec = importlib.util.spec_from_file_location("line_cover_env", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be loaded")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
