"""Applications of a trained policy: evaluation, and data sets of its behaviour.

Data sets are files without pickled code (``ding.utils.data``); DI-engine's own pickles are not supported.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from easydict import EasyDict

from ding.config import ConfigValueError, compile_config
from ding.config.experiment_dir import unused_dir_removed
from ding.data.roles import Samples
from ding.entry.serial.arguments import InputConfig
from ding.entry.serial.demonstrations import Demonstrator, demonstrator, read_state
from ding.entry.serial.parts import EnvSetting, bind_world_model, env_class, env_managers
from ding.entry.serial_entry import load_input, without_roles
from ding.entry.view.experiment import eval_folder, experiment_of
from ding.entry.view.failure import failures_logged
from ding.policy import create_policy
from ding.rl_utils import get_nstep_return_data
from ding.rollout import EvaluationResult, seed_evaluation
from ding.utils import SeedTree
from ding.utils.data import offline_data_save_type
from ding.utils.file_helper import read_file
from ding.worker import create_serial_evaluator
from ding.worker.learner.saving import load_weights


def eval(
    input_cfg: InputConfig,
    seed: int = 0,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    state_dict: dict[str, Any] | None = None,
    load_path: str | None = None,
    replay_path: str | None = None,
    episodes: int | None = None,
) -> float:
    """Evaluate a policy and return its mean return over ``env.n_evaluator_episode`` episodes.

    See :func:`evaluate` for arguments and errors; it also returns more statistics.
    """
    return evaluate(input_cfg, seed, env_setting, model, state_dict, load_path, replay_path, episodes).mean


def evaluate(
    input_cfg: InputConfig,
    seed: int = 0,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    state_dict: dict[str, Any] | None = None,
    load_path: str | None = None,
    replay_path: str | None = None,
    episodes: int | None = None,
) -> EvaluationResult:
    """Evaluate a policy over ``env.n_evaluator_episode`` episodes.

    The episodes equal those of the evaluations of a run with this seed.

    Args:
        input_cfg: Path of a config file, or ``(main_config, create_config)``; not modified.
        seed: Seed of all random generators, including the envs.
        env_setting: ``(env class, collector env configs, evaluator env configs)``; replaces the config's env.
        model: Network; by default the policy's own.
        state_dict: State of the policy; by default read from ``load_path``.
        load_path: Checkpoint file, or an experiment folder, which selects its best checkpoint; by default
            ``policy.learn.learner.load_path`` or ``policy.learn.learner.hook.load_ckpt_before_run`` of the config. The
            results for a checkpoint in an experiment folder are written to ``eval/<time>`` there.
        replay_path: Folder for videos of the episodes, with one subfolder per env; by default ``env.replay_path``.
        episodes: Number of episodes instead of ``env.n_evaluator_episode``; at most that many envs are used.

    Raises:
        ConfigError: The config is invalid, no state is given, or its file does not exist.
        PolicyWeightsError: The state belongs to another policy or network.
        RuntimeError: The evaluator reports no returns.
    """
    if episodes is not None and env_setting is not None:
        env_setting = (*env_setting[:2], env_setting[2][:episodes])
    cfg = _compiled(input_cfg, seed, env_setting, "eval_config.py", load_path, episodes)
    with failures_logged(cfg.exp_name), contextlib.ExitStack() as ends:
        with unused_dir_removed(cfg.exp_name):
            state = state_dict if state_dict is not None else _load_state(cfg, load_path)
            _, env = env_managers(cfg, env_setting, collect=False)
        ends.callback(env.close)
        seed_evaluation(env, cfg.seed)
        folder = replay_path or cfg.env.get("replay_path", None)
        if folder:
            env.enable_save_replay(_folder_per_env(folder, env.env_num))
        SeedTree(cfg.seed).seed_process("evaluator", use_cuda=cfg.policy.cuda)
        policy = create_policy(cfg.policy, model=model, enable_field=["eval"])
        bind_world_model(cfg, policy.eval_mode)
        load_weights(policy.eval_mode, state)
        evaluator = create_serial_evaluator(
            cfg.policy.eval.evaluator, env=env, policy=policy.eval_mode, exp_name=cfg.exp_name
        )
        ends.callback(evaluator.close)
        _, info = evaluator.eval()
        if "eval_episode_return" not in info:
            raise RuntimeError(f"the evaluator reports no eval_episode_return, only {sorted(info)}")
        return EvaluationResult.of(np.asarray(info["eval_episode_return"], dtype=np.float64).reshape(-1).tolist())


def collect_demo_data(
    input_cfg: InputConfig,
    seed: int,
    collect_count: int,
    expert_data_path: str | None = None,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    state_dict: dict[str, Any] | None = None,
    state_dict_path: str | None = None,
) -> None:
    """Write a data set of training samples, collected by the policy without epsilon-greedy exploration.

    The file has the format ``policy.collect.data_type`` (default ``naive``, read by ``NaiveRLDataset``).

    Args:
        input_cfg: Path of a config file, or ``(main_config, create_config)``; not modified.
        seed: Seed of all random generators, including the envs.
        collect_count: Number of samples.
        expert_data_path: Path of the file, usually ``expert_data.pkl``; by default ``policy.collect.save_path``.
        env_setting: ``(env class, collector env configs, evaluator env configs)``; replaces the config's env.
        model: Network; by default the policy's own.
        state_dict: State of the policy; by default read from ``state_dict_path``.
        state_dict_path: Checkpoint file.

    Raises:
        ConfigError: The config is invalid, or weights or the path of the file are missing (an ``AssertionError``, too).
    """
    cfg = _compiled(input_cfg, seed, env_setting, "collect_demo_data_config.py")
    path = _data_path(cfg, expert_data_path)
    with _demonstrator(cfg, env_setting, model, state_dict, state_dict_path, "sample") as expert:
        _save(cfg, list(expert.collect(n_sample=collect_count)), path)


def collect_episodic_demo_data(
    input_cfg: InputConfig,
    seed: int,
    collect_count: int,
    expert_data_path: str | None = None,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    state_dict: dict[str, Any] | None = None,
    state_dict_path: str | None = None,
) -> None:
    """Write a data set of ``collect_count`` whole episodes, each a list of transitions.

    ``episode_to_transitions`` converts it to training samples. See ``collect_demo_data`` for arguments and errors.

    Raises:
        ConfigError: Also if ``policy.collect.data_type`` is ``'hdf5'``, which cannot store episodes.
    """
    cfg = _compiled(input_cfg, seed, env_setting, "collect_demo_data_config.py")
    path = _data_path(cfg, expert_data_path)
    with unused_dir_removed(cfg.exp_name):
        if cfg.policy.collect.get("data_type", "naive") == "hdf5":
            raise ConfigValueError("policy.collect.data_type: hdf5 cannot store episodes; use naive")
    with _demonstrator(cfg, env_setting, model, state_dict, state_dict_path, "episode") as expert:
        _save(cfg, [list(episode) for episode in expert.collect(n_episode=collect_count)], path)


def episode_to_transitions(data_path: str, expert_data_path: str, nstep: int) -> None:
    """Convert a data set of episodes to one of ``nstep`` transitions.

    Args:
        data_path: File of ``collect_episodic_demo_data``.
        expert_data_path: File to write, in the format ``naive``.
        nstep: Number of rewards per transition.
    """
    episode_to_transitions_filter(data_path, expert_data_path, nstep, -float("inf"))


def episode_to_transitions_filter(data_path: str, expert_data_path: str, nstep: int, min_episode_return: float) -> None:
    """Apply ``episode_to_transitions`` to the episodes with a total reward of at least ``min_episode_return``."""
    episodes: list[list[dict[str, Any]]] = read_file(data_path)
    kept = [one for one in episodes if sum(float(step["reward"]) for step in one) >= min_episode_return]
    samples = [sample for episode in kept for sample in get_nstep_return_data(episode, nstep)]
    offline_data_save_type(samples, expert_data_path, "naive")


def _compiled(
    input_cfg: InputConfig,
    seed: int,
    env_setting: EnvSetting | None,
    save_path: str,
    load_path: str | None = None,
    episodes: int | None = None,
) -> EasyDict:
    main, create = without_roles(*load_input(input_cfg))
    if episodes is not None:
        main.setdefault("env", EasyDict()).n_evaluator_episode = episodes
        if "evaluator_env_num" in main.env:
            main.env.evaluator_env_num = min(main.env.evaluator_env_num, episodes)
    if load_path is not None:
        experiment = load_path if os.path.isdir(load_path) else experiment_of(load_path)
        if experiment is not None:
            main.exp_name = eval_folder(experiment)
    env = env_class(env_setting)
    return compile_config(main, seed=seed, env=env, auto=True, create_cfg=create, save_path=save_path)


@contextlib.contextmanager
def _demonstrator(
    cfg: EasyDict,
    env_setting: EnvSetting | None,
    model: torch.nn.Module | None,
    state_dict: dict[str, Any] | None,
    state_dict_path: str | None,
    collector: str,
) -> Iterator[Demonstrator]:
    with unused_dir_removed(cfg.exp_name):
        state = state_dict if state_dict is not None else read_state(state_dict_path, "state_dict or state_dict_path")
        env, _ = env_managers(cfg, env_setting, evaluate=False)
    seeds = SeedTree(cfg.seed)
    env.seed(seeds.env_seeds(env.env_num, "demonstrator"))
    seeds.seed_process("demonstrator", use_cuda=cfg.policy.cuda)
    with demonstrator(cfg, env, state, model, collector, exp_name=cfg.exp_name) as expert:
        yield expert


def _data_path(cfg: EasyDict, given: str | None) -> str:
    path = given or cfg.policy.collect.get("save_path")
    with unused_dir_removed(cfg.exp_name):
        if not path:
            raise ConfigValueError("where to? give expert_data_path, or policy.collect.save_path in the config")
    return path


def _save(cfg: EasyDict, data: Samples | Sequence[Samples], path: str) -> None:
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    offline_data_save_type(data, path, cfg.policy.collect.get("data_type", "naive"))


def _folder_per_env(folder: str, env_num: int) -> list[str]:
    """Create and return ``<folder>/env0``, ...: every env numbers its episodes from 0."""
    folders = [os.path.join(folder, f"env{number}") for number in range(env_num)]
    for one in folders:
        try:
            os.makedirs(one, exist_ok=True)
        except OSError as error:
            text = f"replay_path (--replay-path): the folder {one} cannot be made: {error.strerror}"
            raise ConfigValueError(text) from error
    return folders


def _load_state(cfg: EasyDict, load_path: str | None) -> dict[str, Any]:
    learner = cfg.policy.learn.learner
    path = load_path or learner.get("load_path") or learner.get("hook", {}).get("load_ckpt_before_run")
    return read_state(path, "load_path (--load-path, or policy.learn.learner.load_path in the config)")
