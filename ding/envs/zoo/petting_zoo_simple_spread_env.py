"""``simple_spread`` under the module name of DI-engine's zoo."""

from ding.envs.zoo.petting_zoo_env import PettingZooEnv as PettingZooEnv
