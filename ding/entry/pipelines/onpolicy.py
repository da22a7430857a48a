"""Pipelines without a replay buffer: each pass trains on what it collected, and keeps none of it."""

from dataclasses import replace

from ding.data.level_replay import generate_seeds as generate_seeds
from ding.entry.serial.arguments import RunArguments, called_as, learning
from ding.entry.serial.level_path import LevelReplayPath
from ding.entry.serial.loop import OnPolicyPath
from ding.entry.serial_entry import opened_run, run_pipeline
from ding.policy import Policy


@called_as(learning)
def serial_pipeline_onpolicy(arguments: RunArguments) -> Policy:
    """Train an on-policy algorithm and return its policy: each pass trains on what it collected, and forgets it.

    Arguments, what a run leaves behind, and how it ends are those of ``ding.entry.serial_entry.serial_pipeline``.
    """
    return run_pipeline(OnPolicyPath, arguments)


@called_as(learning)
def serial_pipeline_onpolicy_ppg(arguments: RunArguments) -> Policy:
    """Train PPG (``ppg``) and return its policy: each pass trains on what it collected.

    Arguments, what a run leaves behind, and how it ends are those of ``ding.entry.serial_entry.serial_pipeline``. The
    collector's envs begin each episode from their first seeds, and evaluation takes the most likely actions.
    """
    arguments = replace(arguments, dynamic_seed=False)
    return run_pipeline(OnPolicyPath, arguments)


@called_as(learning)
def serial_pipeline_plr(arguments: RunArguments) -> Policy:
    """Train an on-policy algorithm on levels that come back while there is much to learn in them; return its policy.

    A level is what a procedurally generated env makes of one seed, which each of its episodes begins from. Training has
    the seeds 0 to ``level_replay.num_levels``; ``level_replay`` also has the settings of
    ``ding.data.level_replay.LevelSampler``. Evaluations play other levels, the same
    ones each time, with the most likely actions.

    Other arguments, what a run leaves behind, and how it ends are those of ``ding.entry.serial_entry.serial_pipeline``.
    """
    arguments = replace(arguments, dynamic_seed=False)
    with opened_run(arguments) as run, run.parts(with_buffer=False) as parts:
        run.train(parts, LevelReplayPath(parts, run.interruptible), "serial_plr")
        return parts.policy
