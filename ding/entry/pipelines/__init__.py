"""Pipelines of the serial mode other than ``ding.entry.serial_entry.serial_pipeline``, by their source of data.

Import them from ``ding.entry``, or from DI-engine's module names, such as ``ding.entry.serial_entry_bc``:
``ding.utils.original_names`` redirects these, and one-line stubs serve type checkers.
"""
