"""Migration of files and folders, with a report."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ding.entry.migrate.arrays import migrate_arrays
from ding.entry.migrate.configs import migrate_configs
from ding.entry.migrate.envs import migrate_envs
from ding.entry.migrate.imports import migrate_imports
from ding.entry.migrate.making import migrate_making
from ding.entry.migrate.module import Module
from ding.entry.migrate.script import Script
from ding.entry.migrate.wrappers import migrate_wrappers
from ding.utils.file_helper import atomic_write


def migrate(paths: Sequence[str], write: bool, echo: Callable[[str], None]) -> bool:
    """Migrate files and the Python files of folders; return whether no work remains.

    Args:
        paths: Files and folders.
        write: Write the replacements to the files.
        echo: Prints a line.
    """
    files = list(dict.fromkeys(file for path in paths for file in _files(Path(path))))
    changed = left = 0
    for file in files:
        try:
            script = migrated(file)
        except (SyntaxError, ValueError) as error:
            echo(f"{file}: left to do: it cannot be read as Python: {error}")
            left += 1
            continue
        if script.diff:
            echo(script.diff.rstrip("\n"))
            changed += 1
        for kind, findings in (("left to do", script.left), ("note", script.notes)):
            for finding in sorted(findings):
                echo(f"{file}:{finding.line}: {kind}: {finding.text}")
        left += len(script.left)
        if write and script.diff:
            with atomic_write(file) as target:
                target.write(script.content())
    done = "" if not changed else " (written)" if write else " (not written: give --write)"
    echo(f"{_count(len(files), 'file')}, {changed} with replacements{done}; {_count(left, 'thing')} left to do")
    return left == 0


def migrated(file: Path) -> Script:
    """Return a file with its replacements and findings.

    Raises:
        SyntaxError: The file is not Python.
    """
    script = Script(file)
    module = Module(file, script.tree)
    migrate_imports(script, module)
    migrate_arrays(script, module)
    migrate_making(script, module)
    migrate_envs(script, module)
    migrate_wrappers(script, module)
    migrate_configs(script)
    return script


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
    else:
        found = sorted(path.rglob("*.py"))
        yield from (file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
