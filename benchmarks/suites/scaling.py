"""How cost grows: 1 to 256 envs, 10,000 to 5,000,000 buffer rows, 2 to 256 collectors. All sizes take turns.

The parallel mode with 1, 2 and 4 collectors is part of the suite ``parallel``, which has the first two in any case.
"""

from __future__ import annotations

import math

from benchmarks._plan import ONE_THREAD, Measurement, OpSpec, Target, own, peer

TITLE = "Scaling"
ENVS = (1, 8, 64, 256)
COLLECTORS = (2, 16, 64, 256)
ROWS = (10_000, 100_000, 1_000_000, 5_000_000)
# What grows at most logarithmically is at least this share as fast at the end.
LOGARITHMIC = round(math.log(ROWS[0]) / math.log(ROWS[-1]), 2)
MODE = (ONE_THREAD,)


def measurements() -> list[Measurement]:
    """All measurements of the suite."""
    return [_envs(), _rows(), _collectors()]


def _envs() -> Measurement:
    sides = []
    for count in ENVS:
        args, of = ("--envs", count), f", {count} envs"
        sides += [
            own("ours/collect.py", *args, "--manager", "gym_vector", label=f"ding gym_vector{of}"),
            own("ours/collect.py", *args, label=f"ding base manager{of}"),
            peer("ding_ref", f"DI-engine{of}", "ours/collect.py", *args),
            peer("sb3", f"stable-baselines3{of}", "peers/sb3_collect.py", *args),
        ]
    return Measurement(
        "scaling_envs",
        "Collector over 1 to 256 CartPole envs",
        tuple(sides),
        (OpSpec("collect", "collect and store", "env_steps", 0.5),),
        modes=MODE,
        varies=("envs",),
    )


def _rows() -> Measurement:
    sides = []
    for count in ROWS:
        args, of = ("cartpole", "--rows", count), f", {count:,} rows"
        sides += [
            own("ours/buffer.py", *args, "--buffer", "naive", label=f"ding naive{of}"),
            own("ours/buffer.py", *args, label=f"ding advanced{of}"),
            peer("ding", f"torch.index_select{of}", "peers/torch_buffer.py", *args),
        ]
    naive, advanced = _grows("ding naive"), _grows("ding advanced")
    return Measurement(
        "scaling_rows",
        "Buffers of 10,000 to 5,000,000 CartPole rows",
        tuple(sides),
        (
            OpSpec("sample256", "sample 256 to tensors", "batches", 0.3, targets=(naive,)),
            OpSpec("psample256", "prioritised: sample 256 and update", "batches", 0.3, targets=(advanced,)),
            OpSpec("push64", "push 64 rows (columns)", "rows/s", None, value="rows_per_s", targets=(naive, advanced)),
        ),
        modes=MODE,
        varies=("rows",),
        remark=f"Cost grows at most logarithmically where the rate stays above {LOGARITHMIC:g} of the first:"
        " log 10,000 / log 5,000,000. Larger columns do not fit into the processor's caches, which slows"
        " torch.index_select, too.",
    )


def _collectors() -> Measurement:
    script = "ours/many_collectors.py"
    sides = (
        *(own(script, "--collectors", count, label=f"ding, {count} collectors") for count in COLLECTORS),
        *(
            own(script, "--collectors", count, "--planes", "ray", label=f"ding on Ray, {count} collectors")
            for count in COLLECTORS
        ),
    )
    return Measurement(
        "scaling_collectors",
        "One coordinator with 2 to 256 light collectors",
        sides,
        (
            _op("flow", "into the replay buffer", "transitions/s", "transitions_per_s"),
            _op("flow", "chunks that arrive", "chunks/s", "chunks_per_s"),
            _op("coordinator", "CPU of the coordinator", "% of a core", "coordinator_cpu_percent", lower=True),
            _op("coordinator", "CPU for each chunk", "ms", "coordinator_cpu_ms_per_chunk", lower=True),
            _op("coordinator", "memory", "MiB", "coordinator_mib", lower=True),
            _op("coordinator", "threads", "threads", "coordinator_threads", lower=True),
            _op("latency", "chunk, written to in the buffer, median", "s", "arrival_median_s", lower=True),
            _op("latency", "chunk, written to in the buffer, p95", "s", "arrival_p95_s", lower=True),
        ),
        modes=MODE,
        varies=("collectors",),
        persistent=False,
        remark="Each collector sends a chunk of 25 CartPole transitions every half second and plays no env; four"
        " processes share the collectors. The learner is held back. On Ray, chunks are in its object store. 0.1 s of"
        " the latency are a wait for more references, so that one message holds several. `docs/scaling.md` says what"
        " follows for more collectors.",
    )


def _op(name: str, title: str, unit: str, value: str, lower: bool = False) -> OpSpec:
    return OpSpec(name, title, unit, None, value=value, lower=lower)


def _grows(label: str) -> Target:
    first, last = (f"{label}, {count:,} rows" for count in (ROWS[0], ROWS[-1]))
    return Target(3, first, LOGARITHMIC, subject=last, modes=MODE)
