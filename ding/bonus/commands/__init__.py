"""Commands of ``ding`` that create agents, one module each; ``ding.entry.cli`` imports the module of a command on
demand.

They are not in :mod:`ding.entry.commands`, because agents are one floor above the pipelines that these call.
"""
