"""D-REX: rewards extrapolated from one demonstrator, ranked by noise (Brown et al. 2019, arXiv:1907.03976)."""

from typing import Any, ClassVar

from ding.reward_model.trex_reward_model import TrexRewardModel
from ding.utils import REWARD_MODEL_REGISTRY


@REWARD_MODEL_REGISTRY.register("drex")
class DrexRewardModel(TrexRewardModel):
    """T-REX whose demonstrations, those of ``drex_collecting_data``, are a clone's: the less noise it acts under, the
    more its trajectories are worth.

    Args:
        config: as for :class:`TrexRewardModel`, with ``offline_data_path``, the transitions of the demonstrator.
    """

    config: ClassVar[dict[str, Any]] = {
        **TrexRewardModel.config,
        "type": "drex",
        "batch_size": 64,
        # (int) Kept for configs of DI-engine: the network is that of T-REX.
        "hidden_size": 128,
        # (int) Updates of the clone.
        "bc_iterations": 2000,
        # (list) The noises under which the clone plays.
        "eps_list": [1.0, 0.75, 0.5, 0.25, 0.0],
        # (int) Its episodes for each noise.
        "num_trajs_per_bin": 5,
    }
    #: Kept for callers of DI-engine.
    bc_cfg: ClassVar[None] = None
