"""`parallel_pipeline`: a coordinator, learners and collectors, each a process of its own, on this machine."""

import contextlib
import logging
import os
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from easydict import EasyDict

from ding.config import ConfigValueError, compile_config_parallel, read_config_with_system
from ding.entry.callbacks import ReportedProgress, RunCallback
from ding.entry.parallel.reports import ReportReader, finish_run, newest_checkpoint
from ding.entry.parallel.roles import PRELOAD, make_roles
from ding.entry.parallel.snapshots import newest_snapshot, restore_snapshot, save_snapshot
from ding.entry.parallel.workers import COORDINATOR
from ding.entry.view.access_file import AccessFile
from ding.entry.view.failure import failures_logged
from ding.entry.view.status import bounded
from ding.entry.view.status_file import StatusFile
from ding.entry.view.views import RunView, console_lines, make_view
from ding.parallel.launch import Launcher, Outcome, RoleFailed, RunInterrupted, shared_run_dir
from ding.utils.checkpoint import Manifest
from ding.utils.file_helper import remove_torn_files
from ding.worker.coordinator.errors import JournalError

ParallelConfig = str | os.PathLike[str] | Sequence[Mapping[str, Any]]

_TOKEN_BYTES = 32
_BOOT_STOP_S = 3.0


def parallel_pipeline(
    input_cfg: ParallelConfig,
    seed: int = 0,
    enable_total_log: bool = False,
    disable_flask_log: bool = True,
    *,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    view: RunView | None = None,
    strict: bool = False,
    resume: str | os.PathLike[str] | None = None,
    callbacks: Sequence[RunCallback] = (),
) -> dict[str, Any]:
    """Train in parallel mode until the stop value is reached, and leave nothing running.

    A process that dies is replaced: a collector gets its task again or another, a learner goes on from its last
    checkpoint, the coordinator from its journal. Ctrl-C and SIGTERM end the run in order, a second one at once.

    Args:
        input_cfg: Path of a config file, or ``(main_config, create_config, system_config)``; not changed.
        seed: Seeds python, numpy, torch and the envs of every process.
        enable_total_log: Show the processes' informative lines here, too; they are in ``<exp_name>/log`` anyway.
        disable_flask_log: Kept for scripts; the server writes no log of requests.
        max_train_iter: Limit of train iterations.
        max_env_step: Limit of env steps.
        view: Shows the progress; a live view on a terminal and log lines elsewhere when not given.
        strict: A config key that is misspelt or that nobody reads is an error everywhere.
        resume: Experiment folder of a run that was stopped or killed: this one goes on in it, from its newest good
            snapshot. The config should be the one of that run, ``<resume>/total_config.py``.
        callbacks: Called when an evaluation or train iterations are reported, and at the end; one may end the run.

    Returns:
        The last status of the run, as in ``<exp_name>/result.json``.

    Raises:
        ConfigError: The config is wrong, or ``resume`` holds no snapshot; nothing was started.
        RoleFailed: A process failed too often in a row; the message has its traceback.
        RunInterrupted: A signal stopped the run (a `SystemExit` with code 128 + signal).
        TypeError: ``input_cfg`` is neither a path nor a triple.
    """
    main, create, system = load_parallel_input(input_cfg)
    view = StatusFile(make_view() if view is None else view)
    with console_lines():
        snapshot = None if resume is None else _snapshot_in(resume)
        if resume is not None:
            main = EasyDict({**main, "exp_name": os.fspath(resume)})
        cfg = compile_config_parallel(
            main,
            create,
            system,
            seed=seed,
            strict=strict,
            renew_dir=resume is None,
            free_ports=False,
            # The config the run began with stays as it is.
            save_path="total_config.py" if resume is None else "resumed_config.py",
        )
        _keep_pace_with_snapshots(cfg)
        limits = bounded(train_iter=max_train_iter, env_step=max_env_step)
        return _run(cfg, limits, view, enable_total_log, snapshot, callbacks)


def _snapshot_in(exp_dir: str | os.PathLike[str]) -> Manifest:
    snapshot = newest_snapshot(exp_dir)
    if snapshot is None:
        raise ConfigValueError(
            f"--resume: {os.fspath(exp_dir)} holds no snapshot of a parallel run; save some with --state-freq"
        )
    return snapshot


def _keep_pace_with_snapshots(cfg: EasyDict) -> None:
    """Have learners save checkpoints to go on from at least as often as snapshots are taken, of which they are part."""
    freq = int(cfg.main.policy.learn.get("run_state_freq") or 0)
    for name in cfg.system.coordinator.learner if freq else ():
        section = cfg.system[name]
        section.resume_ckpt_freq = min(freq, int(section.get("resume_ckpt_freq", freq)))


def load_parallel_input(input_cfg: ParallelConfig) -> tuple[EasyDict, EasyDict, EasyDict]:
    """Return ``(main_config, create_config, system_config)``.

    Raises:
        ConfigError: The file is wrong.
        TypeError: It is neither a path nor a triple of dicts.
    """
    if isinstance(input_cfg, (str, os.PathLike)):
        return read_config_with_system(input_cfg)
    if isinstance(input_cfg, Sequence) and [isinstance(one, Mapping) for one in input_cfg] == [True] * 3:
        configs = [EasyDict(one) for one in input_cfg if isinstance(one, Mapping)]
        return configs[0], configs[1], configs[2]
    raise TypeError("the config must be a path or a triple (main_config, create_config, system_config)")


