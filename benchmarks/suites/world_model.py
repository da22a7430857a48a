"""The training of a world model: MBPO's ensemble."""

from __future__ import annotations

from benchmarks._plan import ONE_THREAD, Measurement, OpSpec, Target, own, peer

TITLE = "World model"
SCRIPT = "ours/world_model.py"
SIZES = {
    "pendulum": ("--state", 3, "--action", 1, "--members", 5, "--hidden", 100, "--batch", 64, "--rows", 1000),
    "halfcheetah": ("--state", 17, "--action", 6, "--members", 7, "--hidden", 200, "--batch", 256, "--rows", 1000),
}
COMPILED = "ding compiled"
STEP = OpSpec("step", "one step on a batch", "steps", targets=(Target(41, "DI-engine", 2.0, subject=COMPILED),))


def measurements() -> list[Measurement]:
    """All measurements of the suite."""
    return [
        Measurement(
            f"world_model_{name}",
            f"MBPO's ensemble with the sizes of DI-engine's config for {name}",
            (
                own(SCRIPT, *sizes),
                own(SCRIPT, *sizes, "--compile", 1, label=COMPILED),
                peer("ding_ref", "DI-engine", SCRIPT, *sizes),
            ),
            # Minutes with the sizes of halfcheetah.
            (STEP, OpSpec("train", "a whole training, per step", "steps", seconds=None))[: 1 + (name == "pendulum")],
            modes=(ONE_THREAD,),
            varies=("compile",),
        )
        for name, sizes in SIZES.items()
    ]
