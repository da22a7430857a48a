"""``python -m benchmarks.setup [peer ...]``: make the virtual environments of the peers.

Each peer has a requirement file with exact versions in ``benchmarks/requirements``. ``<peer>.no_deps.txt`` beside it
is installed without dependencies first, for a package that asks for versions which no longer install.
A peer that does not install is recorded with its error; a benchmark then reports it with that error.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from benchmarks._peers import HERE, PEERS, error_file, peers_dir, without_paths

REQUIREMENTS = HERE / "requirements"
ERROR_TAIL = 2000
PIP_TIMEOUT_S = 3600
RECORD = "installed.txt"


def main(argv: Sequence[str] | None = None) -> int:
    """Install the peers; returns 1 when one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.setup", description=__doc__)
    parser.add_argument("peers", nargs="*", metavar="peer", help=f"of {', '.join(PEERS)}; all by default")
    parser.add_argument("--python", default=sys.executable, help="interpreter to make the environments with")
    parser.add_argument("--renew", action="store_true", help="install anew what is there already")
    args = parser.parse_args(argv)
    unknown = sorted(set(args.peers) - set(PEERS))
    if unknown:
        parser.error(f"unknown peer {unknown[0]!r}; known are {', '.join(PEERS)}")
    failed = [name for name in args.peers or PEERS if not install(name, args.python, args.renew)]
    return 1 if failed else 0


def install(name: str, python: str, renew: bool = False) -> bool:
    """Make the environment of one peer; returns whether it is there now."""
    folder = peers_dir() / name
    # Written last: an environment whose installation was cut off, or whose pins have changed, has another or none.
    record, wanted = folder / RECORD, _wanted(name)
    if not renew and record.is_file() and record.read_text(encoding="utf-8") == wanted:
        print(f"{name}: there already")
        return True
    shutil.rmtree(folder, ignore_errors=True)
    error_file(name).unlink(missing_ok=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    print(f"{name}: installing", flush=True)
    try:
        _make_venv(folder, python)
        for file, options in _requirement_files(name):
            _run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *options, "-r", str(file)])
    except subprocess.SubprocessError as error:
        said = _without_warnings(getattr(error, "stderr", None) or str(error))
        error_file(name).write_text(without_paths(said[-ERROR_TAIL:]), encoding="utf-8")
        print(f"{name}: did not install\n{said[-ERROR_TAIL:]}", flush=True)
        return False
    record.write_text(wanted, encoding="utf-8")
    print(f"{name}: ready", flush=True)
    return True


def _wanted(name: str) -> str:
    return "".join(file.read_text(encoding="utf-8") for file, _ in _requirement_files(name))


def _without_warnings(text: str) -> str:
    """What pip said of the failure, without what it said of its settings."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("WARNING"))


def _requirement_files(name: str) -> list[tuple[Path, list[str]]]:
    without_dependencies = REQUIREMENTS / f"{name}.no_deps.txt"
    files = [(without_dependencies, ["--no-deps"])] if without_dependencies.is_file() else []
    return [*files, (REQUIREMENTS / f"{name}.txt", [])]


def _make_venv(folder: Path, python: str) -> None:
    if python == sys.executable:
        venv.create(folder, with_pip=True)
    else:
        _run([python, "-m", "venv", str(folder)])


def _run(command: Sequence[str]) -> None:
    subprocess.run(list(command), check=True, capture_output=True, text=True, timeout=PIP_TIMEOUT_S)


if __name__ == "__main__":
    sys.exit(main())
