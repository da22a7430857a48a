"""Train configs on several seeds at low priority, continue what was interrupted, and write tables and curves.

    python -m benchmarks.results cartpole_dqn pendulum_sac --seeds 0 1 2 --core-hours 1 --folder FOLDER --dry-run
    python -m benchmarks.results cartpole_dqn pendulum_sac --seeds 0 1 2 --core-hours 1 --folder FOLDER
    python -m benchmarks.results --folder FOLDER --table docs/results.md --plot picture.png
    python -m benchmarks.results halfcheetah_sac --beside sb3 --compile --env-steps 200000 --folder FOLDER

Each run is a `ding` command of its own in ``FOLDER``, with the pipeline that the config is for; its experiment folder
is ``FOLDER/NAME_sSEED`` (see `ding compare` and `ding plot`), and its row goes to ``FOLDER/rows.jsonl`` when it ends. A
run that has a row is not made again, and one that was interrupted continues from its newest snapshot. What a config
learns from (an expert, its data, ranked demonstrations) is that of seed 0 for all seeds, and is made first where it is
missing. ``--beside sb3`` also trains stable-baselines3 with the same numbers (MuJoCo), ``FOLDER/NAME_sSEED_sb3.jsonl``.

The plan is printed before the first run. Once ``--core-hours`` of CPU time are used, no run starts, and those that last
are stopped with a snapshot. ``--table`` updates the rows of the configs in a Markdown table, with the commit they were
made with.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._peers import HERE, python_of
from benchmarks._results_plot import plot
from benchmarks._results_table import update_table
from benchmarks._runs import ROWS, Limits, config_file, is_resumable, mode_of, prepare, read_rows, run

# Of a run of a config that has no row yet.
_GUESS_CPU_S = 120.0
_LOWEST_PRIORITY = 19
_HOUR_S = 3600.0


@dataclass
class Budget:
    """CPU time that runs may take together; shared by the threads that wait for them."""

    cpu_s: float
    used_s: float = 0.0
    lasting_s: dict[tuple[str, int], float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def left_s(self) -> float:
        """What is left, the runs that last taken into account."""
        with self.lock:
            return self.cpu_s - self.used_s - sum(self.lasting_s.values())

    def note(self, run_key: tuple[str, int], cpu_s: float) -> float:
        """Note what a lasting run has used; returns what is left for all."""
        with self.lock:
            self.lasting_s[run_key] = cpu_s
        return self.left_s()

    def end(self, run_key: tuple[str, int]) -> None:
        """Note the end of a run."""
        with self.lock:
            self.used_s += self.lasting_s.pop(run_key, 0.0)


@dataclass(frozen=True)
class Planned:
    """A run to make."""

    name: str
    seed: int
    mode: str
    state: str
    expected_cpu_s: float


def plan(names: Sequence[str], seeds: Sequence[int], folder: Path) -> list[Planned]:
    """The runs that have no row yet, seed by seed, so that each config has a first one early.

    Those that were interrupted come first.
    """
    rows = read_rows(folder)
    done = {(row["config"], row["seed"]) for row in rows}
    known: dict[str, list[float]] = {}
    for row in rows:
        known.setdefault(row["config"], []).append(row["cpu_s"])
    modes = {name: mode_of(name) for name in names}
    found = []
    for seed in seeds:
        for name in names:
            if (name, seed) not in done:
                state = "continued" if is_resumable(folder / f"{name}_s{seed}") else "new"
                expected = statistics.mean(known[name]) if name in known else _GUESS_CPU_S
                found.append(Planned(name, seed, modes[name], state, expected))
    return sorted(found, key=lambda one: one.state != "continued")


def plan_table(runs: Sequence[Planned], limits: Limits, core_hours: float) -> str:
    """The plan as text: what is made in this order, and where the budget is expected to end."""
    lines = [f"{'config':<32} {'seed':>4}  {'state':<10} {'mode':<22} {'CPU min':>8} {'sum, core h':>12}"]
    total_s = 0.0
    for one in runs:
        total_s += one.expected_cpu_s
        beyond = "  beyond the budget" if total_s > core_hours * _HOUR_S else ""
        lines.append(
            f"{one.name:<32} {one.seed:>4}  {one.state:<10} {one.mode:<22} {one.expected_cpu_s / 60:>8.1f}"
            f" {total_s / _HOUR_S:>12.2f}{beyond}"
        )
    lines.append(
        f"{len(runs)} runs of at most {limits.env_steps:,} env steps and {limits.train_iters:,} train iterations; "
        f"budget {core_hours:g} core-hours. Minutes are means of earlier rows, else {_GUESS_CPU_S / 60:g}."
    )
    return "\n".join(lines)


def execute(runs: Sequence[Planned], folder: Path, limits: Limits, budget: Budget, jobs: int) -> None:
    """Make the runs, ``jobs`` at a time, until the budget is used; rows are printed and kept as they come."""
    for name in dict.fromkeys(one.name for one in runs):
        prepare(name, folder, limits)
    lock = threading.Lock()

    def make(one: Planned) -> None:
        key = (one.name, one.seed)
        if budget.left_s() <= 0:
            print(f"{one.name}, seed {one.seed}: not started, the budget is used", flush=True)
            return
        try:
            row = run(one.name, one.seed, folder, limits, lambda cpu_s: budget.note(key, cpu_s))
        finally:
            budget.end(key)
        if row is None:
            print(
                f"{one.name}, seed {one.seed}: stopped, the budget is used; the same command continues it", flush=True
            )
            return
        with lock, (folder / ROWS).open("a") as file:
            file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        for made in [pool.submit(make, one) for one in runs]:
            made.result()


def run_peer(name: str, seed: int, folder: Path, env_steps: int) -> None:
    """Make the run of stable-baselines3 with the numbers of a config, unless it is there."""
    out = folder / f"{name}_s{seed}_sb3.jsonl"
    if out.exists():
        return
    part = out.with_suffix(".part")
    words = [str(python_of("sb3")), str(HERE / "peers/sb3_mujoco.py"), name, "--seed", str(seed)]
    subprocess.run([*words, "--env-steps", str(env_steps), "--out", str(part)], check=True)
    part.rename(out)


def free_cores() -> int:
    """Cores that nothing runs on now, at least one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(cores - os.getloadavg()[0]))


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="configs, such as cartpole_dqn")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--core-hours", type=float, help="CPU time that the runs may take together; needed for runs")
    parser.add_argument("--env-steps", "--max-env-step", type=int, default=Limits.env_steps, help="of each run")
    parser.add_argument("--train-iters", "--max-train-iter", type=int, default=Limits.train_iters, help="of each run")
    parser.add_argument("--state-freq", type=int, default=0, metavar="ITERS", help="save the whole state so often")
    parser.add_argument("--compile", dest="compiles", action="store_true", help="compiled updates")
    parser.add_argument("--jobs", type=int, help="runs at a time; by default as many as there are free cores")
    parser.add_argument("--dry-run", action="store_true", help="print the plan only")
    parser.add_argument("--beside", choices=["sb3"], help="also train this peer (configs of MuJoCo)")
    parser.add_argument("--table", type=Path, metavar="FILE", help="update the rows of this Markdown file")
    parser.add_argument("--commit", help="with --table: of rows that do not say theirs")
    parser.add_argument("--plot", type=Path, metavar="PICTURE", help="draw all runs in the folder")
    args = parser.parse_args(words)
    if args.names and args.core_hours is None:
        parser.error("--core-hours: say beforehand how much CPU time the runs may take")
    if not args.names and args.table is None and args.plot is None:
        parser.error("nothing to do: name configs, or give --table or --plot")
    return args


def main(words: Sequence[str] | None = None) -> None:
    """Plan, run, and write what is asked for."""
    args = parse(words)
    limits = Limits(args.env_steps, args.train_iters, args.state_freq, args.compiles)
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.names:
        for name in args.names:
            config_file(name)
        runs = plan(args.names, args.seeds, args.folder)
        print(plan_table(runs, limits, args.core_hours), flush=True)
        if args.dry_run:
            return
        os.environ["OMP_NUM_THREADS"] = "1"
        os.nice(_LOWEST_PRIORITY)
        budget = Budget(args.core_hours * _HOUR_S)
        execute(runs, args.folder, limits, budget, args.jobs or free_cores())
        for name in args.names if args.beside else ():
            for seed in args.seeds:
                run_peer(name, seed, args.folder, args.env_steps)
        print(f"used {budget.used_s / _HOUR_S:.2f} of {args.core_hours:g} core-hours")
    if args.table is not None:
        print(update_table(args.table, _rows(args), args.commit))
    if args.plot is not None:
        plot(args.folder, args.plot)


def _rows(args: argparse.Namespace) -> list[dict[str, Any]]:
    return [row for row in read_rows(args.folder) if not args.names or row["config"] in args.names]


if __name__ == "__main__":
    main()
