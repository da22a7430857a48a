from ding.entry.pipelines.guided_cost import *
