"""Without a config by hand: from a policy and an env to a run, to a config file, and to a file that needs no ding."""
