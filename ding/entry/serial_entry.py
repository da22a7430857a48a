"""``serial_pipeline``: training in one process with a single loop."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass

import torch
from easydict import EasyDict

from ding.config import ConfigValueError, compile_config, read_config
from ding.config.checks.keys import refuse_misspelt_sections
from ding.config.experiment_dir import ExperimentLock, unused_dir_removed
from ding.config.own.reading import import_if_own
from ding.config.own.record import read_run_code, record_network
from ding.config.sections import dig, episodes_of_evaluation, without_workers
from ding.entry.serial.arguments import InputConfig, RunArguments
from ding.entry.serial.loop import DataPath, ReplayPath, SerialLoop, StopSignals
from ding.entry.serial.parts import EnvSetting, SerialParts, env_class, serial_parts
from ding.entry.serial.reward_mode import check_unread_data_share, check_unread_reward_model
from ding.entry.serial.run_state import note_stop
from ding.entry.serial.wandb_callback import WandbCallback, wants_wandb
from ding.entry.view.callbacks import Callbacks, RunCallback
from ding.entry.view.experiment import next_steps
from ding.entry.view.failure import failures_logged
from ding.entry.view.status import UNBOUNDED, RunStatus, write_run_result
from ding.entry.view.status_file import StatusFile
from ding.entry.view.views import RunView, console_lines, make_view
from ding.league.player import eval_opponents
from ding.parallel.launch.signals import RunInterrupted
from ding.policy import Policy
from ding.utils import get_rank


def serial_pipeline(
    input_cfg: InputConfig,
    seed: int = 0,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    dynamic_seed: bool = True,
    *,
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
) -> Policy:
    """Train an off-policy algorithm and return its policy.

    The run ends when the mean evaluation return reaches ``env.stop_value`` or a limit is reached. Its experiment folder
    contains configs, ``ckpt/``, ``log/`` and ``result.json``. Ctrl-C and SIGTERM save a checkpoint, close all workers,
    and print how to resume.

    Args:
        input_cfg: Path of a config file, or ``(main_config, create_config)``; not modified.
        seed: Seed of Python, NumPy, torch and the envs.
        env_setting: ``(env class, collector env configs, evaluator env configs)``; replaces the config's env.
        model: Network; by default the policy's own.
        max_train_iter: Limit of train iterations.
        max_env_step: Limit of env steps.
        dynamic_seed: Draw a new seed at each reset of a collector env.
        view: Shows the progress; by default a live view on a terminal and log lines elsewhere.
        strict: Raise an error instead of a warning for misspelt and unused config keys.
        callbacks: Called after each evaluation, after each pass and at the end; a callback may end the run.

    Raises:
        ConfigError: The config is invalid; see ``ding.config.errors``.
        RunInterrupted: A signal stopped the run (a ``SystemExit`` with code 128 + signal).
    """
    arguments = RunArguments(
        input_cfg, seed, env_setting, model, max_train_iter, max_env_step, dynamic_seed,
        view=view, strict=strict, callbacks=callbacks,
    )  # fmt: skip
    return run_pipeline(ReplayPath, arguments)


def run_pipeline(data_path: Callable[..., DataPath], arguments: RunArguments) -> Policy:
    """Train with collection in one process, and return the policy.

    Args:
        data_path: ``ReplayPath``, or ``OnPolicyPath``, which has no replay buffer.
        arguments: Arguments of the pipeline.
    """
    with opened_run(arguments) as run:
        policy_cfg, with_buffer = run.cfg.policy, data_path is ReplayPath
        if with_buffer and policy_cfg.on_policy:
            raise ConfigValueError(
                f"policy.type {policy_cfg.type.removesuffix('_command')!r} is on-policy: run it with "
                "serial_pipeline_onpolicy (ding -m serial_onpolicy)"
            )
        with run.parts(with_buffer) as parts:
            run.train(parts, data_path(parts, run.interruptible))
            return parts.policy


@dataclass
class Run:
    """A run from its compiled config to its end."""

    arguments: RunArguments
    cfg: EasyDict
    view: RunView
    signals: StopSignals

    @property
    def interruptible(self) -> Callable[[], AbstractContextManager[None]]:
        """Context manager for sections that a signal may interrupt at any point."""
        return self.signals.interruptible

    def parts(self, with_buffer: bool = True, collects: bool = True) -> AbstractContextManager[SerialParts]:
        """Create envs, policy and workers; see ``serial_parts``."""
        given = self.arguments
        settings = (given.dynamic_seed, with_buffer, collects, given.strict, given.kept)
        return serial_parts(self.cfg, given.env_setting, given.model, *settings)

    def train(
        self,
        parts: SerialParts,
        data: DataPath,
        mode: str | None = None,
        options: Sequence[str] = (),
        max_train_iter: float | None = None,
    ) -> RunStatus:
        """Run the loop to its end, write ``result.json`` and return the last status.

        Args:
            mode: Name of the pipeline for ``ding -m``; by default ``serial`` or ``serial_onpolicy``.
            options: Additional options of its command line.
            max_train_iter: Limit of train iterations; by default that of the arguments.

        Raises:
            RunInterrupted: A signal stopped the run, after a checkpoint was saved and the resume command shown.
        """
        given = self.arguments
        callbacks = list(given.callbacks)
        if wants_wandb(parts) and get_rank() == 0:
            callbacks.append(WandbCallback(parts))
        limit = given.max_train_iter if max_train_iter is None else max_train_iter
        loop = SerialLoop(parts, data, limit, given.max_env_step, self.view, self.signals, Callbacks(callbacks))
        sentence, ok = "ended by an error", False
        try:
            try:
                status = loop.run()
            except SystemExit as error:
                raise RuntimeError(f"an env, a policy or a hook called sys.exit({error.code!r})") from error
            finally:
                note_stop(parts)
            if self.signals.requested is not None:
                checkpoint = str(loop.save())
                ways = [] if given.kept is None else ["train() of the agent"]
                if given.kept is None or given.kept.config_makes_envs:
                    ways.append(_resume_line(parts.cfg, status, mode, options))
                sentence = f"stopped; go on with: {' or: '.join(ways)}"
                raise RunInterrupted(self.signals.requested, checkpoint)
            if get_rank() == 0:
                write_run_result(status)
            sentence, ok = status.describe_end() + next_steps(status.exp_name), True
            return status
        finally:
            self.view.finish(sentence, ok)


@contextlib.contextmanager
def opened_run(
    arguments: RunArguments,
    keep_folder: bool = False,
    estimates_rewards: bool = False,
    commanded: bool = True,
    mixes_data: bool = False,
) -> Iterator[Run]:
    """Compile the config, create the experiment folder, show the run and record signals within the block.

    Args:
        arguments: Arguments of the pipeline.
        keep_folder: Use the existing experiment folder and its contents.
        estimates_rewards: Whether the pipeline trains on the rewards of the config's reward model.
        commanded: Replace the policy by its variant with command mode; not needed by pipelines that do not collect.
        mixes_data: Whether the pipeline mixes rows of a data set with its own samples.

    Raises:
        ExperimentDirError: Another run is active in the folder of the run to resume.
    """
    main, create = load_input(arguments.input_cfg, commanded)
    if "comm_learner" in create:
        raise ConfigValueError(
            "create_config.comm_learner: this is a config of the parallel mode; run it with ding -m parallel "
            "(parallel_pipeline)"
        )
    resumes = bool(dig(main, "policy", "learn").get("resume_training", False))
    view = StatusFile(make_view() if arguments.view is None else arguments.view)
    with console_lines(), StopSignals(view.stopping) as signals, ExperimentLock() as lock:
        new_folder = not (resumes or keep_folder)
        if not new_folder:
            # Before anything is written in the folder.
            lock.take(str(main.get("exp_name", "")))
        cfg = compile_config(
            main,
            seed=arguments.seed,
            env=env_class(arguments.env_setting),
            auto=True,
            create_cfg=create,
            renew_dir=new_folder,
            # Keep the config with which the run started.
            save_path="resumed_config.py" if resumes else "total_config.py",
            strict=arguments.strict,
        )
        lock.take(cfg.exp_name)
        if arguments.kept is not None:
            arguments.kept.exp_name = cfg.exp_name
        with (
            unused_dir_removed(cfg.exp_name) if new_folder else contextlib.nullcontext(),
            failures_logged(cfg.exp_name),
        ):
            if arguments.model is not None and not resumes and get_rank() == 0:
                record_network(cfg.exp_name, "total_config.py", arguments.model, cfg.policy.model)
            if not estimates_rewards:
                check_unread_reward_model(cfg, arguments.strict)
            if not mixes_data:
                check_unread_data_share(cfg, arguments.strict)
            yield Run(arguments, cfg, view, signals)


def load_input(input_cfg: InputConfig | None, commanded: bool = False) -> tuple[EasyDict, EasyDict]:
    """Return copies of ``(main_config, create_config)``.

    Args:
        input_cfg: Path of a config file, or the pair; ``None`` (a missing expert config) is an error.
        commanded: Replace the policy by its variant with command mode.

    Raises:
        ConfigError: The file is invalid, the pair is malformed, or the create config names no policy.
    """
    if isinstance(input_cfg, (str, os.PathLike)):
        import_if_own(input_cfg)
        main, create = read_config(input_cfg)
    elif isinstance(input_cfg, Sequence) and [isinstance(one, Mapping) for one in input_cfg] == [True, True]:
        main, create = (EasyDict(deepcopy(one)) for one in input_cfg)
    else:
        raise ConfigValueError("the config must be a path or a pair (main_config, create_config)")
    refuse_misspelt_sections(main, create)
    if not isinstance(dig(create, "policy").get("type"), str):
        raise ConfigValueError("create_config.policy.type is missing: it must be the name of a registered policy")
    if commanded:
        create.policy.type = create.policy.type.removesuffix("_command") + "_command"
    return main, create


def without_roles(main: EasyDict, create: EasyDict) -> tuple[EasyDict, EasyDict]:
    """Return the part of a parallel config that one process needs to play its policy; a serial config is unchanged.

    In a two-player game the opponent is the hardest one of the evaluations, unless ``env.eval_opponent`` is set.
    """
    if "comm_learner" not in create:
        return main, create
    if dig(create, "commander").get("type") == "one_vs_one" and main.get("env", {}).get("eval_opponent") is None:
        league = dig(main, "policy", "other", "commander", "league")
        numbers = league.get("active_players") or {}
        kind = next((kind for kind, number in numbers.items() if number), "naive_sp_player")
        main.setdefault("env", EasyDict()).eval_opponent = eval_opponents(league.get(kind) or {})[-1]
    parts = ("learner", "collector", "commander", "comm_learner", "comm_collector")
    create = EasyDict({name: section for name, section in create.items() if name not in parts})
    main.policy = without_workers(main.get("policy", {}))
    if "evaluator_env_num" in main.get("env", {}):
        # A compiled config has a default here, which the parallel mode ignores.
        main.env.n_evaluator_episode = episodes_of_evaluation(main.env)
    return main, create


def _resume_line(cfg: EasyDict, status: RunStatus, mode: str | None, options: Sequence[str]) -> str:
    mode = mode or ("serial_onpolicy" if cfg.policy.on_policy else "serial")
    words = ["ding", "-m", mode, "--resume", cfg.exp_name, *options, "-s", str(cfg.seed)]
    words += read_run_code(cfg.exp_name).command_option.split()
    for option, limit in (("--train-iter", status.max_train_iter), ("--env-step", status.max_env_step)):
        if limit < UNBOUNDED:
            words += [option, str(int(limit))]
    return shlex.join(words)
