"""The env contract, env wrappers and env managers."""
