"""The collect mode of policies that learn from data sets alone."""

from typing import Any, NoReturn

from ding.model import model_wrap
from ding.policy.base_policy import Policy
from ding.policy.errors import PolicyUsageError


class OfflinePolicy(Policy):
    """A policy that learns from a data set. Its collect mode has settings and weights, but collects nothing.

    Raises:
        PolicyUsageError: a collector makes a step.
    """

    def _init_collect(self) -> None:
        self._collect_model = model_wrap(self._model, wrapper_name="base")
        self._unroll_len = 1  # a collector asks for it before its first step, which raises

    def _forward_collect(self, data: Any, **kwargs: Any) -> NoReturn:
        self._refuse()

    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> NoReturn:
        self._refuse()

    def _get_train_sample(self, transitions: Any) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise PolicyUsageError(
            f"{type(self).__name__} learns from a data set (serial_pipeline_offline, ding -m serial_offline) and does "
            "not collect"
        )
