"""Limits of pushes and samples: samples per insert within bounds, and a window controller of their ratio."""

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ding.data.replay.checks import number_within
from ding.data.replay.errors import BufferArgumentError, BufferClosedError, BufferConfigError, RateLimitTimeout
from ding.utils import did_you_mean
from ding.utils.lock_helper import OwnLocks

LIMIT_CONFIG: dict[str, Any] = {
    # (float or None) Times that each element is sampled on average. None: no limit.
    "samples_per_insert": None,
    # (int) Elements to insert before the first sample.
    "min_size_to_sample": 1,
    # (float) Samples by which the two sides may drift apart.
    "error_buffer": 1.0,
    # (int) Largest number of elements of a push.
    "push_size": 1,
    # (int) Largest number of elements of a sample.
    "sample_size": 1,
    # (float) Seconds to wait until a push or sample is allowed; then it is refused.
    "timeout_s": 0.0,
}

# What is left of a count of the window controller after ``window_seconds``.
_LEFT_AFTER_WINDOW = 0.01
_NOTHING = 1e-5


@dataclass(frozen=True)
class LimiterStatistics:
    """A snapshot of a :class:`SampleRatioLimiter`.

    Args:
        inserts: elements inserted since the last reset.
        samples: elements sampled since the last reset.
        difference: ``inserts * samples_per_insert - samples``.
        waiting_inserts: threads that wait to insert.
        waiting_samples: threads that wait to sample.
    """

    inserts: int
    samples: int
    difference: float
    waiting_inserts: int
    waiting_samples: int


