from ding.entry.pipelines.procedure import *
