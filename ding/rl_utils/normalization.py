"""Normalisation of observations and rewards as learned state of a run: one set of statistics for all its envs.

In a run of several processes each collector counts what its own envs returned (its *contribution*, a state that only
grows), and the learner merges the newest contribution of each: messages may be lost, duplicated or delayed. The merged
statistics are sent back with the weights; a collector replaces its own part by its current counts.
"""

import logging
import uuid
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ding.utils.running_mean_std import RunningMeanStd

logger = logging.getLogger(__name__)

# Env steps before rewards are scaled: the deviation of a few returns is meaningless.
REWARD_WARM_UP_STEPS = 30
_EPSILON = 1e-4
# Contribution counted earlier, such as in a run that was resumed.
_BEFORE = "before"

Contribution = Mapping[str, Any]
"""``{'obs': state, 'returns': state}``, as :meth:`Normalization.state_dict` has them, without tensors."""


class Norms(NamedTuple):
    """Settings of the normalising env wrappers.

    Attributes:
        obs_shape: Shape of one observation, or of one frame of a stack; ``None`` if observations are not normalised.
        clip_range: Bounds of a normalised observation.
        reward_discount: Discount factor of the return whose deviation divides rewards; ``None`` if rewards are not
            normalised.
    """

    obs_shape: tuple[int, ...] | None
    clip_range: tuple[float, float] = (-3.0, 3.0)
    reward_discount: float | None = None


class ObsConstants(NamedTuple):
    """Current constants of the normalisation ``clip((obs - mean) / std, low, high)``; float64 ``[*obs_shape]``."""

    mean: np.ndarray
    std: np.ndarray
    low: float
    high: float


class Counted:
    """Observations and returns counted by a collector process over all its tasks: its contribution to the run.

    Args:
        name: Name in the run; a new one by default.
    """

    def __init__(self, name: str | None = None) -> None:
        self.name = uuid.uuid4().hex if name is None else name
        #: By 'obs' and 'returns'.
        self.parts: dict[str, RunningMeanStd] = {}
        self.norms: Norms | None = None

    def contribution(self) -> dict[str, Contribution]:
        """Return ``{name: contribution}`` for JSON; empty without data. Thread-safe."""
        own = {key: _plain(part) for key, part in list(self.parts.items())}
        if "obs" in own and self.norms is not None:
            own["obs"] |= _bounds(self.norms)
        return {self.name: own} if own else {}


