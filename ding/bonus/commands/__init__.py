"""The commands of ``ding`` that make agents, one module each; ``ding.entry.cli`` imports a module when its command
runs.

They are not in :mod:`ding.entry.commands`, because agents are one floor above the pipelines that those call.
"""
