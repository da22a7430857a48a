"""The config of one training, or of one evaluation, of an agent, from its own."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from easydict import EasyDict

from ding.config.resolve import class_of, defaults_of
from ding.envs import BaseEnv


def manager_section(
    own: EasyDict, written: Mapping[str, Any], env: BaseEnv, context: str | None, debug: bool
) -> EasyDict:
    """Return the section ``env.manager``: envs in this process, or in processes of their own with ``context`` and for
    envs that show images.

    Args:
        own: that of the agent's compiled config.
        written: what the user wrote of it.
        env: one of the envs.
        context: start method of the processes.
        debug: envs in this process in any case.
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
        cfg: the agent's compiled config; not changed.
        numbers: further keys of the section ``env``; those of the config where they are ``None``.
        manager: the section ``env.manager``.
        hooks: keys of ``policy.learn.learner.hook``.
        continues: whether the agent was trained before, so that nothing is loaded and the folder is the same.
    """
    main = deepcopy(cfg)
    main.env.update({key: number for key, number in numbers.items() if number is not None}, manager=manager)
    learn = main.policy.learn
    learn.learner.hook.update(hooks)
    if continues:
        learn.resume_training, learn.learner.hook.load_ckpt_before_run = True, ""
    return main
