import logging
import threading

import pytest
from buffer_rows import batch, row

from ding.data.replay.errors import (
    BufferArgumentError,
    BufferClosedError,
    BufferConfigError,
    RateLimitTimeout,
)
from ding.worker import (
    AdvancedReplayBuffer,
    EpisodeReplayBuffer,
    NaiveReplayBuffer,
    SampleRatioLimiter,
    SequenceReplayBuffer,
)
from ding.worker.replay_buffer.utils import ThruputController


class FakeClock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def controller(low=0.5, high=2.0, window=10.0):
    clock = FakeClock()
    config = {"push_sample_rate_limit": {"max": high, "min": low}, "window_seconds": window}
    return ThruputController(config, clock), clock


def test_counts_fade_to_one_percent_after_the_window():
    control, clock = controller()
    control.add(pushed=50, sampled=80)
    clock.now += 10
    assert control.history_push_count == pytest.approx(0.5, abs=1e-12)
    assert control.history_sample_count == pytest.approx(0.8, abs=1e-12)
    clock.now += 5
    assert control.history_push_count == pytest.approx(0.05)
    control.history_push_count = 7
    assert control.history_push_count == 7


def test_counts_fade_between_whole_seconds_too():
    control, clock = controller(window=10.0)
    control.add(pushed=50, sampled=80)
    clock.now += 0.5
    assert control.history_push_count == pytest.approx(50 * 0.01**0.05)
    assert control.history_sample_count == pytest.approx(80 * 0.01**0.05)


def test_a_faded_sample_count_limits_pushes_still():
    control, _ = controller(high=2.0)
    control.history_sample_count = 0.5
    assert control.can_push(1)[0]
    assert not control.can_push(2)[0]
    control.history_sample_count = 0.9e-5
    assert control.can_push(2)[0]


def test_controller_limits_the_ratio():
    control, _ = controller()
    assert control.can_push(1000)[0]
    control.add(pushed=10)
    assert control.can_sample(20)[0]
    allowed, reason = control.can_sample(21)
    assert not allowed
    assert "0.4762 pushes per sample, at least 0.5 needed" in reason
    control.add(sampled=20)
    assert control.can_push(30)[0]
    allowed, reason = control.can_push(31)
    assert not allowed
    assert "2.05 pushes per sample, at most 2 allowed" in reason


@pytest.mark.parametrize(("low", "high", "window"), [(-1, 2, 1), (3, 2, 1), (0, 1, 0)])
def test_controller_config(low, high, window):
    with pytest.raises(BufferConfigError):
        controller(low, high, window)


def test_the_reference_scenario(make, caplog):
    buffer = make(
        AdvancedReplayBuffer, 200,
        thruput_controller={
            "push_sample_rate_limit": {"max": 2, "min": 0.5}, "window_seconds": 1e6, "sample_min_limit_ratio": 1.5,
        },
    )  # fmt: skip
    with caplog.at_level(logging.INFO, "ding"):
        buffer.push(batch(0, 30), 0)
        assert all(buffer.sample(19, 0) is not None for _ in range(3))
        assert buffer.sample(19, 0) is None
        assert buffer.sample(21, 0) is None
        for pushed in (60, 90):
            buffer.push(batch(pushed, 30), 0)
            assert buffer.count() == pushed
        buffer.push(batch(0, 30), 0)
        assert buffer.count() == 90
    assert "refuses a push of 30" in caplog.text


def test_min_ratio_must_not_be_below_one():
    with pytest.raises(BufferConfigError, match="sample_min_limit_ratio"):
        AdvancedReplayBuffer({"replay_buffer_size": 4, "thruput_controller": {"sample_min_limit_ratio": 0.5}})


# ------------------------------------------------------------------ sample ratio


