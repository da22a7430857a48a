"""``drex_collecting_data``: episodes of a cloned demonstrator, ranked by their rate of random actions."""

import argparse
import os
from copy import deepcopy
from typing import Any

from easydict import EasyDict

from ding.config import ConfigValueError
from ding.entry.application_entry_trex_collect_data import (
    collect_episodic_demo_data_for_trex,
    ranked_arguments,
    save_ranked_episodes,
)
from ding.entry.pipelines.cloning import serial_pipeline_bc
from ding.entry.serial_entry import load_input
from ding.reward_model import DrexRewardModel
from ding.utils import deep_merge_dicts

_EVALUATIONS = 4


def drex_collecting_data(args: Any = None) -> tuple[list[str], list[Any], list[list[float]], list[Any]]:
    """Clone a demonstrator, and play ``num_trajs_per_bin`` episodes per noise level of ``eps_list``, largest first.

    The demonstrator is given by its transitions in ``offline_data_path``, a file of ``collect_demo_data``; the clone
    (``bc``) is trained on them for ``bc_iterations`` train iterations in the folder ``<exp_name>_bc``. The noise level
    is the probability of a random action, or for continuous actions the standard deviation of the added noise. All four
    keys belong to the section ``reward_model`` of the config. The files are written to the experiment folder, as by
    ``trex_collecting_data``.

    Args:
        args: Object with ``cfg`` (path of a config, or a pair), ``seed`` and ``device``; by default parsed from the
            command line (``--cfg --seed --device``).

    Returns:
        The noise levels as strings; per level and episode the observations ``[T, ...]``; the returns; the rewards of
        the steps.

    Raises:
        ConfigValueError: ``reward_model.offline_data_path`` is missing, or the actions are hybrid.
    """
    args = drex_get_args() if args is None else args
    main, create = load_input(args.cfg)
    main.policy.cuda = str(getattr(args, "device", "cpu")).startswith("cuda")
    ranked = EasyDict(deep_merge_dicts(DrexRewardModel.default_config(), main.get("reward_model", {})))
    if "offline_data_path" not in ranked:
        raise ConfigValueError("main_config.reward_model.offline_data_path is missing: the demonstrations to clone")
    folder = main.get("exp_name", "default_experiment")
    clone_main, clone_create = clone_config(main, create, ranked.bc_iterations)
    clone, _ = serial_pipeline_bc(
        (clone_main, clone_create), args.seed, ranked.offline_data_path, max_iter=ranked.bc_iterations
    )
    played = {}
    for rank, noise in enumerate(sorted(ranked.eps_list, reverse=True)):
        clone_main.policy.collect.noise_sigma = noise
        played[str(noise)] = collect_episodic_demo_data_for_trex(
            (clone_main, clone_create), args.seed, ranked.num_trajs_per_bin, rank,
            state_dict=clone.learn_mode.state_dict(), eps=noise,
        )  # fmt: skip
    return save_ranked_episodes(folder, played)


def clone_config(main: EasyDict, create: EasyDict, iterations: int) -> tuple[EasyDict, EasyDict]:
    """Return the config of a behaviour cloning policy for the env and the shapes of another config.

    Raises:
        ConfigValueError: The actions are hybrid.
    """
    model, kinds = main.policy.model, (main.policy.get("action_space"), main.policy.model.get("action_space"))
    if "hybrid" in kinds:
        raise ConfigValueError("policy.action_space: only discrete or continuous actions can be cloned, not 'hybrid'")
    continuous = bool({"continuous", "regression", "reparameterization", "general"} & set(kinds))
    shapes = {key: deepcopy(model[key]) for key in ("obs_shape", "action_shape")}
    if not continuous and "encoder_hidden_size_list" in model:
        shapes["encoder_hidden_size_list"] = list(model.encoder_hidden_size_list)
    # Train the clone to the end, regardless of the stop value of the following run.
    clone_main = {
        "exp_name": os.path.normpath(main.get("exp_name", "default_experiment")) + "_bc",
        "env": {**deepcopy(main.env), "stop_value": int(1e10)},
        "policy": {
            "cuda": main.policy.cuda,
            "continuous": continuous,
            "model": {**shapes, **({"action_space": "regression"} if continuous else {})},
            "learn": {"train_epoch": iterations, "optimizer": "Adam", "learning_rate": 1e-3},
            "collect": {"noise": continuous, "noise_range": {"min": -1.0, "max": 1.0}},
            "eval": {"evaluator": {"eval_freq": max(1, iterations // _EVALUATIONS)}},
        },
    }
    parts = {key: deepcopy(create[key]) for key in ("env", "env_manager") if key in create}
    return EasyDict(clone_main), EasyDict({**parts, "policy": {"type": "bc"}})


def drex_get_args() -> argparse.Namespace:
    """Parse the command line of :func:`drex_collecting_data`."""
    return ranked_arguments("Play a clone of a demonstrator under noise, for D-REX.")
