"""Configs that agents start from, by algorithm: ``ding.config.example.DQN.supported_env_cfg["LunarLander-v3"]``.

They are tuned, and no copies of the files in ``configs/``: those keep the numbers of DI-engine's configs, with which
they are compared, and are written out to be copied and edited. On Pendulum-v1, for example, SAC, TD3 and DDPG make one
update per env step here, and one per 10 to 24 steps there.
"""
