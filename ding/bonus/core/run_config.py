"""Config of one training or evaluation of an agent."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from easydict import EasyDict

from ding.config.resolve import class_of, defaults_of
from ding.envs import BaseEnv


def manager_section(
    own: EasyDict, written: Mapping[str, Any], env: BaseEnv, context: str | None, debug: bool
) -> EasyDict:
    """Return the section ``env.manager``: envs in this process, or in separate processes with ``context`` or for
    images.

    Args:
        own: Section of the agent's compiled config.
        written: Section of the user's config.
        env: One of the envs.
        context: Start method of the processes.
        debug: Always run the envs in this process.
    """
    images = len(getattr(env.observation_space, "shape", None) or ()) == 3
    if own.type != "base" or debug or not (context or images):
        return own
    section = {"type": "subprocess"} if context is None else {"type": "subprocess", "context": context}
    defaults = defaults_of(class_of("env_manager", section, "env.manager"), "env.manager")
    return EasyDict({**defaults, **written, **section})


def run_config(
    cfg: EasyDict, numbers: Mapping[str, int | None], manager: EasyDict, hooks: Mapping[str, int], continues: bool
) -> EasyDict:
    """Return the main config of one training.

    Args:
        cfg: Compiled config of the agent; not modified.
        numbers: Further keys of the section ``env``; ``None`` keeps the value of the config.
        manager: Section ``env.manager``.
        hooks: Keys of ``policy.learn.learner.hook``.
        continues: Whether the agent was trained before, so that nothing is loaded and the folder is kept.
    """
    main = deepcopy(cfg)
    main.env.update({key: number for key, number in numbers.items() if number is not None}, manager=manager)
    learn = main.policy.learn
    learn.learner.hook.update(hooks)
    if continues:
        learn.resume_training, learn.learner.hook.load_ckpt_before_run = True, ""
    return main
