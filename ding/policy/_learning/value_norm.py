"""Values in units of the returns' standard deviation, as the PPO family learns them."""

from typing import Any

import torch

from ding.data.roles import StateDict
from ding.policy._acting.stochastic import StochasticPolicy
from ding.policy._learning.distributed import gather_rows
from ding.utils import RunningMeanStd


class ValueNormPolicy(StochasticPolicy):
    """A policy with a critic whose values are, with ``learn.value_norm``, divided by the running standard deviation of
    the returns.

    The statistics are part of the learn state. A policy that only collects has none and takes 1.
    """

    _running_mean_std: RunningMeanStd | None = None

    def _init_value_norm(self) -> None:
        self._running_mean_std = RunningMeanStd(epsilon=1e-4) if self._cfg.learn.value_norm else None

    @property
    def _value_scale(self) -> float:
        return 1.0 if self._running_mean_std is None else self._running_mean_std.std

    def _in_unit(self, returns: torch.Tensor, spread: RunningMeanStd | None) -> torch.Tensor:
        """Returns divided by the standard deviation of all until now, these included; ``spread`` learns from them.

        The next values are multiplied by the same number. DI-engine divides by the deviation before it, and
        multiplies by the one after it: where returns hang on the values behind them (episodes that only a time limit
        ends), each growth of the deviation makes the values, and by them the deviation, grow without end.
        """
        if spread is None:
            return returns
        before = spread.std
        spread.update(gather_rows(returns) if self._multi_gpu else returns)
        output: torch.Tensor = returns / (before if self._reference_numerics else spread.std)
        return output

    def _extra_learn_state(self) -> dict[str, Any]:
        """What the learn state has beside network and optimiser; one of DI-engine lacks it."""
        return {} if self._running_mean_std is None else {"value_norm": self._running_mean_std}

    def _state_dict_learn(self) -> StateDict:
        extra = {key: part.state_dict() for key, part in self._extra_learn_state().items()}
        return {**super()._state_dict_learn(), **extra}

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        extra = self._extra_learn_state()
        super()._load_state_dict_learn({key: value for key, value in state_dict.items() if key not in extra})
        for key, part in extra.items():
            if key in state_dict:
                part.load_state_dict(state_dict[key])
