"""Benchmarks: the project beside its peers, in one run. ``python -m benchmarks --help``."""
