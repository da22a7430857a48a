"""Config keys varied by a sweep, in their command line form."""

from dataclasses import dataclass
from typing import Any

from ding.config import ConfigValueError
from ding.config.checks.ranges import is_number
from ding.config.overrides import literal, parsed

_FORMS = "KEY=LOW:HIGH, KEY=log:LOW:HIGH or KEY=A,B,C"


@dataclass(frozen=True)
class Parameter:
    """Key with its allowed values: one of ``choices``, or a number from ``low`` to ``high`` (an int if both are)."""

    key: str
    low: Any = None
    high: Any = None
    log: bool = False
    choices: tuple[Any, ...] = ()

    def suggest(self, trial: Any) -> object:
        """Let an Optuna trial choose a value."""
        if self.choices:
            return trial.suggest_categorical(self.key, self.choices)
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(self.key, self.low, self.high, log=self.log)
        return trial.suggest_float(self.key, self.low, self.high, log=self.log)

    @property
    def first(self) -> object:
        """Return one of the allowed values."""
        return self.choices[0] if self.choices else self.low


def parse_parameter(text: str) -> Parameter:
    """Parse ``KEY=LOW:HIGH`` (integers if both are), ``KEY=log:LOW:HIGH`` or ``KEY=A,B,C``.

    Raises:
        ConfigValueError: The text has another form, or the bounds contradict each other.
    """
    if "=" not in text:
        raise ConfigValueError(f"--param {text}: expected {_FORMS}")
    key, _ = parsed(text)
    values = text.partition("=")[2].strip()
    if ":" not in values:
        choices = tuple(literal(one.strip()) for one in values.split(","))
        if len(choices) < 2:
            raise ConfigValueError(f"--param {text}: expected {_FORMS}")
        return Parameter(key, choices=choices)
    *log, low, high = values.split(":")
    bounds = literal(low), literal(high)
    if log not in ([], ["log"]) or not all(is_number(one) for one in bounds):
        raise ConfigValueError(f"--param {text}: expected {_FORMS}")
    if not bounds[0] < bounds[1] or (log and bounds[0] <= 0):
        raise ConfigValueError(f"--param {text}: the bounds must rise" + (" from above 0" if log else ""))
    return Parameter(key, *bounds, log=bool(log))