def _run(
    cfg: EasyDict,
    limits: dict[str, int],
    view: RunView,
    show_all: bool,
    snapshot: Manifest | None,
    callbacks: Sequence[RunCallback],
) -> dict[str, Any]:
    exp_name = cfg.main.exp_name
    token = secrets.token_hex(_TOKEN_BYTES)
    access = AccessFile(exp_name, token)
    reader = ReportReader(exp_name, limits, cfg.main.env.stop_value)
    sentence, ok = "ended by an error", False

    def on_change(launcher: Launcher) -> None:
        access.update(launcher.announced(COORDINATOR))
        status = reader.read(launcher.roles[COORDINATOR].status, launcher.snapshots())
        view.update(status)
        if not launcher.stopping and not progress.update(status):
            launcher.end()

    # Before the coordinator says something, a run that goes on is where its snapshot was.
    begun = {} if snapshot is None else snapshot.notes
    start = reader.read({"env_step": begun.get("pushed_rows", 0), "train_iter": begun.get("train_iter", 0)})
    progress = ReportedProgress(callbacks, start)
    view.start(start)
    try:
        with failures_logged(exp_name), run_folder(cfg) as run_dir:
            outcome, last = _launch(cfg, limits, run_dir, token, on_change, show_all, snapshot)
        if outcome.signum is not None:
            checkpoint = newest_checkpoint(exp_name)
            sentence = f"stopped; the last checkpoint is {checkpoint or 'none yet'}"
            if last is not None:
                sentence = f"stopped; go on with: {_resume_line(cfg, limits)}"
            raise RunInterrupted(outcome.signum, checkpoint)
        end = reader.read(outcome.result)
        result, sentence = finish_run(end)
        progress.end(end)
        ok = True
        return result
    except RoleFailed as error:
        sentence = f"stopped: {error.role} failed; see {os.path.join(exp_name, 'log')}"
        raise
    finally:
        access.remove()
        view.finish(sentence, ok)


def _launch(
    cfg: EasyDict,
    limits: dict[str, int],
    run_dir: Path,
    token: str,
    on_change: Callable[[Launcher], None],
    show_all: bool,
    snapshot: Manifest | None,
) -> tuple[Outcome, Path | None]:
    """Run the processes to their end; returns it, and the snapshot that was taken then."""
    exp_name, path_data = cfg.main.exp_name, cfg.system.coordinator.path_data
    path_policy = cfg.main.policy.other.commander.path_policy
    if snapshot is not None:
        restore_snapshot(snapshot, exp_name, run_dir, path_data, token, path_policy)
    launcher = Launcher(
        make_roles(cfg, limits),
        str(run_dir),
        os.path.join(exp_name, "log"),
        token,
        on_change,
        boot_stop_s=_BOOT_STOP_S,
        show_level=logging.INFO if show_all else logging.WARNING,
        preload=PRELOAD,
    )
    try:
        outcome = launcher.run()
    finally:
        for pattern in ("ckpt*/", "ckpt*/*/"):
            for path in Path(exp_name).glob(pattern):
                remove_torn_files(path)
        last = _last_snapshot(exp_name, run_dir, path_data, token, path_policy)
    return outcome, last


def _last_snapshot(exp_name: str, run_dir: Path, path_data: str, token: str, path_policy: str) -> Path | None:
    """The snapshot of a run whose processes have all ended."""
    try:
        return save_snapshot(exp_name, run_dir, path_data, token, path_policy)
    except (OSError, JournalError) as error:
        logging.getLogger("ding.entry").warning("no last snapshot is taken: %s", error)
        return None


def _resume_line(cfg: EasyDict, limits: Mapping[str, int]) -> str:
    words = ["ding", "-m", "parallel", "--resume", str(cfg.main.exp_name), "-s", str(cfg.seed)]
    for key, limit in limits.items():
        words += [f"--{key.replace('_', '-')}", str(limit)]
    return shlex.join(words)


@contextlib.contextmanager
def run_folder(cfg: EasyDict) -> Iterator[Path]:
    """Make the folder that the processes share, put it in the place of ``'auto'``, and remove it in the end."""
    with shared_run_dir(os.path.join(cfg.main.exp_name, "run")) as run_dir:
        for key in ("path_data", "path_policy"):
            set_folder(cfg, key, os.fspath(run_dir / key.removeprefix("path_")))
        yield run_dir


def set_folder(cfg: EasyDict, key: str, folder: str) -> None:
    """Put ``folder`` in the place of ``'auto'`` under ``key``, wherever the processes read it."""
    sections = [cfg.system[name] for name in cfg.system if name.startswith(("learner", "collector"))]
    paths = {os.path.abspath(folder) if one.get(key, "auto") == "auto" else one[key] for one in sections}
    for section in sections:
        if section.get(key, "auto") == "auto":
            section[key] = os.path.abspath(folder)
    for path in paths:
        os.makedirs(path, exist_ok=True)
    path = sections[0][key]
    if key == "path_data":
        cfg.system.coordinator.path_data = path
    else:
        cfg.main.policy.other.commander.path_policy = path
