"""Trials of a sweep: each is a run of a serial pipeline, and Optuna stores the study in a file."""

import logging
import multiprocessing
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easydict import EasyDict

from ding.config import compile_config
from ding.config.overrides import apply_overrides, apply_values
from ding.entry.pipelines.onpolicy import serial_pipeline_onpolicy
from ding.entry.serial.arguments import InputConfig
from ding.entry.serial_entry import load_input, serial_pipeline
from ding.entry.sweep.parameters import Parameter
from ding.entry.view.callbacks import RunCallback
from ding.entry.view.status import RunStatus
from ding.entry.view.views import PlainView
from ding.utils import SeedTree, require_extra
from ding.utils.own_code import refuse_in_import
from ding.utils.system_helper import die_with_parent

logger = logging.getLogger("ding.entry")

STUDY_FILE = "study.log"


@dataclass(frozen=True)
class TrialResult:
    """Trial: ``state`` is ``complete``, ``pruned`` (ended early) or ``fail``; ``value`` is its best mean return."""

    number: int
    state: str
    value: float | None
    params: Mapping[str, Any]


@dataclass(frozen=True)
class Sweep:
    """Definition of a sweep.

    Args:
        config: Path of a config file, or ``(main_config, create_config)``. Each process reads the file itself, so that
            its registrations are available.
        parameters: Keys to vary.
        folder: Folder of the study and the trials. An existing study is continued.
        seed: Seed of each run, and of the choice of values.
        max_env_step, max_train_iter: Limits of each run.
        prune: End a trial early if its evaluations are below the median of earlier trials at the same env step.
        overrides: Entries ``KEY=VALUE`` for all runs.
    """

    config: InputConfig
    parameters: Sequence[Parameter]
    folder: str
    seed: int = 0
    max_env_step: int = int(1e10)
    max_train_iter: int = int(1e10)
    prune: bool = True
    overrides: Sequence[str] = ()

    def run(self, trials: int, jobs: int = 1) -> list[TrialResult]:
        """Run trials until the study has ``trials`` of them, ``jobs`` at a time; return all of them.

        Raises:
            ConfigError: The config is invalid, or a parameter is not one of its keys.
            MissingExtraError: Optuna is not installed.
            RunInterrupted: A signal stopped the run (a ``SystemExit``); the same call continues.
            RuntimeError: One of several processes was killed; the same call restarts its trial.
        """
        refuse_in_import()
        self._check()
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        study = self.open()
        for trial in study.get_trials(deepcopy=False):
            if not trial.state.is_finished():
                # Trials of a sweep that was stopped.
                study.tell(trial.number, state=_states().FAIL)
        missing = trials - len(self._counted(study))
        if jobs == 1:
            self.work(missing)
        elif missing > 0:
            self._work_in_processes(missing, jobs)
        return self.results()

    def _work_in_processes(self, trials: int, jobs: int) -> None:
        shares = [trials // jobs + (number < trials % jobs) for number in range(jobs)]
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, context, die_with_parent, (signal.SIGTERM,)) as pool:
            running = [pool.submit(_work, self, share, number) for number, share in enumerate(shares)]
            try:
                for one in running:
                    one.result()
            except BrokenProcessPool as error:
                raise RuntimeError(
                    "a process of the sweep was killed, for lack of memory perhaps; the same command goes on with the "
                    "trials that are missing"
                ) from error

    def work(self, trials: int, worker: int = 0) -> None:
        """Run ``trials`` trials in this process."""
        study, configs = self.open(worker), self._configs()
        for _ in range(trials):
            trial = study.ask()
            state, value = _states().FAIL, None
            try:
                state, value = self._try(trial, configs)
            except Exception as error:
                logger.warning("trial %d failed: %s", trial.number, error)
                if trial.number == 0:
                    raise
            finally:
                study.tell(trial, value if state == _states().COMPLETE else None, state=state)

    def open(self, worker: int = 0) -> Any:
        """Return the Optuna study."""
        optuna = require_extra("optuna", "sweep")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        backend = optuna.storages.journal.JournalFileBackend(str(Path(self.folder) / STUDY_FILE))
        return optuna.create_study(
            storage=optuna.storages.JournalStorage(backend),
            study_name="sweep",
            direction="maximize",
            load_if_exists=True,
            sampler=optuna.samplers.TPESampler(seed=SeedTree(self.seed).derived("sampler", process=worker)),
            pruner=optuna.pruners.MedianPruner() if self.prune else optuna.pruners.NopPruner(),
        )

    def results(self) -> list[TrialResult]:
        """All trials of the study, in order."""
        return [
            TrialResult(trial.number, trial.state.name.lower(), trial.value, dict(trial.params))
            for trial in self.open().get_trials(deepcopy=False)
        ]

    def _counted(self, study: Any) -> list[Any]:
        return [trial for trial in study.get_trials(deepcopy=False) if trial.state != _states().FAIL]

    def _check(self) -> None:
        """Compile the config with a value of each parameter, so that a wrong key fails before the first trial."""
        main, create = self._configs()
        for parameter in self.parameters:
            _set(main, create, parameter.key, parameter.first)
        compile_config(main, seed=self.seed, auto=True, create_cfg=create, save_cfg=False, strict=True)

    def _configs(self) -> tuple[EasyDict, EasyDict]:
        main, create = load_input(self.config)
        apply_overrides(self.overrides, {"main_config": main, "create_config": create})
        return main, create

    def _try(self, trial: Any, configs: tuple[EasyDict, EasyDict]) -> tuple[Any, float | None]:
        main, create = deepcopy(configs)
        for parameter in self.parameters:
            _set(main, create, parameter.key, parameter.suggest(trial))
        main.exp_name = str(Path(self.folder) / f"trial{trial.number}")
        on_policy = compile_config(main, auto=True, create_cfg=create, save_cfg=False).policy.on_policy
        pruning = _Pruning(trial)
        (serial_pipeline_onpolicy if on_policy else serial_pipeline)(
            (main, create),
            seed=self.seed,
            max_env_step=self.max_env_step,
            max_train_iter=self.max_train_iter,
            view=PlainView(),
            callbacks=[pruning],
        )
        return (_states().PRUNED if pruning.pruned else _states().COMPLETE), pruning.best


class _Pruning(RunCallback):
    """Reports each evaluation to the study, which may end the trial."""

    def __init__(self, trial: Any) -> None:
        self._trial = trial
        self.pruned = False
        self.best: float | None = None

    def on_evaluation(self, status: RunStatus) -> bool:
        self.best = status.best_return
        if status.last_return is not None:
            self._trial.report(status.last_return, status.env_step)
        self.pruned = not status.solved and bool(self._trial.should_prune())
        return not self.pruned


def _set(main: EasyDict, create: EasyDict, key: str, value: Any) -> None:
    apply_values([(key, value)], {"main_config": main, "create_config": create})


def _work(sweep: Sweep, trials: int, worker: int) -> None:
    sweep.work(trials, worker)


def _states() -> Any:
    return require_extra("optuna", "sweep").trial.TrialState
