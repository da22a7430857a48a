"""`eval`: the return of a trained policy."""

import os
from typing import Any

import numpy as np
import torch
from easydict import EasyDict

from ding.config import ConfigValueError, compile_config
from ding.config.experiment_dir import unused_dir_removed
from ding.entry.serial.parts import EnvSetting, env_managers
from ding.entry.serial_entry import InputConfig, load_input
from ding.policy import create_policy
from ding.utils import set_pkg_seed
from ding.utils.file_helper import read_file
from ding.worker import create_serial_evaluator


def eval(
    input_cfg: InputConfig,
    seed: int = 0,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    state_dict: dict[str, Any] | None = None,
    load_path: str | None = None,
    replay_path: str | None = None,
) -> float:
    """Evaluate a policy and return its mean return over ``env.n_evaluator_episode`` episodes.

    Args:
        input_cfg: Path of a config file, or ``(main_config, create_config)``; not changed.
        seed: Seed of everything, the envs included.
        env_setting: ``(env class, collector env configs, evaluator env configs)``, instead of the config's env.
        model: The network; the policy's default when not given.
        state_dict: The policy's state; read from ``load_path`` when not given.
        load_path: Checkpoint file; else ``policy.learn.learner.load_path``, else
            ``policy.learn.learner.hook.load_ckpt_before_run`` of the config.
        replay_path: Folder for videos of the episodes, one sub-folder per env; else ``env.replay_path`` of the config.

    Raises:
        ConfigError: The config is wrong, or no state to evaluate is given, or its file does not exist.
        RuntimeError: The evaluator reports no returns.
    """
    main, create = load_input(input_cfg)
    cfg = compile_config(
        main,
        seed=seed,
        env=None if env_setting is None else env_setting[0],
        auto=True,
        create_cfg=create,
        save_path="eval_config.py",
    )
    with unused_dir_removed(cfg.exp_name):
        state = state_dict if state_dict is not None else _load_state(cfg, load_path)
        _, env = env_managers(cfg, env_setting, collect=False)
    try:
        env.seed(cfg.seed, dynamic_seed=False)
        folder = replay_path or cfg.env.get("replay_path", None)
        if folder:
            env.enable_save_replay(_folder_per_env(folder, env.env_num))
        set_pkg_seed(cfg.seed, use_cuda=cfg.policy.cuda)
        policy = create_policy(cfg.policy, model=model, enable_field=["eval"])
        policy.eval_mode.load_state_dict(state)
        evaluator = create_serial_evaluator(
            cfg.policy.eval.evaluator, env=env, policy=policy.eval_mode, exp_name=cfg.exp_name
        )
        try:
            _, info = evaluator.eval()
        finally:
            evaluator.close()
    finally:
        env.close()
    if "eval_episode_return" not in info:
        raise RuntimeError(f"the evaluator reports no eval_episode_return, only {sorted(info)}")
    return float(np.mean(info["eval_episode_return"]))


def _folder_per_env(folder: str, env_num: int) -> list[str]:
    """Make and return ``<folder>/env0``, ...: every env numbers its episodes from 0."""
    folders = [os.path.join(folder, f"env{number}") for number in range(env_num)]
    for one in folders:
        os.makedirs(one, exist_ok=True)
    return folders


def _load_state(cfg: EasyDict, load_path: str | None) -> dict[str, Any]:
    learner = cfg.policy.learn.learner
    path = load_path or learner.get("load_path") or learner.get("hook", {}).get("load_ckpt_before_run")
    if not path:
        raise ConfigValueError(
            "nothing to evaluate: give load_path (--load-path), or policy.learn.learner.load_path in the config"
        )
    if not os.path.isfile(path):
        raise ConfigValueError(f"load_path: there is no checkpoint {path}")
    return read_file(path)
