from ding.envs.env import BaseEnv as BaseEnv
from ding.envs.env import BaseEnvTimestep as BaseEnvTimestep
from ding.envs.env import DingEnvWrapper as DingEnvWrapper
from ding.envs.env import create_model_env as create_model_env
from ding.envs.env import get_default_wrappers as get_default_wrappers
from ding.envs.env import get_env_cls as get_env_cls
from ding.envs.env import get_vec_env_setting as get_vec_env_setting
from ding.envs.env_manager import *
from ding.envs.env_wrappers import *
