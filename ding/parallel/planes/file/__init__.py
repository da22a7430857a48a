"""Planes in shared folders; on a single machine, memory-backed folders are best."""
