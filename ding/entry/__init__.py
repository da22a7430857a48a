"""Pipelines and the command line (floor 9). Dependencies of a pipeline are imported on first use."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, absent=r"serial_pipeline|collect_|trex_|episode_to_")
