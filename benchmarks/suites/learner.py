"""A learner iteration: sample, collate, update, hooks."""

from __future__ import annotations

from benchmarks._plan import DEFAULT_THREADS, ONE_THREAD, Measurement, OpSpec, Target, own, peer

TITLE = "Learner"
SCRIPT = "ours/learn.py"
CONFIG_NETWORK = ("--network", "dueling", "--hidden", 128, 128, 64)


def _op(*targets: Target) -> OpSpec:
    proportion = ("updates", "train_iters", 1.0)
    return OpSpec("iterate", "sample and train", "train_iters", proportion=proportion, targets=targets)


def measurements() -> list[Measurement]:
    """All measurements of the suite."""
    config = Measurement(
        "learner_64",
        "Learner iteration at batch 64, the dueling network of the default config",
        (
            own(SCRIPT, *CONFIG_NETWORK),
            own(SCRIPT, *CONFIG_NETWORK, "--buffer", "deque", label="ding deque buffer"),
            own(SCRIPT, *CONFIG_NETWORK, "--buffer", "naive", label="ding naive buffer"),
            peer("ding_ref", "DI-engine", SCRIPT, *CONFIG_NETWORK),
            peer("ding_ref", "DI-engine deque buffer", SCRIPT, *CONFIG_NETWORK, "--buffer", "deque"),
        ),
        (_op(Target(2, "DI-engine", 2.0), Target(2, "DI-engine deque buffer", 2.0)),),
        quick=True,
    )
    plain = Measurement(
        "learner_64_mlp",
        "Learner iteration at batch 64, MLP 128-128",
        (own(SCRIPT), peer("ding_ref", "DI-engine", SCRIPT)),
        (_op(Target(2, "DI-engine", 2.0)),),
    )
    threads = Measurement(
        "learner_threads",
        "Learner iteration as a user gets it by default, beside one thread",
        (
            own(SCRIPT, *CONFIG_NETWORK, label="ding, no variable set"),
            own(SCRIPT, *CONFIG_NETWORK, label="ding, OMP_NUM_THREADS=1"),
        ),
        (_op(Target(2, "ding, OMP_NUM_THREADS=1", 0.97, subject="ding, no variable set")),),
        modes=(DEFAULT_THREADS,),
        pinned={"ding, OMP_NUM_THREADS=1": ONE_THREAD},
        remark="Not slower means: within 3 %, the noise of a quiet machine.",
    )
    return [config, plain, threads]
