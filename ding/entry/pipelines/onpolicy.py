"""Pipelines without a replay buffer: each pass trains on the samples it collected, and discards them."""

from dataclasses import replace

from ding.data.level_replay import generate_seeds as generate_seeds
from ding.entry.serial.arguments import RunArguments, called_as, learning
from ding.entry.serial.level_path import LevelReplayPath
from ding.entry.serial.loop import OnPolicyPath
from ding.entry.serial_entry import opened_run, run_pipeline
from ding.policy import Policy


@called_as(learning)
def serial_pipeline_onpolicy(arguments: RunArguments) -> Policy:
    """Train an on-policy algorithm and return its policy: each pass trains on the samples it collected, and discards
    them.

    See ``ding.entry.serial_entry.serial_pipeline`` for arguments, output files and the end of a run.
    """
    return run_pipeline(OnPolicyPath, arguments)


@called_as(learning)
def serial_pipeline_onpolicy_ppg(arguments: RunArguments) -> Policy:
    """Train PPG (``ppg``) and return its policy: each pass trains on the samples it collected.

    See ``ding.entry.serial_entry.serial_pipeline`` for arguments, output files and the end of a run. The collector's
    envs start each episode from their first seeds, and evaluation selects the most likely actions.
    """
    arguments = replace(arguments, dynamic_seed=False)
    return run_pipeline(OnPolicyPath, arguments)


@called_as(learning)
def serial_pipeline_plr(arguments: RunArguments) -> Policy:
    """Train an on-policy algorithm on replayed levels with a high learning potential; return its policy.

    A level is the result of one seed in a procedurally generated env; each of its episodes starts from that seed.
    Training uses the seeds 0 to ``level_replay.num_levels``; ``level_replay`` also has the settings of
    ``ding.data.level_replay.LevelSampler``. Evaluations play other levels, always the same ones, with the most likely
    actions.

    See ``ding.entry.serial_entry.serial_pipeline`` for other arguments, output files and the end of a run.
    """
    arguments = replace(arguments, dynamic_seed=False)
    with opened_run(arguments) as run, run.parts(with_buffer=False) as parts:
        run.train(parts, LevelReplayPath(parts, run.interruptible), "serial_plr")
        return parts.policy
