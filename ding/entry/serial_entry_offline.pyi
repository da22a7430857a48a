from ding.entry.pipelines.offline import *
