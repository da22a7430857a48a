"""A limiter that keeps the number of samples per insert of a buffer within bounds."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from ding.worker.replay_buffer.errors import (
    BufferArgumentError,
    BufferClosedError,
    BufferConfigError,
    RateLimitTimeout,
)


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


class SampleRatioLimiter:
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
        BufferConfigError: values that are out of range or allow a deadlock; the message tells the smallest
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
        self._changed = threading.Condition()
        self._inserts = self._samples = 0
        self._waiting = [0, 0]
        self._closed = False

    def _insert_allowed(self, count: int) -> bool:
        after = (self._inserts + count) * self._per_insert - self._samples * self._unit
        return after <= self._high

    def _sample_allowed(self, count: int) -> bool:
        after = self._inserts * self._per_insert - (self._samples + count) * self._unit
        return self._inserts >= self.min_size_to_sample and after >= self._low

    def can_push(self, count: int) -> tuple[bool, str]:
        """Whether an insert of ``count`` elements is allowed now, and if not, why."""
        with self._changed:
            if self._insert_allowed(count):
                return True, ""
            return False, f"inserts run ahead of samples ({self._inserts} and {self._samples})"

    def can_sample(self, count: int) -> tuple[bool, str]:
        """Whether a sample of ``count`` elements is allowed now, and if not, why."""
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
            BufferConfigError: more elements than the constructor was told, or a timeout that is negative or infinite.
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
    """The decimal that a float is printed as."""
    return Fraction(str(float(number)))
