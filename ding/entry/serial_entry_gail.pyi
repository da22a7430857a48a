from ding.entry.pipelines.reward_model import *
