"""Train the policies in `trained/` anew.

    OMP_NUM_THREADS=1 nice -n 15 python -m benchmarks.trained --folder /tmp/trained [NAME ...]

Each is the best policy of a run of its config with seed 0, without optimiser: ``trained/NAME`` holds the config of the
run, how it ended, and the networks as a checkpoint that nothing has to be unpickled for. Runs are made in ``FOLDER``;
one that is there is used as it is. A policy of more than 200 kB is not written.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from pathlib import Path

from benchmarks._runs import Limits, command
from ding.entry.view.experiment import best_checkpoint
from ding.utils.checkpoint import read_checkpoint
from ding.utils.file_helper import save_file

TRAINED = Path(__file__).parents[1] / "trained"
# Config -> stop value, where that of the config is reached by policies that are worth little to look at.
STOP_VALUES = {
    "cartpole_dqn": 475,
    "cartpole_ppo": 475,
    "acrobot_ppo": None,
    "mountaincar_ppo": None,
    "pendulum_ddpg": -160,
    "pendulum_td3": -160,
    "lunarlander_ppo": None,
}
MOST_BYTES = 200_000
_EPISODES = 20
_LIMITS = Limits(env_steps=300_000)


def train(name: str, folder: Path) -> Path:
    """Return the experiment folder of the run of a config, which is made unless it is there."""
    run = folder / name
    if not (run / "result.json").exists():
        shutil.rmtree(run, ignore_errors=True)
        words = command(name, 0, name, _LIMITS)
        value = STOP_VALUES[name]
        # A few episodes may be good by luck.
        words += ["-o", f"env.n_evaluator_episode={_EPISODES}"]
        words += [] if value is None else ["-o", f"env.stop_value={value}"]
        subprocess.run(words, cwd=folder, check=True)
    return run


def write(name: str, run: Path) -> None:
    """Write the best policy of a run to ``trained/NAME``."""
    best = best_checkpoint(run)
    if best is None:
        raise SystemExit(f"{run} holds no checkpoint")
    state = read_checkpoint(best)
    place = TRAINED / name
    shutil.rmtree(place, ignore_errors=True)
    (place / "ckpt").mkdir(parents=True)
    file = place / "ckpt/ckpt_best.pth.tar"
    save_file(str(file), {key: state[key] for key in ("model", "normalization") if key in state})
    if file.stat().st_size > MOST_BYTES:
        shutil.rmtree(place)
        raise SystemExit(f"{name}: {file.stat().st_size} bytes are more than {MOST_BYTES}")
    result = json.loads((run / "result.json").read_text())
    kept = ("stop", "env_step", "train_iter", "eval_value", "best_evaluation")
    (place / "result.json").write_text(json.dumps({key: result[key] for key in kept}, indent=2) + "\n")
    shutil.copy(run / "total_config.py", place)
    print(f"{place}: {file.stat().st_size} bytes, best evaluation {result['best_evaluation']}")


def main() -> None:
    """Train and write what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(STOP_VALUES)}; all without one")
    parser.add_argument("--folder", type=Path, required=True)
    args = parser.parse_args()
    if unknown := set(args.names) - set(STOP_VALUES):
        parser.error(f"there is no trained policy {', '.join(sorted(unknown))}; known are {', '.join(STOP_VALUES)}")
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.names or STOP_VALUES:
        write(name, train(name, args.folder))


if __name__ == "__main__":
    main()
