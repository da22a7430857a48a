"""Agents: an algorithm on an env in one line, ``DQNAgent("CartPole-v1").train(step=20000)``."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
