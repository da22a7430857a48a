"""``ding.load``: loads a trained agent from an experiment folder."""

from pathlib import Path

import torch
from easydict import EasyDict

from ding.bonus.common import AgentConfigError, ExperimentNotFoundError
from ding.bonus.core.agent import Agent, CompleteConfig
from ding.bonus.core.best_checkpoint import best_checkpoint_of
from ding.bonus.core.env_pattern import AnyEnv
from ding.bonus.support import supported_algo
from ding.config import ConfigFileError, ConfigTrustError, MissingConfigError
from ding.config.own.reading import build_network, read_run_config
from ding.config.sections import dig, episodes_of_evaluation, without_workers
from ding.entry.view.experiment import CONFIGS, last_checkpoint
from ding.utils import nearest

# Trained policies in a checkout of the repository.
_TRAINED = Path(__file__).resolve().parents[2] / "trained"


def load(
    exp_dir: str,
    env: AnyEnv | None = None,
    checkpoint: str | None = None,
    seed: int = 0,
    trust_config: bool = False,
    model: torch.nn.Module | None = None,
) -> Agent:
    """Return the trained agent of a serial, task or parallel run, or of a run of an agent.

    The config is read as data. Code that it needs is imported only for the user's own runs (made by this user on this
    machine and unchanged), so that folders of others can be inspected safely.

    Args:
        exp_dir: Experiment folder; or, from any folder, ``trained/cartpole_dqn`` and similar names of the policies in a
            checkout of the repository. Their agents train in ``cartpole_dqn`` in the current folder.
        env: Another env, or the env of a run whose config does not define it.
        checkpoint: Path of a file, or its name in ``ckpt/``, or ``last`` (most train iterations); by default the best.
        seed: Seed of the agent.
        trust_config: Import the code that the run needs, and execute a config with objects, even if it is not your own.
        model: Network of a run with ``model=``, if ``policy.model`` does not define it.

    Raises:
        ExperimentNotFoundError: The folder does not exist, or contains no config or checkpoint.
        AgentConfigError: The config of another user's run needs code or names no policy, or the env does not fit.
        OwnCodeError: A module that the run needs is missing, or raises an error.
        CheckpointError: The checkpoint belongs to another algorithm or network.
    """
    folder, exp_name = _places(exp_dir)
    path = next((folder / name for name in CONFIGS if (folder / name).is_file()), None)
    if path is None:
        raise ExperimentNotFoundError(f"{exp_dir} is no experiment folder: none of {', '.join(CONFIGS)} is in it")
    main, create = _config_of(path, trust_config)
    policy_type = str(main.get("policy", {}).get("type", "")).removesuffix("_command")
    if not policy_type:
        raise AgentConfigError(f"{path} names no policy.type, so it cannot be known which algorithm this was")
    by_type = {agent.policy_type: agent for agent in supported_algo.values()}
    # The env selects a default config, which the config of the run overrides.
    if model is None:
        model = build_network(folder, main["policy"].get("model", {}))
    agent = by_type.get(policy_type, Agent)(
        env=env, seed=seed, exp_name=exp_name, model=model, cfg=_for_agent(main, create, env)
    )
    if checkpoint == "last":
        checkpoint = str(last_checkpoint(folder) or best_checkpoint_of(str(folder)))
    if checkpoint is None:
        return agent.load(best_checkpoint_of(str(folder)))
    inside = folder / "ckpt" / checkpoint
    return agent.load(str(inside if inside.is_file() else checkpoint))


def _places(exp_dir: str) -> tuple[Path, str]:
    """Return the folder of a run, and the experiment folder in which its agent trains."""
    folder = Path(exp_dir)
    if not folder.is_dir() and folder.parts[:-1] == (_TRAINED.name,):
        folder = _TRAINED / folder.name
    if folder.is_dir():
        # Files of the repository must not change.
        return folder, folder.name if folder.resolve().parent == _TRAINED else str(exp_dir)
    if folder.parent == _TRAINED and not _TRAINED.is_dir():
        hint = "; trained policies are part of a checkout of the repository, not of the installed package"
    else:
        near = nearest(folder.name, [one.name for one in folder.parent.glob("*") if one.is_dir()])
        hint = "" if near is None else f"; did you mean {str(Path(exp_dir).parent / near)!r}?"
    raise ExperimentNotFoundError(f"there is no experiment folder {str(exp_dir)!r}{hint}")


def _config_of(path: Path, trust: bool) -> tuple[EasyDict, EasyDict]:
    """Return the main config of a run, and its create config, which DI-engine's agents do not save."""
    try:
        main = read_run_config(path, ("main_config",), trust)[0]
        try:
            return main, read_run_config(path, ("create_config",), trust)[0]
        except MissingConfigError:
            return main, EasyDict()
    except (ConfigTrustError, ConfigFileError) as error:
        raise AgentConfigError(str(error)) from error


def _for_agent(main: EasyDict, create: EasyDict, env: AnyEnv | None) -> CompleteConfig:
    """Return the part of a compiled config for an agent in a single process, with its own env managers."""
    policy = dict(main["policy"])
    if "comm_learner" in create:
        policy = without_workers(policy)
        eval_freq = dig(policy, "eval", "evaluator").get("eval_freq")
        policy["eval"] = {} if eval_freq is None else {"evaluator": {"eval_freq": eval_freq}}
        size = dig(policy, "other", "replay_buffer").get("replay_buffer_size")
        policy["other"]["replay_buffer"] = {} if size is None else {"replay_buffer_size": size}
    policy.pop("cfg_type", None)
    left_out = {"manager", "cfg_type"} if env is None else {"manager", "cfg_type", "env_id", "env_kwargs", "type"}
    env_cfg = {key: value for key, value in main.get("env", {}).items() if key not in left_out}
    if "evaluator_episode_num" in env_cfg:
        # The other key has a default, which the parallel mode ignores.
        env_cfg["n_evaluator_episode"] = episodes_of_evaluation(env_cfg)
    return CompleteConfig(env=env_cfg, policy=policy)
