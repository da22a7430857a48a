"""Env types by the names that DI-engine's zoo gives them: one module per type, which registers it when it is imported.

A config names the module in ``create_config.env.import_names``, as ``ding.envs.zoo.cartpole_env``. The module of the
zoo itself (``dizoo.classic_control.cartpole.envs.cartpole_env``) gives the same where ``dizoo`` is not installed.
"""
