"""Distortions of quantile fractions for risk-sensitive policies (Dabney et al. 2018, arXiv:1806.06923, section 3.2).

Each maps fractions in [0, 1], a tensor of any shape or a float, to fractions.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

_Fraction = TypeVar("_Fraction", float, torch.Tensor)


def uniform(x: _Fraction) -> _Fraction:
    """Risk-neutral: no distortion."""
    return x


def cpw(x: _Fraction, eta: float = 0.71) -> _Fraction:
    """Cumulative prospect theory: both tails are over-weighted (Tversky and Kahneman 1992)."""
    fraction: _Fraction = (x**eta) / ((x**eta + (1 - x) ** eta) ** (1 / eta))
    return fraction


def CVaR(x: _Fraction, eta: float = 0.71) -> _Fraction:
    """Conditional value at risk: only the worst share ``eta`` of the outcomes counts."""
    return x * eta


def Pow(x: _Fraction, eta: float = 0.0) -> _Fraction:
    """Power law: risk-averse for a negative ``eta``, risk-seeking for a positive one."""
    exponent = 1 / (1 + abs(eta))
    fraction: _Fraction = x**exponent if eta >= 0 else 1 - (1 - x) ** exponent
    return fraction


beta_function_map: dict[str, Callable[..., Any]] = {"uniform": uniform, "CPW": cpw, "CVaR": CVaR, "Pow": Pow}
