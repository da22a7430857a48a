"""Form of a reward as returned by an env, as one byte next to its value in shared memory."""

from typing import Any

import numpy as np

_TYPES: tuple[Any, ...] = (
    float, int, bool, np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_
)  # fmt: skip
_CODES = {kind: code for code, kind in enumerate(_TYPES, 1)}
_NUMBER, _CELL, _VECTOR, _LIST = (len(_TYPES) * i for i in range(4))

AS_COLUMN = 0
"""A row of the column: float32 ``(1,)``, or several numbers."""


def reward_code(reward: object) -> int:
    """Return the code of a form: a Python or NumPy number, an array ``()`` or ``(1,)``, or a list of a number."""
    code = _CODES.get(type(reward))
    if code is not None:
        return code
    if isinstance(reward, np.ndarray) and reward.size == 1 and reward.ndim < 2:
        code = _CODES.get(reward.dtype.type)
        is_column = code is None or (reward.ndim == 1 and reward.dtype == np.float32)
        return AS_COLUMN if code is None or is_column else code + (_VECTOR if reward.ndim else _CELL)
    if isinstance(reward, list) and len(reward) == 1:
        code = _CODES.get(type(reward[0]))
        return AS_COLUMN if code is None else code + _LIST
    return AS_COLUMN


def coded_reward(value: float, code: int) -> float | np.ndarray | list[float]:
    """Return the reward of a value and a code other than ``AS_COLUMN``."""
    form, position = divmod(code - 1, len(_TYPES))
    number: float = _TYPES[position](value)
    if form == 0:
        return number
    return [number] if form == 3 else np.array([number] if form == 2 else number)
