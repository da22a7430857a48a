"""Small envs that ship with the library; a config names the module of one in ``env.import_names``."""
