"""Vector envs and env managers alone."""

from __future__ import annotations

from benchmarks._plan import ONE_THREAD, Measurement, OpSpec, own, peer

TITLE = "Vector envs"
OURS, THEIRS = "ours/envs.py", "peers/vector_envs.py"


def measurements() -> list[Measurement]:
    """All measurements of the suite."""
    return [_serial(8), _serial(64), _processes()]


def _op() -> OpSpec:
    return OpSpec("step", "env steps with prepared actions", "env_steps")


def _serial(count: int) -> Measurement:
    envs = ("--envs", count)
    return Measurement(
        f"vector_envs_{count}",
        f"Vector envs in one process, {count} CartPole envs",
        (
            own(OURS, *envs),
            own(OURS, *envs, "--manager", "gym_vector", label="ding gym_vector"),
            peer("ding_ref", "DI-engine", OURS, *envs),
            peer("ding", "gymnasium SyncVectorEnv", THEIRS, "gymnasium", "sync", *envs),
            peer("ding", "gymnasium vectorised", THEIRS, "gymnasium", "vectorised", *envs),
            peer("sb3", "stable-baselines3 Dummy", THEIRS, "sb3", "serial", *envs),
            peer("tianshou", "tianshou Dummy", THEIRS, "tianshou", "serial", *envs),
            peer("envpool", "envpool", THEIRS, "envpool", "serial", *envs),
        ),
        (_op(),),
        modes=(ONE_THREAD,),
        quick=count == 8,
        remark="DI-engine steps its own CartPole env class.",
    )


def _processes() -> Measurement:
    return Measurement(
        "vector_envs_processes_8",
        "Vector envs in processes, 8 CartPole envs",
        (
            own(OURS, "--manager", "subprocess"),
            own(OURS, "--manager", "async_subprocess", label="ding async_subprocess"),
            peer("ding_ref", "DI-engine", OURS, "--manager", "subprocess"),
            peer("ding", "gymnasium AsyncVectorEnv", THEIRS, "gymnasium", "async"),
            peer("sb3", "stable-baselines3 Subproc", THEIRS, "sb3", "process"),
            peer("tianshou", "tianshou shmem", THEIRS, "tianshou", "process"),
        ),
        (_op(),),
        modes=(ONE_THREAD,),
    )
