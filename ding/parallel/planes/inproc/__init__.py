"""Planes in the memory of one process, for tests, debugging and notebooks."""
