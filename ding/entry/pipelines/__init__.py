"""The pipelines of the serial mode by what they learn from, beside ``ding.entry.serial_entry.serial_pipeline``.

Scripts import them from ``ding.entry``, or by the names of DI-engine's modules, such as
``ding.entry.serial_entry_bc``: ``ding.utils.original_names`` leads here from those names, for type checkers a stub of
one line.
"""
