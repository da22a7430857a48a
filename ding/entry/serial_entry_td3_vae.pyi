from ding.entry.pipelines.latent import *
