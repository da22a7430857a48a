"""Functions without a handwritten config: train a policy on an env, generate a config file, export a policy."""
