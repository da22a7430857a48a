"""Reward models: estimate the rewards of transitions, or relabel their goals."""

from ding.utils import REWARD_MODEL_REGISTRY
from ding.utils.exports import lazy_exports, register_lazily

_TYPES = {
    "drex": "drex_reward_model:DrexRewardModel",
    "episodic": "ngu_reward_model:EpisodicNGURewardModel",
    "gail": "gail_irl_model:GailRewardModel",
    "guided_cost": "guided_cost_reward_model:GuidedCostRewardModel",
    "icm": "icm_reward_model:ICMRewardModel",
    "pdeil": "pdeil_irl_model:PdeilRewardModel",
    "pwil": "pwil_irl_model:PwilRewardModel",
    "red": "red_irl_model:RedRewardModel",
    "rnd": "rnd_reward_model:RndRewardModel",
    "rnd-ngu": "ngu_reward_model:RndNGURewardModel",
    "trex": "trex_reward_model:TrexRewardModel",
}
for _alias, _target in _TYPES.items():
    register_lazily(REWARD_MODEL_REGISTRY, _alias, f"{__name__}.{_target}")

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__, absent=r"[A-Z]|create_|get_")
