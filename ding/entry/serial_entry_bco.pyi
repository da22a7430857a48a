from ding.entry.pipelines.cloning import *
