from ding.entry.pipelines.expert import *
