"""An env whose failing steps are done again, for configs that ask for what DI-engine does (``retry_step``)."""

import logging
import time
from collections.abc import Callable
from typing import Any

from ding.envs.env_manager._errors import ENV_FAULTS, raise_wish

logger = logging.getLogger(__name__)


class StepRetryEnv:
    """The env that ``env_fn`` makes; a ``step`` that raises is done again with the same action.

    Arguments:
        env_fn: makes the env.
        max_tries: how often a step is done at most; the last error is raised.
        waiting_time: seconds between two tries.
    """

    has_fast_step = False

    def __init__(self, env_fn: Callable[[], Any], max_tries: int, waiting_time: float) -> None:
        self.env = env_fn()
        self._max_tries, self._waiting_time = max_tries, waiting_time

    def step(self, action: object) -> Any:
        """``step`` of the env."""
        for attempt in range(1, self._max_tries):
            try:
                return self.env.step(action)
            except ENV_FAULTS as error:
                raise_wish(error)
                logger.warning("%s: try %d of %d of a step failed: %r", self.env, attempt, self._max_tries, error)
                time.sleep(self._waiting_time)
        return self.env.step(action)

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # not made yet
            raise AttributeError(name)
        return getattr(self.env, name)
