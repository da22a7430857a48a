from ding.envs.env import *
from ding.envs.env_manager import *
from ding.envs.env_wrappers import *
