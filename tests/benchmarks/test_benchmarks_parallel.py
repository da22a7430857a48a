"""What the parallel suite makes of the events that the processes of a run wrote down."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "benchmarks" / "sidekit"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

from bench_events import Event, EventLog, read_events  # noqa: E402
from bench_figures import chunk_latencies, figures_of, policy_latencies, quantile  # noqa: E402

from benchmarks import suites  # noqa: E402

COLLECTOR, LEARNER, COORDINATOR = 1, 2, 3


def chunk(kind: str, time_s: float, name: str) -> Event:
    return Event(COORDINATOR, kind, time_s, 1, name)


def test_events_come_back_and_an_unfinished_line_is_left_alone(tmp_path: Path) -> None:
    log = EventLog(str(tmp_path))
    log.add("push", 64, time_s=1.5)
    log.add("written", name="c-1.ab", time_s=2.0)
    (file,) = tmp_path.glob("*.events")
    with file.open("a") as more:
        more.write("push 3.0")
    pid = int(file.stem)
    assert list(read_events(tmp_path)) == [Event(pid, "push", 1.5, 64, ""), Event(pid, "written", 2.0, 1, "c-1.ab")]


def test_rates_are_those_of_the_window() -> None:
    events = [
        Event(COORDINATOR, "push", 9.9, 1000, ""),
        Event(COORDINATOR, "push", 10.0, 64, ""),
        Event(COORDINATOR, "push", 14.0, 36, ""),
        Event(LEARNER, "update", 11.0, 1, ""),
        Event(LEARNER, "update", 15.0, 1, ""),
        Event(COLLECTOR, "env_step", 12.0, 8, ""),
        Event(COLLECTOR, "eval_step", 12.0, 2, ""),
    ]
    figures = figures_of(events, 10.0, 15.0, {COLLECTOR: 2.0, LEARNER: 3.0, COORDINATOR: 1.0})
    assert figures == {
        "transitions_per_s": 20.0,
        "train_iters_per_s": 0.2,
        "cores_used": 1.2,
        "transitions_per_cpu_s": pytest.approx(20.0 / 1.2),
        "train_iters_per_cpu_s": pytest.approx(0.2 / 1.2),
        "env_steps_per_s": 2.0,
        "env_steps_per_cpu_s": 5.0,
    }


def test_a_policy_counts_once_per_process_and_only_when_it_is_new_there() -> None:
    events = [
        Event(LEARNER, "published", 1.0, 10, ""),
        Event(COLLECTOR, "loaded", 1.5, 10, ""),
        Event(COLLECTOR, "loaded", 3.0, 10, ""),
        Event(LEARNER, "published", 4.0, 20, ""),
        Event(LEARNER, "published", 5.0, 30, ""),
        Event(COLLECTOR, "loaded", 5.25, 30, ""),
        Event(4, "loaded", 7.0, 30, ""),
        Event(4, "loaded", 99.0, 30, ""),
    ]
    assert policy_latencies(events, 0.0, 50.0) == [0.5, 0.25, 2.0]
    assert policy_latencies(events, 2.0, 6.0) == [0.25]


def test_a_chunk_is_timed_to_its_first_sample_and_one_that_is_never_sampled_counts() -> None:
    events = [
        chunk("written", 1.0, "a"),
        chunk("sampled", 1.5, "a"),
        chunk("sampled", 1.25, "a"),
        chunk("written", 2.0, "b"),
        chunk("written", 9.5, "too late to tell"),
        chunk("arrived", 1.125, "a"),
    ]
    assert chunk_latencies(events, "sampled", 0.0, 10.0) == [0.25, 8.0]
    assert chunk_latencies(events, "arrived", 0.0, 10.0) == [0.125, 8.0]


@pytest.mark.parametrize(("share", "expected"), [(0.5, 10), (0.95, 19), (1.0, 20), (0.01, 1)])
def test_quantile(share: float, expected: int) -> None:
    assert quantile(list(range(20, 0, -1)), share) == expected


def test_the_suite_has_a_target_for_every_figure_of_the_issue() -> None:
    texts = [t.text() for one in suites.load("parallel").measurements() for op in one.ops for t in op.targets]
    ahead = [f"issue 20: ding ray at least 1 x RLlib {name}" for name in ("IMPALA", "APPO")]
    assert texts == [
        "issue 4: ding at least 100 x DI-engine",
        "issue 4: ding at least 1 x RLlib IMPALA",
        "issue 4: ding at least 1 x RLlib APPO",
        "issue 4: ding at least 1 x sample-factory APPO",
        "issue 4: ding at least 50 x DI-engine",
        "issue 4: ding at least 1 x ding, one collector",
        "issue 4: ding, one collector at least 0.5 x ding serial collector",
        "issue 4: ding at most 0.2",
        "issue 4: ding at most 0.5",
        *(2 * ["issue 20: ding ray at least 0.7 x ding flask_fs", *ahead]),
        "issue 4: ding at most 2",
    ]
