"""Algorithms beside DQN: PPO, A2C, IMPALA, C51, QR-DQN on common work; PPO, R2D2 and QMIX beside DI-engine."""

from __future__ import annotations

from benchmarks._plan import MODES, Measurement, OpSpec, Target, own, peer
from benchmarks._process import Contestant

TITLE = "Other algorithms"
ISSUE, ISSUE_COOPERATIVE, ISSUE_TODAY = 14, 15, 42
UPDATES = 3
# Train iterations of the pipelines; 8 of PPO's belong to 256 env steps, 5 of R2D2's to 32 sequences of 42, 20 of QMIX's
# to 32 episodes of 8.
PPO_ITERATIONS, R2D2_ITERATIONS, QMIX_ITERATIONS = 512, 300, 400


CLEANRL = Target(ISSUE_TODAY, "CleanRL-style", 1.5)


def measurements() -> list[Measurement]:
    """All measurements of the suite."""
    return [ppo(), pqn(), a2c(), c51(), qrdqn(), ppo_pipeline(), r2d2_pipeline(), qmix_pipeline()]


def ppo_op(targets: tuple[Target, ...]) -> OpSpec:
    """What all sides of a measurement of PPO do."""
    return OpSpec(
        "train",
        "128 steps of 8 envs, 4 epochs, minibatches of 256",
        "env_steps",
        seconds=1.0,
        proportion=("updates", "env_steps", 16 / 1024),
        targets=targets,
    )


def ppo() -> Measurement:
    """PPO, one collection and all its updates in turn."""
    op = ppo_op((Target(ISSUE, "stable-baselines3", 1.5), Target(ISSUE, "by hand", 0.7), CLEANRL))
    script = "ours/algorithms.py"
    return Measurement(
        "ppo_common",
        "PPO, 8 CartPole envs, actor and critic MLP 64-64",
        (
            own(script, "--algorithm", "ppo"),
            own(script, "--algorithm", "ppo", "--manager", "gym_vector", label="ding gym_vector"),
            peer("sb3", "stable-baselines3", "peers/sb3_on_policy.py", "--algorithm", "ppo"),
            peer("sb3", "by hand", "peers/hand_ppo.py"),
            peer("sb3", "CleanRL-style", "peers/cleanrl_on_policy.py", "--algorithm", "ppo"),
        ),
        (op,),
        modes=MODES[:1],
        quick=True,
        remark="Advantages are computed once per collection, normalised per minibatch; gradients are clipped to 0.5.",
    )


def pqn() -> Measurement:
    """PQN, on the work of PPO."""
    args = ("--algorithm", "pqn")
    return Measurement(
        "pqn_common",
        "PQN, 8 CartPole envs, MLP 64-64 with layer normalisation",
        (
            own("ours/algorithms.py", *args),
            peer("sb3", "CleanRL-style", "peers/cleanrl_on_policy.py", *args),
        ),
        (ppo_op((CLEANRL,)),),
        modes=MODES[:1],
        remark="Returns of Q(lambda), once per collection. Adam on all sides, where CleanRL has RAdam.",
    )


def a2c() -> Measurement:
    """A2C, and IMPALA from sequences of the same length."""
    op = OpSpec(
        "train",
        "5 steps of 8 envs, 1 update",
        "env_steps",
        seconds=1.0,
        targets=(
            Target(ISSUE, "stable-baselines3 A2C", 1.0),
            Target(ISSUE, "stable-baselines3 A2C", 1.0, subject="ding IMPALA"),
        ),
    )
    return Measurement(
        "a2c_common",
        "A2C and IMPALA, 8 CartPole envs, actor and critic MLP 64-64",
        (
            own("ours/algorithms.py", "--algorithm", "a2c"),
            own("ours/algorithms.py", "--algorithm", "impala", label="ding IMPALA"),
            peer("sb3", "stable-baselines3 A2C", "peers/sb3_on_policy.py", "--algorithm", "a2c"),
        ),
        (op,),
        modes=MODES[:1],
        remark="Adam on all sides. IMPALA learns from a replay buffer; a short rest of an episode is a sequence, too.",
    )


def c51() -> Measurement:
    """C51 on the work of DQN."""
    return _value_based("c51", "C51, 51 atoms", (_tianshou("c51"),))


def qrdqn() -> Measurement:
    """QR-DQN on the work of DQN."""
    contrib = peer("sb3", "sb3-contrib", "peers/sb3_dqn.py", "--algorithm", "qrdqn", "--updates", UPDATES)
    return _value_based("qrdqn", "QR-DQN, 51 quantiles", (contrib, _tianshou("qrdqn")))


def _tianshou(algorithm: str) -> Contestant:
    return peer("tianshou", "tianshou", "peers/tianshou_dqn.py", "--algorithm", algorithm, "--updates", UPDATES)


def _value_based(algorithm: str, title: str, peers: tuple[Contestant, ...]) -> Measurement:
    op = OpSpec(
        "train",
        f"{UPDATES} updates per 80 env steps",
        "env_steps",
        seconds=1.0,
        proportion=("updates", "env_steps", UPDATES / 80),
        targets=tuple(Target(ISSUE, one.label, 1.0) for one in peers),
    )
    return Measurement(
        f"{algorithm}_common",
        f"{title}, 8 CartPole envs, MLP 128-128-64, batch 64",
        (own("ours/algorithms.py", "--algorithm", algorithm, "--updates", UPDATES), *peers),
        (op,),
        modes=MODES[:1],
        remark="Uniform replay on every side; the head of ours has a hidden layer more.",
    )


def ppo_pipeline() -> Measurement:
    """`serial_pipeline_onpolicy` with the numbers of DI-engine's config."""
    return _pipeline("ppo", PPO_ITERATIONS, 8 / 256, 4.0)


def r2d2_pipeline() -> Measurement:
    """`serial_pipeline` with the numbers of DI-engine's config of R2D2."""
    return _pipeline("r2d2", R2D2_ITERATIONS, 5 / 32, 3.0)


def qmix_pipeline() -> Measurement:
    """`serial_pipeline` with QMIX on the cooperative game of this project, the env of both sides."""
    return _pipeline("qmix", QMIX_ITERATIONS, 20 / 32, 3.0, "line_cover", ISSUE_COOPERATIVE)


def _pipeline(
    algorithm: str,
    iterations: int,
    updates_per_sample: float,
    at_least: float,
    task: str = "DI-engine's CartPole config",
    issue: int = ISSUE,
) -> Measurement:
    op = OpSpec(
        "run",
        "wall time of the whole pipeline",
        "samples",
        seconds=None,
        proportion=("updates", "samples", updates_per_sample),
        targets=(Target(issue, "DI-engine", at_least),),
    )
    script, args = "ours/algorithm_pipeline.py", ("--algorithm", algorithm, "--train-iter", iterations)
    return Measurement(
        f"{algorithm}_pipeline",
        f"{algorithm.upper()}, {task}, {iterations} train iterations",
        (own(script, *args), peer("ding_ref", "DI-engine", script, *args)),
        (op,),
        modes=MODES[:1],
        persistent=False,
        remark="One evaluation, at the start. A sample of PPO is an env step that was learned from (DI-engine drops the"
        " segments that have begun when a collection ends), one of R2D2 a sequence of 42 steps, one of QMIX"
        " an episode of 8.",
    )
