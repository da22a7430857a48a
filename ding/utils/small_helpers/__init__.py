"""Functions and classes that scripts for DI-engine import from modules where nothing here needs them.

``original_names.json`` names the module under which each is imported. No module of the package uses them.
"""
