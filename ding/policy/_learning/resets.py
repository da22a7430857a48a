"""What lets a value-based policy make many updates per env step (BBF, Schwarzer et al. 2023, arXiv:2305.19452): resets
of the network, and an n-step length and a discount that anneal after each of them.

``policy.learn.reset`` has the keys. The samples of an annealing policy hold windows of steps (:func:`step_windows`), of
which learning makes returns with the present length and discount (:func:`returns_of_windows`). A buffer of images with
``storage.frame_stack`` set to the length of the windows stores each observation once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ding.data import TransitionBatch
from ding.data.roles import Samples, StateDict
from ding.policy.errors import PolicyConfigError, PolicyDataError
from ding.rl_utils import get_nstep_return_data
from ding.rl_utils.adder import segment_ends
from ding.torch_utils.graph.recordable_optimizer import RecordableOptimizer
from ding.utils.nested import map_leaves
from ding.utils.rows import take

RESET_CONFIG: dict[str, Any] = {
    # (int or None) Updates from one reset to the next, e.g. 40000; None: the network is never reset.
    "every": None,
    # (int or None) The last update that a reset may follow, so that the end of a run stays undisturbed; None: any.
    "until": None,
    # (float) Share of its weights that the encoder keeps at a reset, usually 0.5; the rest is a new initialisation, and
    # all else in the network begins anew. 1 leaves the encoder as it is, 0 renews it, too.
    "shrink": 0.5,
    # (int or None) Steps of reward right after a reset, usually 10; they become policy.nstep. None: no annealing.
    "nstep": None,
    # (float or None) The discount right after a reset, usually 0.97; it becomes policy.discount_factor.
    "discount_factor": None,
    # (int) Updates that these two take, from the start and from each reset on; usually a quarter of `every`.
    "anneal_updates": 10000,
}
"""The defaults of ``policy.learn.reset``."""

_STEP_FIELDS = ("obs", "next_obs", "reward", "done")


class ResetSchedule:
    """When a network is reset, and the n-step length and discount until then.

    Both anneal by equal factors per update: the length, rounded, from ``nstep`` to ``policy.nstep``, and ``1 -
    discount`` from that of ``discount_factor`` to that of ``policy.discount_factor``.

    Args:
        cfg: the ``policy`` section.

    Raises:
        PolicyConfigError: a key of ``policy.learn.reset`` has a value that it cannot have.
    """

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        reset = self._reset = {**RESET_CONFIG, **cfg["learn"]["reset"]}
        _check(reset)
        last_n, last_gamma = int(cfg["nstep"]), float(cfg["discount_factor"])
        self._lengths = (last_n if reset["nstep"] is None else int(reset["nstep"]), last_n)
        first_gamma = last_gamma if reset["discount_factor"] is None else float(reset["discount_factor"])
        if first_gamma != last_gamma and not max(first_gamma, last_gamma) < 1:
            raise PolicyConfigError(
                f"policy.learn.reset.discount_factor={first_gamma} anneals to policy.discount_factor={last_gamma}: "
                "both must be below 1"
            )
        self._discounts = (first_gamma, last_gamma)
        #: Updates so far.
        self.num_updates = 0

    @property
    def anneals(self) -> bool:
        """Whether the n-step length or the discount change."""
        return len({*self._lengths}) + len({*self._discounts}) > 2

    @property
    def width(self) -> int:
        """The most steps of a return."""
        return max(self._lengths)

    @property
    def shrink(self) -> float:
        """The share of the encoder's weights that a reset keeps."""
        return float(self._reset["shrink"])

    def _progress(self) -> float:
        # The last cycle begins at the last reset, and has no end.
        every, until = self._reset["every"], self._reset["until"]
        reached = self.num_updates if until is None else min(self.num_updates, int(until))
        start = 0 if every is None else reached // int(every) * int(every)
        return min((self.num_updates - start) / int(self._reset["anneal_updates"]), 1.0)

    @property
    def nstep(self) -> int:
        """Steps of reward in the returns of the next update."""
        return round(_geometric(*self._lengths, self._progress()))

    @property
    def discount(self) -> float:
        """The discount of a step in the next update."""
        first, last = self._discounts
        return last if first == last else 1 - _geometric(1 - first, 1 - last, self._progress())

    def count_update(self) -> bool:
        """Count an update; returns whether a reset follows it."""
        self.num_updates += 1
        every, until = self._reset["every"], self._reset["until"]
        return every is not None and self.num_updates % every == 0 and (until is None or self.num_updates <= until)

    def state_dict(self) -> StateDict:
        """The number of updates."""
        return {"num_updates": self.num_updates}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.num_updates = int(state_dict["num_updates"])