def test_ratio_is_kept_within_the_error_buffer():
    limiter = SampleRatioLimiter(4.0, 10, 20.0, push_size=1, sample_size=8)
    pushed = sampled = 0
    for _ in range(500):
        if limiter.can_sample(8)[0]:
            limiter.acquire_sample(8)
            sampled += 8
        else:
            assert limiter.can_push(1)[0], "neither side may go on"
            limiter.acquire_push(1)
            pushed += 1
        assert sampled == 0 or pushed >= 10
        assert pushed < 10 or 40 - 20 <= 4 * pushed - sampled <= 40 + 20
    assert limiter.statistics().difference == 4 * pushed - sampled


@pytest.mark.parametrize("greedy", ["push", "sample"])
@pytest.mark.parametrize(
    ("spi", "least", "push_size", "sample_size"),
    [
        (8.0, 64, 1, 64), (0.25, 100, 64, 32), (1.0, 1, 1, 1), (3.5, 7, 5, 9),
        # Bounds that floats do not hit exactly.
        (0.1, 3, 2, 2), (0.1, 10, 2, 1), (0.7, 1, 3, 2), (1 / 3, 10, 7, 5), (1.2345671, 1, 1, 1),
    ],
)  # fmt: skip
def test_the_smallest_error_buffer_never_locks_up(spi, least, push_size, sample_size, greedy):
    with pytest.raises(BufferConfigError, match="at least") as told:
        SampleRatioLimiter(spi, least, 0.0, push_size, sample_size)
    smallest = float(str(told.value).rsplit(" ", 1)[1])
    limiter = SampleRatioLimiter(spi, least, smallest, push_size, sample_size)
    counts = [0, 0]
    for _ in range(2000):
        first, second = (0, 1) if greedy == "push" else (1, 0)
        for side in (first, second):
            acquire, size = (limiter.acquire_push, push_size) if side == 0 else (limiter.acquire_sample, sample_size)
            try:
                acquire(size)
            except RateLimitTimeout:
                continue
            counts[side] += size
            break
        else:
            pytest.fail(f"locked up at {limiter.statistics()}")
    assert counts[1] / counts[0] == pytest.approx(spi, rel=0.1, abs=2 * (smallest + least * spi) / counts[0])
    with pytest.raises(BufferConfigError):
        SampleRatioLimiter(spi, least, smallest * 0.99, push_size, sample_size)


def test_an_error_buffer_that_a_product_rounds_down_is_taken_as_it_is_meant():
    assert 6 * 0.3 < 1.8
    limiter = SampleRatioLimiter(0.3, 10, 6 * 0.3, push_size=7, sample_size=1)
    for count in (7, 2, 7):  # (9 + 7) * 0.3 <= 10 * 0.3 + 1.8
        limiter.acquire_push(count)
    with pytest.raises(BufferConfigError, match=r"at least 1\.8$"):
        SampleRatioLimiter(0.3, 10, 1.79, push_size=7, sample_size=1)


def test_the_bounds_are_reached_exactly():
    limiter = SampleRatioLimiter(2.0, 3, 3.5, push_size=2, sample_size=3)
    for allowed in (True, True, True, True, False):
        assert limiter.can_push(1)[0] is allowed  # up to 2 * 4 <= 2 * 3 + 3.5
        assert limiter.can_sample(1)[0] is (limiter.statistics().inserts >= 3)
        if allowed:
            limiter.acquire_push(1)
    assert limiter.statistics().difference == 8.0
    for left in (5, 4, 3, 2, 1, 0):
        assert limiter.can_sample(left)[0]  # down to 2 * 4 - 5 >= 2 * 3 - 3.5
        assert not limiter.can_sample(left + 1)[0]
        if left:
            limiter.acquire_sample(1)
    assert limiter.statistics().difference == 3.0


def test_a_first_sample_that_the_buffer_cannot_give_yet_does_not_lock_up(make):
    limit = {"samples_per_insert": 8.0, "min_size_to_sample": 1, "push_size": 1, "sample_size": 64}
    with pytest.raises(BufferConfigError, match=r"at least 504\.0"):
        make(NaiveReplayBuffer, 100, rate_limit={**limit, "error_buffer": 503.0})
    buffer = make(NaiveReplayBuffer, 100, rate_limit={**limit, "error_buffer": 504.0})
    for number in range(64):
        buffer.push(row(number), 0)
    assert len(buffer.sample(64, 0)) == 64


