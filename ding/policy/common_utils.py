"""What policies share: transitions of an environment's steps, forward for a single environment, samples as tensors."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ding.data import BaseEnvTimestep, TimestepBatch
from ding.data.env_batch import is_truncated
from ding.policy._acting.observations import network_columns as network_columns
from ding.policy._learning.update import default_preprocess_learn as default_preprocess_learn
from ding.policy.errors import PolicyConfigError
from ding.rl_utils.exploration import get_epsilon_greedy_fn
from ding.torch_utils.network.nn_module import set_noise_mode as set_noise_mode
from ding.utils.nested import map_together


def epsilon_schedule(policy_cfg: Mapping[str, Any]) -> Callable[[int], float]:
    """Return epsilon as a function of the number of env steps.

    Args:
        policy_cfg: ``other.eps`` has ``start``, ``end``, ``decay`` (env steps) and ``type`` (``'exp'``, the default, or
            ``'linear'``).

    Raises:
        PolicyConfigError: one of the first three is missing.
    """
    eps = policy_cfg["other"].get("eps")
    missing = [key for key in ("start", "end", "decay") if not isinstance(eps, Mapping) or key not in eps]
    if missing:
        raise PolicyConfigError(
            f"policy.other.eps.{missing[0]} is missing: this policy explores by policy.other.eps, which needs start, "
            f"end and decay (env steps); got {eps!r}"
        )
    return get_epsilon_greedy_fn(eps["start"], eps["end"], eps["decay"], eps.get("type", "exp"))


def transition_done(timestep: BaseEnvTimestep | TimestepBatch, reference_numerics: bool = False) -> bool | np.ndarray:
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


def _single(obs: object) -> object:
    return map_together(lambda leaf: torch.as_tensor(leaf, dtype=torch.float32), obs)
