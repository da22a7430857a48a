"""The commands of ``ding``, one module each, and its modes (``modes``); ``ding.entry.cli`` imports a module
when its command runs.

Those that make agents are in :mod:`ding.bonus.commands`, one floor above: this package imports nothing of it.
"""
