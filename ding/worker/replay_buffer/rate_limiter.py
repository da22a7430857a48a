"""A limiter that keeps the number of samples per insert of a buffer within bounds."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ding.worker.replay_buffer.errors import BufferClosedError, BufferConfigError, RateLimitTimeout


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
    2. The inserts that lead to ``min_size_to_sample`` are held back, while samples are not allowed yet. That is
       impossible when ``error_buffer >= (p - 1) * samples_per_insert``.
    3. The other side has stopped. Nobody can know: therefore every wait has a deadline, and :meth:`close` wakes all.

    The buffer must be able to hold ``min_size_to_sample`` elements; :class:`RingBuffer` checks that.

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
        needed = max((push_size * samples_per_insert + sample_size) / 2, (push_size - 1) * samples_per_insert)
        if not needed <= error_buffer < float("inf"):
            raise BufferConfigError(
                f"error_buffer={error_buffer!r} lets inserts of {push_size} and samples of {sample_size} hold each "
                f"other back for ever at samples_per_insert={samples_per_insert:g}: it must be at least {needed:g}"
            )
        self.samples_per_insert = samples_per_insert
        self.min_size_to_sample = min_size_to_sample
        offset = samples_per_insert * min_size_to_sample
        self._low, self._high = offset - error_buffer, offset + error_buffer
        self._push_size, self._sample_size = push_size, sample_size
        self._clock = clock
        self._changed = threading.Condition()
        self._inserts = self._samples = 0
        self._waiting = [0, 0]
        self._closed = False

    def _insert_allowed(self, count: int) -> bool:
        after = (self._inserts + count) * self.samples_per_insert - self._samples
        return after <= self._high

    def _sample_allowed(self, count: int) -> bool:
        after = self._inserts * self.samples_per_insert - self._samples - count
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
            BufferConfigError: more elements than the constructor was told.
        """
        if count > self._push_size:
            raise BufferConfigError(f"an insert of {count} elements, but push_size is {self._push_size}")
        with self._changed:
            self._wait(lambda: self._insert_allowed(count), timeout_s, 0, f"an insert of {count}")
            self._inserts += count
            self._changed.notify_all()

    def acquire_sample(self, count: int, timeout_s: float = 0.0) -> None:
        """Count a sample of ``count`` elements as soon as it is allowed; see :meth:`acquire_push`."""
        if count > self._sample_size:
            raise BufferConfigError(f"a sample of {count} elements, but sample_size is {self._sample_size}")
        with self._changed:
            self._wait(lambda: self._sample_allowed(count), timeout_s, 1, f"a sample of {count}")
            self._samples += count
            self._changed.notify_all()

    def _wait(self, allowed: Callable[[], bool], timeout_s: float, side: int, what: str) -> None:
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
        """Take back an insert that was counted but did not happen."""
        with self._changed:
            self._inserts -= count
            self._changed.notify_all()

    def undo_sample(self, count: int) -> None:
        """Take back a sample that was counted but did not happen."""
        with self._changed:
            self._samples -= count
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
            difference = self._inserts * self.samples_per_insert - self._samples
            return LimiterStatistics(self._inserts, self._samples, difference, *self._waiting)

    def state_dict(self) -> dict[str, int]:
        """``{'inserts', 'samples'}``."""
        with self._changed:
            return {"inserts": self._inserts, "samples": self._samples}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Go on from a ``state_dict``."""
        with self._changed:
            self._inserts, self._samples = int(state_dict["inserts"]), int(state_dict["samples"])
            self._changed.notify_all()