class Normalization:
    """Running statistics of observations and of discounted returns.

    A policy has one. Collectors update it, evaluators read it, and the state dicts of the policy hold it as
    ``normalization``. It is inactive, and no part of a state dict, until an env with ``obs_norm`` or ``reward_norm``
    makes it active by :meth:`activate`, or a state is loaded.

    Args:
        learns: Whether collectors update it.

    Attributes:
        norms: What is normalised; ``None`` while it is inactive.
    """

    def __init__(self, learns: bool = True) -> None:
        self.learns = learns
        self.norms: Norms | None = None
        # By 'obs' and 'returns'.
        self._parts: dict[str, RunningMeanStd] = {}
        # In a run of several processes: those of each collector, by its name, and what this process counted.
        self._sources: dict[str, Contribution] = {}
        self._own: Counted | None = None
        self._lacking = False

    def activate(self, norms: Norms) -> None:
        """Start normalising as set in ``norms``; existing statistics are kept.

        Raises:
            ValueError: The statistics belong to observations of another shape.
        """
        if "obs" in self._parts and norms.obs_shape is not None:
            _check_shape(self._parts["obs"].moments()[0].shape, norms.obs_shape)
        if self.norms is not None:
            # An evaluator env may lack the reward wrapper, or come first.
            norms = Norms(
                self.norms.obs_shape if norms.obs_shape is None else norms.obs_shape,
                norms.clip_range if self.norms.obs_shape is None else self.norms.clip_range,
                self.norms.reward_discount if norms.reward_discount is None else norms.reward_discount,
            )
        self.norms = norms
        if norms.obs_shape is not None:
            self._parts.setdefault("obs", RunningMeanStd(_EPSILON, norms.obs_shape))
        if norms.reward_discount is not None:
            self._parts.setdefault("returns", RunningMeanStd(_EPSILON))
        self._warn_if_lacking()

    def fix_obs(self, mean: np.ndarray, std: np.ndarray, count: int) -> None:
        """Normalise observations by these constants of a data set of ``count`` rows from now on, without clipping."""
        self.learns = False
        self.norms = Norms(np.shape(mean), (-np.inf, np.inf))
        part = self._parts["obs"] = RunningMeanStd(_EPSILON, np.shape(mean))
        var = np.square(np.asarray(std, np.float64) - _EPSILON)
        part.load_state_dict({"count": count, "mean": np.asarray(mean), "var": var})

    # called by env managers

    def update_obs(self, obs: np.ndarray) -> None:
        """Update the statistics with observations ``[N, *obs_shape]``."""
        self._update("obs", obs)

    def update_returns(self, returns: np.ndarray) -> None:
        """Update the statistics with the discounted returns ``[N]`` of the latest steps of N envs."""
        self._update("returns", returns)

    def _update(self, key: str, values: np.ndarray) -> None:
        part = self._parts.get(key)
        if part is None:
            return
        part.update(values)
        if self._own is not None:
            if key not in self._own.parts:
                self._own.norms, self._own.parts[key] = self.norms, RunningMeanStd(0.0, values.shape[1:])
            self._own.parts[key].update(values)
        elif self._sources:  # a run of several processes resumed in this one
            self._sources = {}

    def normalized_obs(self, obs: np.ndarray) -> np.ndarray:
        """Return observations ``[N, *obs_shape]``, or stacks ``[N, frames, *obs_shape]``, normalised, float32."""
        part = self._parts.get("obs")
        if part is None or self.norms is None:
            return obs
        mean, var = part.moments()
        values: np.ndarray = np.clip((obs - mean) / (np.sqrt(var) + _EPSILON), *self.norms.clip_range).astype(
            np.float32
        )
        return values

    def scaled_reward(self, reward: np.ndarray) -> np.ndarray:
        """Return rewards ``[N, 1]`` divided by the deviation of the returns, float32; the first ones are unchanged."""
        part = self._parts.get("returns")
        if part is None or part.count <= REWARD_WARM_UP_STEPS:
            return reward
        values: np.ndarray = (reward / (np.sqrt(part.moments()[1]) + _EPSILON)).astype(np.float32)
        return values

    # read by others

    def obs_constants(self) -> ObsConstants | None:
        """Return the current constants of observations; ``None`` if they are not normalised."""
        part = self._parts.get("obs")
        if part is None:
            return None
        low, high = (self.norms or Norms(None)).clip_range
        mean, var = part.moments()
        return ObsConstants(mean.copy(), np.sqrt(var) + _EPSILON, low, high)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze the statistics within the block, even for collectors."""
        before, self.learns = self.learns, False
        try:
            yield
        finally:
            self.learns = before

    # several processes

    def count_into(self, counted: Counted) -> None:
        """Also count new data as part of the contribution of this process."""
        self._keep_before()
        self._own = counted

    def merge(self, contributions: Mapping[str, Contribution]) -> None:
        """Merge contributions of collectors, in any order; the newest of each counts.

        Raises:
            ValueError: They belong to observations of another shape.
        """
        if self._own is None:
            self._keep_before()
        for name, one in contributions.items():
            if _size(one) >= _size(self._sources.get(name, {})):
                self._sources[name] = one
        self._merge_sources()

    def _keep_before(self) -> None:
        """Keep earlier counts as a separate source."""
        if not self._sources:
            before = {key: _plain(part) for key, part in self._parts.items() if part.count > _EPSILON}
            self._sources = {_BEFORE: before} if before else {}

    def _merge_sources(self) -> None:
        """Set the statistics to the sum of all sources and the counts of this process."""
        shape = None if self.norms is None else self.norms.obs_shape
        parts: dict[str, RunningMeanStd] = {}
        own = self._own
        others = [one for name, one in self._sources.items() if own is None or name != own.name]
        for one in others:
            if "obs" in one:
                shape = shape or tuple(np.shape(one["obs"]["mean"]))
                _check_shape(tuple(np.shape(one["obs"]["mean"])), shape)
                self.norms = self.norms or Norms(shape, (float(one["obs"]["low"]), float(one["obs"]["high"])))
            for key, state in one.items():
                if key in ("obs", "returns"):
                    _into(parts, key, _loaded(state))
        for key, part in ({} if own is None else own.parts).items():
            _into(parts, key, part)
        # Assigned at once: another thread may be reading.
        self._parts = {**self._parts, **parts}

    # state

    def state_dict(self) -> dict[str, Any]:
        """Return the statistics, suitable for a checkpoint; empty if there are none.

        In a run of several processes, ``sources`` holds those of each collector.
        """
        state: dict[str, Any] = {key: part.state_dict() for key, part in self._parts.items()}
        if "obs" in state and self.norms is not None:
            state["obs"] |= _bounds(self.norms)
        return {**state, "sources": dict(self._sources)} if self._sources else state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned.

        Raises:
            ValueError: The statistics belong to observations of another shape.
        """
        if "obs" in state:
            found = tuple(np.shape(state["obs"]["mean"]))
            if self.norms is not None and self.norms.obs_shape is not None:
                _check_shape(found, self.norms.obs_shape)
            else:
                discount = None if self.norms is None else self.norms.reward_discount
                self.norms = Norms(found, (float(state["obs"]["low"]), float(state["obs"]["high"])), discount)
        self._sources = dict(state.get("sources", {}))
        parts = {key: _loaded(state[key]) for key in ("obs", "returns") if key in state}
        self._parts = {**self._parts, **parts}
        if self._own is not None:
            mine = self._sources.get(self._own.name, {})
            if not self._own.parts:
                self._own.norms = self.norms
                self._own.parts = {key: _loaded(mine[key]) for key in ("obs", "returns") if key in mine}
            if not self._sources:
                self._sources = {_BEFORE: {key: _plain(part) for key, part in parts.items()}}
            self._merge_sources()
        self._lacking = False

    def note_state_without(self) -> None:
        """Warn if weights were loaded without statistics although an env needs them."""
        self._lacking = True
        if self.norms is not None:
            self._warn_if_lacking()

    def _warn_if_lacking(self) -> None:
        if self._lacking and self._parts and all(part.count <= 1 for part in self._parts.values()):
            self._lacking = False
            logger.warning(
                "the loaded checkpoint has no statistics of obs_norm or reward_norm (it is of DI-engine or of an older "
                "release); they start anew"
            )


