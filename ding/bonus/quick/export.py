"""Export of a trained policy to a file that does not need ding: maps observations to the actions of evaluation.

The file contains wrappers that convert single observations (flat, channels first, scaled), the normalisation of the
run, the network, and the mapping to the env's action space. Before it gets its name, the file is read again and
compared with :meth:`~ding.bonus.core.agent.Agent.predict`.
"""

import logging
import os
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ding.bonus.common import AgentConfigError, AgentError
from ding.bonus.core.agent import Agent
from ding.bonus.core.observations import obs_layers
from ding.bonus.quick.exported_obs import ObsForm, by_name, steps_of
from ding.bonus.quick.exported_policy import HEADS, ExportedPolicy
from ding.utils import require_extra
from ding.utils.names import check_choice

logger = logging.getLogger("ding.bonus")

FORMATS = ("torchscript", "onnx")
_SUFFIXES = {"torchscript": ".pt", "onnx": ".onnx"}
_ROWS = 64
_TOLERANCE = 1e-5
_NO_HEAD = (AttributeError, KeyError, TypeError, IndexError, ValueError, RuntimeError)

Named = list[tuple[str, np.ndarray]]
"""Actions for N observations by part: ``[N, ...]`` each."""


class ExportError(AgentError):
    """The file does not act like the agent."""


def export(agent: Agent, path: "str | os.PathLike[str]", format: str = "torchscript") -> str:
    """Export the policy of an agent; return the path.

    The file takes N observations of the env: a tensor ``[N, *shape]`` in the dtype of the space (float32 for floats,
    int64 for discrete ones), or a dict or tuple of tensors. It returns actions of the env like
    :meth:`~ding.bonus.core.agent.Agent.predict`: int64 ``[N]`` or ``[N, parts]``, float32 ``[N, *shape]``, or a dict or
    tuple of them. Wrappers that depend on earlier steps, such as ``frame_stack``, are not exported: the file takes
    their output; a warning names them.

    Args:
        agent: Agent to export.
        path: Path of the file.
        format: ``torchscript``, for ``torch.jit.load``, or ``onnx`` (extra ``onnx``), whose inputs and outputs have the
            names of the parts, or ``obs`` and ``action``.

    Raises:
        AgentConfigError: The observations are not arrays or numbers, or the network's output is not an action.
        ExportError: The file does not act like the agent.
        MissingExtraError: The packages that write ONNX are not installed.
    """
    check_choice("format", format, FORMATS, AgentConfigError)
    layers, space, barrier = obs_layers(agent.env)
    form = ObsForm(space)
    columns = form.samples(_ROWS)
    given = form.rows(columns) if layers else form.structured(form.joined(columns))
    wanted = _columns_of(agent.predict(given))
    obs = form.joined([torch.from_numpy(column) for column in columns])
    module = _module_of(agent, form, layers, obs, _columns_of(agent.policy_actions(given)[0]))
    partial = Path(f"{os.fspath(path)}.{os.getpid()}.tmp")
    try:
        with warnings.catch_warnings():
            # Warnings of the exporters about themselves; the result is compared below.
            warnings.simplefilter("ignore")
            found = (_torchscript if format == "torchscript" else _onnx)(module, form, obs, partial)
        if not _agree(found, wanted):
            raise ExportError(f"{format}: the file acts otherwise than the agent on {_ROWS} observations")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    if barrier is not None:
        logger.warning(
            "%s is not part of %s, as it may depend on earlier steps: give the file observations as it returns them",
            type(barrier).__name__, os.fspath(path),
        )  # fmt: skip
    return os.fspath(path)


def default_path(exp_dir: str, format: str) -> str:
    """Return ``EXP_DIR/policy.pt`` or ``EXP_DIR/policy.onnx``."""
    return str(Path(exp_dir) / f"policy{_SUFFIXES.get(format, '')}")


def _module_of(agent: Agent, form: ObsForm, layers: list[Any], obs: Any, wanted: Named) -> ExportedPolicy:
    """Return the module with the head that yields the policy's actions in the env's space; several may look alike."""
    network = deepcopy(network_of(agent)).cpu().eval().requires_grad_(False)
    steps = steps_of(layers, agent.statistics.obs_constants() if agent.statistics else None)
    mapping = getattr(agent.env, "action_mapping", None)
    for head in HEADS:
        module = ExportedPolicy(form, steps, network, head, mapping).eval()
        try:
            with torch.no_grad():
                found = _arrays(module.policy_action(obs))
        except _NO_HEAD:
            continue
        if _agree(found, wanted):
            return module
    raise AgentConfigError(f"a {type(network).__name__} cannot be exported: its output is no action of a known kind")


def network_of(agent: Agent) -> nn.Module:
    """Return the network of an agent, including compact policies."""
    learn: Any = agent.policy.learn_mode
    network: nn.Module = learn.get_attribute("model") if hasattr(learn, "get_attribute") else learn.model
    return network


def _columns_of(actions: Any) -> Named:
    """Return the result of ``predict`` for N observations by part."""
    if isinstance(actions, np.ndarray):
        return [("action", actions)]
    rows = [by_name(action) for action in actions]
    return [(name, np.stack([np.asarray(row[number][1]) for row in rows])) for number, (name, _) in enumerate(rows[0])]


def _arrays(output: Any) -> Named:
    return [(name, tensor.numpy()) for name, tensor in by_name(output)]


def _agree(found: Named, wanted: Named) -> bool:
    if [name for name, _ in found] != [name for name, _ in wanted]:
        return False
    pairs = [(left.reshape(_ROWS, -1), right.reshape(_ROWS, -1)) for (_, left), (_, right) in zip(found, wanted)]
    return all(left.shape == right.shape and _are_close(left, right) for left, right in pairs)


def _are_close(left: np.ndarray, right: np.ndarray) -> bool:
    # An action space may be of float16.
    roundings = [2 * float(np.finfo(array.dtype).eps) for array in (left, right) if array.dtype.kind == "f"]
    tolerance = max(_TOLERANCE, *roundings) if roundings else _TOLERANCE
    return bool(np.allclose(left, right, rtol=tolerance, atol=tolerance))


def _torchscript(module: nn.Module, form: ObsForm, obs: Any, path: Path) -> Named:
    """Write the file; return its outputs."""
    example = form.joined([tensor[:2] for tensor in form.tensors(obs)])
    with torch.no_grad():
        torch.jit.trace(module, (example,), strict=False, check_trace=False).save(str(path))
        return _arrays(torch.jit.load(str(path))(obs))


def _onnx(module: nn.Module, form: ObsForm, obs: Any, path: Path) -> Named:
    """Write the file; return its outputs."""
    for package in ("onnx", "onnxscript"):
        require_extra(package, "onnx")
    runtime = require_extra("onnxruntime", "onnx")
    example = form.joined([tensor[:2] for tensor in form.tensors(obs)])
    with torch.no_grad():
        names = [name for name, _ in by_name(module(example))]
    rows = {0: torch.export.Dim("rows")}
    program: Any = torch.onnx.export(
        module,
        kwargs={"obs": example},  # a dict among the arguments would be taken for these
        input_names=form.names,
        output_names=names,
        dynamic_shapes={"obs": form.joined([rows] * len(form.names))},
        dynamo=True,
        verbose=False,
    )
    program.save(str(path))
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = {one.name for one in session.get_inputs()}
    given = {name: tensor.numpy() for name, tensor in zip(form.names, form.tensors(obs)) if name in inputs}
    return list(zip(names, session.run(names, given)))
