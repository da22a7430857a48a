"""Default configs of agents by algorithm: ``ding.config.example.DQN.supported_env_cfg["LunarLander-v3"]``.

They are tuned, unlike the files in ``configs/``, which keep DI-engine's values for comparison and are written out to be
copied and edited. On Pendulum-v1, for example, SAC, TD3 and DDPG make one update per env step here, and one per 10 to
24 env steps there.
"""