def reset_schedule(cfg: Mapping[str, Any]) -> ResetSchedule | None:
    """The schedule of ``policy.learn.reset``; ``None`` where its keys ask for neither resets nor annealing."""
    reset = cfg["learn"].get("reset") or {}
    asked = any(reset.get(key) is not None for key in ("every", "nstep", "discount_factor"))
    return ResetSchedule(cfg) if asked else None


def _check(reset: Mapping[str, Any]) -> None:
    for key in ("every", "until", "nstep", "anneal_updates"):
        value = reset[key]
        optional = key != "anneal_updates" and value is None
        if not optional and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise PolicyConfigError(f"policy.learn.reset.{key} must be an int of at least 1, found {value!r}")
    for key in ("shrink", "discount_factor"):
        value = reset[key]
        if (key == "shrink" or value is not None) and not (isinstance(value, (int, float)) and 0 <= value <= 1):
            raise PolicyConfigError(f"policy.learn.reset.{key} must be a number between 0 and 1, found {value!r}")


def _geometric(first: float, last: float, progress: float) -> float:
    """``first`` to ``last`` by equal factors; both ends exact."""
    return last if progress >= 1 else first * math.pow(last / first, progress)


@torch.no_grad()
def shrink_and_perturb(network: Any, fresh: nn.Module, shrink: float) -> None:
    """Move the parameters of ``encoder`` to ``shrink * own + (1 - shrink) * fresh``, and copy the others of ``fresh``.

    Buffers, such as statistics of observations, stay. The tensors are changed in place.

    Args:
        network: a module or a wrapped one.
        fresh: a new network of the same form.
    """
    new = dict(fresh.named_parameters())
    for name, parameter in network.named_parameters():
        share = 1 - shrink if name.startswith("encoder.") else 1.0
        parameter.lerp_(new[name].to(parameter.device), share)


def reset_networks(fresh: nn.Module, networks: Sequence[Any], parts: Iterable[object], shrink: float) -> None:
    """:func:`shrink_and_perturb` of some networks; the optimisers of the first one forget their moments.

    Args:
        parts: those optimisers, and what else a policy consists of.
    """
    for network in networks:
        shrink_and_perturb(network, fresh, shrink)
    own = {id(parameter) for parameter in networks[0].parameters()}
    for part in parts:
        if isinstance(part, RecordableOptimizer) and id(part.param_groups[0]["params"][0]) in own:
            part.forget()


def step_windows(steps: TransitionBatch, width: int) -> TransitionBatch:
    """Give each step the ``width`` steps from it on, as far as its segment has them.

    Returns:
        The steps with ``obs``, ``next_obs``, ``reward`` and ``done`` ``[L, width, ...]``, whose entries behind the end
        of the segment repeat its last step, and ``window_len`` int64 ``[L]``, the number of real ones.
    """
    rows, ends = np.arange(len(steps)), segment_ends(len(steps), steps.lengths)
    index = np.minimum(rows[:, None] + np.arange(width), ends[:, None] - 1)
    windows = {key: take(steps.columns[key], index) for key in _STEP_FIELDS}
    return steps.with_columns(**windows, window_len=np.minimum(ends - rows, width))


def returns_of_windows(samples: Samples, nstep: int, gamma: float) -> TransitionBatch:
    """The samples of :func:`step_windows` as n-step transitions, as :func:`~ding.rl_utils.get_nstep_return_data` makes
    them of segments.

    Raises:
        PolicyDataError: the samples have no windows.
    """
    batch = TransitionBatch.of(samples)
    columns = dict(batch.columns)
    if "window_len" not in columns:
        raise PolicyDataError(
            "policy.learn.reset anneals the n-step length or the discount, so it needs the windows of steps that "
            f"_get_train_sample makes; found samples with {sorted(columns)}"
        )
    lengths, done = np.asarray(columns.pop("window_len")).reshape(-1), columns["done"]
    width, each = done.shape[1], np.arange(len(batch))
    steps = np.flatnonzero(np.arange(width) < lengths[:, None])
    # Steps stand for their observations: the one before the first step of a return is not asked for.
    numbers = {"obs": steps - 1, "next_obs": steps}
    flat = {key: take(columns[key].reshape(-1, *columns[key].shape[2:]), steps) for key in ("reward", "done")}
    made = get_nstep_return_data(TransitionBatch({**numbers, **flat}, lengths=lengths), nstep, gamma=gamma)
    first = take(made.columns, np.cumsum(lengths) - lengths)
    assert isinstance(first, dict)
    last = first.pop("next_obs") - each * width
    first["obs"] = map_leaves(lambda leaf: leaf[:, 0], columns["obs"])
    first["next_obs"] = map_leaves(lambda leaf: leaf[each, last], columns["next_obs"])
    return TransitionBatch({**columns, **first})
