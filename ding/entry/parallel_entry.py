"""``parallel_pipeline``: the parallel mode with all processes on this machine."""

import logging
import os
import secrets
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from easydict import EasyDict

from ding.config import ConfigError, ConfigValueError, compile_config_parallel, read_config_with_system
from ding.config.experiment_dir import ExperimentLock
from ding.config.own.reading import import_if_own
from ding.entry.parallel.env_check import check_env
from ding.entry.parallel.final_evaluation import finish_evaluated
from ding.entry.parallel.places import Place, place_of
from ding.entry.parallel.reports import ReportReader, newest_checkpoint
from ding.entry.parallel.roles import PRELOAD, make_roles
from ding.entry.parallel.scaling import CollectorCount
from ding.entry.parallel.snapshots import KeptPlanes, newest_snapshot, restore_snapshot, save_snapshot
from ding.entry.parallel.workers import COORDINATOR
from ding.entry.snapshot_clock import SnapshotClock
from ding.entry.view.access_file import AccessFile
from ding.entry.view.callbacks import ReportedProgress, RunCallback
from ding.entry.view.failure import failures_logged
from ding.entry.view.status import bounded
from ding.entry.view.status_file import StatusFile
from ding.entry.view.views import RunView, console_lines, make_view
from ding.parallel.launch import Launcher, Outcome, RoleFailed, RunInterrupted
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
    backend: str | None = None,
    address: str | None = None,
) -> dict[str, Any]:
    """Train in parallel mode until the stop value is reached; no process outlives the call.

    A process that dies is replaced: a collector gets its task again or a new one, a learner resumes from its last
    checkpoint, the coordinator from its journal. Ctrl-C and SIGTERM end the run in order, a second signal at once.

    Args:
        input_cfg: Path of a config file, or ``(main_config, create_config, system_config)``; not modified.
        seed: Seed of Python, NumPy, torch and the envs in every process.
        enable_total_log: Also show the processes' info lines, which are in ``<exp_name>/log`` anyway.
        disable_flask_log: Accepted for older scripts; the server logs no requests.
        max_train_iter: Limit of train iterations.
        max_env_step: Limit of env steps.
        view: Shows the progress; by default a live view on a terminal and log lines elsewhere.
        strict: Raise an error for misspelt and unused config keys, at any level.
        resume: Experiment folder of a stopped or killed run, which continues there from its newest good snapshot. Use
            the config of that run, ``<resume>/total_config.py``.
        callbacks: Called on evaluations, on train iterations and at the end; a callback may end the run.
        backend: ``'flask_fs'`` (local processes), ``'inproc'`` (threads of this process) or ``'ray'`` (actors of a Ray
            cluster); overrides ``system_config.backend``.
        address: Address of the Ray cluster, ``'auto'`` for one on this machine; overrides
            ``system_config.ray.address``. Without either a cluster is started for this run.

    Returns:
        The last status of the run, as in ``<exp_name>/result.json``.

    Raises:
        ConfigError: The config is invalid (including a port in use), or ``resume`` contains no snapshot or an active
            run.
        MissingExtraError: The backend needs a package that is not installed; nothing was started.
        RoleFailed: A process failed too often in a row; the message contains its traceback.
        RunInterrupted: A signal stopped the run (a ``SystemExit`` with code 128 + signal).
        TypeError: ``input_cfg`` is neither a path nor a triple.
    """
    configs = load_parallel_input(input_cfg)
    _set_backend(configs[2], backend, address)
    view = StatusFile(make_view() if view is None else view)
    with console_lines(), ExperimentLock() as lock:
        if resume is not None:
            # Before anything is read or written in the folder.
            lock.take(resume)
        snapshot = None if resume is None else _snapshot_in(resume)
        cfg = _compiled(configs, seed, strict, resume)
        lock.take(cfg.main.exp_name)
        limits = bounded(train_iter=max_train_iter, env_step=max_env_step)
        return _run(cfg, configs[:2], limits, view, enable_total_log, snapshot, callbacks)


def _set_backend(system: EasyDict, backend: str | None, address: str | None) -> None:
    if backend is not None:
        system.backend = backend
    if address is not None:
        system.ray = EasyDict({**system.get("ray", {}), "address": address})


def _compiled(
    configs: tuple[EasyDict, EasyDict, EasyDict], seed: int, strict: bool, resume: str | os.PathLike[str] | None
) -> EasyDict:
    main, create, system = configs
    if resume is not None:
        main = EasyDict({**main, "exp_name": os.path.normpath(resume)})
    cfg = compile_config_parallel(
        main,
        create,
        system,
        seed=seed,
        strict=strict,
        renew_dir=resume is None,
        free_ports=False,
        # Keep the config with which the run started.
        save_path="total_config.py" if resume is None else "resumed_config.py",
    )
    check_env(cfg.main, strict)
    _keep_pace_with_snapshots(cfg)
    return cfg


def _snapshot_in(exp_dir: str | os.PathLike[str]) -> Manifest:
    snapshot = newest_snapshot(exp_dir)
    if snapshot is None:
        raise ConfigValueError(
            f"--resume: {os.fspath(exp_dir)} holds no snapshot of a parallel run; save some with --state-freq"
        )
    return snapshot


def _keep_pace_with_snapshots(cfg: EasyDict) -> None:
    """Make learners save their resume checkpoints, which are part of snapshots, at least as often as snapshots."""
    freq = int(cfg.main.policy.learn.get("run_state_freq") or 0)
    for name in cfg.system.coordinator.learner if freq else ():
        section = cfg.system[name]
        section.resume_ckpt_freq = min(freq, int(section.get("resume_ckpt_freq", freq)))


