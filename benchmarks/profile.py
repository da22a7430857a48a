"""``python -m benchmarks.profile SUITE``: where the time of the own sides goes.

Writes for each own side of the suite the share of time per stage and the functions that take most, and a flame graph
when py-spy is installed (``pip install py-spy``).
"""

from __future__ import annotations

import argparse
import pstats
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import suites
from benchmarks._peers import HERE, OWN, SIDEKIT, PeerMissing
from benchmarks._plan import Measurement
from benchmarks._process import Contestant, SideError, child_env, run_plain

# The first pattern that fits names the stage of a function, by the end of its file's path and its name.
STAGES: tuple[tuple[str, str], ...] = (
    (
        "log",
        r"(learner/learner_hook|utils/autolog|log_writer|_tb_writer|tensorboardX|logging/|log_helper)",
    ),
    ("update", r"(torch/(optim|autograd|_tensor)|rl_utils/|_target_update|optimizer_helper|run_backward|grad_guard)"),
    ("collate", r"(collate_fn|policy/common_utils|torch_utils/(data_helper|_convert))"),
    ("sample", r"(replay_buffer/.*:(sample|_sample|_draw|_uniform)|data/storage/.*:(read|_read)|sum_tree|_draw)"),
    ("push", r"(replay_buffer/|data/storage/|data/buffer/)"),
    (
        "transition",
        r"(rollout/|worker/collector/|data/transition_batch|data/columns|_process_transition)",
    ),
    ("env", r"(ding/envs/|gymnasium/|data/env_batch)"),
    ("forward", r"(ding/model/|policy/|torch/nn|_C\._nn|torch_utils/network)"),
)
OTHER = "other"
TOP = 25
PROFILE_TIMEOUT_S = 300.0
# The process of such a side only looks at others, which a profile of it would not show.
WATCHERS = ("ours/parallel.py",)


def main(argv: Sequence[str] | None = None) -> int:
    """Profile a suite; returns 0 when every own side ran."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("suite", choices=suites.SUITES)
    parser.add_argument("--only", default="", help="regular expression on the names of measurements")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--out", type=Path, default=HERE / ".work" / "profiles")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for measurement in suites.load(args.suite).measurements():
        if not re.search(args.only, measurement.name):
            continue
        if measurement.contestants[0].script in WATCHERS:
            print(f"{measurement.name}: the work is done by several processes; use py-spy on each of them")
        else:
            try:
                print(profile_measurement(measurement, args.seconds, args.out))
            except (SideError, PeerMissing) as error:
                failed += 1
                print(f"{measurement.name}: {error}")
    return 1 if failed else 0


def profile_measurement(measurement: Measurement, seconds: float, out: Path) -> str:
    """Profile the first own side on its first operation; returns the text, which is also written."""
    side, op = measurement.contestants[0], measurement.ops[0].name
    with tempfile.TemporaryDirectory(prefix="ding-bench-") as folder:
        stats_file = Path(folder) / "stats"
        command = profile_command(side, op, seconds, stats_file)
        run_plain(command, child_env(side, 1), PROFILE_TIMEOUT_S, cwd=folder)
        stats = pstats.Stats(str(stats_file))
        text = f"# {measurement.title}\n\n{stage_table(stats)}\n{top_functions(stats)}"
        (out / f"{measurement.name}.md").write_text(text, encoding="utf-8")
        flame_graph(side, op, seconds, out / f"{measurement.name}.svg", folder)
    return text


def profile_command(side: Contestant, op: str, seconds: float, out: Path) -> list[str]:
    """The side's command with the profiler in front."""
    if side.peer != OWN:
        raise PeerMissing(f"{side.label} is not an own side")
    python, script, *rest = side.command()
    return [python, str(SIDEKIT / "bench_profile.py"), script, op, str(seconds), str(out), *rest]


def stage_of(function: tuple[str, int, str]) -> str:
    """The stage of a function of a profile: ``(file, line, name)``."""
    file, _, name = function
    place = f"{file.replace(chr(92), '/')}:{name}"
    return next((stage for stage, pattern in STAGES if re.search(pattern, place)), OTHER)


def stage_shares(stats: pstats.Stats) -> dict[str, float]:
    """Share of time per stage. Built-in and library functions count for the stage of those who call them."""
    seconds: dict[str, float] = {}
    for function, (_, _, own_s, _, callers) in stats.stats.items():  # type: ignore[attr-defined]
        stage = stage_of(function)
        if stage != OTHER or not callers:
            seconds[stage] = seconds.get(stage, 0.0) + own_s
            continue
        for caller, (_, _, part_s, _) in callers.items():
            where = stage_of(caller)
            seconds[where] = seconds.get(where, 0.0) + part_s
    total = sum(seconds.values()) or 1.0
    return {stage: value / total for stage, value in sorted(seconds.items(), key=lambda item: -item[1])}


def stage_table(stats: pstats.Stats) -> str:
    """Markdown table of the shares."""
    rows = "".join(f"| {stage} | {share:.1%} |\n" for stage, share in stage_shares(stats).items())
    return f"| stage | share of time |\n|---|---|\n{rows}"


def top_functions(stats: pstats.Stats) -> str:
    """Markdown table of the functions with the most time of their own."""
    entries = stats.stats.items()  # type: ignore[attr-defined]
    total = sum(entry[2] for _, entry in entries) or 1.0
    lines = ["| own time | calls | function |", "|---|---|---|"]
    for (file, line, name), (_, calls, own_s, _, _) in sorted(entries, key=lambda item: -item[1][2])[:TOP]:
        place = "/".join(Path(file).parts[-3:])
        lines.append(f"| {own_s / total:.1%} | {calls:,} | `{place}:{line} {name}` |")
    return "\n".join(lines) + "\n"


def flame_graph(side: Contestant, op: str, seconds: float, out: Path, folder: str) -> None:
    """Record with py-spy when there is one; says so when there is none or it may not look into processes."""
    spy = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if spy is None:
        print("no flame graph: py-spy is not installed")
        return
    command = profile_command(side, op, seconds, Path(folder) / "unused")
    recorder = [spy, "record", "-r", "500", "-o", str(out), "--", *command]
    done = subprocess.run(
        recorder,
        env=child_env(side, 1),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PROFILE_TIMEOUT_S,
        check=False,
    )
    if done.returncode or not out.is_file():
        print(f"no flame graph: py-spy says {done.stderr.strip()[-200:]}")


if __name__ == "__main__":
    sys.exit(main())
