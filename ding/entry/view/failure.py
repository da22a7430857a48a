"""Display of an error: one sentence, the lines of the user's code, and the location of the whole traceback.

An error is a *mistake* if the user can correct it in a config, an option or an argument: its sentence is sufficient.
For other errors frames are shown, too; those of this library, of installed packages and of Python appear only in the
log file.
"""

import contextlib
import os
import re
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

from ding.utils.errors import UserMistake
from ding.utils.messages import add_note

_NOTE = "the whole traceback is in "
_FILE_NAME = "error.txt"
_FRAME = re.compile(r'^ *File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<name>.+)\n(?: +(?P<text>\S.*)\n)?', re.M)
_MAX_FRAMES = 12
# Exceptions raised by Python itself, whose text is not a sentence.
_BARE = (AttributeError, IndexError, NameError, ArithmeticError)


def is_mistake(error: BaseException) -> bool:
    """Return whether the user can correct the error in a config, an option or an argument."""
    return isinstance(error, UserMistake)


@contextlib.contextmanager
def failures_logged(exp_name: str | os.PathLike[str]) -> Iterator[None]:
    """Write the traceback of an error that is not a mistake to ``<exp_name>/log/error.txt``, and record this on it."""
    try:
        yield
    except Exception as error:
        if not is_mistake(error) and log_path(error) is None:
            write_traceback(error, Path(exp_name) / "log")
        raise


def write_traceback(error: BaseException, folder: Path | None = None) -> Path | None:
    """Append the whole traceback to ``error.txt`` in ``folder``, or to a new temporary file.

    Returns:
        The path, which is also recorded on the error; ``None`` if nothing can be written.
    """
    for place in (folder, Path(tempfile.gettempdir()) / f"ding_{os.getpid()}"):
        if place is None:
            continue
        with contextlib.suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            path = place / _FILE_NAME
            with open(path, "a", encoding="utf-8") as file:
                file.write(_whole_text(error) + "\n")
            add_note(error, f"{_NOTE}{path}")
            return path
    return None


def log_path(error: BaseException) -> Path | None:
    """Return the path of the traceback written by :func:`write_traceback`."""
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(_NOTE)]
    return Path(notes[-1].removeprefix(_NOTE)) if notes else None


def sentence_of(error: BaseException) -> str:
    """Return a one-line description; errors of other code than this library start with their class."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    line = without_traceback(text.strip()).partition("\n")[0]
    ours = type(error).__module__.partition(".")[0] == "ding" or (_raised_here(error) and not isinstance(error, _BARE))
    return line if ours and line else f"{type(error).__name__}: {line}"


def without_traceback(text: str) -> str:
    """Shorten the traceback of another process in a text to its last line; other texts are unchanged."""
    if '\n  File "' not in text:
        return text
    lines = text.rstrip().splitlines()
    first = lines[0].removesuffix("Traceback (most recent call last):").rstrip().removesuffix(":")
    last = lines[-1].strip()
    return first if last in first else f"{first}: {last}"


def own_frames(error: BaseException) -> list[str]:
    """Return ``file:line in function: source`` of each frame in the user's code, innermost last.

    Frames in the text of an error are included: an env in another process sends its traceback as text.
    """
    here, frames = os.getcwd(), []
    for match in _FRAME.finditer(_whole_text(error)):
        file = match["file"]
        if _is_own(file):
            shown = os.path.relpath(file, here) if os.path.abspath(file).startswith(here + os.sep) else file
            frames.append(f"{shown}:{match['line']} in {match['name']}: {match['text'] or ''}".rstrip(": "))
    return list(dict.fromkeys(frames))[-_MAX_FRAMES:]


def _whole_text(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def _raised_here(error: BaseException) -> bool:
    """Return whether this library raised the error, so that its text is a sentence."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and os.path.abspath(frames[-1].filename).startswith(_library_folder())


def _is_own(file: str) -> bool:
    if file.startswith("<") or "site-packages" in file or "dist-packages" in file:
        return False
    path = os.path.abspath(file)
    paths = sysconfig.get_paths()
    foreign = (_library_folder(), paths["stdlib"], paths["platstdlib"], os.path.realpath(paths["stdlib"]))
    return not path.startswith(tuple(folder + os.sep for folder in foreign)) and path != os.path.abspath(sys.argv[0])


def _library_folder() -> str:
    return str(Path(__file__).resolve().parents[2])
