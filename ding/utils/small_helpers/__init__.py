"""Functions and classes for DI-engine scripts that no module of this package uses.

``original_names.json`` names the module under which each is imported.
"""
