"""Models of what an env does: its steps (world models), and the actions between observations."""

from ding.utils import WORLD_MODEL_REGISTRY
from ding.utils.exports import lazy_exports, register_lazily

_TYPES = {
    "ddppo": "ddppo:DDPPOWorldMode",
    "dreamer": "dreamer:DREAMERWorldModel",
    "mbpo": "mbpo:MBPOWorldModel",
}
for _alias, _target in _TYPES.items():
    register_lazily(WORLD_MODEL_REGISTRY, _alias, f"{__name__}.{_target}")

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, absent=r"[A-Z]|create_|get_")
