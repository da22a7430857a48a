"""Check that each extra resolves with ``constraints.txt`` on each Python: ``python tests/project/resolve_extras.py``.

Only metadata is downloaded where the index has it (``pip install --dry-run``). Prints a line per extra and Python.
A Python that is on the path, as ``python3.12``, is asked itself: pip refuses source packages for any other.
"""

import argparse
import functools
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PYTHONS = ("3.10", "3.11", "3.12", "3.13")


def requirements() -> dict[str, list[str]]:
    """What setup.py says: ``core``, and the extras."""
    with mock.patch("setuptools.setup") as setup:
        runpy.run_path(str(ROOT / "setup.py"))
    (call,) = setup.call_args_list
    return {"core": call.kwargs["install_requires"], **call.kwargs["extras_require"]}


def constraints_of(python: str) -> list[str]:
    """The lines of ``constraints.txt`` for a Python; pip judges markers by the Python that it runs on."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    parts = [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]
    found = {"python_version": python, "python_full_version": f"{python}.0"}
    return [f"{one.name}{one.specifier}" for one in parts if one.marker is None or one.marker.evaluate(found)]


@functools.cache
def pip_for(python: str) -> list[str]:
    """The command of pip that judges for a Python: its own, where it has one."""
    name = f"python{python}"
    if (
        shutil.which(name)
        and subprocess.run([name, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
    ):
        return [name, "-m", "pip", "install"]
    return [sys.executable, "-m", "pip", "install", "--python-version", python]


def resolve(wanted: list[str], python: str) -> str | None:
    """Return what does not resolve; None where all does."""
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder, "constraints.txt")
        constraints.write_text("\n".join(constraints_of(python)))
        command = [*pip_for(python), "--dry-run", "--quiet", "--ignore-installed", "--no-input"]
        command += ["--only-binary=:all:", "--target", folder]
        command += ["-c", str(constraints), *wanted]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return None if done.returncode == 0 else " ".join(errors[:2]) or f"pip ended with {done.returncode}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extras", nargs="*", help="Default: all.")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="Default: all.")
    args = parser.parse_args()
    table, failed = requirements(), 0
    for extra in args.extras or table:
        for python in args.python or PYTHONS:
            problem = resolve(table[extra] if extra == "core" else [*table[extra]], python)
            failed += problem is not None
            print(f"{extra:<12} {python:<5} {problem or 'resolves'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
