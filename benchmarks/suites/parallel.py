"""The parallel mode: data and train iterations per second beside the peers', latencies, collectors, idle load."""

from __future__ import annotations

from benchmarks._plan import ONE_THREAD, Measurement, OpSpec, Target, own, peer

TITLE = "Parallel mode"
SCRIPT = "ours/parallel.py"
TWO, ONE, FOUR = "ding", "ding, one collector", "ding, four collectors"
SERIAL, REFERENCE = "ding serial collector", "DI-engine"
IMPALA, APPO, SAMPLE_FACTORY = "RLlib IMPALA", "RLlib APPO", "sample-factory APPO"
FLASK_FS, INPROC, RAY = "ding flask_fs", "ding inproc", "ding ray"
MODE = (ONE_THREAD,)
# Five rounds of it, on all sides, are to take less than twenty minutes.
WINDOW = ("--warm-up", 4, "--window", 8)
# Longer, where sides of one kind are compared.
EVEN_WINDOW = ("--warm-up", 6, "--window", 12)


def measurements() -> list[Measurement]:
    """All measurements of the suite."""
    return [_run(), _backends(), _idle()]


def _run() -> Measurement:
    return Measurement(
        "parallel",
        "CartPole DQN in the parallel mode, one learner and two collectors (or one, or four)",
        (
            own(SCRIPT, *WINDOW, label=TWO),
            own(SCRIPT, "--collectors", 1, *WINDOW, label=ONE),
            own(SCRIPT, "--collectors", 4, *WINDOW, label=FOUR),
            own(SCRIPT, "--serial", *WINDOW, label=SERIAL),
            # Its rates are low, and uneven from second to second.
            peer("ding_ref", REFERENCE, SCRIPT, "--warm-up", 4, "--window", 24),
            peer("rllib", IMPALA, "peers/rllib_parallel.py", "impala", *WINDOW),
            peer("rllib", APPO, "peers/rllib_parallel.py", "appo", *WINDOW),
            peer("sample_factory", SAMPLE_FACTORY, "peers/sample_factory_parallel.py", *WINDOW),
        ),
        (*_flow(), *_collect(), *_latency()),
        modes=MODE,
        persistent=False,
        remark="The config of DI-engine's example, on both sides; the stop value is out of reach. A run warms up for"
        " 4 s after its first update; then one window of 8 s (DI-engine: 24 s) gives all figures. Env steps count"
        " evaluations; transitions are rows that enter the replay buffer. RLlib and sample-factory have no DQN of this"
        " form: they run IMPALA and APPO on the same env, network widths, envs and processes, and what counts as"
        " transitions are env steps that reach the algorithm; their train iterations are on batches of several"
        " hundred rows (DQN here: 32), so that only env steps and transitions compare.",
    )


def _backends() -> Measurement:
    options = ("--fixed-eps", 1.0, *EVEN_WINDOW)
    mine = tuple(own(SCRIPT, "--backend", label.split()[1], *options, label=label) for label in (RAY, FLASK_FS, INPROC))
    theirs = tuple(
        peer("rllib", label, "peers/rllib_parallel.py", label.split()[1].lower(), *EVEN_WINDOW)
        for label in (IMPALA, APPO)
    )
    ahead = (Target(20, FLASK_FS, 0.7, subject=RAY, modes=MODE),) + tuple(
        Target(20, other, 1.0, subject=RAY, modes=MODE) for other in (IMPALA, APPO)
    )
    return Measurement(
        "parallel_backends",
        "The same run on each backend, with two collectors, and RLlib on the same Ray",
        (*mine, *theirs),
        (
            _op("flow", "into the replay buffer", "transitions/s", "transitions_per_s", *ahead),
            _op("flow", "learner", "train iterations/s", "train_iters_per_s", *ahead),
            _op("flow", "into the replay buffer, per core used", "transitions/CPU s", "transitions_per_cpu_s"),
            _op("flow", "learner, per core used", "train iterations/CPU s", "train_iters_per_cpu_s"),
            _op("flow", "CPU of all processes", "cores", "cores_used", lower=True),
        ),
        modes=MODE,
        persistent=False,
        remark="As in the measurement with DI-engine, but collectors act at random from begin to end, and the window is"
        " longer. A task of a collector is two episodes per env: with the epsilon of the config a backend that learns"
        " sooner has longer episodes within the window, so fewer tasks to begin, and its collectors are faster for that"
        " reason alone (4,600 transitions/s at first, 17,000 after half a minute). Random episodes make about 20 tasks"
        " per second. Each side starts its own cluster; Ray's own"
        " processes count among the CPU of a run. RLlib's train iterations are on batches of several hundred rows.",
    )


def _flow() -> tuple[OpSpec, ...]:
    peers = (IMPALA, APPO, SAMPLE_FACTORY)
    transitions = (_target(TWO, REFERENCE, 100), *(_target(TWO, other, 1.0) for other in peers))
    return (
        _op("flow", "into the replay buffer", "transitions/s", "transitions_per_s", *transitions),
        _op("flow", "learner", "train iterations/s", "train_iters_per_s", _target(TWO, REFERENCE, 50)),
        _op("flow", "CPU of all processes", "cores", "cores_used", lower=True),
    )


def _collect() -> tuple[OpSpec, ...]:
    per_core = _target(ONE, SERIAL, 0.5)
    return (
        _op("collect", "all collectors", "env steps/s", "env_steps_per_s", _target(TWO, ONE, 1.0)),
        _op("collect", "collectors, per core they use", "env steps/CPU s", "env_steps_per_cpu_s", per_core),
    )


def _latency() -> tuple[OpSpec, ...]:
    policy, data = _bound(0.2), _bound(0.5)
    return (
        _op("latency", "policy, published to loaded, p95", "s", "policy_p95_s", policy, lower=True),
        _op("latency", "policy, published to loaded, median", "s", "policy_median_s", lower=True),
        _op("latency", "chunk, written to first sampled, p95", "s", "sampling_p95_s", data, lower=True),
        _op("latency", "chunk, written to first sampled, median", "s", "sampling_median_s", lower=True),
        _op("latency", "chunk, written to in the buffer, p95", "s", "arrival_p95_s", lower=True),
    )


def _idle() -> Measurement:
    return Measurement(
        "parallel_idle",
        "A coordinator with a learner that waits for data, and no collector",
        (own(SCRIPT, "--idle", *WINDOW, label=TWO),),
        (_op("idle", "CPU of the coordinator", "% of a core", "coordinator_cpu_percent", _bound(2.0), lower=True),),
        modes=MODE,
    )


def _op(name: str, title: str, unit: str, value: str, *targets: Target, lower: bool = False) -> OpSpec:
    return OpSpec(name, title, unit, None, value=value, lower=lower, targets=targets)


def _target(subject: str, against: str, at_least: float) -> Target:
    return Target(4, against, at_least, subject=subject, modes=MODE)


def _bound(at_most: float) -> Target:
    return Target(4, None, at_least=None, at_most=at_most, subject=TWO, modes=MODE)
