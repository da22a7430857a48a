"""What all policies share: samples to tensors, noise switches, forward for a single environment."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch

from ding.data import BaseEnvTimestep, TimestepBatch, TransitionBatch
from ding.data.columns import num_rows, row_list, stack_rows
from ding.data.env_batch import is_truncated
from ding.policy.errors import PolicyDataError, PolicyUsageError
from ding.torch_utils.data_helper import network_input, network_tensor, to_device
from ding.torch_utils.network import NoiseLinearLayer
from ding.utils.data import default_collate
from ding.utils.nested import is_ignored_key, map_together

Device: TypeAlias = torch.device | str
_Name = TypeVar("_Name")

# What collectors and buffers note about a sample, and learning does not look at.
BUFFER_FIELDS = (
    "collect_iter",
    "collect_train_iter",
    "env_data_id",
    "replay_unique_id",
    "replay_buffer_idx",
    "priority",
    "staleness",
    "use",
)

# What a network sees. They keep a feature axis of size one; of any other field `[B, 1]` is the same as `[B]`.
_OBSERVATIONS = frozenset({"obs", "next_obs", "next_obs_1"})
_ALWAYS_FLAT = frozenset({"value", "adv", "return", "done", "value_gamma", "priority_IS", "IS"})
_WHOLE_EPISODES = (
    "the samples are whole episodes, but this policy learns from transitions: an episode buffer needs a loop that "
    "makes transitions of what it samples, as with hindsight relabelling; else take another replay_buffer"
)
# Fields ``[B, A, ...]`` of a policy for A agents.
_OF_AGENTS = frozenset({"action", "value", "adv"})


def default_preprocess_learn(
    data: "TransitionBatch | Sequence[Mapping[str, Any]]",
    use_priority_IS_weight: bool = False,
    use_priority: bool = False,
    use_nstep: bool = False,
    ignore_done: bool = False,
    device: Device = "cpu",
    agent_axis: bool = False,
    skip: Collection[str] = (),
) -> dict[str, Any]:
    """A batch of samples as a dict of contiguous tensors on ``device``.

    Args:
        data: B samples, as a list of dicts or as columns (then no work is done per sample).
        use_priority_IS_weight: take the loss weight from the field ``priority_IS``, else ``IS``.
        use_priority: whether samples are drawn by priority.
        use_nstep: bring rewards ``[B, ...]`` into the shape ``[n, B, ...]``; else a reward ``[B, 1]`` becomes ``[B]``.
        ignore_done: treat all samples as not done.
        device: where the tensors go.
        agent_axis, skip: whether actions, values and advantages are ``[B, A, ...]``; fields to leave out.

    Returns:
        The fields with leading axis B: float64 as float32, observations as :func:`network_columns` makes them, ``done``
        and ``weight`` (or None) float32 ``[B]``. With an int64 ``action`` all fields ``[B, 1]`` but observations become
        ``[B]``.

    Raises:
        PolicyUsageError: importance weights without priorities (an ``AssertionError``).
        PolicyDataError: no samples, no weights where they are needed, or a reward of a wrong rank (``ValueError``).
        SchemaError: samples that do not fit together (a ``ValueError``).
    """
    if use_priority_IS_weight and not use_priority:
        raise PolicyUsageError("priority_IS_weight=True needs priority=True: the weights correct a draw by priority")
    if len(data) == 0:
        raise PolicyDataError("cannot learn from a batch of zero samples")
    if not isinstance(data, TransitionBatch) and isinstance(data[0], list):
        raise PolicyDataError(_WHOLE_EPISODES)
    columns: Any = data.columns if isinstance(data, TransitionBatch) else stack_rows(list(data))
    kept = {key: value for key, value in columns.items() if key not in skip}
    batch = {}
    for key, value in kept.items():
        of_network = network_tensor if isinstance(value, (torch.Tensor, np.ndarray)) else network_columns
        batch[key] = (of_network if key in _OBSERVATIONS else _to_tensor)(value, device)
    discrete = getattr(batch.get("action"), "dtype", None) is torch.int64
    flat = batch.keys() - _OBSERVATIONS if discrete else batch.keys() & _ALWAYS_FLAT
    if agent_axis:
        flat = flat - _OF_AGENTS
        batch |= {key: one.unsqueeze(1) for key in _OF_AGENTS & batch.keys() if (one := batch[key]).ndim == 1}
    for key in flat if use_nstep else flat | (batch.keys() & {"reward"}):
        value = batch[key]
        if isinstance(value, torch.Tensor) and value.ndim == 2 and value.shape[1] == 1:
            batch[key] = value.squeeze(1)
    if "done" in batch:
        done = batch["done"]
        batch["done"] = torch.zeros_like(done, dtype=torch.float32) if ignore_done else done.float()
    batch["weight"] = _importance_weight(batch) if use_priority_IS_weight else batch.get("weight")
    if use_nstep and "reward" in batch:
        batch["reward"] = _nstep_reward(batch["reward"])
    return batch


def _nstep_reward(reward: torch.Tensor) -> torch.Tensor:
    """``[B]``, ``[B, n]`` or ``[B, agents, n]`` with the steps in front."""
    if not 1 <= reward.ndim <= 3:
        raise PolicyDataError(
            f"an n-step reward must be [B], [B, n] or [B, agents, n], found shape {tuple(reward.shape)}"
        )
    return reward.unsqueeze(0) if reward.ndim == 1 else reward.movedim(-1, 0).contiguous()


def _to_tensor(column: object, device: Device) -> Any:
    """A column as contiguous tensors; what has no tensor form (texts, None) stays a list."""
    if isinstance(column, dict):
        return {key: _to_tensor(value, device) for key, value in column.items()}
    if isinstance(column, list):
        return to_device(default_collate(column), device) if _is_numeric(column[0]) else column
    if isinstance(column, np.ndarray):
        # A read-only array may belong to a mapped file: torch needs memory that it may write to.
        column = torch.from_numpy(np.ascontiguousarray(column) if column.flags.writeable else column.copy())
    tensor: torch.Tensor = column  # type: ignore[assignment]
    dtype = torch.float32 if tensor.dtype is torch.float64 else tensor.dtype
    return tensor.to(device, dtype, non_blocking=True).contiguous()


def _is_numeric(item: object) -> bool:
    while isinstance(item, (list, tuple)) and item:
        item = item[0]
    return isinstance(item, (torch.Tensor, np.ndarray, np.number, int, float, Mapping))


def network_columns(columns: object, device: Device) -> Any:
    """Return observation columns as a network takes them, to act and to learn: tensors ``[N, ...]`` on ``device``.

    Each becomes a tensor by the rule of :func:`~ding.torch_utils.network_tensor`: uint8 and float64 as float32, others
    of their dtype. A batch of dicts is a dict, one of lists or tuples a list with one batch per entry. Lists of numbers
    count as vectors. Texts, and the values of keys that begin with ``collate_ignore``, stay a list with a row per
    environment.

    Args:
        columns: an array, a tensor, a list of N rows, or a dict of such.
        device: where the network is.
    """
    if isinstance(columns, (torch.Tensor, np.ndarray)):
        return network_tensor(columns, device)
    if isinstance(columns, dict):
        return {
            key: row_list(value, num_rows(value)) if is_ignored_key(key) else network_columns(value, device)
            for key, value in columns.items()
        }
    assert isinstance(columns, list)
    if columns[0] is None:
        return columns
    batch = np.asarray(columns) if all(map(_is_vector, columns)) else default_collate(columns)
    return network_input(batch, device)


def _is_vector(row: object) -> bool:
    """Whether a row holds numbers only, in lists of any depth."""
    return all(map(_is_vector, row)) if isinstance(row, list) else isinstance(row, (int, float, np.number, np.bool_))


def output_column(value: object) -> Any:
    """An output of a network for N environments as a column on the CPU, ``[N]`` as ``[N, 1]``; of several heads a list
    with a row per environment.
    """
    if isinstance(value, torch.Tensor):
        value = value if value.is_cpu else value.cpu()
        return value.unsqueeze(1) if value.ndim == 1 else value
    if isinstance(value, dict):
        return {key: output_column(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
        heads = [output_column(head) for head in value]
        return [list(row) for row in zip(*(head.unbind(0) for head in heads))]
    return value


def read_out(values: Mapping[_Name, torch.Tensor]) -> dict[_Name, Any]:
    """Python numbers out of tensors, with one transfer from their device, which would wait for each.

    Args:
        values: tensors by name, 0-d or ``[B]``; of any device, but the same.

    Returns:
        A float for a 0-d tensor, a list of B floats for others.
    """
    numbers = torch.cat([value.detach().reshape(-1) for value in values.values()]).tolist()
    result: dict[_Name, Any] = {}
    start = 0
    for name, value in values.items():
        stop = start + value.numel()
        result[name] = numbers[start:stop] if value.ndim else numbers[start]
        start = stop
    return result


def _importance_weight(batch: Mapping[str, Any]) -> torch.Tensor:
    for key in ("priority_IS", "IS"):
        if key in batch:
            output: torch.Tensor = batch[key]
            return output
    raise PolicyDataError(
        f"priority_IS_weight=True needs the field 'IS' (or 'priority_IS') in each sample, found {sorted(batch)}; "
        "a buffer adds it when it samples by priority"
    )


def transition_done(timestep: BaseEnvTimestep | TimestepBatch, reference_numerics: bool = False) -> Any:
    """``done`` as a transition stores it: False at a time limit, so that the value after it is bootstrapped.

    Args:
        timestep: a ``BaseEnvTimestep`` (-> bool) or a ``TimestepBatch`` (-> bool array ``[N]``).
        reference_numerics: store a time limit as done, as DI-engine does.
    """
    if isinstance(timestep, TimestepBatch):
        # Of bools, "greater" is "and not".
        return timestep.done if reference_numerics else np.greater(timestep.done, timestep.truncated)
    if reference_numerics or not is_truncated(timestep.info):
        return timestep.done
    return False


def transition_of(
    obs: object,
    policy_output: Any,
    timestep: Any,
    output_fields: Sequence[str] = ("action",),
    *,
    next_obs: bool = True,
    time_limit_is_end: bool = False,
) -> dict[str, Any]:
    """The transition of one environment, or the columns of N, as most policies store it: ``obs``, ``next_obs``, the
    ``output_fields``, ``reward`` and ``done``.

    Args:
        output_fields: what it keeps of the policy's output.
        next_obs: whether it keeps the observation after the step.
        time_limit_is_end: see ``reference_numerics`` of :func:`transition_done`.
    """
    following = {"next_obs": timestep.obs} if next_obs else {}
    outputs = {field: policy_output[field] for field in output_fields}
    done = transition_done(timestep, time_limit_is_end)
    return {"obs": obs, **following, **outputs, "reward": timestep.reward, "done": done}


def action_mask_of(obs: Any) -> torch.Tensor | None:
    """The ``action_mask`` of dict observations, if they have one."""
    return obs.get("action_mask") if isinstance(obs, Mapping) else None


def set_noise_mode(module: torch.nn.Module, noise_enabled: bool) -> None:
    """Switch the noise of every ``NoiseLinearLayer`` in ``module`` on or off."""
    for layer in _noise_layers(module):
        layer.enable_noise = noise_enabled


def renew_noise(module: torch.nn.Module) -> bool:
    """Switch the noise of every ``NoiseLinearLayer`` in ``module`` on and draw it; returns whether there is one."""
    layers = _noise_layers(module)
    for layer in layers:
        layer.enable_noise = True
        layer.reset_noise()
    return bool(layers)


def _noise_layers(module: torch.nn.Module) -> list[NoiseLinearLayer]:
    return [layer for layer in module.modules() if isinstance(layer, NoiseLinearLayer)]


def single_env_forward_wrapper(forward_fn: Callable[..., Any]) -> Callable[[Any], np.ndarray]:
    """A function from one observation to one action, from the forward function of a collect or eval mode.

    The action is a 0-d int array for a discrete one, else an array of the action's shape.
    """

    def forward(obs: object) -> np.ndarray:
        action = forward_fn({0: _single(obs)})[0]["action"]
        action = np.asarray(action.cpu() if isinstance(action, torch.Tensor) else action)
        discrete = np.issubdtype(action.dtype, np.integer) and action.shape == (1,)
        return action.reshape(()) if discrete else action

    return forward


def single_env_forward_wrapper_ttorch(forward_fn: Callable[..., Any], cuda: bool = True) -> Callable[[Any], np.ndarray]:
    """A function from one observation to one action, from a function of a batch of one.

    Args:
        forward_fn: takes float32 observations ``[1, ...]`` (nested as the observation is) and returns something with
            the attribute or key ``action``, ``[1, ...]``.
        cuda: put the observation on the GPU, where there is one.
    """
    device = "cuda" if cuda and torch.cuda.is_available() else "cpu"

    def forward(obs: object) -> np.ndarray:
        output = forward_fn(map_together(lambda tensor: tensor.unsqueeze(0).to(device), _single(obs)))
        action = output["action"] if isinstance(output, Mapping) else output.action
        return np.asarray(action.squeeze(0).detach().cpu())

    return forward


def _single(obs: object) -> Any:
    return map_together(lambda leaf: torch.as_tensor(leaf, dtype=torch.float32), obs)
