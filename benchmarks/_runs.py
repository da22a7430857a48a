"""The runs of configs: which pipeline trains a config, what it learns from, and one run with its row.

A row is a JSON line of ``FOLDER/rows.jsonl``: config, seed, mode, exit code, whether the stop value was reached, mean
return of the last evaluation, env steps, train iterations, CPU seconds with imports, wall seconds, and the commit. Rows
of older versions lack the commit.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._machine import commit
from ding.config import read_config
from ding.entry.serial.reward_mode import reward_mode
from ding.entry.serial.run_state import newest_good_snapshot
from ding.policy import get_policy_cls

CONFIGS = Path(__file__).parents[1] / "configs"
ROWS = "rows.jsonl"
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
    "cal_ql": "serial_finetune",
    "rlpd": "serial_finetune",
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
_POLL_S = 1.0


@dataclass(frozen=True)
class Limits:
    """What ends a run but its stop value, and how it is made."""

    env_steps: int = 200_000
    train_iters: int = 1_000_000
    #: Whole states are saved every so many train iterations; none but after a signal with 0.
    state_freq: int = 0
    compiles: bool = False


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


def command(name: str, seed: int, exp_name: str, limits: Limits) -> list[str]:
    """The command line of one run."""
    mode, path = mode_of(name), config_file(name)
    words = [sys.executable, "-m", "ding", "-m", mode, "-c", str(path), "-s", str(seed), "--exp-name", exp_name]
    words += ["--quiet", "--strict", *_limit_words(mode, limits)]
    if limits.state_freq:
        words += ["--state-freq", str(limits.state_freq)]
    if limits.compiles:
        words += ["--compile", "true"]
    if mode in WITH_EXPERT:
        words += ["--expert-config", str(path if mode in OWN_EXPERT_CONFIG else config_file(EXPERTS[name]))]
    return words


def resume_command(mode: str, exp_name: str, limits: Limits) -> list[str]:
    """The command line that continues a run from its newest snapshot."""
    words = [sys.executable, "-m", "ding", "-m", mode, "--resume", exp_name, "--quiet"]
    return [*words, *_limit_words(mode, limits)]


def _limit_words(mode: str, limits: Limits) -> list[str]:
    env_steps = [] if mode in ("serial_offline", "serial_bc") else ["--env-step", str(limits.env_steps)]
    return ["--train-iter", str(limits.train_iters), *env_steps]


def prepare(name: str, folder: Path, limits: Limits) -> None:
    """Make what a config learns from, where it is not there yet."""
    mode = mode_of(name)
    expert = EXPERTS.get(name)
    if expert and not (folder / f"{expert}_seed0/ckpt/ckpt_best.pth.tar").exists():
        subprocess.run(command(expert, 0, f"{expert}_seed0", limits), cwd=folder, check=True)
    script = config_file(name) if mode == "serial_trex" or name == "cartpole_bc" else None
    if name.startswith("word_match_"):
        script = CONFIGS / "text/make_small_encoder.py"
    if mode in ("serial_offline", "serial_bc", "serial_finetune") and script is None:
        script = config_file(DATA[name.partition("_")[0]])
    if script is not None and not (folder / (made := f"{script.stem}.made")).exists():
        subprocess.run([sys.executable, str(script)], cwd=folder, check=True)
        (folder / made).touch()


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of a folder; a last line that was cut off is left out."""
    file = folder / ROWS
    rows = []
    for line in file.read_text().splitlines() if file.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            print(f"{file}: a line is no JSON and is left out: {line[:60]}")
    return rows


def is_resumable(run_folder: Path) -> bool:
    """Whether a run was interrupted and left a snapshot from which it can be continued."""
    if not (run_folder / "ckpt").is_dir() or (run_folder / "result.json").exists():
        return False
    return newest_good_snapshot(run_folder) is not None


def run(
    name: str, seed: int, folder: Path, limits: Limits, cpu_left_s: Callable[[float], float] | None = None
) -> dict[str, Any] | None:
    """Make one run, or continue it; returns its row. What it printed is in ``FOLDER/NAME_sSEED.log``.

    Args:
        cpu_left_s: Takes the CPU seconds of the run so far, and returns how many are left. At 0 the run is stopped by a
            signal, leaves a snapshot, and has no row yet: None is returned.
    """
    exp_name = f"{name}_s{seed}"
    mode, home = mode_of(name), folder / exp_name
    spent = folder / f"{exp_name}.spent.json"
    if is_resumable(home):
        words = resume_command(mode, exp_name, limits)
        before = json.loads(spent.read_text()) if spent.exists() else {"cpu_s": 0.0, "wall_s": 0.0}
    else:
        # Of a run that did not end; a new one would be given another folder.
        shutil.rmtree(home, ignore_errors=True)
        words, before = command(name, seed, exp_name, limits), {"cpu_s": 0.0, "wall_s": 0.0}
        if mode == "serial_trex":  # reads its demonstrations in its own experiment folder
            home.mkdir()
            for file in (folder / f"{name}_seed0").glob("*.pkl"):
                shutil.copy(file, home)
    began_s, made_with = time.monotonic(), commit()
    with (folder / f"{exp_name}.log").open("a") as log:
        process = subprocess.Popen(words, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        stopped, code, cpu_s = _waited(process, cpu_left_s)
    total = {"cpu_s": before["cpu_s"] + cpu_s, "wall_s": before["wall_s"] + time.monotonic() - began_s}
    spent.write_text(json.dumps(total))
    if stopped:
        return None
    row: dict[str, Any] = {"config": name, "seed": seed, "mode": mode, "exit_code": code}
    if code == 0:
        result = json.loads((home / "result.json").read_text())
        row |= {"stop": result["stop"], "return": result["eval_value"]}
        row |= {"env_steps": result["env_step"], "train_iters": result["train_iter"]}
    return row | {key: round(seconds, 1) for key, seconds in total.items()} | {"commit": made_with}


def _waited(process: subprocess.Popen[bytes], cpu_left_s: Callable[[float], float] | None) -> tuple[bool, int, float]:
    """Wait for a run: whether it was stopped, its exit code and its CPU seconds."""
    stopped = False
    try:
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if not stopped and cpu_left_s is not None and cpu_left_s(_cpu_s(process.pid)) <= 0:
                process.send_signal(signal.SIGTERM)
                stopped = True
            time.sleep(_POLL_S)
    except BaseException:
        process.send_signal(signal.SIGTERM)  # it leaves a snapshot
        process.wait()
        raise
    process.returncode = os.waitstatus_to_exitcode(status)
    return stopped and process.returncode != 0, process.returncode, usage.ru_utime + usage.ru_stime


def _cpu_s(pid: int) -> float:
    """CPU seconds of a process and of its children that have ended; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
