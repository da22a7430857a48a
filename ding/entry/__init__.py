"""Pipelines and the command line (floor 9). What a pipeline needs is imported when it is first used."""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, absent=r"serial_pipeline|collect_|trex_|episode_to_")
