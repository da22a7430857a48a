"""Whole algorithms on the same work. PPO and SAC join with a script per side and a function here."""

from __future__ import annotations

from benchmarks._plan import MODES, Measurement, OpSpec, Target, own, peer

TITLE = "End to end"
PIPELINE_STEPS = 3000
UPDATE_RATES = (3, 10, 50)


def measurements() -> list[Measurement]:
    """All measurements of the suite."""
    return [pipeline(), pipeline_with_evaluation(), task_pipeline(), *(dqn(updates) for updates in UPDATE_RATES)]


def pipeline() -> Measurement:
    """`serial_pipeline` without evaluations after the first, whose length depends on what was learned."""
    script, steps = "ours/pipeline.py", ("--env-steps", PIPELINE_STEPS)
    return Measurement(
        "serial_pipeline",
        f"serial_pipeline, default CartPole config, {PIPELINE_STEPS} env steps",
        (
            own(script, *steps, "--buffer", "advanced"),
            peer("ding_ref", "DI-engine", script, *steps, "--buffer", "deque"),
            peer("ding_ref", "DI-engine advanced buffer", script, *steps, "--buffer", "advanced"),
        ),
        (
            OpSpec(
                "run",
                "wall time of the whole pipeline",
                "env_steps",
                seconds=None,
                exact=("env_steps", "updates"),
                targets=(Target(2, "DI-engine", 2.5), Target(2, "DI-engine advanced buffer", 2.5)),
            ),
        ),
        persistent=False,
        remark="Each side with the buffer that is its default. Only the evaluation at the start takes place: the work"
        " of the others depends on what was learned. Imports before the call are not in the time; what a side imports"
        " within it (torch's optimisers load torch's compiler at their first use) is.",
    )


def pipeline_with_evaluation() -> Measurement:
    """The same with evaluations at the rhythm of the reference's config."""
    script, steps = "ours/pipeline.py", ("--env-steps", PIPELINE_STEPS, "--eval-freq", 100)
    return Measurement(
        "serial_pipeline_eval",
        f"serial_pipeline with an evaluation every 100 train iterations, {PIPELINE_STEPS} env steps",
        (
            own(script, *steps, "--buffer", "advanced"),
            peer("ding_ref", "DI-engine", script, *steps, "--buffer", "deque"),
        ),
        (OpSpec("run", "wall time of the whole pipeline", "env_steps", seconds=None, exact=("env_steps", "updates")),),
        modes=MODES[:1],
        persistent=False,
        remark="Evaluation episodes are as long as the policy is good, so that this is no equal work; no target.",
    )


def task_pipeline() -> Measurement:
    """The work of `serial_pipeline` as a task: `StepCollector`, `data_pusher`, `OffPolicyLearner`."""
    script, steps = "ours/task.py", ("--env-steps", PIPELINE_STEPS)
    return Measurement(
        "task_pipeline",
        f"DQN as a task of middleware, default CartPole config, {PIPELINE_STEPS} env steps",
        (
            own(script, *steps),
            own(script, *steps, "--form", "serial", "--buffer", "advanced", label="ding serial_pipeline"),
            peer("ding_ref", "DI-engine", script, *steps),
        ),
        (
            OpSpec(
                "run",
                "wall time of the whole run",
                "env_steps",
                seconds=None,
                exact=("env_steps",),
                targets=(Target(13, "DI-engine", 2.5), Target(13, "ding serial_pipeline", 0.95)),
            ),
        ),
        modes=MODES[:1],
        persistent=False,
        remark="No evaluations but one at the start of serial_pipeline.",
    )


def dqn_op(updates: int, targets: tuple[Target, ...]) -> OpSpec:
    """What all sides of a measurement of DQN do."""
    return OpSpec(
        "train",
        f"{updates} updates per 80 env steps",
        "env_steps",
        seconds=1.0,
        proportion=("updates", "env_steps", updates / 80),
        targets=targets,
    )


def dqn(updates: int) -> Measurement:
    """DQN on the peers' common work."""
    args = ("--updates", updates)
    peers = ("CleanRL style", "stable-baselines3", "tianshou", "torchrl")
    op = dqn_op(updates, tuple(Target(2, label, 1.0) for label in peers) if updates == 3 else ())
    return Measurement(
        f"dqn_{updates}",
        f"DQN, 8 CartPole envs, MLP 128-128-64, batch 64, {updates} updates per 80 env steps",
        (
            own("ours/dqn.py", *args, "--buffer", "naive"),
            own("ours/dqn.py", *args, "--buffer", "naive", "--manager", "gym_vector", label="ding gym_vector"),
            own("ours/dqn.py", *args, label="ding advanced buffer"),
            peer("ding_ref", "DI-engine", "ours/dqn.py", *args, "--buffer", "deque"),
            peer("sb3", "CleanRL style", "peers/cleanrl_dqn.py", *args),
            peer("sb3", "stable-baselines3", "peers/sb3_dqn.py", *args),
            peer("tianshou", "tianshou", "peers/tianshou_dqn.py", *args),
            peer("torchrl", "torchrl", "peers/torchrl_dqn.py", *args),
        ),
        (op,),
        # What more updates change is the same in both modes.
        modes=MODES if updates == 3 else MODES[:1],
        quick=updates == 3,
        remark="Uniform replay on every side, but for the one named otherwise.",
    )
