"""``ding migrate``: adapts scripts and configs for DI-engine 0.5 to this package.

Files are parsed to syntax trees and never run. Each module handles one topic and records replacements, remaining work
and changed numbers in the :class:`~ding.entry.migrate.script.Script`; all other text keeps its comments and formatting.
"""
