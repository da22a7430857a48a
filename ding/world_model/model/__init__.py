"""Networks of the world models."""
