"""``ding migrate``: scripts and configs that were written for DI-engine 0.5, made ready for this package.

Files are read as syntax trees and never run. Each part looks for one kind of thing and notes in the
:class:`~ding.entry.migrate.script.Script` what to replace, what is left for the user, and which numbers change;
the text between what is replaced stays as it is, with its comments and its formatting.
"""
