"""What all policies share: samples to tensors, noise switches, forward for a single environment."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ding.data import TimestepBatch, TransitionBatch
from ding.data.columns import stack_rows
from ding.data.env_batch import is_truncated
from ding.policy._forward import is_there
from ding.policy.errors import PolicyDataError, PolicyUsageError
from ding.torch_utils.network import NoiseLinearLayer
from ding.utils.data import default_collate

# Observations keep a feature axis of size one; of any other field `[B, 1]` is the same as `[B]`.
_KEEP_FEATURE_AXIS = frozenset({"obs", "next_obs"})
_ALWAYS_FLAT = frozenset({"value", "adv", "done"})


def default_preprocess_learn(
    data: "TransitionBatch | Sequence[Mapping[str, Any]]",
    use_priority_IS_weight: bool = False,
    use_priority: bool = False,
    use_nstep: bool = False,
    ignore_done: bool = False,
    device: "torch.device | str" = "cpu",
) -> dict[str, Any]:
    """A batch of samples as a dict of contiguous tensors on ``device``.

    Args:
        data: B samples, as a list of dicts or as columns (then no work is done per sample).
        use_priority_IS_weight: take the loss weight from the field ``priority_IS``, else ``IS``.
        use_priority: whether samples are drawn by priority.
        use_nstep: bring the reward into the shape ``[n, B]`` of n-step functions (``[n, B, agents]`` for 3-D rewards);
            otherwise a reward ``[B, 1]`` becomes ``[B]``.
        ignore_done: treat all samples as not done.
        device: where the tensors go.

    Returns:
        The fields with leading axis B: float64 as float32, ``done`` float32 ``[B]``, ``weight`` float32 ``[B]`` or
        None. With a discrete (int64) ``action`` all fields ``[B, 1]`` but observations become ``[B]``.

    Raises:
        PolicyUsageError: importance weights without priorities (an ``AssertionError``).
        PolicyDataError: no samples, no weights where they are asked for, or a reward of a wrong rank (``ValueError``).
        SchemaError: samples that do not fit together (a ``ValueError``).
    """
    if use_priority_IS_weight and not use_priority:
        raise PolicyUsageError("priority_IS_weight=True needs priority=True: the weights correct a draw by priority")
    if len(data) == 0:
        raise PolicyDataError("cannot learn from a batch of zero samples")
    columns: Any = data.columns if isinstance(data, TransitionBatch) else stack_rows(list(data))
    kept = _KEEP_FEATURE_AXIS if _is_discrete(columns.get("action")) else columns.keys() - _ALWAYS_FLAT
    batch = {key: _to_tensor(value, device, key not in kept) for key, value in columns.items()}
    if "done" in batch:
        done = batch["done"]
        batch["done"] = torch.zeros_like(done, dtype=torch.float32) if ignore_done else done.float()
    batch["weight"] = _loss_weight(batch, use_priority_IS_weight)
    if "reward" in batch:
        batch["reward"] = _nstep_reward(batch["reward"]) if use_nstep else _drop_last(batch["reward"])
    return batch


def _to_tensor(column: Any, device: "torch.device | str", flat: bool = False) -> Any:
    """A column as contiguous tensors, ``[B, 1]`` as ``[B]`` where it is to be ``flat``; what has no tensor form (texts,
    None) stays a list.
    """
    if isinstance(column, dict):
        return {key: _to_tensor(value, device) for key, value in column.items()}
    if isinstance(column, list):
        if not _is_numeric(column[0]):
            return column
        column = _to_device(default_collate(column), device)
        return _drop_last(column) if flat else column
    if isinstance(column, torch.Tensor):
        if column.dtype is torch.float64:
            column = column.float()
        if not is_there(column, device):
            column = column.to(device, non_blocking=True)
        column = column.contiguous()
        return _drop_last(column) if flat else column
    if flat and column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.dtype == np.float64:
        column = column.astype(np.float32)
    elif not column.flags.writeable:
        # A read-only array may belong to a mapped file: torch needs memory that it may write to.
        column = column.copy()
    tensor = torch.from_numpy(np.ascontiguousarray(column))
    return tensor if is_there(tensor, device) else tensor.to(device, non_blocking=True)


def _is_discrete(action: Any) -> bool:
    if isinstance(action, list) and _is_numeric(action[0]):
        action = default_collate(action)
    if isinstance(action, torch.Tensor):
        return action.dtype is torch.int64
    return isinstance(action, np.ndarray) and action.dtype == np.int64


def _is_numeric(item: Any) -> bool:
    while isinstance(item, (list, tuple)) and item:
        item = item[0]
    return isinstance(item, (torch.Tensor, np.ndarray, np.number, int, float, Mapping))


def _to_device(data: Any, device: "torch.device | str") -> Any:
    if isinstance(data, torch.Tensor):
        return data.to(device)
    if isinstance(data, Mapping):
        return {key: _to_device(value, device) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_to_device(value, device) for value in data]
    return data


def _drop_last(value: Any) -> Any:
    """``[B, 1]`` -> ``[B]``, anything else unchanged."""
    if isinstance(value, torch.Tensor) and value.ndim == 2 and value.shape[1] == 1:
        return value.squeeze(1)
    return value


def _loss_weight(batch: Mapping[str, Any], from_priority: bool) -> torch.Tensor | None:
    if not from_priority:
        return batch.get("weight")
    for key in ("priority_IS", "IS"):
        if key in batch:
            return _drop_last(batch[key])
    raise PolicyDataError(
        f"priority_IS_weight=True needs the field 'IS' (or 'priority_IS') in each sample, found {sorted(batch)}; "
        "a buffer adds it when it samples by priority"
    )


def _nstep_reward(reward: torch.Tensor) -> torch.Tensor:
    if reward.ndim == 1:
        return reward.unsqueeze(0)
    if reward.ndim == 2:
        return reward.t().contiguous()
    if reward.ndim == 3:
        return reward.permute(2, 0, 1).contiguous()
    raise PolicyDataError(f"an n-step reward must be [B], [B, n] or [B, agents, n], found shape {tuple(reward.shape)}")


def transition_done(timestep: Any, reference_numerics: bool = False) -> Any:
    """``done`` as a transition stores it: False at a time limit, so that the value after it is bootstrapped.

    Args:
        timestep: a ``BaseEnvTimestep`` (-> bool) or a ``TimestepBatch`` (-> bool array ``[N]``).
        reference_numerics: store a time limit as done, as the original API does.
    """
    if isinstance(timestep, TimestepBatch):
        return timestep.done if reference_numerics else timestep.done & ~timestep.truncated
    if reference_numerics or not is_truncated(timestep.info):
        return timestep.done
    return False


def set_noise_mode(module: torch.nn.Module, noise_enabled: bool) -> None:
    """Switch the noise of every ``NoiseLinearLayer`` in ``module`` on or off."""
    for layer in module.modules():
        if isinstance(layer, NoiseLinearLayer):
            layer.enable_noise = noise_enabled


def single_env_forward_wrapper(forward_fn: Callable) -> Callable[[Any], np.ndarray]:
    """A function from one observation to one action, from the forward function of a collect or eval mode.

    The action is a 0-d int array for a discrete one, else an array of the action's shape.
    """

    def forward(obs: Any) -> np.ndarray:
        action = forward_fn({0: _single(obs)})[0]["action"]
        action = np.asarray(action.cpu() if isinstance(action, torch.Tensor) else action)
        discrete = np.issubdtype(action.dtype, np.integer) and action.shape == (1,)
        return action.reshape(()) if discrete else action

    return forward


def single_env_forward_wrapper_ttorch(forward_fn: Callable, cuda: bool = True) -> Callable[[Any], np.ndarray]:
    """A function from one observation to one action, from a function of a batch of one.

    Args:
        forward_fn: takes float32 observations ``[1, ...]`` (nested as the observation is) and returns something with
            the attribute or key ``action``, ``[1, ...]``.
        cuda: put the observation on the GPU, where there is one.
    """
    device = "cuda" if cuda and torch.cuda.is_available() else "cpu"

    def forward(obs: Any) -> np.ndarray:
        output = forward_fn(_map(_single(obs), lambda tensor: tensor.unsqueeze(0).to(device)))
        action = output["action"] if isinstance(output, Mapping) else output.action
        return np.asarray(action.squeeze(0).detach().cpu())

    return forward


def _single(obs: Any) -> Any:
    return _map(obs, lambda leaf: torch.as_tensor(leaf, dtype=torch.float32))


def _map(data: Any, fn: Callable[[Any], Any]) -> Any:
    if isinstance(data, Mapping):
        return {key: _map(value, fn) for key, value in data.items()}
    return fn(data)
