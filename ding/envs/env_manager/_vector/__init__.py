"""Construction, closing and reading of vector envs for the env managers."""