def test_elements_must_be_there_as_often_as_they_are_to_be_sampled():
    limit = {"samples_per_insert": 4.0, "min_size_to_sample": 4, "error_buffer": 8.0, "sample_size": 4}
    with pytest.raises(BufferConfigError, match=r"max_use=3 is below rate_limit\.samples_per_insert=4"):
        AdvancedReplayBuffer({"replay_buffer_size": 9, "max_use": 3, "rate_limit": limit})


@pytest.mark.parametrize("max_use", [4, 6])
def test_a_buffer_whose_elements_are_used_up_does_not_lock_up(make, max_use):
    limit = {"samples_per_insert": 4.0, "min_size_to_sample": 4, "error_buffer": 8.0, "sample_size": 4}
    buffer = make(AdvancedReplayBuffer, 30, max_use=max_use, rate_limit=limit)
    for number in range(100):
        pushed = buffer.push_count
        while buffer.push_count == pushed:
            buffer.push(row(number), 0)
            assert buffer.push_count > pushed or buffer.sample(4, 0) is not None


@pytest.mark.parametrize("timeout_s", [-1.0, float("nan"), float("inf"), 1e12])
def test_a_wait_needs_a_deadline(timeout_s):
    with pytest.raises(BufferConfigError, match="timeout_s must be from 0"):
        SampleRatioLimiter(1.0, 1, 5.0).acquire_sample(1, timeout_s)
    with pytest.raises(BufferConfigError, match="timeout_s must be from 0"):
        NaiveReplayBuffer({"replay_buffer_size": 16, "rate_limit": {**LIMIT, "timeout_s": timeout_s}})


def test_what_is_taken_back_after_a_reset_was_not_counted():
    limiter = SampleRatioLimiter(8.0, 64, 36.0, 1, 64)
    for _ in range(68):
        limiter.acquire_push(1)
    limiter.acquire_sample(64)
    limiter.reset()
    limiter.undo_sample(64)
    limiter.undo_push(1)
    assert (limiter.statistics().inserts, limiter.statistics().samples) == (0, 0)
    for _ in range(68):
        limiter.acquire_push(1)
    limiter.acquire_sample(64)


@pytest.mark.parametrize(
    "args",
    [(0.0, 1, 5.0), (float("inf"), 1, 5.0), (1.0, 0, 5.0), (1.0, 1.5, 5.0), (1.0, 1, float("inf")), (1.0, 1, 5.0, 0)],
)
def test_limiter_arguments(args):
    with pytest.raises(BufferConfigError):
        SampleRatioLimiter(*args)


def test_more_at_once_than_announced_is_an_error():
    limiter = SampleRatioLimiter(1.0, 1, 10.0, push_size=2, sample_size=3)
    with pytest.raises(BufferConfigError, match="push_size is 2"):
        limiter.acquire_push(3)
    with pytest.raises(BufferConfigError, match="sample_size is 3"):
        limiter.acquire_sample(4)
    for acquire in (limiter.acquire_push, limiter.acquire_sample):
        with pytest.raises(BufferConfigError):
            acquire(-1)
    assert (limiter.statistics().inserts, limiter.statistics().samples) == (0, 0)


def test_a_waiting_sample_is_woken_by_a_push():
    limiter = SampleRatioLimiter(1.0, 1, 1.0)
    done = threading.Event()

    def sample():
        limiter.acquire_sample(1, timeout_s=60)
        done.set()

    thread = threading.Thread(target=sample)
    thread.start()
    assert not done.is_set()
    limiter.acquire_push(1)
    assert done.wait(30)
    thread.join()
    assert (limiter.statistics().inserts, limiter.statistics().samples) == (1, 1)