# Statistics by model, for code that has only the model.
_BY_MODEL: "weakref.WeakKeyDictionary[Any, Normalization]" = weakref.WeakKeyDictionary()


def attach_statistics(model: object, statistics: Normalization) -> None:
    """Attach ``statistics`` to a model for its lifetime."""
    _BY_MODEL[model] = statistics


def statistics_of_model(model: object) -> Normalization | None:
    """Return the statistics of the policy that owns this model; ``None`` if there is none."""
    return _BY_MODEL.get(model)


def _check_shape(found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if found != expected:
        raise ValueError(f"the statistics of obs_norm have the shape {found}, but observations of the env {expected}")


def _bounds(norms: Norms) -> dict[str, float]:
    return {"low": float(norms.clip_range[0]), "high": float(norms.clip_range[1])}


def _plain(part: RunningMeanStd) -> dict[str, Any]:
    mean, var = part.moments()
    return {"count": float(part.count), "mean": mean.tolist(), "var": var.tolist()}


def _loaded(state: Mapping[str, Any]) -> RunningMeanStd:
    part = RunningMeanStd(_EPSILON, tuple(np.shape(state["mean"])))
    part.load_state_dict(state)
    return part


def _into(parts: dict[str, RunningMeanStd], key: str, part: RunningMeanStd) -> None:
    parts.setdefault(key, RunningMeanStd(_EPSILON, part.moments()[0].shape)).merge(part)


def _size(one: Contribution) -> float:
    return max((float(one[key]["count"]) for key in ("obs", "returns") if key in one), default=0.0)
