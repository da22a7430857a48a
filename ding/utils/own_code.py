"""User code required by a run: modules in ``import_names`` and files that register classes.

This process records its imports (:func:`own_code`). Child processes that do not inherit its memory repeat them
(:func:`import_own_code`), and so does a later load of the run (``ding.config.own``).

While such code is imported, no run may start: a script without ``if __name__ == "__main__":`` would train again.
Functions that train or evaluate call :func:`refuse_in_import` first. In a file run by its path, execution ends at that
call with a warning and the definitions above it are kept; in a module the call raises an error.
"""

import importlib
import importlib.util
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from ding.utils.errors import UserMistake

log = logging.getLogger(__name__)


class OwnModule(NamedTuple):
    """A user's module.

    Attributes:
        name: Dotted name; the stem of a file that is run by its path.
        file: Absolute path; ``""`` if there is none.
        by_path: Whether it is run by its path, as a config file is, and cannot be imported by its name.
    """

    name: str
    file: str = ""
    by_path: bool = False


class OwnCodeError(ImportError, UserMistake):
    """A user's module cannot be imported; the message is one sentence with its name or file."""


class MissingMainGuardError(RuntimeError, UserMistake):
    """A module starts a run when it is imported; the message names the missing guard."""


class _StoppedAtRun(BaseException):
    """End the execution of a file at the call that would start a run. User code cannot catch it with ``except
    Exception``.
    """


_noted: dict[OwnModule, None] = {}
# Definitions of files that were run by their path.
_executed: dict[str, ModuleType] = {}
_state = threading.local()


def note_own_code(module: OwnModule) -> None:
    """Record that this process runs ``module``."""
    _noted.setdefault(module)


def note_imported(name: str) -> None:
    """Record a module imported by its name; modules of this package are ignored."""
    if name.partition(".")[0] not in ("ding", "dizoo"):
        note_own_code(OwnModule(name, file_of(sys.modules.get(name))))


def own_code() -> tuple[OwnModule, ...]:
    """Return the user modules that this process imported for its runs, in order."""
    return tuple(_noted)


def import_own_code(modules: Iterable[OwnModule]) -> None:
    """Import modules used by another process or an earlier run; modules already imported are left alone.

    Raises:
        OwnCodeError: A module is missing, or raises during import.
        MissingMainGuardError: A module starts a run on import.
    """
    for module in modules:
        if not is_loaded(module):
            _import(module)
        note_own_code(module)


def import_in_child(modules: Iterable[OwnModule]) -> None:
    """Import the modules of the parent process; log a warning for those that cannot be imported here.

    Such a module may belong to an earlier run of the parent. If it is needed, its absence shows at once.
    """
    for module in modules:
        try:
            import_own_code([module])
        except (OwnCodeError, MissingMainGuardError) as error:
            log.warning("%s", error)


def is_loaded(module: OwnModule) -> bool:
    """Return whether this process has run the module: by its name, as its main script, or by its path."""
    return loaded(module) is not None


def loaded(module: OwnModule) -> ModuleType | None:
    """Return the module as this process has run it: by its name, as its main script, or by its path."""
    if module.name in sys.modules and not module.by_path:
        return sys.modules[module.name]
    if not module.file:
        return None
    path = os.path.realpath(module.file)
    if path in _executed:
        return _executed[path]
    return next((one for one in list(sys.modules.values()) if os.path.realpath(file_of(one) or os.sep) == path), None)


def module_named(name: str) -> OwnModule:
    """Return the module in which classes have ``__module__ = name``, as another process can import it.

    The other process runs a script, like a config file, by its path.
    """
    module = sys.modules.get(name)
    if name in ("__main__", "__mp_main__"):
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.name not in ("__main__", "__mp_main__"):
            return OwnModule(spec.name.removesuffix(".__main__"), file_of(module))
        return OwnModule(Path(file_of(module)).stem or name, file_of(module), by_path=True)
    if module is None:
        path = next((path for path, one in _executed.items() if one.__name__ == name), "")
        return OwnModule(name, path, by_path=bool(path))
    return OwnModule(name, file_of(module))