@pytest.mark.parametrize(
    ("counted", "side", "free"),
    [
        ((2, 0), "push", lambda limiter: limiter.undo_push(1)),
        ((2, 0), "push", lambda limiter: limiter.reset()),
        ((2, 0), "push", lambda limiter: limiter.load_state_dict({"inserts": 1, "samples": 0})),
        ((2, 0), "push", lambda limiter: limiter.acquire_sample(1)),
        ((1, 1), "sample", lambda limiter: limiter.undo_sample(1)),
    ],
)
def test_whatever_makes_room_wakes_who_waits(counted, side, free):
    looked = threading.Event()

    def clock():
        looked.set()
        return 0.0

    limiter = SampleRatioLimiter(1.0, 1, 1.0, clock=clock)
    limiter.load_state_dict({"inserts": counted[0], "samples": counted[1]})
    acquire = getattr(limiter, f"acquire_{side}")
    with pytest.raises(RateLimitTimeout):
        acquire(1)
    looked.clear()
    thread = threading.Thread(target=acquire, args=(1, 600.0), daemon=True)
    thread.start()
    # The clock is read under the lock, which the thread gives away when it waits.
    assert looked.wait(30)
    statistics = limiter.statistics()
    assert (statistics.waiting_inserts, statistics.waiting_samples) == ((1, 0) if side == "push" else (0, 1))
    free(limiter)
    thread.join(30)
    assert not thread.is_alive()
    assert limiter.statistics().waiting_inserts == limiter.statistics().waiting_samples == 0


def test_a_wait_ends_at_its_deadline_or_when_closed():
    clock = FakeClock()
    limiter = SampleRatioLimiter(1.0, 1, 1.0, clock=clock)
    with pytest.raises(RateLimitTimeout, match="a sample of 1 was not allowed within 0 s"):
        limiter.acquire_sample(1)
    failed = []

    def wait():
        try:
            limiter.acquire_sample(1, timeout_s=1000)
        except BufferClosedError as error:
            failed.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    limiter.close()
    thread.join(30)
    assert len(failed) == 1
    with pytest.raises(BufferClosedError):
        limiter.acquire_push(1)


def test_limiter_state():
    limiter, other = SampleRatioLimiter(1.0, 1, 5.0), SampleRatioLimiter(1.0, 1, 5.0)
    limiter.acquire_push(1)
    limiter.acquire_sample(1)
    other.load_state_dict(limiter.state_dict())
    assert other.statistics() == limiter.statistics()
    for damaged in ({"inserts": 3, "samples": -1}, {"inserts": -1, "samples": 0}):
        with pytest.raises(BufferArgumentError, match="cannot go on from"):
            other.load_state_dict(damaged)
    assert other.statistics() == limiter.statistics()
    limiter.reset()
    assert limiter.statistics().inserts == 0


LIMIT = {"samples_per_insert": 2.0, "min_size_to_sample": 4, "error_buffer": 4.0, "push_size": 1, "sample_size": 4}


@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer])
def test_a_buffer_refuses_what_its_limiter_does_not_allow(make, cls, caplog):
    buffer = make(cls, 16, rate_limit=LIMIT)
    with caplog.at_level(logging.INFO, "ding"):
        for number in range(3):
            buffer.push(row(number), 0)
        assert buffer.sample(2, 0) is None
        for number in range(3, 10):
            buffer.push(row(number), 0)
    assert buffer.count() == 6
    assert caplog.text.count("refuses a push") == 4
    assert len(buffer.sample(4, 0)) == 4
    buffer.push(row(6), 0)
    buffer.push(row(7), 0)
    assert buffer.count() == 8
    other = make(cls, 16, rate_limit=LIMIT)
    other.load_state_dict(buffer.state_dict())
    assert other.rate_limiter.statistics() == buffer.rate_limiter.statistics()
    assert other.rate_limiter.statistics().inserts == 8
    buffer.clear()
    assert buffer.rate_limiter.statistics().inserts == 0


