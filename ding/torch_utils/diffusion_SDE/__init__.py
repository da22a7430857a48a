"""Samplers of diffusion models in continuous time."""
