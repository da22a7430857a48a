"""``ding.load``: a trained agent from the folder of an experiment."""

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

# Policies that come with a checkout of the repository.
_TRAINED = Path(__file__).resolve().parents[2] / "trained"


def load(
    exp_dir: str,
    env: AnyEnv | None = None,
    checkpoint: str | None = None,
    seed: int = 0,
    trust_config: bool = False,
    model: torch.nn.Module | None = None,
) -> Agent:
    """Return the trained agent of a serial, task or parallel run, or of an agent's.

    Its config is read as data, and code that it needs is imported only for a run of your own (of this user and machine,
    and unchanged), so that a folder from others can be looked at.

    Args:
        exp_dir: the experiment folder; or ``trained/cartpole_dqn`` and the like from anywhere: a policy that comes with
            a checkout of the repository. An agent of those trains in ``cartpole_dqn``, in the current folder.
        env: another env, or that of a run whose config does not say how to make it.
        checkpoint: path of a file, or its name in ``ckpt/``, or ``last``: that of the most train iterations; by
            default the best.
        seed: of the agent.
        trust_config: import what the run needs, and execute a config with objects, also where it is not your own.
        model: the network of a run with ``model=``, where ``policy.model`` does not say how to make it.

    Raises:
        ExperimentNotFoundError: there is no such folder, or no config or checkpoint in it.
        AgentConfigError: the config of another's run needs code, or it names no policy; or the env does not fit.
        OwnCodeError: a module that the run needs is missing, or raises.
        CheckpointError: the checkpoint is that of another algorithm or network.
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
    # The env decides which config is at hand, so that of the run goes over all of it.
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
    """The folder that holds a run, and the experiment folder in which its agent trains."""
    folder = Path(exp_dir)
    if not folder.is_dir() and folder.parts[:-1] == (_TRAINED.name,):
        folder = _TRAINED / folder.name
    if folder.is_dir():
        # What comes with the repository stays as it is.
        return folder, folder.name if folder.resolve().parent == _TRAINED else str(exp_dir)
    if folder.parent == _TRAINED and not _TRAINED.is_dir():
        hint = "; trained policies are part of a checkout of the repository, not of the installed package"
    else:
        near = nearest(folder.name, [one.name for one in folder.parent.glob("*") if one.is_dir()])
        hint = "" if near is None else f"; did you mean {str(Path(exp_dir).parent / near)!r}?"
    raise ExperimentNotFoundError(f"there is no experiment folder {str(exp_dir)!r}{hint}")


def _config_of(path: Path, trust: bool) -> tuple[EasyDict, EasyDict]:
    """The main config of a run, and its create config, which DI-engine's agents do not write."""
    try:
        main = read_run_config(path, ("main_config",), trust)[0]
        try:
            return main, read_run_config(path, ("create_config",), trust)[0]
        except MissingConfigError:
            return main, EasyDict()
    except (ConfigTrustError, ConfigFileError) as error:
        raise AgentConfigError(str(error)) from error


def _for_agent(main: EasyDict, create: EasyDict, env: AnyEnv | None) -> CompleteConfig:
    """The part of a compiled config that an agent reads: what one process needs, with env managers of its own."""
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
        # What the other key has is a default, which the parallel mode does not read.
        env_cfg["n_evaluator_episode"] = episodes_of_evaluation(env_cfg)
    return CompleteConfig(env=env_cfg, policy=policy)
