"""Shared implementation of all agents: env, config and training."""
