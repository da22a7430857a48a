"""SQN: soft Q-learning with two Q functions and a learned temperature."""

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from ding.data import EnvBatch, batched
from ding.data.roles import Samples, StateDict
from ding.model import model_wrap
from ding.policy._acting.observations import output_column
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.q_values import Values, of_action
from ding.policy._learning.soft_actor_critic import Temperature
from ding.policy._learning.update import Logs
from ding.policy.base_policy import Policy
from ding.policy.common_utils import transition_of
from ding.rl_utils import get_train_sample
from ding.torch_utils.math_helper import usable_mask
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("sqn")
class SQNPolicy(Policy):
    """Soft Q-learning (arXiv:1702.08165) with the smaller of two Q functions (arXiv:1802.09477) and a temperature that
    keeps the entropy of the policy (arXiv:1812.05905).

    It collects by drawing from ``softmax(Q0 / alpha)``, or with chance ``eps`` at random. A collector in a process of
    its own, without a learner, uses ``learn.alpha`` throughout.
    """

    config = {
        "type": "sqn",
        "cuda": False,
        "on_policy": False,
        # Samples have no priorities here.
        "priority": False,
        "priority_IS_weight": False,
        "learn": {
            "update_per_collect": 16,
            "batch_size": 64,
            "learning_rate_q": 0.001,
            "learning_rate_alpha": 0.001,
            # (str or None) How gradients are clipped, and the limit.
            "grad_clip_type": None,
            "grad_clip_value": None,
            # (float) The share by which the target network moves to the learner at each update.
            "target_theta": 0.005,
            # (float) The temperature at the start.
            "alpha": 0.2,
            "discount_factor": 0.99,
            # (float) The entropy in nats to which the temperature leads.
            "target_entropy": 0.2,
            # (bool) Whether to bootstrap at the end of an episode too.
            "ignore_done": False,
        },
        "collect": {"unroll_len": 1},
        "eval": {},
        "other": {
            "eps": {"type": "exp", "start": 1.0, "end": 0.8, "decay": 2000},
            "replay_buffer": {"replay_buffer_size": 100000},
        },
    }

    _keeps_outputs = False
    learn_state = {
        "model": "_learn_model",
        "target_model": "_target_model",
        "optimizer_q": "_optimizer_q",
        "optimizer_alpha": "_optimizer_alpha",
        "alpha": "_temperature",
    }

    learn_rates: ClassVar[dict[str, str]] = {}
    _temperature: Temperature | None = None

    def default_model(self) -> tuple[str, list[str]]:
        """``sqn`` of :mod:`ding.model.template.sqn`."""
        return "sqn", ["ding.model.template.sqn"]

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._gamma = float(learn.discount_factor)
        self._temperature = Temperature(learn.alpha).to(self._device)
        self._optimizer_q = clipping_adam(self._model.parameters(), learn, lr=learn.learning_rate_q)
        self._optimizer_alpha = clipping_adam(
            self._temperature.parameters(), learn, lr=learn.learning_rate_alpha, weight_decay=0.0
        )
        self._learn_model = model_wrap(self._model, wrapper_name="base")
        self._target_model = model_wrap(
            copy.deepcopy(self._model),
            wrapper_name="target",
            update_type="momentum",
            update_kwargs={"theta": learn.target_theta},
        )

    def _act(self, model: Any, data: EnvBatch, **kwargs: Any) -> EnvBatch:
        """As :meth:`Policy._act`; ``q_value`` has a row per environment with several heads, too."""
        output = super()._act(model, data, **kwargs)
        q_value = output.fields["q_value"]
        if q_value and q_value[0][0].ndim == 2:  # heads of all environments, for each of the two networks
            return output.with_columns(q_value=[list(row) for row in zip(*map(output_column, q_value))])
        return output

    @batched
    def _forward_learn(self, data: Samples) -> Logs:
        """One update of the networks and of the temperature on B samples; returns floats."""
        return self._learn(data)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One step of both Q functions on ``sum_i (Q_i(s, a) - R)^2``, with
        ``R = r + discount alpha log sum_b exp(min_i Q_i'(s', b) / alpha)``, and one of the temperature, which leads the
        entropy of ``softmax(min_i Q_i' / alpha)`` to ``learn.target_entropy``.

        The loss and the entropy are means over the heads.
        """
        assert self._temperature is not None
        alpha, action = self._temperature.value, batch["action"]
        q_0, q_1 = map(_heads, self._model(batch["obs"])["q_value"])
        with torch.no_grad():
            next_0, next_1 = map(_heads, self._target_model.forward(batch["next_obs"])["q_value"])
        heads = action if isinstance(action, list) else action.reshape(len(action), -1).unbind(-1)
        masks = batch["next_action_mask"]
        losses, entropies = [], []
        for head, taken in enumerate(heads):
            mask = masks[head] if isinstance(masks, list) else masks
            scaled = torch.minimum(next_0[head], next_1[head]) / alpha
            scaled = scaled if mask is None else scaled.masked_fill(usable_mask(mask) <= 0, -torch.inf)
            target = batch["reward"] + batch["discount"] * batch["not_done"] * alpha * scaled.logsumexp(-1)
            errors = of_action(q_0[head], taken) - target, of_action(q_1[head], taken) - target
            losses.append(errors[0].square().mean() + errors[1].square().mean())
            log_pi = scaled.log_softmax(-1).clamp_min(torch.finfo(scaled.dtype).min)
            entropies.append(-(log_pi.exp() * log_pi).sum(-1).mean())
        q_loss, entropy = torch.stack(losses).mean(), torch.stack(entropies).mean()
        self._optimize(q_loss, self._optimizer_q, self._model)
        alpha_loss = self._temperature.loss(-entropy, self._cfg.learn.target_entropy)
        self._optimize(alpha_loss, self._optimizer_alpha, self._temperature)
        self._target_model.update(self._model)
        q_value = torch.stack([values.detach().mean() for values in (*q_0, *q_1)]).mean()
        numbers = {"q_loss": q_loss, "entropy": entropy, "q_value": q_value}
        return {**numbers, "alpha_loss": alpha_loss, "alpha": self._temperature.value}

    def _monitor_vars_learn(self) -> list[str]:
        return ["q_loss", "entropy", "q_value", "alpha_loss", "alpha"]

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        """A file of DI-engine holds no target network, which is the model then, and no temperature, which stays
        as it is.
        """
        absent = {"target_model": state_dict.get("model"), "alpha": self._state_dict_learn()["alpha"]}
        super()._load_state_dict_learn({**absent, **state_dict})

    def _init_collect(self) -> None:
        self._unroll_len = self._cfg.collect.unroll_len
        self._collect_model = model_wrap(
            self._model,
            wrapper_name="eps_greedy_multinomial_sample",
            reference_numerics=self._reference_numerics,
        )

    @batched
    def _forward_collect(self, data: EnvBatch, eps: float) -> EnvBatch:  # type: ignore[override]
        """Actions drawn from ``softmax(Q0 / alpha)``, or with chance ``eps`` random ones: int64 ``[N, 1]``."""
        alpha = self._cfg.learn.alpha if self._temperature is None else self._temperature.value.item()
        return self._act(self._collect_model, data, eps=eps, alpha=alpha)

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """``obs, next_obs, action, reward, done``, for one environment or for columns of N."""
        return transition_of(obs, policy_output, timestep, time_limit_is_end=self._reference_numerics)

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Sequences of ``collect.unroll_len``."""
        return get_train_sample(transitions, self._unroll_len)

    def _init_eval(self) -> None:
        self._eval_model = model_wrap(self._model, wrapper_name="argmax_sample")

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """Greedy actions of the first Q function: int64 ``[N, 1]``."""
        return self._act(self._eval_model, data)


def _heads(values: Values) -> list[torch.Tensor]:
    """Values per head, each ``[B, N]``."""
    return [values] if isinstance(values, torch.Tensor) else list(values)
