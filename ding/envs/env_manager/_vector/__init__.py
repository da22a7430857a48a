"""How vector envs are made, ended and read, for the env managers around them."""
