"""Planes in folders that processes share, best memory-backed ones on a single machine."""
