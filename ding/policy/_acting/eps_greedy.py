"""Acting by values of discrete actions: the best one, or with chance epsilon a random one."""

from typing import Any

import torch

from ding.data import EnvBatch, batched
from ding.model import model_wrap
from ding.policy._acting.act import act
from ding.policy.base_policy import Policy
from ding.policy.common_utils import transition_of
from ding.torch_utils.network.nn_module import set_noise_mode


class EpsGreedyPolicy(Policy):
    """A policy over values ``logit`` of discrete actions; with ``noisy_net`` the network explores, too."""

    _keeps_outputs = False

    def default_model(self) -> tuple[str, list[str]]:
        """``dqn`` of :mod:`ding.model.template.q_learning`."""
        return "dqn", ["ding.model.template.q_learning"]

    @property
    def _acting_network(self) -> torch.nn.Module:
        """The network that acts."""
        return self._model

    def _act(self, model: Any, data: EnvBatch, **kwargs: Any) -> EnvBatch:
        return act(self._acting_network, model, data, self._device, **kwargs)

    def _init_acting(self) -> None:
        self._collect_model = model_wrap(
            self._acting_network, wrapper_name="eps_greedy_sample", reference_numerics=self._reference_numerics
        )
        self._collect_model.reset()

    @batched
    def _forward_collect(self, data: EnvBatch, eps: float) -> EnvBatch:  # type: ignore[override]
        """Epsilon-greedy actions: ``logit`` float32 ``[N, actions]`` and ``action`` int64 ``[N, 1]``."""
        if self._cfg.get("noisy_net"):
            set_noise_mode(self._acting_network, True)
        return self._act(self._collect_model, data, eps=eps)

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """``obs, next_obs, action, reward, done``, for one environment or for columns of N."""
        return transition_of(obs, policy_output, timestep, time_limit_is_end=self._reference_numerics)

    def _init_eval(self) -> None:
        self._eval_model = model_wrap(self._acting_network, wrapper_name="argmax_sample")
        self._eval_model.reset()

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """Greedy actions: ``logit`` float32 ``[N, actions]`` and ``action`` int64 ``[N, 1]``."""
        if self._cfg.get("noisy_net"):
            set_noise_mode(self._acting_network, False)
        return self._act(self._eval_model, data)
