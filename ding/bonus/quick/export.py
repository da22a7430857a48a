"""A trained policy as a file that needs no ding: from observations to the actions that it takes without exploration.

The exported module takes float32 ``[N, *obs_shape]`` and returns int64 ``[N]`` (discrete) or float32 ``[N, D]``
(continuous, in the scale of the policy: [-1, 1] with ``env.act_scale``). What is written is read again and compared
with the agent before it gets its name.
"""

import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from ding.bonus.common import AgentConfigError, AgentError
from ding.bonus.core.agent import Agent
from ding.bonus.core.observations import batch_of
from ding.utils import require_extra
from ding.utils.names import check_choice

FORMATS = ("torchscript", "onnx")
_SUFFIXES = {"torchscript": ".pt", "onnx": ".onnx"}
_ROWS = 64
_TOLERANCE = 1e-5


class ExportError(AgentError):
    """The file does not act as the agent does."""


class ActionModule(nn.Module):
    """A network and how its output becomes an action."""

    def __init__(self, model: nn.Module, head: Callable[[Any], torch.Tensor]) -> None:
        super().__init__()
        self.model = model
        self._head = head
        self._mode = {"mode": "compute_actor"} if hasattr(model, "compute_actor") else {}

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Return the actions for observations float32 ``[N, *obs_shape]``."""
        return self._head(self.model(obs, **self._mode))


def export(agent: Agent, path: "str | os.PathLike[str]", format: str = "torchscript") -> str:
    """Write the policy of an agent; returns the path.

    Args:
        agent: its observations are one array (vectors or images).
        path: the file.
        format: ``torchscript``, which ``torch.jit.load`` reads, or ``onnx`` (extra ``onnx``).

    Raises:
        AgentConfigError: observations that are no single array, or a network whose output is no action.
        ExportError: the file does not act as the agent does.
        MissingExtraError: what writes ONNX is not installed.
    """
    check_choice("format", format, FORMATS, AgentConfigError)
    space = agent.env.observation_space
    if not isinstance(space, spaces.Box):
        raise AgentConfigError(f"only observations that are one array can be exported, those of the env are {space}")
    obs = _observations(space)
    batch, _ = batch_of(obs, space)
    outputs = agent.eval_mode.forward(batch)
    agent.eval_mode.reset(None)
    wanted = np.stack([np.asarray(outputs[row]["action"]).reshape(-1) for row in range(len(obs))])
    module = _module_of(agent.policy.learn_mode.get_attribute("model"), torch.from_numpy(obs), wanted)
    partial = Path(f"{os.fspath(path)}.{os.getpid()}.tmp")
    try:
        with warnings.catch_warnings():
            # Of the exporters about themselves; what counts is compared below.
            warnings.simplefilter("ignore")
            found = (_torchscript if format == "torchscript" else _onnx)(module, torch.from_numpy(obs), partial)
        if not _agree(found, wanted):
            raise ExportError(f"{format}: the file acts otherwise than the agent on {_ROWS} observations")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return os.fspath(path)


def default_path(exp_dir: str, format: str) -> str:
    """``EXP_DIR/policy.pt`` or ``EXP_DIR/policy.onnx``."""
    return str(Path(exp_dir) / f"policy{_SUFFIXES.get(format, '')}")


def _observations(space: spaces.Box) -> np.ndarray:
    """Observations float32 ``[N, ...]`` in moderate numbers, whatever the bounds of the space."""
    random = np.random.default_rng(0)
    low, high = np.maximum(space.low, -1.0), np.minimum(space.high, 1.0)
    return random.uniform(low, high, (_ROWS, *space.shape)).astype(np.float32)


def _module_of(model: nn.Module, obs: torch.Tensor, wanted: np.ndarray) -> ActionModule:
    """The module with the head that acts as the agent does."""
    for head in _HEADS:
        module = ActionModule(model, head).eval()
        try:
            with torch.no_grad():
                found = module(obs).numpy()
        except (AttributeError, KeyError, TypeError, IndexError):
            continue
        if _agree(found, wanted):
            return module
    raise AgentConfigError(f"a {type(model).__name__} cannot be exported: its output is no action of a known kind")


def _agree(found: np.ndarray, wanted: np.ndarray) -> bool:
    found = found.reshape(len(found), -1)
    return found.shape == wanted.shape and bool(np.allclose(found, wanted, rtol=_TOLERANCE, atol=_TOLERANCE))


def _greedy(output: Mapping[str, Any]) -> torch.Tensor:
    return output["logit"].argmax(-1)


def _mean(output: Mapping[str, Any]) -> torch.Tensor:
    return output["logit"]["mu"]


def _squashed_mean(output: Mapping[str, Any]) -> torch.Tensor:
    return torch.tanh(output["logit"]["mu"])


def _first_of_pair(output: Mapping[str, Any]) -> torch.Tensor:
    return output["logit"][0]


def _squashed_first_of_pair(output: Mapping[str, Any]) -> torch.Tensor:
    return torch.tanh(output["logit"][0])


def _action(output: Mapping[str, Any]) -> torch.Tensor:
    return output["action"]


_HEADS = (_greedy, _mean, _squashed_mean, _first_of_pair, _squashed_first_of_pair, _action)


def _torchscript(module: ActionModule, obs: torch.Tensor, path: Path) -> np.ndarray:
    """Write the file; returns what it does."""
    with torch.no_grad():
        torch.jit.trace(module, (obs[:2],)).save(str(path))
        found: np.ndarray = torch.jit.load(str(path))(obs).numpy()
    return found


def _onnx(module: ActionModule, obs: torch.Tensor, path: Path) -> np.ndarray:
    """Write the file; returns what it does."""
    for package in ("onnx", "onnxscript"):
        require_extra(package, "onnx")
    runtime: Any = require_extra("onnxruntime", "onnx")
    program: Any = torch.onnx.export(
        module,
        (obs[:2],),
        input_names=["obs"],
        output_names=["action"],
        dynamic_shapes=({0: torch.export.Dim("rows")},),
        dynamo=True,
        verbose=False,
    )
    program.save(str(path))
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(None, {"obs": obs.numpy()})[0]
    return found
