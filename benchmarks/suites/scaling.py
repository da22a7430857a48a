"""How cost grows: 1 to 256 envs, 10,000 to 5,000,000 buffer rows, 1 to 4 collectors."""

from __future__ import annotations

from benchmarks._plan import ONE_THREAD, Measurement, OpSpec, own, peer
from benchmarks.suites.parallel import WINDOW

TITLE = "Scaling"
ENVS = (1, 8, 64, 256)
ROWS = (10_000, 100_000, 1_000_000, 5_000_000)
COLLECTORS = (1, 2, 4)


def measurements() -> list[Measurement]:
    """All measurements of the suite."""
    return [*(_envs(count) for count in ENVS), *(_rows(count) for count in ROWS), _collectors()]


def _envs(count: int) -> Measurement:
    args = ("--envs", count)
    return Measurement(
        f"scaling_envs_{count}",
        f"Collector over {count} CartPole envs",
        (
            own("ours/collect.py", *args, "--manager", "gym_vector", label="ding gym_vector"),
            own("ours/collect.py", *args, label="ding base manager"),
            peer("ding_ref", "DI-engine", "ours/collect.py", *args),
            peer("sb3", "stable-baselines3", "peers/sb3_collect.py", *args),
        ),
        (OpSpec("collect", "collect and store", "env_steps", 0.5),),
        modes=(ONE_THREAD,),
    )


def _rows(count: int) -> Measurement:
    args = ("cartpole", "--rows", count)
    return Measurement(
        f"scaling_rows_{count}",
        f"Buffer of {count:,} CartPole rows",
        (
            own("ours/buffer.py", *args, "--buffer", "naive", label="ding naive"),
            own("ours/buffer.py", *args, label="ding advanced"),
            peer("ding", "torch.index_select", "peers/torch_buffer.py", *args),
        ),
        (
            OpSpec("sample256", "sample 256 to tensors", "batches", 0.3),
            OpSpec("psample256", "prioritised: sample 256 and update", "batches", 0.3),
            OpSpec("push64", "push 64 rows (columns)", "rows/s", None, value="rows_per_s"),
        ),
        modes=(ONE_THREAD,),
    )


def _collectors() -> Measurement:
    script = "ours/parallel.py"
    sides = [own(script, "--collectors", count, *WINDOW, label=f"ding, {count} collectors") for count in COLLECTORS]
    return Measurement(
        "scaling_collectors",
        "The parallel mode with 1, 2 and 4 collectors",
        tuple(sides),
        (
            OpSpec("flow", "into the replay buffer", "transitions/s", None, value="transitions_per_s"),
            OpSpec("flow", "learner", "train iterations/s", None, value="train_iters_per_s"),
            OpSpec("collect", "all collectors", "env steps/s", None, value="env_steps_per_s"),
            OpSpec("flow", "CPU of all processes", "cores", None, value="cores_used", lower=True),
        ),
        modes=(ONE_THREAD,),
        persistent=False,
    )
