"""DI-engine's worker library, re-implemented so that data stays in columns from the environment to the loss."""

__TITLE__ = "ding"
__VERSION__ = "0.1.0"
__DESCRIPTION__ = "Reinforcement-learning workers, policies and pipelines with a column-based data plane"
__AUTHOR__ = "The ding founders"
__version__ = "0.1.0"
