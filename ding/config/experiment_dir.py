"""The folder of an experiment: a new one for every run, also when two start in the same second."""

import contextlib
import itertools
import logging
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from ding.config.errors import ExperimentDirError
from ding.utils import get_rank

logger = logging.getLogger("ding.config")

_GIT_TIMEOUT_S = 20.0


def create_experiment_dir(exp_name: str, renew_dir: bool) -> str:
    """Create the folder ``exp_name`` and return the name it got.

    With ``renew_dir`` an existing folder is left alone and the name gets the suffix ``_%y%m%d_%H%M%S``, and ``_1``,
    ``_2``, ... behind it when that is taken, too. Making a folder is atomic, so two processes never share one.

    Raises:
        ExperimentDirError: The folder cannot be made (an `OSError`, too).
    """
    try:
        return _create(exp_name, renew_dir)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ExperimentDirError(
            f"exp_name: the experiment folder {exp_name} cannot be made: {reason}; choose another with exp_name "
            "(--exp-name)"
        ) from error


def _create(exp_name: str, renew_dir: bool) -> str:
    path = Path(exp_name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not renew_dir:
        path.mkdir(exist_ok=True)
        return exp_name
    renewed = f"{exp_name}_{time.strftime('%y%m%d_%H%M%S')}"
    numbered = (f"{renewed}_{number}" for number in itertools.count(1))
    for name in itertools.chain([exp_name, renewed], numbered):
        try:
            Path(name).mkdir()
        except FileExistsError:
            continue
        return name
    raise AssertionError("unreachable: the candidates never end")


@contextlib.contextmanager
def unused_dir_removed(exp_name: str) -> Iterator[None]:
    """An error before anything but configs is in the new folder of a run takes the folder away again.

    The next try then gets the name that its config asks for.
    """
    try:
        yield
    except Exception:
        if get_rank() == 0:
            _remove_if_unused(Path(exp_name))
        raise


def _remove_if_unused(folder: Path) -> None:
    files = list(folder.glob("*"))
    if files and all(file.is_file() and file.name.endswith("_config.py") for file in files):
        for file in files:
            file.unlink()
        folder.rmdir()


def write_git_info(folder: str) -> None:
    """Write ``git_log.txt`` and ``git_diff.txt`` of the repository around the working directory into ``folder``.

    Outside a repository, or without git, nothing is written. The diff may hold anything that lies uncommitted in the
    working tree, which is why this only happens on request.
    """
    commands = {
        "git_log.txt": (["git", "describe", "--always", "--dirty"], ["git", "log", "--stat", "-n", "5"]),
        "git_diff.txt": (["git", "diff", "HEAD"],),
    }
    texts = {}
    for name, parts in commands.items():
        try:
            texts[name] = "\n".join(_output_of(part) for part in parts)
        except (OSError, subprocess.SubprocessError) as error:
            logger.info("no git information is saved: %s", error)
            return
    for name, text in texts.items():
        (Path(folder) / name).write_text(text, encoding="utf-8")


def _output_of(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, check=True, timeout=_GIT_TIMEOUT_S, text=True, errors="replace")
    return done.stdout
