"""Collector alone: forward, epsilon-greedy, env step, store."""

from __future__ import annotations

from benchmarks._plan import DEFAULT_THREADS, ONE_THREAD, Measurement, OpSpec, Target, own, peer

TITLE = "Collector"
SCRIPT = "ours/collect.py"
DUELING = ("--network", "dueling", "--hidden", 128, 128, 64)


def _op(*targets: Target) -> OpSpec:
    return OpSpec("collect", "collect and store", "env_steps", targets=targets)


def measurements() -> list[Measurement]:
    """All measurements of the suite."""
    return [_base(), _dueling(), _custom(), _many(), _many_beside_few(), _subprocess(), _threads()]


def _base() -> Measurement:
    return Measurement(
        "collector_base_8",
        "Collector, 8 CartPole envs, base manager, MLP 128-128",
        (
            own(SCRIPT),
            own(SCRIPT, "--manager", "gym_vector", label="ding gym_vector"),
            peer("ding_ref", "DI-engine", SCRIPT),
            peer("sb3", "stable-baselines3", "peers/sb3_collect.py"),
            peer("tianshou", "tianshou", "peers/tianshou_collect.py"),
            peer("torchrl", "torchrl", "peers/torchrl_collect.py"),
            peer("rllib", "RLlib", "peers/rllib_collect.py"),
            peer("ding", "by hand", "peers/hand_collect.py"),
        ),
        (_op(Target(2, "DI-engine", 4.0), Target(2, "stable-baselines3", 1.0), Target(2, "by hand", 0.75)),),
        quick=True,
    )


def _dueling() -> Measurement:
    return Measurement(
        "collector_dueling_8",
        "Collector, 8 CartPole envs, base manager, the dueling network of the default config",
        (
            own(SCRIPT, *DUELING),
            peer("ding_ref", "DI-engine", SCRIPT, *DUELING),
            peer("ding", "by hand", "peers/hand_collect.py", *DUELING),
        ),
        (_op(Target(2, "DI-engine", 4.0), Target(2, "by hand", 0.75)),),
    )


def _custom() -> Measurement:
    return Measurement(
        "collector_custom_8",
        "Collector with a policy that overrides _process_transition and _forward_collect the classic way",
        (own(SCRIPT, "--custom-policy"), peer("ding_ref", "DI-engine", SCRIPT, "--custom-policy")),
        (_op(Target(2, "DI-engine", 1.0)),),
        quick=True,
    )


def _many() -> Measurement:
    envs = ("--envs", 64)
    return Measurement(
        "collector_vector_64",
        "Collector, 64 CartPole envs, gym_vector",
        (
            own(SCRIPT, *envs, "--manager", "gym_vector"),
            own(SCRIPT, *envs, label="ding base manager"),
            peer("ding_ref", "DI-engine", SCRIPT, *envs),
            peer("sb3", "stable-baselines3", "peers/sb3_collect.py", *envs),
            peer("tianshou", "tianshou", "peers/tianshou_collect.py", *envs),
            peer("torchrl", "torchrl", "peers/torchrl_collect.py", *envs),
            peer("ding", "by hand", "peers/hand_collect.py", *envs, "--vector", "vectorised"),
        ),
        (_op(Target(2, "DI-engine", 20.0), Target(2, "stable-baselines3", 2.5)),),
        quick=True,
        remark="DI-engine has no manager for vector envs of today's gymnasium: it runs its base manager here.",
    )


def _many_beside_few() -> Measurement:
    return Measurement(
        "collector_vector_64_beside_8",
        "Collector, 64 CartPole envs with gym_vector beside 8 with the base manager",
        (
            own(SCRIPT, "--envs", 64, "--manager", "gym_vector"),
            own(SCRIPT, label="ding, 8 envs"),
            peer("ding_ref", "DI-engine, 8 envs", SCRIPT),
        ),
        (_op(Target(2, "DI-engine, 8 envs", 20.0)),),
        varies=("envs",),
        remark="What a user gains who goes over to a vector env.",
    )


def _subprocess() -> Measurement:
    manager = ("--manager", "subprocess")
    return Measurement(
        "collector_subprocess_8",
        "Collector, 8 CartPole envs in processes",
        (
            own(SCRIPT, *manager),
            peer("ding_ref", "DI-engine", SCRIPT, *manager),
            peer("sb3", "stable-baselines3", "peers/sb3_collect.py", "--subprocess"),
            peer("tianshou", "tianshou", "peers/tianshou_collect.py", "--shmem"),
            peer("ding", "gymnasium AsyncVectorEnv", "peers/hand_collect.py", "--vector", "async"),
        ),
        (_op(Target(2, "DI-engine", 3.0), Target(2, "gymnasium AsyncVectorEnv", 1.0)),),
        quick=True,
    )


def _threads() -> Measurement:
    return Measurement(
        "collector_threads",
        "Collector as a user gets it by default, beside one thread",
        (own(SCRIPT, label="ding, no variable set"), own(SCRIPT, label="ding, OMP_NUM_THREADS=1")),
        (_op(Target(2, "ding, OMP_NUM_THREADS=1", 0.97, subject="ding, no variable set")),),
        modes=(DEFAULT_THREADS,),
        pinned={"ding, OMP_NUM_THREADS=1": ONE_THREAD},
        remark="Not slower means: within 3 %, the noise of a quiet machine.",
    )
