"""`serial_pipeline_ngu`: recurrent off-policy training with rewards for what is new in life and in the episode."""

from collections.abc import Sequence
from typing import Any

import torch
from easydict import EasyDict

from ding.config import ConfigValueError
from ding.entry.callbacks import RunCallback
from ding.entry.serial.parts import EnvSetting, SerialParts, serial_parts
from ding.entry.serial.reward_path import RewardModelPath, place_and_writer
from ding.entry.serial_entry import InputConfig, opened_run
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


def serial_pipeline_ngu(
    input_cfg: InputConfig,
    seed: int = 0,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
) -> Policy:
    """Train NGU with its two models of what is new, and return the policy.

    Sections ``rnd_reward_model`` (type ``rnd-ngu``) and ``episodic_reward_model`` (``episodic``) of the main config
    configure the models. They learn from each collection; each batch that is drawn gets the sum of the rewards of the
    env and the intrinsic ones. Evaluations report the env's rewards.

    Arguments, what a run leaves behind, and how it ends are those of `ding.entry.serial_entry.serial_pipeline`; the
    models' states are in ``reward_model/ckpt/``.
    """
    with opened_run(input_cfg, seed, env_setting, view, strict, callbacks) as run:
        cfg = run.cfg
        with serial_parts(cfg, env_setting, model) as parts:
            rnd = _reward_model(cfg, "rnd_reward_model", RndNGURewardModel, parts)
            episodic = _reward_model(cfg, "episodic_reward_model", EpisodicNGURewardModel, parts)
            rewards = NGURewardModels(rnd, episodic, cfg.policy.nstep, cfg.policy.collect.env_num)
            data = RewardModelPath(parts, run.signals.interruptible, rewards, on_policy=False)
            run.train(parts, data, max_train_iter, max_env_step, "serial_ngu")
            return parts.policy


def _reward_model(cfg: EasyDict, section: str, kind: type[BaseRewardModel], parts: SerialParts) -> Any:
    """The model of a section of the config, over the defaults of its class.

    Args:
        kind: The class of the model, or a parent of it.

    Raises:
        ConfigValueError: There is no such section, or its ``type`` is of another kind.
    """
    if not cfg.get(section):
        raise ConfigValueError(f"main_config.{section} is missing: it must be a dict with at least `obs_shape`")
    own = {"type": kind.config["type"], **cfg[section]}
    cls = get_reward_model_cls(own)
    if not issubclass(cls, kind):
        raise ConfigValueError(f"main_config.{section}.type: {own['type']!r} is no {kind.__name__}")
    return create_reward_model(deep_merge_dicts(cls.default_config(), own), *place_and_writer(parts))


# Another name by which configs call it.
serial_pipeline_reward_model_ngu = serial_pipeline_ngu
