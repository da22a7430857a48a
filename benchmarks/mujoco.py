"""The MuJoCo configs beside stable-baselines3 with the same numbers: a run of each, and their curves.

    OMP_NUM_THREADS=1 python -m benchmarks.mujoco halfcheetah_sac hopper_td3 --folder FOLDER
    python -m benchmarks.mujoco --folder FOLDER --plot docs/img/results/mujoco.png

A run of ours is ``FOLDER/NAME_sSEED`` (its updates are compiled), one of stable-baselines3 is
``FOLDER/NAME_sSEED_sb3.jsonl``; what is there is not made again. Half an hour to an hour per run on one core.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

from benchmarks._peers import HERE, python_of
from benchmarks.config_seeds import command
from ding.entry.view.plot import empty_figure, learning_curves

SIDES = {"ding": "C0", "stable-baselines3": "C1"}
_COLUMNS = 3


def run(name: str, seed: int, folder: Path, env_steps: int) -> None:
    """Make the runs of both sides that are missing."""
    ours, theirs = folder / f"{name}_s{seed}", folder / f"{name}_s{seed}_sb3.jsonl"
    if not (ours / "result.json").exists():
        words = command(name, seed, str(ours), env_steps, max_train_iter=env_steps)
        subprocess.run([*words, "--compile", "true"], check=True)
    if not theirs.exists():
        part = theirs.with_suffix(".part")
        words = [str(python_of("sb3")), str(HERE / "peers/sb3_mujoco.py"), name, "--seed", str(seed)]
        subprocess.run([*words, "--env-steps", str(env_steps), "--out", str(part)], check=True)
        part.rename(theirs)


def curves(name: str, folder: Path) -> dict[str, list[tuple[list[int], list[float]]]]:
    """Env steps and returns of the runs of each side."""
    found: dict[str, list[tuple[list[int], list[float]]]] = {side: [] for side in SIDES}
    for run_folder in sorted(folder.glob(f"{name}_s[0-9]*/")):
        found["ding"] += [(curve.steps.tolist(), curve.iqm.tolist()) for curve in learning_curves([run_folder])]
    for file in sorted(folder.glob(f"{name}_s[0-9]*_sb3.jsonl")):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        found["stable-baselines3"].append(([row["env_step"] for row in rows], [row["return"] for row in rows]))
    return found


def plot(folder: Path, out: Path) -> None:
    """Draw all runs below ``folder``, a picture for each config."""
    configs = (path.stem.removesuffix("_config") for path in (HERE.parent / "configs/mujoco").glob("*_config.py"))
    names = sorted(name for name in configs if any(folder.glob(f"{name}_s[0-9]*")))
    rows = -(-len(names) // _COLUMNS)
    figure = empty_figure((3.2 * _COLUMNS, 2.6 * rows))
    for number, name in enumerate(names, 1):
        axes = figure.add_subplot(rows, _COLUMNS, number)
        for side, runs in curves(name, folder).items():
            for steps, returns in runs:
                axes.plot(steps, returns, color=SIDES[side], linewidth=1, label=side)
        axes.set_title(name, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.locator_params(axis="x", nbins=5)
        axes.grid(alpha=0.3)
    figure.axes[0].legend(fontsize=7)
    figure.savefig(out, dpi=150)


def main() -> None:
    """Run, or draw, what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="configs, such as halfcheetah_sac")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--env-steps", type=int, default=200_000)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--plot", type=Path, metavar="PICTURE")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.names:
        for seed in args.seeds:
            run(name, seed, args.folder, args.env_steps)
    if args.plot:
        plot(args.folder, args.plot)


if __name__ == "__main__":
    main()
