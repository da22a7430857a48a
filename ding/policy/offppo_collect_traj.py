"""PPO that collects the trajectories of an expert."""

from typing import Any

from ding.data import EnvBatch, batched
from ding.data.roles import Samples
from ding.policy.dqfd import with_one_step
from ding.policy.ppo import PPOOffPolicy
from ding.rl_utils import get_nstep_return_data, get_train_sample
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("offppo_collect_traj")
class OffPPOCollectTrajPolicy(PPOOffPolicy):
    """PPO that takes the most likely actions when it collects, and whose samples are n-step returns with
    ``done_one_step``, the ``done`` of each step itself. It learns as PPO with a replay buffer does.
    """

    config = {
        "type": "offppo_collect_traj",
        "on_policy": True,
        "learn": {"value_norm": False, "ppo_param_init": False, "grad_clip_type": None, "grad_clip_value": None},
    }
    output_fields = ("action",)
    keeps_next_obs = False

    def _samplers(self) -> tuple[str, str]:
        greedy = super()._samplers()[1]
        return greedy, greedy

    @batched
    def _forward_collect(self, data: EnvBatch, **kwargs: Any) -> EnvBatch:  # type: ignore[override]
        """The most likely actions; arguments such as ``eps`` are ignored."""
        return super()._forward_collect(data)

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """The transitions of segments as n-step data, in sequences of ``collect.unroll_len`` steps."""
        gamma = self._cfg.collect.discount_factor
        marked = with_one_step(transitions, done="done_one_step")
        steps = get_nstep_return_data(marked, self._cfg.nstep, gamma=gamma, reference_tail=self._reference_numerics)
        return get_train_sample(steps, self._unroll_len)
