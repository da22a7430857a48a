"""Configs that agents start from, by algorithm: ``ding.config.example.DQN.supported_env_cfg["LunarLander-v3"]``."""
