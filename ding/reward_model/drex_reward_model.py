"""D-REX: rewards extrapolated from one demonstrator, ranked by noise (Brown et al. 2019, arXiv:1907.03976)."""

from typing import Any, ClassVar

from ding.reward_model.trex_reward_model import TrexRewardModel
from ding.utils import REWARD_MODEL_REGISTRY


@REWARD_MODEL_REGISTRY.register("drex")
class DrexRewardModel(TrexRewardModel):
    """T-REX on demonstrations of a behaviour clone, collected by ``drex_collecting_data``: trajectories with less
    action noise rank higher.

    Args:
        config: As for :class:`TrexRewardModel`, with ``offline_data_path``, the transitions of the demonstrator.
    """

    config: ClassVar[dict[str, Any]] = {
        **TrexRewardModel.config,
        "type": "drex",
        "batch_size": 64,
        # (int) Accepted for DI-engine configs: the network is that of T-REX.
        "hidden_size": 128,
        # (int) Number of updates of the clone.
        "bc_iterations": 2000,
        # (list) Noise levels at which the clone plays.
        "eps_list": [1.0, 0.75, 0.5, 0.25, 0.0],
        # (int) Episodes of the clone per noise level.
        "num_trajs_per_bin": 5,
    }
    #: Accepted for compatibility with DI-engine.
    bc_cfg: ClassVar[None] = None