@pytest.mark.parametrize("cls", [NaiveReplayBuffer, AdvancedReplayBuffer])
def test_what_fails_after_admission_is_not_counted(make, cls):
    buffer = make(cls, 16, rate_limit=LIMIT, storage={"mixed_rows": False})
    for number in range(4):
        buffer.push(row(number), 0)
    with pytest.raises(ValueError):
        buffer.push({"wrong": 1}, 0)
    with pytest.raises(ValueError):
        buffer.sample(2, 0, sample_range=slice(3, 3))
    statistics = buffer.rate_limiter.statistics()
    assert (statistics.inserts, statistics.samples) == (4, 0)


def test_collecting_and_learning_threads_keep_the_ratio(make):
    limit = {"samples_per_insert": 2.0, "min_size_to_sample": 8, "error_buffer": 16.0, "push_size": 4, "sample_size": 8}
    buffer = make(NaiveReplayBuffer, 64, rate_limit={**limit, "timeout_s": 60.0})
    pushes, samples = 100, 96
    failed = []

    def collect():
        for number in range(0, 4 * pushes, 4):
            buffer.push(batch(number, 4), 0)

    def learn():
        failed.extend(1 for _ in range(samples) if len(buffer.sample(8, 0) or []) != 8)

    threads = [threading.Thread(target=collect), threading.Thread(target=learn)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failed
    statistics = buffer.rate_limiter.statistics()
    assert (statistics.inserts, statistics.samples) == (400, 768)


def test_loaded_elements_are_no_inserts(make):
    make(NaiveReplayBuffer, 16).save_data("empty")
    full = make(NaiveReplayBuffer, 16)
    full.push(batch(0, 12), 0)
    full.save_data("data")
    for cls in (NaiveReplayBuffer, AdvancedReplayBuffer):
        buffer = make(cls, 16, rate_limit=LIMIT)
        buffer.load_data("empty")
        buffer.load_data("data")
        assert buffer.count() == 12
        assert buffer.rate_limiter.statistics().inserts == 0
        buffer.push(row(12), 0)
        assert buffer.rate_limiter.statistics().inserts == 1


def test_a_waiting_push_of_a_sequence_buffer_lets_the_samples_through(make):
    limit = {"samples_per_insert": 4.0, "min_size_to_sample": 8, "error_buffer": 17.0, "push_size": 4, "sample_size": 2}
    buffer = make(SequenceReplayBuffer, 64, rate_limit={**limit, "timeout_s": 60.0})
    for number in range(0, 12, 4):
        buffer.push(batch(number, 4), 0)
    # D is 48 of at most 49: the push of 4 has to wait for 8 samples, which take the lock of the buffer.
    thread = threading.Thread(target=lambda: buffer.push(batch(12, 4), 0))
    thread.start()
    done = threading.Event()

    def learn():
        for _ in range(8):
            buffer.sample(1, 2, 0)
        done.set()

    learner = threading.Thread(target=learn)
    learner.start()
    assert done.wait(30)
    for one in (thread, learner):
        one.join(30)
        assert not one.is_alive()
    assert buffer.count() == 16


@pytest.mark.parametrize("form", ["batch", "pieces", "rows", "list of episodes"])
def test_the_elements_of_an_episode_buffer_are_episodes(make, form):
    limit = {"samples_per_insert": 2.0, "min_size_to_sample": 1, "error_buffer": 8.0, "push_size": 2, "sample_size": 2}
    buffer = make(EpisodeReplayBuffer, 16, rate_limit=limit)
    data, count = {
        "batch": (batch(0, 5), 1),
        "pieces": (batch(0, 5, lengths=[2, 3]), 2),
        "rows": (list(batch(0, 5)), 1),
        "list of episodes": ([batch(0, 5), list(batch(5, 3))], 2),
    }[form]
    buffer.push(data, 0)
    assert buffer.count() == buffer.rate_limiter.statistics().inserts == count
    assert len(buffer.sample(count, 0)) == buffer.rate_limiter.statistics().samples == count


def test_limiter_needs_room_in_the_buffer():
    with pytest.raises(BufferConfigError, match="more than replay_buffer_size=2"):
        NaiveReplayBuffer({"replay_buffer_size": 2, "rate_limit": LIMIT})
