"""Compact PPO for the pipelines: the modes that workers call, around the one object that ``PPOFPolicy`` is."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from easydict import EasyDict

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch, TransitionBatch, batched
from ding.data.roles import Samples
from ding.policy._acting.observations import network_columns, output_column
from ding.policy.base_policy import CommandModePolicy, Policy
from ding.policy.errors import PolicyAttributeError
from ding.policy.ppof import PPOFPolicy
from ding.torch_utils import to_tensor
from ding.utils import POLICY_REGISTRY
from ding.utils.names import did_you_mean
from ding.utils.nested import map_leaves

_FIELDS = ("obs", "next_obs", "action", "logit", "value", "reward", "done", "traj_flag")


@POLICY_REGISTRY.register("ppof_command")
class PPOFCommandModePolicy(PPOFPolicy):
    """:class:`PPOFPolicy` with modes as all other policies have them, on columns.

    Its config is flat, too; the sections ``learn``, ``collect``, ``eval`` and ``other`` are those of the workers.

    Args:
        cfg: the ``policy`` section of a compiled config.
        model: the network; by default a :class:`ding.model.PPOFModel` of ``cfg.model``.
        enable_field: the modes to prepare, out of ``learn``, ``collect``, ``eval`` and ``command``; by default all.
    """

    learn_mode: Any
    collect_mode: Any
    eval_mode: Any
    # Nothing is kept from one step to the next.
    _remembered: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, cfg: EasyDict, model: torch.nn.Module | None = None, enable_field: Iterable[str] | None = None
    ) -> None:
        if model is None:
            model = self.default_model()(popart_head=cfg.value_norm == "popart", **cfg.model)
        wanted = self.mode if enable_field is None else enable_field
        super().__init__(cfg, model, [name for name in wanted if name != "command"])
        attributes = (self._get_attribute, self._set_attribute, self.state_dict, self.load_state_dict)
        self.learn_mode = Policy.learn_function(
            self._forward_learn, self.reset, self.__repr__, self.monitor_vars, *attributes
        )
        self.collect_mode = Policy.collect_function(
            self._forward_collect, self._process_transition, self._get_train_sample, self.reset, *attributes
        )
        self.eval_mode = Policy.eval_function(self._forward_eval, self.reset, *attributes)
        no_settings = self._no_settings
        self.command_mode = CommandModePolicy.command_function(no_settings, no_settings, no_settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__} on {self._device}:\n{self._model}"

    @batched
    def _forward_learn(self, data: Samples) -> list[dict[str, float]]:
        """As :meth:`PPOFPolicy.forward`, from samples as :meth:`_get_train_sample` gives them."""
        columns = (data if isinstance(data, TransitionBatch) else TransitionBatch.from_rows(data)).columns
        batch = {key: to_tensor(columns[key]) for key in _FIELDS}
        batch["action"] = map_leaves(_class_numbers, batch["action"])
        return self.forward(batch)

    @batched
    def _forward_collect(self, data: EnvBatch, **kwargs: Any) -> EnvBatch:
        """Actions drawn from the policy: ``action`` ``[N, 1]`` or ``[N, d]``, ``logit``, ``value``."""
        return self._acted(data, self.collect(network_columns(data.columns, self._device)))

    @batched
    def _forward_eval(self, data: EnvBatch, **kwargs: Any) -> EnvBatch:
        """The most likely actions, or with ``deterministic_eval=False`` drawn ones: ``action``, ``logit``."""
        return self._acted(data, self.eval(network_columns(data.columns, self._device)))

    def _acted(self, data: EnvBatch, output: dict[str, Any]) -> EnvBatch:
        return EnvBatch.unchecked(data.env_ids, {key: output_column(value) for key, value in output.items()})

    @batched
    def _process_transition(
        self, obs: object, policy_output: Mapping[str, Any], timestep: BaseEnvTimestep | TimestepBatch
    ) -> dict[str, Any]:
        """As :meth:`PPOFPolicy.process_transition`, for one environment or for columns of N."""
        return dict(self.process_transition(obs, policy_output, timestep))

    @batched
    def _get_train_sample(self, transitions: Samples) -> TransitionBatch:
        """The transitions with ``traj_flag``, bool ``[B]``: after which of them another episode or segment begins."""
        batch = transitions if isinstance(transitions, TransitionBatch) else TransitionBatch.from_rows(transitions)
        ends = np.asarray(batch.columns["done"]).reshape(-1).astype(bool)
        ends[np.cumsum([len(batch)] if batch.lengths is None else batch.lengths) - 1] = True
        return batch.with_columns(traj_flag=ends)

    def _no_settings(self, command_info: dict[str, Any]) -> dict[str, Any]:
        """Return no keyword arguments: what this policy does depends on its config alone."""
        return {}

    def _get_attribute(self, name: str) -> Any:
        """Return a setting of the policy, or a key of its flat config.

        Raises:
            PolicyAttributeError: there is none of this name (a ``NotImplementedError``).
        """
        own = {"cfg": self._cfg, "model": self._model, "collect_model": self._model, "device": self._device}
        own |= {"cuda": self._cuda, "normalization": self.normalization, "gamma": self._cfg.discount_factor}
        if name not in own and name not in self._cfg:
            hint = did_you_mean(name, [*own, *self._cfg])
            raise PolicyAttributeError(f"{type(self).__name__} has no attribute {name!r}.{hint}")
        return own[name] if name in own else self._cfg[name]

    def _set_attribute(self, name: str, value: object) -> None:
        """Set an attribute of this name, with an underscore in front."""
        setattr(self, f"_{name}", value)


def _class_numbers(action: torch.Tensor) -> torch.Tensor:
    """``[B, 1]`` -> ``[B]`` for integers, which number classes; anything else as it is."""
    is_class = not action.is_floating_point() and action.ndim == 2 and action.shape[1] == 1
    return action.squeeze(1) if is_class else action