def load_parallel_input(input_cfg: ParallelConfig) -> tuple[EasyDict, EasyDict, EasyDict]:
    """Return ``(main_config, create_config, system_config)``.

    Raises:
        ConfigError: The file is invalid.
        TypeError: ``input_cfg`` is neither a path nor a triple of dicts.
    """
    if isinstance(input_cfg, (str, os.PathLike)):
        import_if_own(input_cfg)
        return read_config_with_system(input_cfg)
    if isinstance(input_cfg, Sequence) and [isinstance(one, Mapping) for one in input_cfg] == [True] * 3:
        configs = [EasyDict(one) for one in input_cfg if isinstance(one, Mapping)]
        return configs[0], configs[1], configs[2]
    raise TypeError("the config must be a path or a triple (main_config, create_config, system_config)")


def _run(
    cfg: EasyDict,
    configs: tuple[EasyDict, EasyDict],
    limits: dict[str, int],
    view: RunView,
    show_all: bool,
    snapshot: Manifest | None,
    callbacks: Sequence[RunCallback],
) -> dict[str, Any]:
    exp_name = cfg.main.exp_name
    token = secrets.token_hex(_TOKEN_BYTES)
    access = AccessFile(exp_name, token, cfg.system.get("tls"))
    reader = ReportReader(exp_name, limits, cfg.main.env.stop_value)
    count = CollectorCount(cfg, limits)
    sentence, ok = "ended by an error", False

    def on_change(launcher: Launcher) -> None:
        access.update(launcher.announced(COORDINATOR))
        count.follow(launcher)
        status = reader.read(launcher.roles[COORDINATOR].status, launcher.snapshots())
        view.update(status)
        place.report(status)
        if not launcher.stopping and not progress.update(status):
            launcher.end()

    # Until the coordinator reports, the progress of a resumed run is that of its snapshot.
    begun = {} if snapshot is None else snapshot.notes
    cfg.resumed_at = None if snapshot is None else int(begun.get("train_iter", 0))
    start = reader.read({"env_step": begun.get("pushed_rows", 0), "train_iter": begun.get("train_iter", 0)})
    progress = ReportedProgress(callbacks, start)
    view.start(start)
    try:
        with failures_logged(exp_name), place_of(cfg) as place:
            outcome, last = _launch(cfg, limits, place, token, on_change, show_all, snapshot)
        if outcome.signum is not None:
            checkpoint = newest_checkpoint(exp_name, reader.read().train_iter)
            sentence = f"stopped; the last checkpoint is {checkpoint or 'none yet'}"
            if last is not None:
                sentence = f"stopped; go on with: {_resume_line(cfg, limits)}"
            raise RunInterrupted(outcome.signum, checkpoint)
        end, result, sentence = finish_evaluated(reader.read(outcome.result), configs, cfg.seed)
        progress.end(end)
        ok = True
        return result
    except RoleFailed as error:
        sentence = f"stopped: {error.role} failed; see {os.path.join(exp_name, 'log')}"
        if isinstance(error.__cause__, ConfigError):
            # Handle it as if it had been detected before the start.
            raise error.__cause__ from None
        raise
    finally:
        access.remove()
        view.finish(sentence, ok)


def _launch(
    cfg: EasyDict,
    limits: dict[str, int],
    place: Place,
    token: str,
    on_change: Callable[[Launcher], None],
    show_all: bool,
    snapshot: Manifest | None,
) -> tuple[Outcome, Path | None]:
    """Run the processes to their end; return the outcome, and the snapshot taken at the end."""
    exp_name, run_dir = cfg.main.exp_name, place.run_dir
    kept = KeptPlanes.of_run(cfg, token)
    if snapshot is not None:
        restore_snapshot(snapshot, exp_name, run_dir, kept)
    launcher = Launcher(
        make_roles(cfg, limits),
        str(run_dir),
        os.path.join(exp_name, "log"),
        token,
        on_change,
        boot_stop_s=_BOOT_STOP_S,
        show_level=logging.INFO if show_all else logging.WARNING,
        preload=PRELOAD,
        spawner=place.spawner,
    )
    asked = True
    try:
        outcome = launcher.run()
        asked = outcome.signum is not None or SnapshotClock(cfg.main.policy.learn).counts_iterations
    finally:
        folder = Path(exp_name)
        for path in (folder, *folder.glob("ckpt*/"), *folder.glob("ckpt*/*/")):
            remove_torn_files(path)
        last = _last_snapshot(exp_name, run_dir, kept, asked)
    return outcome, last


def _last_snapshot(exp_name: str, run_dir: Path, kept: KeptPlanes, asked: bool) -> Path | None:
    """Return the final snapshot of a run whose processes have all ended."""
    try:
        return save_snapshot(exp_name, run_dir, kept, asked)
    except (OSError, JournalError) as error:
        logging.getLogger("ding.entry").warning("no last snapshot is taken: %s", error)
        return None


def _resume_line(cfg: EasyDict, limits: Mapping[str, int]) -> str:
    words = ["ding", "-m", "parallel", "--resume", str(cfg.main.exp_name), "-s", str(cfg.seed)]
    for key, limit in limits.items():
        words += [f"--{key.replace('_', '-')}", str(limit)]
    return shlex.join(words)
