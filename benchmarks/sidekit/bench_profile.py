"""Run a side alone under cProfile: ``bench_profile.py SCRIPT OP SECONDS OUT [arguments of the script]``."""

from __future__ import annotations

import cProfile
import importlib
import sys
import time
from pathlib import Path


def main() -> None:
    script, op_name, seconds, out, *rest = sys.argv[1:]
    sys.path.insert(0, str(Path(script).resolve().parent))
    sys.argv = [script, *rest]
    side = importlib.import_module(Path(script).stem).build()
    op = side.ops[op_name]
    for _ in range(1 if op.single else 20):
        op.step()
    profile = cProfile.Profile()
    deadline = time.perf_counter() + float(seconds)
    profile.enable()
    while time.perf_counter() < deadline:
        op.step()
    profile.disable()
    profile.dump_stats(out)
    side.close()


if __name__ == "__main__":
    main()
