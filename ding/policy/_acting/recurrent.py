"""Acting with a recurrent network, whose state after each step belongs to an environment."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ding.data import EnvBatch, batched
from ding.data.columns import stack_rows
from ding.model import model_wrap
from ding.model.common.state_rows import StateRows
from ding.model.wrapper.model_wrappers import HiddenStateWrapper, IModelWrapper
from ding.policy.base_policy import Policy
from ding.policy.common_utils import transition_of
from ding.policy.errors import PolicyConfigError
from ding.utils.nested import map_nested


def env_num_of(cfg: Mapping[str, Any], mode: str) -> int:
    """Return the number of environments of a mode, each of which has a recurrent state.

    Raises:
        PolicyConfigError: the config of a policy does not say it.
    """
    env_num: int | None = cfg[mode].get("env_num")
    if env_num is None:
        raise PolicyConfigError(f"policy.{mode}.env_num is missing: the number of environments of this mode")
    return env_num


def with_state_columns(output: EnvBatch) -> EnvBatch:
    """Return the output of a network with its ``prev_state``, a list of N states, as columns on the CPU."""
    states = output.fields["prev_state"]
    agents = StateRows.of(states)
    columns = stack_rows(states) if agents is None else agents.agent_columns
    return output.with_columns(prev_state=map_nested(lambda x: x.cpu(), columns))


class RecurrentQPolicy(Policy):
    """Epsilon-greedy acting over values of histories. Each environment has its own recurrent state, which starts anew
    with every episode.

    ``collect.env_num`` and ``eval.env_num`` are the numbers of environments of these modes.
    """

    #: Arguments of the network when it acts.
    acting_kwargs: ClassVar[dict[str, Any]] = {"inference": True}
    #: What a transition keeps of the policy's output.
    output_fields: ClassVar[tuple[str, ...]] = ("action", "prev_state")
    #: Whether a transition keeps the next observation.
    keeps_next_obs: ClassVar[bool] = False
    #: Attributes that belong to the episodes being collected, as the states of the network do, which a wrapper keeps.
    _remembered: ClassVar[tuple[str, ...]] = ()

    _target_model: Any

    def _init_collect(self) -> None:
        remembering = model_wrap(
            self._model, wrapper_name="hidden_state", state_num=self._env_num("collect"), save_prev_state=True
        )
        self._collect_model = model_wrap(
            remembering, wrapper_name=self._sampler(), reference_numerics=self._reference_numerics
        )

    def _remembering(self, *networks: Any) -> list[Any]:
        """Networks of learning in wrappers that keep a state for each row of a batch. They are for subclasses with a
        ``_forward_learn`` of their own; those of this package pass the states on.
        """
        size = int(self._setting("batch_size", "learn"))
        return [model_wrap(network, wrapper_name="hidden_state", state_num=size) for network in networks]

    @property
    def _target_network(self) -> Any:
        """The target network without a wrapper that replaces the states which it is given."""
        model = self._target_model
        wrappers = model.chain() if isinstance(model, IModelWrapper) else ()
        return next((one for one in wrappers if not isinstance(one, HiddenStateWrapper)), model)

    def _sampler(self) -> str:
        """Name of the wrapper that chooses actions when collecting."""
        return "eps_greedy_sample"

    def _init_eval(self) -> None:
        remembering = model_wrap(self._model, wrapper_name="hidden_state", state_num=self._env_num("eval"))
        self._eval_model = model_wrap(remembering, wrapper_name="argmax_sample")

    def _env_num(self, mode: str) -> int:
        return env_num_of(self._cfg, mode)

    @batched
    def _forward_collect(self, data: EnvBatch, eps: float | dict[int, float]) -> EnvBatch:  # type: ignore[override]
        """Epsilon-greedy actions, with one ``eps`` for all rows or one for each: ``logit`` float32 ``[N, actions]``,
        ``action`` int64 ``[N, 1]``, and ``prev_state``: the states before this step, ``{'h', 'c'}`` of ``[N, layers, 1,
        H]``.
        """
        return with_state_columns(self._remember(self._collect_model, data, eps=eps))

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """Greedy actions: ``logit`` float32 ``[N, actions]`` and ``action`` int64 ``[N, 1]``."""
        return self._remember(self._eval_model, data)

    def _remember(self, model: Any, data: EnvBatch, **kwargs: Any) -> EnvBatch:
        """Act from the states of these environments, and keep the states after it."""
        inputs = EnvBatch.unchecked(data.env_ids, self._network_inputs(data.columns))
        return self._act(model, inputs, data_id=np.asarray(data.env_ids).tolist(), **self.acting_kwargs, **kwargs)

    def _network_inputs(self, obs: Any) -> dict[str, Any]:
        """What the network takes beside its states, from observation columns."""
        return {"obs": obs}

    def _reset_collect(self, data_id: list[int] | None = None) -> None:
        self._collect_model.reset(data_id=data_id)

    def _reset_eval(self, data_id: list[int] | None = None) -> None:
        self._eval_model.reset(data_id=data_id)

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """The transition of one environment, or the columns of N."""
        kept, with_next, at_limit = self.output_fields, self.keeps_next_obs, self._reference_numerics
        return transition_of(obs, policy_output, timestep, kept, next_obs=with_next, time_limit_is_end=at_limit)
