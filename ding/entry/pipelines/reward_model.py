"""Pipelines with estimated rewards: trained with the agent, from an expert, or from ranked demonstrations."""

import os
from collections.abc import Sequence

import torch
from easydict import EasyDict

from ding.config import ConfigValueError
from ding.entry.application_entry import collect_demo_data
from ding.entry.serial.arguments import InputConfig, RunArguments, called_as, learning
from ding.entry.serial.reward_path import RewardModelPath, place_and_writer, run_with_reward_model
from ding.entry.serial_entry import load_input, opened_run
from ding.entry.view.callbacks import RunCallback
from ding.entry.view.views import RunView
from ding.policy import Policy
from ding.reward_model import (
    BaseRewardModel,
    EpisodicNGURewardModel,
    RndNGURewardModel,
    create_reward_model,
    get_reward_model_cls,
)
from ding.reward_model.ngu_reward_model import NGURewardModels
from ding.utils import deep_merge_dicts


@called_as(learning)
def serial_pipeline_reward_model_offpolicy(arguments: RunArguments) -> Policy:
    """Train an off-policy algorithm together with a reward model (``rnd``, ``icm``, ...), and return the policy.

    ``create_config.reward_model`` names the model, and the section ``reward_model`` of the main config configures it.
    It is trained on each collection, and estimates the rewards of each sampled batch. Evaluations report the env's
    rewards.

    See ``ding.entry.serial_entry.serial_pipeline`` for arguments, output files and the end of a run; the model's states
    are saved in ``reward_model/ckpt/``.
    """
    return run_with_reward_model(arguments, on_policy=False)


@called_as(learning)
def serial_pipeline_reward_model_onpolicy(arguments: RunArguments) -> Policy:
    """Train an on-policy algorithm together with a reward model (``rnd``, ``icm``, ...), and return the policy.

    ``create_config.reward_model`` names the model, and the section ``reward_model`` of the main config configures it.
    It is trained on each collection, and estimates the rewards of the policy's samples. Evaluations report the env's
    rewards.

    See ``ding.entry.serial_entry.serial_pipeline`` for arguments, output files and the end of a run; the model's states
    are saved in ``reward_model/ckpt/``.
    """
    return run_with_reward_model(arguments, on_policy=True)


@called_as(learning)
def serial_pipeline_preference_based_irl(arguments: RunArguments) -> Policy:
    """Train an off-policy algorithm on the rewards of ``reward_model.type`` (``trex``), and return the policy.

    The reward model is trained once, before the first collection, on the demonstrations that ``trex_collecting_data``
    saved in the experiment folder, which keeps its name. Evaluations report the env's rewards.

    See ``ding.entry.serial_entry.serial_pipeline`` for arguments, output files and the end of a run.
    """
    return run_with_reward_model(arguments, on_policy=False, mode="serial_trex", ranked=True)


# Names used in configs.
serial_pipeline_trex = serial_pipeline_preference_based_irl
serial_pipeline_reward_model_trex = serial_pipeline_preference_based_irl


@called_as(learning)
def serial_pipeline_preference_based_irl_onpolicy(arguments: RunArguments) -> Policy:
    """Train an on-policy algorithm on the rewards of ``reward_model.type`` (``trex``), and return the policy.

    The reward model is trained once, before the first collection, on the demonstrations that ``trex_collecting_data``
    saved in the experiment folder, which keeps its name. Evaluations report the env's rewards.

    See ``ding.entry.serial_entry.serial_pipeline`` for arguments, output files and the end of a run.
    """
    return run_with_reward_model(arguments, on_policy=True, mode="serial_trex_onpolicy", ranked=True)


# Names used in configs.
serial_pipeline_trex_onpolicy = serial_pipeline_preference_based_irl_onpolicy
serial_pipeline_reward_model_trex_onpolicy = serial_pipeline_preference_based_irl_onpolicy


