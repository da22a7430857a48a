"""Continuous control: SAC, TD3 and DDPG on the same work, and the whole pipeline on DI-engine's config of SAC."""

from __future__ import annotations

from benchmarks._plan import MODES, Measurement, OpSpec, Target, own, peer

TITLE = "Continuous control"
PIPELINE_STEPS = 4000
# Steps of all optimisers per update: critics, actor (every second time in TD3), temperature.
OPTIMIZER_STEPS = {"sac": 3.0, "td3": 1.5, "ddpg": 2.0}
PEERS = ("CleanRL style", "stable-baselines3", "tianshou", "torchrl")


def measurements() -> list[Measurement]:
    """All measurements of the suite."""
    return [pipeline(), *(control(algorithm) for algorithm in OPTIMIZER_STEPS)]


def pipeline() -> Measurement:
    """`serial_pipeline` with SAC on Pendulum, without evaluations after the first."""
    script, steps = "ours/pipeline.py", ("--config", "pendulum_sac", "--env-steps", PIPELINE_STEPS)
    return Measurement(
        "control_pipeline",
        f"serial_pipeline, SAC on Pendulum with DI-engine's config, {PIPELINE_STEPS} env steps",
        (
            own(script, *steps, "--buffer", "advanced"),
            peer("ding_ref", "DI-engine", script, *steps, "--buffer", "deque"),
        ),
        (
            OpSpec(
                "run",
                "wall time of the whole pipeline",
                "env_steps",
                seconds=None,
                exact=("env_steps",),
                proportion=("updates", "env_steps", 3 * 0.1 * (PIPELINE_STEPS - 1000) / PIPELINE_STEPS),
                targets=(Target(15, "DI-engine", 2.0, modes=MODES[:1]),),
            ),
        ),
        modes=MODES[:1],
        persistent=False,
        remark="One update at batch 128 per 10 env steps, after 1000; each side with the buffer that is its default.",
    )


def control_op(algorithm: str, targets: tuple[Target, ...]) -> OpSpec:
    """What all sides of a measurement of an algorithm do."""
    return OpSpec(
        "train",
        "8 updates per 8 env steps",
        "env_steps",
        seconds=1.5,
        # Of algorithms with an ensemble the updates are counted, not the steps of their optimisers.
        proportion=("updates", "env_steps", OPTIMIZER_STEPS.get(algorithm, 1.0)),
        targets=targets,
    )


def control(algorithm: str) -> Measurement:
    """One update per env step, which the learner bounds."""
    args = ("--algorithm", algorithm)
    op = control_op(algorithm, tuple(Target(15, label, 1.0, modes=MODES[:1]) for label in PEERS))
    return Measurement(
        f"control_{algorithm}",
        f"{algorithm.upper()}, 8 Pendulum envs, two layers of 256, batch 256, an update per env step",
        (
            own("ours/control.py", *args),
            peer("ding_ref", "DI-engine", "ours/control.py", *args, "--buffer", "deque"),
            peer("sb3", "CleanRL style", "peers/cleanrl_control.py", *args),
            peer("sb3", "stable-baselines3", "peers/sb3_control.py", *args),
            peer("tianshou", "tianshou", "peers/tianshou_control.py", *args),
            peer("torchrl", "torchrl", "peers/torchrl_control.py", *args),
        ),
        (op,),
        modes=MODES[:1],
        remark="Uniform replay on every side.",
    )
