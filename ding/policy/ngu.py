"""NGU: a family of recurrent policies that are rewarded for what is new (Badia et al. 2020, arXiv:2002.06038)."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import EnvBatch, batched
from ding.data.roles import Samples
from ding.model.template.ngu import shifted
from ding.policy.errors import PolicyConfigError, PolicyDataError
from ding.policy.r2d2 import R2D2Policy
from ding.rl_utils import get_nstep_return_data
from ding.rl_utils.adder import Steps
from ding.rl_utils.policy_family import family_eps, family_gammas
from ding.utils import POLICY_REGISTRY

# What the network reads beside an observation: fields of a sample, with a number for each step.
_PREVIOUS = ("prev_action", "prev_reward_extrinsic")
_CONDITIONS = ("beta", *_PREVIOUS)


@POLICY_REGISTRY.register("ngu")
class NGUPolicy(R2D2Policy):
    """R2D2 as a family of ``collect.env_num`` policies that share one network, and learn from extrinsic and intrinsic
    rewards together; ``serial_pipeline_ngu`` adds the latter.

    Each environment has an epsilon of its own. In each episode it plays one member of the family, drawn at random,
    which has its own discount and weight of the intrinsic reward (``beta`` is its number); evaluation plays the first
    one. Observations are dicts of ``obs, prev_action, prev_reward_extrinsic``, as
    ``env.obs_plus_prev_action_reward=True`` makes them. With ``reference_numerics=True`` the network learns from the
    previous action and reward of the sample beside, as DI-engine does, and not from its own.

    Raises:
        PolicyConfigError: ``model.collector_env_num`` is not ``collect.env_num``.
    """

    config = {"type": "ngu"}

    _remembered = ("members",)

    def default_model(self) -> tuple[str, list[str]]:
        """``ngu`` of :mod:`ding.model.template.ngu`."""
        return "ngu", ["ding.model.template.ngu"]

    def _family_size(self) -> int:
        size, known = self._env_num("collect"), self._cfg.model.get("collector_env_num", 1)
        if known != size:
            raise PolicyConfigError(f"policy.model.collector_env_num={known} must be policy.collect.env_num={size}")
        return size

    def _init_learn(self) -> None:
        super()._init_learn()
        self._gammas = torch.tensor(family_gammas(self._family_size()), device=self._device)

    def _learn_batch(self, data: Samples, weighted: bool | None = None) -> dict[str, Any]:
        """The sequences of :meth:`R2D2Policy._learn_batch`, with all that the network reads in ``obs``."""
        batch = super()._learn_batch(data, weighted)
        batch["obs"] = {"obs": batch["obs"], **{key: batch[key] for key in _CONDITIONS}}
        return batch

    def _discount_of(self, batch: Mapping[str, Any]) -> torch.Tensor:
        """The discounts of the members of the family that the sequences are of, ``[B]``."""
        return self._gammas[batch["beta"][0]]

    def _time_first(self, data: Samples, weighted: bool | None = None) -> dict[str, Any]:
        batch = super()._time_first(data, weighted)
        steps, rows = batch["done"].shape
        if self._reference_numerics or "prev_action" not in batch:
            dim = 1 if self._reference_numerics else 0
            batch["prev_action"] = shifted(batch["action"], -1, dim)
            batch["prev_reward_extrinsic"] = shifted(batch["rewards"][..., 0], 0, dim)
        else:
            for key in _PREVIOUS:
                batch[key] = batch[key].reshape(rows, steps).transpose(0, 1)
        batch["beta"] = batch["beta"].reshape(rows, steps).transpose(0, 1).long()
        return batch

    def _init_collect(self) -> None:
        super()._init_collect()
        size = self._family_size()
        self._eps = family_eps(size)
        self._members = torch.randint(size, (size, 1))

    @batched
    def _forward_collect(self, data: EnvBatch, eps: object = None) -> EnvBatch:  # type: ignore[override]
        """Actions as :meth:`R2D2Policy._forward_collect` gives them, by the epsilons of the environments, and ``beta``
        int64 ``[N, 1]``; ``eps`` is ignored.
        """
        beta = self._members[torch.as_tensor(data.env_ids)]
        chances = {row: self._eps[env_id] for row, env_id in enumerate(data.env_ids.tolist())}
        return super()._forward_collect(_as_member(data, beta), eps=chances).with_columns(beta=beta)

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """Greedy actions of the first member: ``logit`` float32 ``[N, actions]`` and ``action`` int64 ``[N, 1]``."""
        return super()._forward_eval(_as_member(data, torch.zeros(len(data), 1, dtype=torch.int64)))

    def _network_inputs(self, obs: Any) -> dict[str, Any]:
        return dict(obs)

    def _reset_collect(self, data_id: list[int] | None = None) -> None:
        """Forget the states of these environments, and draw which members they play next."""
        super()._reset_collect(data_id)
        size = len(self._members)
        ids = list(range(size)) if data_id is None else list(data_id)
        self._members[ids] = torch.randint(size, (len(ids), 1))

    @batched
    def _process_transition(self, obs: Any, policy_output: Any, timestep: Any, env_id: object = None) -> dict[str, Any]:
        """The fields of :meth:`R2D2Policy._process_transition`, and ``beta, prev_action, prev_reward_extrinsic``, for
        one environment or for columns of N; ``env_id`` is ignored.
        """
        transition = super()._process_transition(obs["obs"], policy_output, timestep)
        return {**transition, "beta": policy_output["beta"], **{key: obs[key] for key in _PREVIOUS}}

    def _with_nstep_returns(self, steps: Steps) -> Steps:
        """Without ``value_gamma``: the discount is that of the member, see ``beta``."""
        return get_nstep_return_data(steps, self._nstep, correct_terminate_gamma=False)

    def _step_after(self, next_obs: object) -> Mapping[str, Any]:
        return next_obs if isinstance(next_obs, Mapping) and "obs" in next_obs else super()._step_after(next_obs)


def _as_member(data: EnvBatch, beta: torch.Tensor) -> EnvBatch:
    """The observations with the number of the member that acts, ``[N, 1]``."""
    columns = data.columns
    if not isinstance(columns, Mapping) or not {"obs", *_PREVIOUS} <= columns.keys():
        found = sorted(columns) if isinstance(columns, Mapping) else type(columns).__name__
        raise PolicyDataError(
            f"NGU needs observations with the fields obs, {', '.join(_PREVIOUS)}, found {found}; "
            "set env.obs_plus_prev_action_reward=True"
        )
    return EnvBatch.unchecked(data.env_ids, {**columns, "beta": beta})