def serial_pipeline_gail(
    input_cfg: InputConfig,
    expert_cfg: InputConfig,
    seed: int = 0,
    model: torch.nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    collect_data: bool = True,
    *,
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
) -> Policy:
    """Train an off-policy algorithm by GAIL on demonstrations of an expert, and return the policy.

    The expert plays ``reward_model.collect_count`` steps, which are saved as ``<data_path>/expert_data.pkl``; its
    weights are ``policy.load_path`` of its config, or ``reward_model.expert_model_path``. ``reward_model.data_path``
    defaults to the experiment folder. Evaluations report the env's rewards.

    See ``serial_pipeline`` for other arguments, output files and the end of a run; the discriminator's states are saved
    in ``reward_model/ckpt/``.

    Args:
        expert_cfg: Config of the expert, like ``input_cfg``.
        collect_data: Whether the expert plays; ``False`` uses existing data, as does a resumed run.
    """

    def prepare(cfg: EasyDict) -> None:
        rewards = cfg.reward_model
        rewards.data_path = rewards.get("data_path") or cfg.exp_name
        path = os.path.join(rewards.data_path, "expert_data.pkl")
        # A resumed run keeps its original demonstrations.
        resumes = cfg.policy.learn.get("resume_training", False)
        if collect_data and not (resumes and os.path.isfile(path)):
            main, create = load_input(expert_cfg)
            main.exp_name = os.path.join(cfg.exp_name, "expert")
            weights = main.policy.get("load_path") or rewards.get("expert_model_path")
            collect_demo_data((main, create), seed, rewards.collect_count, path, state_dict_path=weights)

    expert_option = () if not isinstance(expert_cfg, str) else ("--expert-config", expert_cfg)
    arguments = RunArguments(
        input_cfg, seed, None, model, max_train_iter, max_env_step, view=view, strict=strict, callbacks=callbacks
    )
    return run_with_reward_model(arguments, on_policy=False, mode="serial_gail", options=expert_option, before=prepare)


def save_reward_model(path: str, reward_model: BaseRewardModel, weights_name: str = "best") -> str:
    """Write the model's state to ``<path>/reward_model/ckpt/ckpt_<weights_name>.pth.tar``; return the path."""
    return reward_model.save(path, weights_name)


@called_as(learning)
def serial_pipeline_ngu(arguments: RunArguments) -> Policy:
    """Train NGU with its two novelty models, and return the policy.

    The sections ``rnd_reward_model`` (type ``rnd-ngu``) and ``episodic_reward_model`` (``episodic``) of the main config
    configure the models. They are trained on each collection; each sampled batch gets the sum of the env's and the
    intrinsic rewards. Evaluations report the env's rewards.

    See ``ding.entry.serial_entry.serial_pipeline`` for arguments, output files and the end of a run; the models' states
    are saved in ``reward_model/ckpt/``.
    """
    with opened_run(arguments, estimates_rewards=True) as run:
        cfg = run.cfg
        sections = [
            _reward_model_config(cfg, "rnd_reward_model", RndNGURewardModel),
            _reward_model_config(cfg, "episodic_reward_model", EpisodicNGURewardModel),
        ]
        with run.parts() as parts:
            rnd, episodic = (create_reward_model(section, *place_and_writer(parts)) for section in sections)
            rewards = NGURewardModels(rnd, episodic, cfg.policy.nstep, cfg.policy.collect.env_num)
            data = RewardModelPath(parts, run.interruptible, rewards, on_policy=False)
            run.train(parts, data, "serial_ngu")
            return parts.policy


def _reward_model_config(cfg: EasyDict, section: str, kind: type[BaseRewardModel]) -> EasyDict:
    """Return a section of the config, merged over the defaults of its model's class.

    Args:
        kind: Class of the model, or a base class of it.

    Raises:
        ConfigValueError: The section is missing, or its ``type`` has another class.
    """
    if not cfg.get(section):
        raise ConfigValueError(f"main_config.{section} is missing: it must be a dict with at least `obs_shape`")
    own = {"type": kind.config["type"], **cfg[section]}
    cls = get_reward_model_cls(own)
    if not issubclass(cls, kind):
        raise ConfigValueError(f"main_config.{section}.type: {own['type']!r} is no {kind.__name__}")
    return deep_merge_dicts(cls.default_config(), own)


# Another name used in configs.
serial_pipeline_reward_model_ngu = serial_pipeline_ngu
