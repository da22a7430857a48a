"""DI-engine's worker library, re-implemented so that data stays in columns from the environment to the loss."""

import importlib
import os
from typing import TYPE_CHECKING, Any

# Imported first of all, because it finds the modules of DI-engine that have another place here.
from ding.utils import exports as _exports  # noqa: F401

if TYPE_CHECKING:
    from ding.bonus import Agent

__TITLE__ = "ding"
__VERSION__ = "0.1.0"
__DESCRIPTION__ = "Reinforcement-learning workers, policies and pipelines with a column-based data plane"
__AUTHOR__ = "The ding founders"
__AUTHOR_EMAIL__ = ""
__version__ = "0.1.0"

# What scripts ask of DI-engine: whether kernels and a back end are used that are none of this package.
enable_hpc_rl = enable_linklink = enable_numba = False


def load(exp_dir: str, **kwargs: Any) -> "Agent":
    """Return the trained agent of an experiment folder; see :func:`ding.bonus.load` for the arguments."""
    agent: Agent = importlib.import_module("ding.bonus").load(exp_dir, **kwargs)
    return agent


def export(agent: "Agent", path: "str | os.PathLike[str]", format: str = "torchscript") -> str:
    """Write the policy of an agent as a file that needs no ding; see :func:`ding.bonus.export` for the arguments."""
    written: str = importlib.import_module("ding.bonus").export(agent, path, format)
    return written


def train(policy: str, env_id: str, seed: int = 0, **kwargs: Any) -> "Agent":
    """Train a policy on an env and return the agent; see :func:`ding.bonus.train` for the arguments."""
    agent: Agent = importlib.import_module("ding.bonus").train(policy, env_id, seed, **kwargs)
    return agent
