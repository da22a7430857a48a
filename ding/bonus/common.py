"""Return types and exceptions of agents.

Exceptions::

    AgentError
    |-- AgentConfigError (AssertionError)           contradictory arguments, or an env that does not fit
    |-- ExperimentNotFoundError (FileNotFoundError)  missing experiment folder, or one without the required files
    `-- CheckpointError (ValueError)                checkpoint of another algorithm or network

    The built-in base class is the one that DI-engine raises in the same place.
"""

from dataclasses import dataclass

import numpy as np

from ding.utils.errors import UserMistake


@dataclass
class TrainingReturn:
    """Result of ``train``.

    Attributes:
        wandb_url: Page of the run at Weights & Biases; empty without it.
    """

    wandb_url: str


@dataclass
class EvalReturn:
    """Result of ``deploy`` and ``batch_evaluate``.

    Attributes:
        eval_value: Mean return of the episodes.
        eval_value_std: Standard deviation of the returns.
    """

    eval_value: np.float32
    eval_value_std: np.float32


class AgentError(UserMistake):
    """Base class of agent errors; the message is one sentence."""


class AgentConfigError(AgentError, AssertionError):
    """Arguments contradict each other, or the spaces of the env do not fit the algorithm."""


class ExperimentNotFoundError(AgentError, FileNotFoundError):
    """The experiment folder does not exist, or lacks its config or its checkpoints."""


class CheckpointError(AgentError, ValueError):
    """The checkpoint belongs to another algorithm or network, or the file is broken."""
