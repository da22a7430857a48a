"""Configs on several seeds, one run after the other: what each took to its stop value, one JSON line per run.

    OMP_NUM_THREADS=1 nice -n 15 python -m benchmarks.config_seeds cartpole_dqn --seeds 3 4 5 6 7 --folder /tmp/seeds

Each run is a `ding` command of its own in ``FOLDER``, with the pipeline that the config is for. Its experiment folder
is ``FOLDER/NAME_sSEED``, from which `ding plot` draws curves, and its line goes to ``FOLDER/rows.jsonl``: config,
seed, whether the stop value was reached, mean return of the last evaluation, env steps, train iterations, CPU seconds
of the run with its imports, and wall seconds. A run that has a line is not made again, so that a list can be gone
through in parts. A config that learns from an expert gets that of seed 0, trained first where it is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from ding.config import read_config
from ding.policy import get_policy_cls

CONFIGS = Path(__file__).parents[1] / "configs"
# Configs whose pipeline is not the one of their policy, and the configs of their experts.
MODES = {
    "cartpole_ppg_onpolicy": "serial_onpolicy_ppg",
    "maze_ppo_plr": "serial_plr",
    "cartpole_dqfd": "serial_dqfd",
    "cartpole_r2d3": "serial_r2d3",
}
EXPERTS = {"cartpole_dqfd": "cartpole_dqn", "cartpole_r2d3": "cartpole_r2d2"}


def config_file(name: str) -> Path:
    """The file of a config by its name, such as ``cartpole_dqn``.

    Raises:
        SystemExit: There is no such config.
    """
    found = sorted(CONFIGS.glob(f"*/{name}_config.py"))
    if not found:
        raise SystemExit(f"there is no config {name} below {CONFIGS}")
    return found[0]


def command(name: str, seed: int, exp_name: str, max_env_step: int) -> list[str]:
    """The command line of one run."""
    path = config_file(name)
    on_policy = get_policy_cls(read_config(path)[1].policy).default_config().get("on_policy", False)
    mode = MODES.get(name, "serial_onpolicy" if on_policy else "serial")
    limits = ["--exp-name", exp_name, "--env-step", str(max_env_step), "--quiet", "--strict"]
    expert = ["--expert-config", str(path)] if name in EXPERTS else []
    return [sys.executable, "-m", "ding", "-m", mode, "-c", str(path), "-s", str(seed), *limits, *expert]


def run(name: str, seed: int, folder: Path, max_env_step: int) -> dict[str, object]:
    """Make one run; returns its line. What it printed is in ``FOLDER/NAME_sSEED.log``."""
    exp_name = f"{name}_s{seed}"
    # Of a run that did not end; a new one would be given another folder.
    shutil.rmtree(folder / exp_name, ignore_errors=True)
    began_s = time.monotonic()
    with (folder / f"{exp_name}.log").open("w") as log:
        process = subprocess.Popen(
            command(name, seed, exp_name, max_env_step), cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    row: dict[str, object] = {"config": name, "seed": seed, "exit_code": process.returncode}
    if process.returncode == 0:
        result = json.loads((folder / exp_name / "result.json").read_text())
        row |= {"stop": result["stop"], "return": result["eval_value"]}
        row |= {"env_steps": result["env_step"], "train_iters": result["train_iter"]}
    cpu_s = usage.ru_utime + usage.ru_stime
    return row | {"cpu_s": round(cpu_s, 1), "wall_s": round(time.monotonic() - began_s, 1)}


def main() -> None:
    """Run what is asked for and has no line yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help="configs, such as cartpole_dqn")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--max-env-step", type=int, default=200_000)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    rows = args.folder / "rows.jsonl"
    lines = rows.read_text().splitlines() if rows.exists() else []
    done = {(row["config"], row["seed"]) for row in map(json.loads, lines)}
    for name in args.names:
        if (expert := EXPERTS.get(name)) and not (args.folder / f"{expert}_seed0/ckpt/ckpt_best.pth.tar").exists():
            subprocess.run(command(expert, 0, f"{expert}_seed0", args.max_env_step), cwd=args.folder, check=True)
        for seed in args.seeds:
            if (name, seed) in done:
                continue
            row = run(name, seed, args.folder, args.max_env_step)
            with rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
