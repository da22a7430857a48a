from ding.data.level_replay.level_sampler import LevelSampler as LevelSampler
from ding.data.level_replay.level_sampler import generate_seeds as generate_seeds
