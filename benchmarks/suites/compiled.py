"""Compiled updates (``policy.learn.compile``) on the work of other suites, beside sbx, which compiles all of its own.

It needs two peers only, so that it can be measured without the environments of the other suites.
"""

from __future__ import annotations

from benchmarks._plan import MODES, Measurement, OpSpec, Target, own, peer
from benchmarks._process import Contestant
from benchmarks.suites.algorithms import ppo_op
from benchmarks.suites.control import control_op
from benchmarks.suites.end_to_end import dqn_op

TITLE = "Compiled updates"
ISSUE = 18
# Updates per 80 env steps: how much faster than sbx compiled updates shall be.
DQN_TARGETS = {3: 1.25, 10: 1.0}
CONTROL = ("sac", "td3")
ENSEMBLES = {"tqc": "TQC, 2 critics of 25 quantiles", "crossq": "CrossQ, 2 critics", "droq": "DroQ, 2 critics"}


def measurements() -> list[Measurement]:
    """All measurements of the suite."""
    return [*map(dqn, DQN_TARGETS), *map(control, CONTROL), *map(ensemble, ENSEMBLES), ppo()]


def dqn(updates: int) -> Measurement:
    """DQN, as in the suite ``end_to_end``."""
    args = ("--updates", updates)
    return _measurement(
        f"compiled_dqn_{updates}",
        f"DQN, 8 CartPole envs, MLP 128-128-64, batch 64, {updates} updates per 80 env steps",
        dqn_op(updates, (_ahead_of("sbx", DQN_TARGETS[updates]),)),
        own("ours/dqn.py", *args, "--buffer", "naive"),
        own("ours/dqn.py", *args, "--buffer", "naive", "--compile", label="ding compiled"),
        peer("sb3", "CleanRL style", "peers/cleanrl_dqn.py", *args),
        peer("sb3", "CleanRL style, torch.compile", "peers/cleanrl_dqn.py", *args, "--compile"),
        peer("sb3", "stable-baselines3", "peers/sb3_dqn.py", *args),
        peer("sbx", "sbx", "peers/sbx_agents.py", "--algorithm", "dqn", *args),
    )


def control(algorithm: str) -> Measurement:
    """SAC and TD3, as in the suite ``control``."""
    args = ("--algorithm", algorithm)
    return _measurement(
        f"compiled_{algorithm}",
        f"{algorithm.upper()}, 8 Pendulum envs, two layers of 256, batch 256, an update per env step",
        control_op(algorithm, (_ahead_of("sbx", 1.0),)),
        own("ours/control.py", *args),
        own("ours/control.py", *args, "--compile", label="ding compiled"),
        peer("sb3", "CleanRL style", "peers/cleanrl_control.py", *args),
        peer("sb3", "CleanRL style, torch.compile", "peers/cleanrl_control.py", *args, "--compile"),
        peer("sb3", "stable-baselines3", "peers/sb3_control.py", *args),
        peer("sbx", "sbx", "peers/sbx_agents.py", *args),
    )


def ensemble(algorithm: str) -> Measurement:
    """TQC, CrossQ and DroQ on the work of the suite ``control``, with the actor in its turns."""
    args = ("--algorithm", algorithm)
    return _measurement(
        f"compiled_{algorithm}",
        f"{ENSEMBLES[algorithm]}, 8 Pendulum envs, two layers of 256, batch 256, an update per env step",
        control_op(algorithm, (Target(42, "sbx", 1.0, subject="ding compiled", modes=MODES[:1]),)),
        own("ours/control.py", *args),
        own("ours/control.py", *args, "--compile", label="ding compiled"),
        peer("sbx", "sbx", "peers/sbx_agents.py", *args),
    )


def ppo() -> Measurement:
    """PPO, as in the suite ``algorithms``."""
    args = ("--algorithm", "ppo")
    return _measurement(
        "compiled_ppo",
        "PPO, 8 CartPole envs, actor and critic MLP 64-64",
        ppo_op((_ahead_of("sbx", 2.0), _ahead_of("stable-baselines3", 1.7))),
        own("ours/algorithms.py", *args),
        own("ours/algorithms.py", *args, "--compile", label="ding compiled"),
        peer("sb3", "by hand", "peers/hand_ppo.py"),
        peer("sb3", "by hand, torch.compile", "peers/hand_ppo.py", "--compile"),
        peer("sb3", "stable-baselines3", "peers/sb3_on_policy.py", *args),
        peer("sbx", "sbx", "peers/sbx_agents.py", *args),
    )


def _ahead_of(label: str, at_least: float) -> Target:
    return Target(ISSUE, label, at_least, subject="ding compiled", modes=MODES[:1])


def _measurement(name: str, title: str, op: OpSpec, *sides: Contestant) -> Measurement:
    return Measurement(name, title, sides, (op,), modes=MODES[:1], remark="Compiling is over before the first round.")
