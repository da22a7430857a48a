"""Pipelines with a world model, trained on the collected transitions."""

from __future__ import annotations

import atexit
from typing import Any

import torch

from ding.config import compile_config
from ding.config.sections import dig
from ding.entry.pipelines.imagination_path import DreamerPath, DreamPath, DynaPath, sequence_model_of, world_model_of
from ding.entry.pipelines.imagination_path import create_img_buffer as create_img_buffer
from ding.entry.serial.arguments import InputConfig, RunArguments, called_as, learning
from ding.entry.serial.parts import EnvSetting, env_class, serial_parts
from ding.entry.serial_entry import load_input, opened_run
from ding.policy import Policy
from ding.world_model import DreamWorldModel, DynaWorldModel, WorldModel


@called_as(learning)
def serial_pipeline_dyna(arguments: RunArguments) -> Policy:
    """Train an off-policy algorithm on real and imagined transitions, as in MBPO, and return its policy.

    ``create_config.world_model`` names the model (``mbpo``, ``ddppo``), the section ``world_model`` of the main config
    configures it, and ``create_config.imagination_buffer`` names the buffer of imagined transitions, by default
    ``elastic``. The model is trained on all real transitions every ``world_model.train_freq`` env steps; the policy
    then acts in it from ``world_model.other.rollout_batch_size`` real states. A fraction
    ``world_model.other.real_ratio`` of each batch is real. ``policy.eval.evaluator.eval_freq`` counts env steps.

    See ``ding.entry.serial_entry.serial_pipeline`` for other arguments, output files and the end of a run.
    """
    with opened_run(arguments) as run, run.parts() as parts:
        model = world_model_of(parts, arguments.env_setting, DynaWorldModel)
        buffer = create_img_buffer(run.cfg, load_input(arguments.input_cfg), model, parts.learner.tb_logger)
        try:
            run.train(parts, DynaPath(parts, run.interruptible, model, buffer), "serial_dyna")
        finally:
            buffer.close()
        return parts.policy


@called_as(learning)
def serial_pipeline_dream(arguments: RunArguments) -> Policy:
    """Train a policy through a world model (``mbsac``, ``stevesac``), and return the policy.

    ``create_config.world_model`` names the model (``mbpo``, ``ddppo``), and the section ``world_model`` of the main
    config configures it. It is trained on all transitions every ``world_model.train_freq`` env steps. A pass has
    ``policy.learn.update_per_collect`` updates, divided by the number of imagined steps.
    ``policy.eval.evaluator.eval_freq`` counts env steps.

    See ``ding.entry.serial_entry.serial_pipeline`` for other arguments, output files and the end of a run.
    """
    with opened_run(arguments) as run, run.parts() as parts:
        model = world_model_of(parts, arguments.env_setting, DreamWorldModel)
        run.train(parts, DreamPath(parts, run.interruptible, model), "serial_dream")
        return parts.policy


@called_as(learning)
def serial_pipeline_dreamer(arguments: RunArguments) -> Policy:
    """Train Dreamer, which learns and acts in the latent states of a world model, and return its policy.

    ``create_config.world_model`` names the model (``dreamer``), and the section ``world_model`` of the main config
    configures it. After ``policy.random_collect_size`` random steps, model and policy are trained
    ``world_model.pretrain`` times, then once every ``world_model.train_freq`` env steps, each time on
    ``policy.learn.batch_size`` sequences of ``policy.learn.batch_length`` steps. ``policy.eval.evaluator.eval_freq``
    counts env steps.

    See ``ding.entry.serial_entry.serial_pipeline`` for other arguments, output files and the end of a run.
    """
    with opened_run(arguments) as run, run.parts() as parts:
        model = sequence_model_of(parts, arguments.env_setting)
        run.train(parts, DreamerPath(parts, run.interruptible, model), "serial_dreamer")
        return parts.policy


def mbrl_entry_setup(
    input_cfg: InputConfig,
    seed: int = 0,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
) -> tuple[Any, ...]:
    """Create the workers of a run with a world model, for a custom loop.

    The pipelines do not use this function. The workers are closed at the end of the process.

    Returns:
        The compiled config, policy, world model, replay buffer, learner, collector, env manager of the collector,
        evaluator, commander and TensorBoard writer.
    """
    main, create = load_input(input_cfg, commanded=True)
    resumes = bool(dig(main, "policy", "learn").get("resume_training", False))
    env = env_class(env_setting)
    cfg = compile_config(main, seed=seed, env=env, auto=True, create_cfg=create, renew_dir=not resumes)
    context = serial_parts(cfg, env_setting, model)
    parts = context.__enter__()
    atexit.register(context.__exit__, None, None, None)
    world_model = world_model_of(parts, env_setting, WorldModel)
    workers = (parts.learner, parts.collector, parts.collector_env, parts.evaluator, parts.commander)
    return (cfg, parts.policy, world_model, parts.buffer, *workers, parts.learner.tb_logger)
