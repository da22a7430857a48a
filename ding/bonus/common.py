"""What agents return, and what they raise.

Exceptions::

    AgentError
    |-- AgentConfigError (AssertionError)           arguments that contradict each other, or an env that does not fit
    |-- ExperimentNotFoundError (FileNotFoundError)  no folder of an experiment, or none with what is needed
    `-- CheckpointError (ValueError)                a checkpoint of something else

The built-in base beside a class is what DI-engine raises in the same place.
"""

from dataclasses import dataclass

import numpy as np

from ding.utils.errors import UserMistake


@dataclass
class TrainingReturn:
    """What ``train`` returns.

    Attributes:
        wandb_url: page of the run at Weights & Biases; empty without it.
    """

    wandb_url: str


@dataclass
class EvalReturn:
    """What ``deploy`` and ``batch_evaluate`` return.

    Attributes:
        eval_value: mean return of the episodes.
        eval_value_std: standard deviation of the returns.
    """

    eval_value: np.float32
    eval_value_std: np.float32


class AgentError(UserMistake):
    """Base of what an agent raises; the message is one sentence."""


class AgentConfigError(AgentError, AssertionError):
    """Arguments that contradict each other, or an env whose spaces do not fit the algorithm."""


class ExperimentNotFoundError(AgentError, FileNotFoundError):
    """There is no folder of an experiment, or it lacks its config or its checkpoints."""


class CheckpointError(AgentError, ValueError):
    """A checkpoint of another algorithm, of another network, or a broken file."""
