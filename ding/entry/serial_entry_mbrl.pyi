from ding.entry.pipelines.world_model import *
