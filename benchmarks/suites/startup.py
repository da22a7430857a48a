"""Start-up: import time, time to the first env step, installed size."""

from __future__ import annotations

from benchmarks._plan import ONE_THREAD, Measurement, OpSpec, Target, own, peer

TITLE = "Start-up"
SCRIPT = "peers/start_up.py"
FIRST = ("--first-step", "ours/first_step.py")


def measurements() -> list[Measurement]:
    """All measurements of the suite."""
    over_torch = Target(2, None, at_most=0.5, modes=(ONE_THREAD,))
    return [
        Measurement(
            "startup",
            "From nothing",
            (
                own(SCRIPT, "ding.worker", "ding", *FIRST),
                peer("ding_ref", "DI-engine", SCRIPT, "ding.worker", "DI-engine", *FIRST),
                peer("sb3", "stable-baselines3", SCRIPT, "stable_baselines3", "stable-baselines3"),
                peer("tianshou", "tianshou", SCRIPT, "tianshou.data", "tianshou"),
                peer("torchrl", "torchrl", SCRIPT, "torchrl.collectors", "torchrl"),
            ),
            (
                _op("import", "import, in a fresh interpreter", "seconds", "import_s"),
                _op("import", "import, on top of import torch", "seconds", "over_torch_s", over_torch),
                _op("first_step", "script to its first collected steps", "seconds", "seconds"),
                _op("size", "installed size of the package alone", "MB", "package_mb"),
                _op("size", "direct dependencies", "packages", "dependencies"),
            ),
            modes=(ONE_THREAD,),
        )
    ]


def _op(name: str, title: str, unit: str, value: str, *targets: Target) -> OpSpec:
    return OpSpec(name, title, unit, None, value=value, lower=True, targets=targets)
