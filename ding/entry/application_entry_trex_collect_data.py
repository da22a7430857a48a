"""``trex_collecting_data``: episodes of several checkpoints of a policy, ranked by training time."""

import argparse
import os
from typing import Any

import numpy as np
import torch
from easydict import EasyDict

from ding.config import ConfigValueError, compile_config
from ding.entry.serial.arguments import InputConfig
from ding.entry.serial.demonstrations import demonstrator, read_state
from ding.entry.serial.parts import EnvSetting, env_class, env_managers
from ding.entry.serial_entry import load_input
from ding.utils import SeedTree
from ding.utils.file_helper import save_file

_EPS = 0.2
_NEEDED = ("expert_model_path", "checkpoint_min", "checkpoint_max", "checkpoint_step")


def collect_episodic_demo_data_for_trex(
    input_cfg: InputConfig,
    seed: int,
    collect_count: int,
    rank: int,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    state_dict: dict[str, Any] | None = None,
    state_dict_path: str | None = None,
    eps: float | None = None,
) -> list[list[dict[str, Any]]]:
    """Return ``collect_count`` whole episodes of a policy from one env, each a list of transitions.

    The policy acts with ``eps``, by default ``policy.other.eps.collect`` (0.2 if missing).

    Args:
        input_cfg: Path of a config file, or ``(main_config, create_config)``; not modified.
        seed: Seed of all random generators, including the env.
        rank: Number of the checkpoint; different numbers have different episode seeds.
        env_setting: ``(env class, collector env configs, evaluator env configs)``; replaces the config's env.
        model: Network; by default the policy's own.
        state_dict: State of the policy; by default read from ``state_dict_path``.
    """
    main, create = load_input(input_cfg, commanded=True)
    main.setdefault("env", EasyDict()).collector_env_num = 1
    cfg = compile_config(
        main, seed=seed, env=env_class(env_setting), auto=True, create_cfg=create, renew_dir=False,
        save_path="collect_demo_data_config.py",
    )  # fmt: skip
    state = state_dict if state_dict is not None else read_state(state_dict_path, "state_dict or state_dict_path")
    env, _ = env_managers(cfg, env_setting, evaluate=False)
    seeds = SeedTree(seed)
    env.seed(seeds.env_seeds(env.env_num, "demonstrator", process=rank))
    seeds.seed_process("demonstrator", process=rank, use_cuda=cfg.policy.cuda)
    if eps is None:
        eps = cfg.policy.other.get("eps", {}).get("collect", _EPS)
    with demonstrator(cfg, env, state, model, "episode", eps, exp_name=cfg.exp_name) as expert:
        return [list(episode) for episode in expert.collect(n_episode=collect_count)]


def trex_collecting_data(args: Any = None) -> tuple[list[str], list[Any], list[list[float]], list[Any]]:
    """Play one episode with each of the checkpoints ``range(checkpoint_min, checkpoint_max + 1, checkpoint_step)``.

    The checkpoints are ``<expert_model_path>/ckpt/iteration_<n>.pth.tar``; the four keys belong to the section
    ``reward_model`` of the config. Writes ``episodes_data.pkl``, ``learning_returns.pkl``, ``learning_rewards.pkl``,
    ``suboptimal_data.pkl`` and ``checkpoints.pkl`` to the experiment folder.

    Args:
        args: Object with ``cfg`` (path of a config, or a pair), ``seed`` and ``device``; by default parsed from the
            command line (``--cfg --seed --device``).

    Returns:
        The numbers of the checkpoints; per checkpoint and episode the observations ``[T, ...]``; the returns; the
        rewards of the steps.
    """
    args = trex_get_args() if args is None else args
    main, create = load_input(args.cfg)
    main.policy.cuda = str(getattr(args, "device", "cpu")).startswith("cuda")
    ranked = main.get("reward_model", {})
    missing = [key for key in _NEEDED if key not in ranked]
    if missing:
        raise ConfigValueError(f"main_config.reward_model.{missing[0]} is missing: it says which checkpoints to play")
    numbers = range(ranked.checkpoint_min, ranked.checkpoint_max + ranked.checkpoint_step, ranked.checkpoint_step)
    played = {}
    for rank, number in enumerate(numbers):
        path = os.path.join(ranked.expert_model_path, "ckpt", f"iteration_{number}.pth.tar")
        played[str(number)] = collect_episodic_demo_data_for_trex(
            (main, create), args.seed, 1, rank, state_dict_path=path
        )
    return save_ranked_episodes(main.get("exp_name", "default_experiment"), played)


def save_ranked_episodes(
    folder: str, played: dict[str, list[list[dict[str, Any]]]]
) -> tuple[list[str], list[Any], list[list[float]], list[Any]]:
    """Write the training data of reward models, and return it.

    Args:
        folder: Destination of the files.
        played: Per rank, worst first, its name and its episodes, each a list of transitions.

    Returns:
        The names; per rank and episode the observations ``[T, ...]``; the returns; the rewards of the steps.
    """
    observations = [[np.stack([np.asarray(step["obs"]) for step in one]) for one in part] for part in played.values()]
    rewards = [[[_number(step["reward"]) for step in one] for one in part] for part in played.values()]
    returns = [[sum(one) for one in part] for part in rewards]
    written = {
        "episodes_data": observations, "learning_returns": returns, "learning_rewards": rewards,
        "suboptimal_data": dict(enumerate(played.values())), "checkpoints": list(played),
    }  # fmt: skip
    os.makedirs(folder, exist_ok=True)
    for name, content in written.items():
        save_file(os.path.join(folder, f"{name}.pkl"), content)
    return list(played), observations, returns, rewards


def _number(reward: Any) -> float:
    return float(np.sum(np.asarray(reward)))


def trex_get_args() -> argparse.Namespace:
    """Parse the command line of :func:`trex_collecting_data`."""
    return ranked_arguments("Play checkpoints of a policy, for T-REX.")


def ranked_arguments(description: str) -> argparse.Namespace:
    """Parse the command line of a script that plays for a reward model."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cfg", required=True, help="a config file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    return parser.parse_args()
