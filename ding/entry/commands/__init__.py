"""Commands of ``ding``, one module each, and its modes (``modes``); ``ding.entry.cli`` imports the module of a command
on demand.

Commands that create agents are in :mod:`ding.bonus.commands`, one floor above; this package imports nothing from there.
"""