class SampleRatioLimiter(OwnLocks):
    """Holds back the faster one of a collecting and a learning side.

    *The maths.* With I elements inserted and S sampled, the difference ``D = I * samples_per_insert - S`` is kept in
    ``[low, high]`` around ``offset = samples_per_insert * min_size_to_sample``::

        low  = offset - error_buffer        high = offset + error_buffer

    An insert of p elements needs ``D + p * samples_per_insert <= high``; a sample of s needs ``D - s >= low`` and
    ``I >= min_size_to_sample``. Over a long run S / I tends to ``samples_per_insert``; the two sides may drift apart by
    ``error_buffer`` samples in either direction. (As the rate limiter of Reverb, Cassirer et al., arXiv:2102.04736.)

    *The deadlocks.* Three can happen; the first two are refused by the constructor:

    1. Both sides are held back by the bounds: D is above ``high - p * samples_per_insert`` and below ``low + s``. That
       is impossible when ``2 * error_buffer >= p * samples_per_insert + s``.
    2. The inserts that lead to the first sample are held back. It waits for n elements: for ``min_size_to_sample``, and
       for s when the buffer draws s distinct ones. That is impossible when
       ``error_buffer >= (n - min_size_to_sample + p - 1) * samples_per_insert``.
    3. The other side has stopped, or its buffer refuses for a reason of its own (episodes that are shorter than a
       window, ``sample_min_limit_ratio``). Nobody can know: therefore every wait has a deadline, and :meth:`close`
       wakes all.

    The buffer must be able to hold ``min_size_to_sample`` elements, and give each of them ``samples_per_insert`` times;
    the buffers check that.

    *Exactness.* Bounds and differences are whole multiples of a common unit, so that no rounding holds back what the
    maths allows. A number such as 0.1 counts as the decimal that it is printed as.

    *Thread safety.* Each check and the count that follows it are one atomic step. Waiting threads are woken by what
    changes the difference, never by polling.

    Args:
        samples_per_insert: how often each element is sampled on average.
        min_size_to_sample: elements that must have been inserted before the first sample.
        error_buffer: how far samples may run ahead or lag behind, in samples.
        push_size: largest number of elements of one insert.
        sample_size: largest number of elements of one sample.
        clock: seconds, never going backwards.

    Raises:
        BufferConfigError: values that are out of range or allow a deadlock; the message names the smallest
            ``error_buffer`` that does not.
    """

    def __init__(
        self,
        samples_per_insert: float,
        min_size_to_sample: int,
        error_buffer: float,
        push_size: int = 1,
        sample_size: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 < samples_per_insert < float("inf"):
            raise BufferConfigError(f"samples_per_insert must be positive and finite, got {samples_per_insert!r}")
        for name, value in (
            ("min_size_to_sample", min_size_to_sample), ("push_size", push_size), ("sample_size", sample_size)
        ):  # fmt: skip
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BufferConfigError(f"{name} must be a positive int, got {value!r}")
        per_insert = _exact(samples_per_insert)
        beyond = max(0, sample_size - min_size_to_sample)
        needed = max((push_size * per_insert + sample_size) / 2, (beyond + push_size - 1) * per_insert)
        # What misses `needed` by the rounding of a sum or product is meant to be it.
        if not (error_buffer >= needed or math.isclose(error_buffer, needed)) or math.isinf(error_buffer):
            raise BufferConfigError(
                f"error_buffer={error_buffer!r} lets inserts of {push_size} and samples of {sample_size} hold each "
                f"other back for ever at samples_per_insert={samples_per_insert:g}: it must be at least "
                f"{float(needed)!r}"
            )
        self.samples_per_insert = samples_per_insert
        self.min_size_to_sample = min_size_to_sample
        error, offset = max(_exact(error_buffer), needed), per_insert * min_size_to_sample
        # All of these, and differences, in units of 1 / `_unit`.
        self._unit = math.lcm(per_insert.denominator, error.denominator)
        self._per_insert = int(per_insert * self._unit)
        self._low, self._high = int((offset - error) * self._unit), int((offset + error) * self._unit)
        self._push_size, self._sample_size = push_size, sample_size
        self._clock = clock
        self._inserts = self._samples = 0
        self._closed = False
        self._make_own()

    _own = ("_changed", "_waiting")

    def _make_own(self) -> None:
        self._changed = threading.Condition()
        self._waiting = [0, 0]

    def _insert_allowed(self, count: int) -> bool:
        after = (self._inserts + count) * self._per_insert - self._samples * self._unit
        return after <= self._high

    def _sample_allowed(self, count: int) -> bool:
        after = self._inserts * self._per_insert - (self._samples + count) * self._unit
        return self._inserts >= self.min_size_to_sample and after >= self._low

    def can_push(self, count: int) -> tuple[bool, str]:
        """Return whether an insert of ``count`` elements is allowed now, and if not, why."""
        with self._changed:
            if self._insert_allowed(count):
                return True, ""
            return False, f"inserts run ahead of samples ({self._inserts} and {self._samples})"

    def can_sample(self, count: int) -> tuple[bool, str]:
        """Return whether a sample of ``count`` elements is allowed now, and if not, why."""
        with self._changed:
            if self._sample_allowed(count):
                return True, ""
            return False, f"samples run ahead of inserts ({self._samples} and {self._inserts})"

    def acquire_push(self, count: int, timeout_s: float = 0.0) -> None:
        """Count an insert of ``count`` elements as soon as it is allowed.

        Args:
            count: number of elements, at most ``push_size``.
            timeout_s: how long to wait; 0: not at all.

        Raises:
            RateLimitTimeout: it was not allowed in time.
            BufferClosedError: the limiter was closed.
            BufferConfigError: more elements than the constructor was given, or a timeout that is negative or infinite.
        """
        if not 0 <= count <= self._push_size:
            raise BufferConfigError(f"an insert of {count} elements, but push_size is {self._push_size}")
        with self._changed:
            self._wait(lambda: self._insert_allowed(count), timeout_s, 0, f"an insert of {count}")
            self._inserts += count
            self._changed.notify_all()

    def acquire_sample(self, count: int, timeout_s: float = 0.0) -> None:
        """Count a sample of ``count`` elements as soon as it is allowed; see :meth:`acquire_push`."""
        if not 0 <= count <= self._sample_size:
            raise BufferConfigError(f"a sample of {count} elements, but sample_size is {self._sample_size}")
        with self._changed:
            self._wait(lambda: self._sample_allowed(count), timeout_s, 1, f"a sample of {count}")
            self._samples += count
            self._changed.notify_all()

    def _wait(self, allowed: Callable[[], bool], timeout_s: float, side: int, what: str) -> None:
        check_timeout(timeout_s)
        deadline = self._clock() + timeout_s
        self._waiting[side] += 1
        try:
            while not self._closed and not allowed():
                left = deadline - self._clock()
                if left <= 0:
                    raise RateLimitTimeout(
                        f"{what} was not allowed within {timeout_s:g} s: {self._inserts} inserted, "
                        f"{self._samples} sampled, {self.samples_per_insert:g} samples per insert wanted"
                    )
                self._changed.wait(left)
        finally:
            self._waiting[side] -= 1
        if self._closed:
            raise BufferClosedError(f"the rate limiter was closed while {what} waited")

    def undo_push(self, count: int) -> None:
        """Take back an insert that was counted but did not happen. After a :meth:`reset` there may be nothing left."""
        with self._changed:
            self._inserts = max(0, self._inserts - count)
            self._changed.notify_all()

    def undo_sample(self, count: int) -> None:
        """Take back a sample that was counted but did not happen; see :meth:`undo_push`."""
        with self._changed:
            # Below 0, inserts would be held back before `min_size_to_sample`.
            self._samples = max(0, self._samples - count)
            self._changed.notify_all()

    def reset(self) -> None:
        """Start anew, as after the construction: the buffer was cleared."""
        with self._changed:
            self._inserts = self._samples = 0
            self._changed.notify_all()

    def close(self) -> None:
        """Wake all waiting threads with a :class:`BufferClosedError`. May be called again."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def statistics(self) -> LimiterStatistics:
        """What was counted, in one atomic step."""
        with self._changed:
            difference = (self._inserts * self._per_insert - self._samples * self._unit) / self._unit
            return LimiterStatistics(self._inserts, self._samples, difference, *self._waiting)

    def state_dict(self) -> dict[str, int]:
        """``{'inserts', 'samples'}``."""
        with self._changed:
            return {"inserts": self._inserts, "samples": self._samples}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Go on from a ``state_dict``.

        Raises:
            BufferArgumentError: a count is negative; nothing was changed.
        """
        inserts, samples = int(state_dict["inserts"]), int(state_dict["samples"])
        if min(inserts, samples) < 0:
            raise BufferArgumentError(f"a rate limiter cannot go on from {inserts} inserts and {samples} samples")
        with self._changed:
            self._inserts, self._samples = inserts, samples
            self._changed.notify_all()


def check_timeout(timeout_s: float) -> None:
    """Refuse a timeout that no wait can have.

    Raises:
        BufferConfigError: it is negative, infinite, NaN, or longer than the platform can wait.
    """
    if not 0 <= timeout_s <= threading.TIMEOUT_MAX:
        raise BufferConfigError(f"timeout_s must be from 0 to {threading.TIMEOUT_MAX:g} seconds, got {timeout_s!r}")


def _exact(number: float) -> Fraction:
    """Return the decimal that a float is printed as."""
    return Fraction(str(float(number)))


def limiter_of(cfg: Mapping[str, Any], size: int) -> "tuple[SampleRatioLimiter | None, float]":
    """Return the limiter of ``cfg.rate_limit``, if there is one, and how many seconds to wait for it."""
    options = {**LIMIT_CONFIG, **(cfg.get("rate_limit") or {})}
    unknown = [key for key in options if key not in LIMIT_CONFIG]
    if unknown:
        raise BufferConfigError(f"unknown key rate_limit.{unknown[0]}.{did_you_mean(unknown[0], LIMIT_CONFIG)}")
    timeout_s = float(options.pop("timeout_s"))
    if options["samples_per_insert"] is None:
        return None, timeout_s
    if options["min_size_to_sample"] > size:
        raise BufferConfigError(
            f"rate_limit.min_size_to_sample={options['min_size_to_sample']} is more than replay_buffer_size={size}"
        )
    check_timeout(timeout_s)
    per_insert = options["samples_per_insert"]
    if "max_use" in cfg and number_within(cfg, "max_use", 1.0, math.inf) < per_insert:
        raise BufferConfigError(
            f"max_use={cfg['max_use']:g} is below rate_limit.samples_per_insert={per_insert:g}: "
            "the limiter would wait for samples that nobody can draw"
        )
    return SampleRatioLimiter(**options), timeout_s


def controller_of(control: Mapping[str, Any]) -> "ThruputController | None":
    """Return the controller of a config ``thruput_controller``; None where that limits nothing."""
    limit = control["push_sample_rate_limit"]
    return None if limit["max"] == math.inf and limit["min"] == 0 else ThruputController(control)


class ThruputController(OwnLocks):
    """Refuses pushes or samples that would take the ratio of recent pushes to recent samples out of its limits.

    Both counts fade: after ``window_seconds`` one per cent of them is left. The decay is worked out from the time that
    passed when a count is used, so there is no thread, and nothing happens between calls. Thread-safe; a check and the
    count that follows it are two steps, which a buffer takes within its own lock.

    Args:
        cfg: ``{'push_sample_rate_limit': {'max', 'min'}, 'window_seconds'}``.
        clock: seconds, never going backwards.

    Raises:
        BufferConfigError: a limit or the window makes no sense.
    """

    def __init__(self, cfg: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        limit = cfg["push_sample_rate_limit"]
        self._max, self._min = float(limit["max"]), float(limit["min"])
        self._window = float(cfg["window_seconds"])
        if not 0 <= self._min <= self._max:
            raise BufferConfigError(
                f"push_sample_rate_limit needs 0 <= min <= max, got min {self._min} and max {self._max}"
            )
        if not self._window > 0:
            raise BufferConfigError(f"window_seconds must be positive, got {self._window}")
        self._clock = clock
        self._pushes = self._samples = 0.0
        self._make_own()

    _own = ("_lock", "_seen")

    def _make_own(self) -> None:
        self._lock = threading.Lock()
        self._seen = self._clock()

    def _decay(self) -> None:
        now = self._clock()
        if now > self._seen:
            factor = _LEFT_AFTER_WINDOW ** ((now - self._seen) / self._window)
            self._pushes *= factor
            self._samples *= factor
            self._seen = now

    def can_push(self, push_size: int) -> tuple[bool, str]:
        """Return whether ``push_size`` more pushes are allowed, and if not, why."""
        with self._lock:
            self._decay()
            if self._samples < _NOTHING:
                return True, "nothing was sampled lately"
            rate = (self._pushes + push_size) / self._samples
            if rate > self._max:
                return (
                    False,
                    f"push({push_size}) would make {rate:.4g} pushes per sample, at most {self._max:g} allowed",
                )
        return True, ""

    def can_sample(self, sample_size: int) -> tuple[bool, str]:
        """Return whether ``sample_size`` more samples are allowed, and if not, why."""
        with self._lock:
            self._decay()
            total = self._samples + sample_size
            rate = self._pushes / total if total else float("inf")
            if rate < self._min:
                return (
                    False,
                    f"sample({sample_size}) would leave {rate:.4g} pushes per sample, at least {self._min:g} needed",
                )
        return True, ""

    def add(self, pushed: int = 0, sampled: int = 0) -> None:
        """Count what was done, in one atomic step."""
        with self._lock:
            self._decay()
            self._pushes += pushed
            self._samples += sampled

    @property
    def history_push_count(self) -> float:
        """Faded number of pushes."""
        with self._lock:
            self._decay()
            return self._pushes

    @history_push_count.setter
    def history_push_count(self, count: float) -> None:
        with self._lock:
            self._decay()
            self._pushes = count

    @property
    def history_sample_count(self) -> float:
        """Faded number of samples."""
        with self._lock:
            self._decay()
            return self._samples

    @history_sample_count.setter
    def history_sample_count(self, count: float) -> None:
        with self._lock:
            self._decay()
            self._samples = count

    def close(self) -> None:
        """Nothing to end; for compatibility."""