def module_of_file(file: str) -> OwnModule:
    """Return the module that a source file is, as another process can import it."""
    path = os.path.realpath(file)
    names = [name for name, one in list(sys.modules.items()) if os.path.realpath(file_of(one) or os.sep) == path]
    return module_named(names[0]) if names else OwnModule(Path(path).stem, path, by_path=True)


def file_of(module: object) -> str:
    """Return the absolute path of a module's source file; ``""`` if there is none."""
    file = getattr(module, "__file__", None)
    return os.path.abspath(file) if isinstance(file, str) else ""


def _import(module: OwnModule) -> None:
    if module.by_path:
        run_file(Path(module.file), module.name)
        return
    try:
        with importing(module.name), _found(module):
            importlib.import_module(module.name)
    except (MissingMainGuardError, OwnCodeError):
        raise
    except Exception as error:  # the user's code may raise anything
        where = f" ({module.file})" if module.file else ""
        raise OwnCodeError(
            f"the module {module.name}{where}, which the run needs, cannot be imported: {type(error).__name__}: {error}"
        ) from error


@contextmanager
def _found(module: OwnModule) -> Iterator[None]:
    """Search the folder of the module first during the block; append it to the path afterwards."""
    path = Path(module.file)
    depth = module.name.count(".") + (path.name == "__init__.py")
    if not (module.file and path.is_file() and depth < len(path.parents)):
        yield
        return
    root = str(path.parents[depth])
    sys.path.insert(0, root)
    try:
        yield
    finally:
        sys.path.remove(root)
        if root not in sys.path:
            sys.path.append(root)


def run_file(path: Path, name: str) -> ModuleType:
    """Run a file under ``name`` up to the call that would start a run; return its definitions.

    Raises:
        OwnCodeError: The file is missing, or raises.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise OwnCodeError(f"{path}, which the run needs, is not there: it registers an env, a policy or a network")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        execute(path, module, spec.loader.exec_module)
    except Exception as error:  # the user's code may raise anything
        raise OwnCodeError(f"{path}, which the run needs, cannot be run: {type(error).__name__}: {error}") from error
    return module


def execute(path: Path, module: ModuleType, run: Callable[[ModuleType], object]) -> None:
    """Execute a file in ``module`` with ``run``; end with a warning at the call that would start a run."""
    _executed[os.path.realpath(path)] = module
    try:
        with importing(str(path), by_path=True):
            run(module)
    except _StoppedAtRun as stop:
        log.warning(
            "%s:%s starts a run when the file is imported: that run is left out, and so are the lines below it. Put "
            'the call below `if __name__ == "__main__":`',
            path,
            _line_in(path, stop),
        )
    except BaseException:
        _executed.pop(os.path.realpath(path), None)
        raise


def _line_in(path: Path, error: BaseException) -> int:
    """Return the line of the file where execution ended."""
    lines = [
        number
        for frame, number in traceback.walk_tb(error.__traceback__)
        if os.path.realpath(frame.f_code.co_filename) == os.path.realpath(path)
    ]
    return lines[0] if lines else 0


@contextmanager
def importing(name: str, by_path: bool = False) -> Iterator[None]:
    """Mark that this thread imports the user's module ``name``: no run starts within the block."""
    before = getattr(_state, "importing", None)
    _state.importing = (name, by_path)
    try:
        yield
    finally:
        _state.importing = before


def refuse_in_import() -> None:
    """End the import of a module that would start a run; return if no import is in progress.

    Raises:
        MissingMainGuardError: A module, or the script of a parent process, is being imported.
    """
    current = getattr(_state, "importing", None)
    if current is not None and current[1]:
        raise _StoppedAtRun
    # Child processes have imported this; others need not import it for the check.
    process = sys.modules.get("multiprocessing.process")
    child = process is not None and getattr(process.current_process(), "_inheriting", False)
    if current is not None or child:
        name = "the script of the parent process" if current is None else f"the module {current[0]}"
        raise MissingMainGuardError(
            f'{name} starts a run when it is imported; put the call below `if __name__ == "__main__":`'
        )
