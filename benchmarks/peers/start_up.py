"""Start-up: seconds of an import in a fresh interpreter, to the first collected step, and installed size.

The measured process is a child of this one, so that every call starts from nothing.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

from bench_side import Op, Side, serve

MEGABYTE = 1e6


def seconds_of(code: list[str]) -> float:
    """Wall seconds of a python process."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        subprocess.run([sys.executable, *code], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start


def distribution_megabytes(name: str, module: str) -> float:
    """Size of one distribution: its recorded files, or the package's folder when it is installed from a checkout."""
    files = metadata.files(name) or []
    sizes = [Path(str(file.locate())).stat().st_size for file in files if Path(str(file.locate())).is_file()]
    spec = importlib.util.find_spec(module)
    if sum(sizes) < MEGABYTE / 2 and spec is not None and spec.origin is not None:
        sizes = [file.stat().st_size for file in Path(spec.origin).parent.rglob("*.py")]
    return sum(sizes) / MEGABYTE


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", help="what a training script imports")
    parser.add_argument("distribution")
    parser.add_argument("--first-step", help="script that ends after its first collected steps")
    args = parser.parse_args()
    package = args.module.partition(".")[0]

    def import_time() -> dict[str, float]:
        torch_alone = seconds_of(["-c", "import torch"])
        total = seconds_of(["-c", f"import torch, {args.module}"])
        return {"import_s": total, "over_torch_s": total - torch_alone}

    def size() -> dict[str, float]:
        return {"package_mb": distribution_megabytes(args.distribution, package), "dependencies": dependencies()}

    def dependencies() -> float:
        required = metadata.requires(args.distribution) or []
        return float(sum("extra ==" not in one for one in required))

    ops = {"import": Op(import_time, dict, single=True), "size": Op(size, dict, single=True)}
    if args.first_step:
        script = str(Path(__file__).resolve().parent.parent / args.first_step)
        ops["first_step"] = Op(lambda: {"seconds": seconds_of([script])}, dict, single=True)
    return Side(ops, {"from": "nothing imported"})


if __name__ == "__main__":
    serve(build)
