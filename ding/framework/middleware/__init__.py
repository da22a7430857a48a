"""The steps of a task: collecting, data on its way, training, evaluation, logs, exchange between processes."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
