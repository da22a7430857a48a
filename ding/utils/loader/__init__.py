"""Composable checks and conversions: ``Loader(x)(value)`` returns the value, or raises.

A loader takes a value and returns it, possibly converted, or raises an error::

    port = is_type(int) & interval(1, 65535)             # both must pass; the result is that of the last
    address = is_type(str) | (None >> raw("localhost"))  # the first that passes
    server = dict_(host=item("host") >> address, port=item_or("port", 80) >> port)
    server({"host": None})                               # {'host': 'localhost', 'port': 80}

:mod:`~ding.utils.loader.base` documents how :func:`Loader` converts types, functions, tuples and constants.
:mod:`~ding.utils.loader.norm` writes conditions and conversions as expressions of the value.
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
