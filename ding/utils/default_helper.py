"""Names that scripts import from here, as in DI-engine; each is defined in a module of its own topic.

Do not add names here: define new ones in the module of their topic and import them from there.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
