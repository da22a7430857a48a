from ding.entry.pipelines.onpolicy import *
