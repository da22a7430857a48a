"""Acting by a distribution over actions, as all policy-gradient algorithms do."""

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from ding.data import EnvBatch, TransitionBatch, batched
from ding.data.roles import Samples
from ding.model import IModelWrapper, model_wrap
from ding.policy._acting.observations import network_columns
from ding.policy._acting.recurrent import env_num_of, with_state_columns
from ding.policy._samples.histories import Histories
from ding.policy._samples.segments import with_advantages
from ding.policy.base_policy import Policy
from ding.policy.common_utils import transition_of
from ding.policy.errors import PolicyConfigError
from ding.utils.names import did_you_mean
from ding.utils.rows import take

# How to draw an action, and how to take the most likely one.
_SAMPLERS = {
    "discrete": ("multinomial_sample", "argmax_sample"),
    "continuous": ("reparam_sample", "deterministic_sample"),
    "hybrid": ("hybrid_reparam_multinomial_sample", "hybrid_deterministic_argmax_sample"),
}


class StochasticPolicy(Policy):
    """Draws actions from the distribution of a network, and takes the most likely ones in evaluation.

    The network returns ``logit`` (see :class:`ding.model.VAC`), and ``value`` where there is a critic.
    ``cfg.action_space`` is ``discrete``, ``continuous`` or ``hybrid``.

    With ``policy.recurrent`` each environment has a state of the network of its own, which begins anew with every
    episode and which transitions keep as ``prev_state``.
    """

    #: Arguments of the network when it collects and when it is evaluated.
    collect_kwargs: ClassVar[dict[str, str]] = {"mode": "compute_actor_critic"}
    eval_kwargs: ClassVar[dict[str, str]] = {"mode": "compute_actor"}
    #: What a transition keeps of the policy's output.
    output_fields: ClassVar[tuple[str, ...]] = ("action", "logit", "value")
    #: Whether it keeps the next observation.
    keeps_next_obs: ClassVar[bool] = True
    #: Whether nothing is bootstrapped after a time limit.
    time_limit_is_end: ClassVar[bool] = False
    #: Whether the algorithm can learn with ``policy.recurrent``.
    may_be_recurrent: ClassVar[bool] = False
    # The states of a recurrent network are kept by a wrapper.
    _remembered: ClassVar[tuple[str, ...]] = ()

    def default_model(self) -> tuple[str, list[str]]:
        """``vac`` of :mod:`ding.model.template.vac`."""
        return "vac", ["ding.model.template.vac"]

    def _samplers(self) -> tuple[str, str]:
        """Names of the wrappers that draw an action and that take the most likely one."""
        action_space = str(self._cfg.action_space)
        if action_space not in _SAMPLERS:
            raise PolicyConfigError(
                f"policy.action_space: {action_space!r} is unknown.{did_you_mean(action_space, _SAMPLERS)}"
            )
        return _SAMPLERS[action_space]

    def _acting_network(self) -> Any:
        """What takes observations and a mode, and returns ``logit`` and ``value``."""
        return self._model

    @functools.cached_property
    def _histories(self) -> Histories | None:  # type: ignore[override]
        """How a recurrent network learns; None without ``policy.recurrent``.

        Raises:
            PolicyConfigError: this algorithm or the network cannot.
        """
        if not self._cfg.get("recurrent", False):
            return None
        if not self.may_be_recurrent or self._has_agent_axis:
            which = "with policy.multi_agent=True" if self.may_be_recurrent else "with a recurrent network"
            raise PolicyConfigError(f"policy.recurrent=True: {type(self).__name__} cannot learn {which}")
        return Histories(self._model, self._cfg.learn_unroll_len, self._device)

    def _remembering(self, mode: str) -> nn.Module | IModelWrapper:
        """The acting network; a recurrent one in a wrapper that keeps the states of the environments of a mode."""
        network: nn.Module = self._acting_network()
        if self._histories is None:
            return network
        saves = mode == "collect"
        return model_wrap(
            network, wrapper_name="hidden_state", state_num=env_num_of(self._cfg, mode), save_prev_state=saves
        )

    def _init_collect(self) -> None:
        self._unroll_len = self._cfg.collect.unroll_len
        self._collect_model = model_wrap(self._remembering("collect"), wrapper_name=self._samplers()[0])
        self._collect_model.reset()

    def _reset_collect(self, data_id: list[int] | None = None) -> None:
        if self._histories is not None:
            self._collect_model.reset(data_id=data_id)

    def _reset_eval(self, data_id: list[int] | None = None) -> None:
        if self._histories is not None:
            self._eval_model.reset(data_id=data_id)

    @batched
    def _forward_collect(self, data: EnvBatch, **kwargs: Any) -> EnvBatch:  # type: ignore[override]
        """Actions drawn from the policy, with ``logit``, where there is a critic ``value`` ``[N, 1]``, and of a
        recurrent network ``prev_state``, the states before this step.
        """
        output = self._sampled(self._collect_model, data, **self.collect_kwargs, **kwargs)
        return output if self._histories is None else with_state_columns(output)

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """The transition of one environment, or the columns of N."""
        ends = self.time_limit_is_end or self._reference_numerics
        kept, with_next = self.output_fields, self.keeps_next_obs
        if self._histories is not None:
            kept = (*kept, "prev_state")
        return transition_of(obs, policy_output, timestep, kept, next_obs=with_next, time_limit_is_end=ends)

    def _get_keeps_outputs(self) -> bool:
        kept = set(self.output_fields) - {"action"}
        if kept:
            raise PolicyConfigError(
                f"policy.transition_with_policy_data=False: {type(self).__name__} learns from the {sorted(kept)} of "
                "the policy that acted, which random actions do not have; set it to True, or random_collect_size to 0"
            )
        return False

    def _init_eval(self) -> None:
        self._eval_model = model_wrap(self._remembering("eval"), wrapper_name=self._samplers()[1])
        self._eval_model.reset()

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """The most likely actions."""
        return self._sampled(self._eval_model, data, **self.eval_kwargs)

    def _sampled(self, model: Any, data: EnvBatch, **kwargs: Any) -> EnvBatch:
        if self._histories is not None:
            data = EnvBatch.unchecked(data.env_ids, {"obs": data.columns})
            kwargs["data_id"] = np.asarray(data.env_ids).tolist()
        output = self._act(model, data, **kwargs)
        columns = output.columns
        if isinstance(columns, dict):
            # An object and no column: a distribution of torch.
            columns.pop("dist", None)
        return output

    def _actor_critic(self, obs: Any) -> dict[str, Any]:
        output: dict[str, Any] = self._model(obs, mode="compute_actor_critic")
        return output

    def _with_advantages(self, transitions: Samples, value_scale: float = 1.0) -> TransitionBatch:
        """The transitions of segments, as columns, with ``adv`` and ``traj_flag``."""
        cfg = self._cfg
        gamma, lambda_ = cfg.collect.discount_factor, cfg.collect.gae_lambda
        batch = TransitionBatch.of(transitions)
        return with_advantages(batch, self._values_after, gamma, lambda_, cfg.learn.ignore_done, value_scale)

    def _values_after(self, columns: Mapping[str, Any], rows: np.ndarray) -> torch.Tensor:
        """Values of the ``next_obs`` of these rows of transitions, ``[S]`` (``[S, agents]``)."""
        if self._histories is not None:
            return self._histories.values_after(columns, rows)
        return self._column_values(take(columns["next_obs"], rows))

    def _values(self, obs: Any) -> torch.Tensor:
        """Values ``[B]`` (``[B, agents]``) by the critic of observations as a network takes them, without gradients."""
        with torch.no_grad():
            output: torch.Tensor = self._model(obs, mode="compute_critic")["value"]
            return output

    def _column_values(self, obs: Any) -> torch.Tensor:
        """:meth:`_values` of observation columns."""
        return self._values(network_columns(obs, self._device))
