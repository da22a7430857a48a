"""Configs on several seeds, one run after the other: what each took to its stop value, one JSON line per run.

    OMP_NUM_THREADS=1 nice -n 15 python -m benchmarks.config_seeds cartpole_dqn --seeds 3 4 5 6 7 --folder /tmp/seeds

Each run is a `ding` command of its own in ``FOLDER``, with the pipeline that the config is for. Its experiment folder
is ``FOLDER/NAME_sSEED``, from which `ding plot` draws curves, and its line goes to ``FOLDER/rows.jsonl``: config,
seed, mode, whether the stop value was reached, mean return of the last evaluation, env steps, train iterations, CPU
seconds of the run with its imports, and wall seconds. A run that has a line is not made again, so that a list can be
gone through in parts. What a config learns from (an expert, its data, ranked demonstrations) is that of seed 0 for all
seeds, and is made first where it is missing.
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
from ding.entry.serial.reward_mode import reward_mode
from ding.policy import get_policy_cls

CONFIGS = Path(__file__).parents[1] / "configs"
# Configs whose pipeline follows neither from their policy nor from their reward model.
MODES = {
    "cartpole_ppg_onpolicy": "serial_onpolicy_ppg",
    "maze_ppo_plr": "serial_plr",
    "cartpole_bco": "serial_bco",
    "cartpole_dqfd": "serial_dqfd",
    "cartpole_ngu": "serial_ngu",
    "cartpole_r2d3": "serial_r2d3",
    "cartpole_sqil": "serial_sqil",
    "pendulum_sqil_sac": "serial_sqil",
}
# By type of the policy.
POLICY_MODES = {
    "bc": "serial_bc",
    "pc_bfs": "serial_pc",
    "td3_vae": "serial_td3_vae",
    "mbsac": "serial_dream",
    "stevesac": "serial_dream",
    "dreamer": "serial_dreamer",
}
# The experts that configs learn from: each lies in ``<its name>_seed0``.
EXPERTS = {
    "cartpole_bc": "cartpole_dqn",
    "cartpole_bco": "cartpole_dqn",
    "cartpole_dqfd": "cartpole_dqn",
    "cartpole_dqn_gail": "cartpole_dqn",
    "cartpole_guided_cost": "cartpole_ppo",
    "cartpole_r2d3": "cartpole_r2d2",
    "cartpole_sqil": "cartpole_sql",
    "pendulum_sqil_sac": "pendulum_sac",
}
# Pipelines that read the expert's config; two have the expert's settings in their own.
WITH_EXPERT = {"serial_bco", "serial_gail", "serial_sqil", "serial_dqfd", "serial_r2d3"}
OWN_EXPERT_CONFIG = {"serial_dqfd", "serial_r2d3"}
# Configs that make the data of the offline ones, by env.
DATA = {"cartpole": "cartpole_dqn_generation_data", "pendulum": "pendulum_sac_data_generation"}


def config_file(name: str) -> Path:
    """The file of a config by its name, such as ``cartpole_dqn``.

    Raises:
        SystemExit: There is no such config.
    """
    found = sorted(CONFIGS.glob(f"*/{name}_config.py"))
    if not found:
        raise SystemExit(f"there is no config {name} below {CONFIGS}")
    return found[0]


def mode_of(name: str) -> str:
    """What `ding -m` calls the pipeline that a config is for."""
    if name in MODES:
        return MODES[name]
    main, create = read_config(config_file(name))
    policy = get_policy_cls(create.policy)
    on_policy = policy.default_config().get("on_policy", False)
    if kind := create.get("reward_model", main.get("reward_model", {})).get("type"):
        return reward_mode(kind, on_policy)
    if create.policy.type in POLICY_MODES:
        return POLICY_MODES[create.policy.type]
    if "world_model" in create:
        return "serial_dyna"
    if create.policy.type == "dt" or "data_path" in main.policy.get("collect", {}):
        return "serial_offline"
    return "serial_onpolicy" if on_policy else "serial"


def command(name: str, seed: int, exp_name: str, max_env_step: int, max_train_iter: int) -> list[str]:
    """The command line of one run."""
    mode, path = mode_of(name), config_file(name)
    words = [sys.executable, "-m", "ding", "-m", mode, "-c", str(path), "-s", str(seed), "--exp-name", exp_name]
    words += ["--train-iter", str(max_train_iter), "--quiet", "--strict"]
    if mode not in ("serial_offline", "serial_bc"):
        words += ["--env-step", str(max_env_step)]
    if mode in WITH_EXPERT:
        words += ["--expert-config", str(path if mode in OWN_EXPERT_CONFIG else config_file(EXPERTS[name]))]
    return words


def prepare(name: str, folder: Path, max_env_step: int, max_train_iter: int) -> None:
    """Make what a config learns from, where it is not there yet."""
    mode = mode_of(name)
    expert = EXPERTS.get(name)
    if expert and not (folder / f"{expert}_seed0/ckpt/ckpt_best.pth.tar").exists():
        words = command(expert, 0, f"{expert}_seed0", max_env_step, max_train_iter)
        subprocess.run(words, cwd=folder, check=True)
    script = config_file(name) if mode == "serial_trex" or name == "cartpole_bc" else None
    if name.startswith("word_match_"):
        script = CONFIGS / "text/make_small_encoder.py"
    if mode in ("serial_offline", "serial_bc") and script is None:
        script = config_file(DATA[name.partition("_")[0]])
    if script is not None and not (folder / (made := f"{script.stem}.made")).exists():
        subprocess.run([sys.executable, str(script)], cwd=folder, check=True)
        (folder / made).touch()


def run(name: str, seed: int, folder: Path, max_env_step: int, max_train_iter: int) -> dict[str, object]:
    """Make one run; returns its line. What it printed is in ``FOLDER/NAME_sSEED.log``."""
    exp_name = f"{name}_s{seed}"
    # Of a run that did not end; a new one would be given another folder.
    shutil.rmtree(folder / exp_name, ignore_errors=True)
    mode = mode_of(name)
    if mode == "serial_trex":  # reads its demonstrations in its own experiment folder
        (folder / exp_name).mkdir()
        for file in (folder / f"{name}_seed0").glob("*.pkl"):
            shutil.copy(file, folder / exp_name)
    began_s = time.monotonic()
    with (folder / f"{exp_name}.log").open("w") as log:
        process = subprocess.Popen(
            command(name, seed, exp_name, max_env_step, max_train_iter),
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    row: dict[str, object] = {"config": name, "seed": seed, "mode": mode, "exit_code": process.returncode}
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
    parser.add_argument("--max-train-iter", type=int, default=1_000_000)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    rows = args.folder / "rows.jsonl"
    lines = rows.read_text().splitlines() if rows.exists() else []
    done = {(row["config"], row["seed"]) for row in map(json.loads, lines)}
    for name in args.names:
        missing = [seed for seed in args.seeds if (name, seed) not in done]
        if missing:
            prepare(name, args.folder, args.max_env_step, args.max_train_iter)
        for seed in missing:
            row = run(name, seed, args.folder, args.max_env_step, args.max_train_iter)
            with rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
