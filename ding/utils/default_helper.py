"""The names that scripts import from here, as DI-engine has them in this module; each lies in a module of its own job.

Nothing else is meant to be added: what is new goes to the module of its job, and is imported from there.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
