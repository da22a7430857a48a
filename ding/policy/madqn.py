"""Multi-agent DQN with a cooperative critic, which sees more than the agents do."""

from typing import Any

from ding.data import batched
from ding.data.roles import Samples
from ding.policy._joint_q import JOINT_Q_CONFIG, JointQPolicy
from ding.policy._joint_q_loss import madqn_loss
from ding.policy._samples.segments import marked_real
from ding.policy.common_utils import read_out
from ding.rl_utils import get_nstep_return_data
from ding.utils import POLICY_REGISTRY, deep_merge_dicts


@POLICY_REGISTRY.register("madqn")
class MADQNPolicy(JointQPolicy):
    """Recurrent Q-learning of two joint values with n-step returns: that of the agents, who act by it, and a
    cooperative one, whose target network gives both their targets.

    ``global_state`` is ``[A, G]``, one per agent.
    """

    config = {
        "type": "madqn",
        **deep_merge_dicts(
            JOINT_Q_CONFIG,
            {
                # (int) Number of rewards before the bootstrap value.
                "nstep": 3,
                "learn": {"weight_decay": 1e-5},
                # (int) Episodes per collection.
                "collect": {"n_episode": 32},
                "other": {"replay_buffer": {"max_reuse": 1e9, "max_staleness": 1e9}},
            },
        ),
    }
    learn_state = {
        "model": "_learn_model",
        "target_model": "_target_model",
        "optimizer_current": "_optimizer",
        "optimizer_cooperation": "_optimizer_cooperation",
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``madqn`` of :mod:`ding.model.template.madqn`."""
        return "madqn", ["ding.model.template.madqn"]

    def _init_learn(self) -> None:
        super()._init_learn()
        model: Any = self._model
        decay = self._cfg.learn.weight_decay
        self._optimizer = self._make_optimizer(model.current, decay)
        self._optimizer_cooperation = self._make_optimizer(model.cooperation, decay)

    @batched
    def _forward_learn(self, data: Samples) -> dict[str, Any]:
        """One update of both joint values on B sequences.

        Returns:
            Floats: ``cur_lr, total_loss, cooperation_loss, grad_norm, cooperation_grad_norm``, and per agent ``total_q,
            target_total_q``.
        """
        batch = self._time_first(data)
        cfg = self._cfg
        model: Any = self._model
        model.train()
        target = self._target_network.forward
        result = madqn_loss(model, target, batch, self._settings, cfg.nstep)
        limit = cfg.learn.clip_value
        norm = self._limited_step(result.loss, self._optimizer, model.current, limit)
        norm_cooperation = self._limited_step(
            result.cooperation_loss, self._optimizer_cooperation, model.cooperation, limit
        )
        self._target_model.update(model)
        values = {
            "total_loss": result.loss,
            **result.numbers,
            "grad_norm": norm,
            "cooperation_grad_norm": norm_cooperation,
            "cooperation_loss": result.cooperation_loss,
        }
        return {"cur_lr": self._optimizer.param_groups[0]["lr"], **read_out(values)}

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Sequences of ``collect.unroll_len`` steps with n-step returns."""
        gamma, reference = self._cfg.learn.discount_factor, self._reference_numerics
        steps = get_nstep_return_data(marked_real(transitions), self._cfg.nstep, gamma=gamma, reference_tail=reference)
        return self._sequences(steps)

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "cooperation_grad_norm", "cooperation_loss"]
