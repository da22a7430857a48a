"""Acting by plans in a latent model of the env, and the sequences from which such a model learns.

Shapes: N environments; B sequences of T = ``policy.horizon`` = H steps; S candidates of a plan, of which P are those of
the policy prior; L and A the sizes of a latent state and of an action.
"""

from functools import partial
from typing import Any, ClassVar

import torch

from ding.data import EnvBatch, TransitionBatch, batched
from ding.data.roles import Samples
from ding.data.sequences import sequence_batch
from ding.policy._acting.latents import Table, forget, remember, remembered
from ding.policy._acting.mppi import Draw, Plan, drawn_actions, moved_on, mppi
from ding.policy._acting.observations import network_columns
from ding.policy._samples.segments import as_given, marked_real
from ding.policy._samples.sequences import steps_after, time_first
from ding.policy.base_policy import Policy
from ding.policy.common_utils import transition_of
from ding.policy.errors import PolicyConfigError
from ding.rl_utils import get_train_sample

_FIELDS = frozenset({"obs", "action", "reward", "done", "null"})


class PlanningPolicy(Policy):
    """Acts by the first action of a plan, which is made by MPPI in the latent states of a model.

    A plan is scored by the rewards that the model predicts for ``horizon`` steps and the mean of all Q functions behind
    them. Some candidates are those of the policy prior. Each environment begins a plan with its last one, moved on by a
    step, until its episode ends. Collecting adds noise of the plan's deviation. An evaluation takes the mean, and the
    same noise for each plan, so that an action depends on nothing but the observations of its episode.

    A train sample is a sequence of ``horizon`` steps of one episode; there is one for each step. What a shorter episode
    lacks is filled up and marked (``null``).

    The network has ``encode``, ``step``, ``reward``, ``values`` and ``prior`` of
    :class:`~ding.model.template.tdmpc2.TDMPC2`.
    """

    _learns_from_transitions = False
    acts_in_unit_range: ClassVar[bool] = True
    _keeps_outputs = False
    _remembered: ClassVar[tuple[str, ...]] = ("collect_means",)
    _model: Any

    config: ClassVar[dict[str, Any]] = {
        # (int) Steps of a plan and of a sequence, typically 3; more look further into the model and cost more time.
        "horizon": 3,
        "plan": {
            # (int) Rounds of drawing and choosing, typically 6; more find better plans and cost more time.
            "iterations": 6,
            # (int) Candidates of each round, typically 512; as iterations.
            "num_samples": 512,
            # (int) Candidates that move the mean, typically an eighth; fewer move it faster.
            "num_elites": 64,
            # (int) Candidates that the policy prior proposes, typically 24; 0: none.
            "num_policy_trajectories": 24,
            # (float) Smallest deviation of an action, typically 0.05; more explores more around a plan.
            "min_std": 0.05,
            # (float) First deviation of an action, typically 2, which is as good as all actions.
            "max_std": 2.0,
            # (float) Sharpness of the weights of elites, typically 0.5; higher values follow the best ones.
            "temperature": 0.5,
        },
    }

    def _learn_batch(self, data: Samples, weighted: bool | None = None) -> dict[str, Any]:
        """B sequences: ``obs`` ``[T + 1, B, n]``, ``action`` ``[T, B, A]``, ``reward``, ``done`` and ``null`` (1: only
        fills up) ``[T, B]``.
        """
        return time_first(super()._learn_batch(sequence_batch(data), weighted), _FIELDS)

    def _init_collect(self) -> None:
        self._check_plan()
        self._collect_model, self._unroll_len = self._model, self._cfg.horizon
        self._sequence_overlap = self._unroll_len - 1
        self._collect_means: Table = {}

    def _init_eval(self) -> None:
        self._check_plan()
        self._eval_model = self._model
        self._eval_means: Table = {}

    @batched
    def _forward_collect(self, data: EnvBatch, **kwargs: Any) -> EnvBatch:  # type: ignore[override]
        """Actions of plans with noise: ``action`` float32 ``[N, A]``."""
        draw = partial(torch.randn, len(data), device=self._device)
        plan, self._collect_means = self._planned(self._collect_means, data, draw)
        return EnvBatch.unchecked(data.env_ids, {"action": drawn_actions(plan, draw).cpu()})

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """The first means of plans: ``action`` float32 ``[N, A]``."""
        generator = torch.Generator(self._device).manual_seed(0)
        draw = partial(torch.randn, 1, generator=generator, device=self._device)
        plan, self._eval_means = self._planned(self._eval_means, data, draw)
        return EnvBatch.unchecked(data.env_ids, {"action": plan.mean[:, 0].cpu()})

    @torch.no_grad()
    def _planned(self, table: Table, data: EnvBatch, draw: Draw) -> tuple[Plan, Table]:
        """A plan for each environment, and the table of means with the new ones."""
        model = self._model.eval() if self._model.training else self._model
        z = model.encode(network_columns(data.columns, self._device)).unsqueeze(1)
        begin = {"mean": z.new_zeros(len(z), self._cfg.horizon, model.action_size)}
        mean = remembered(table, data.env_ids, begin)["mean"]
        plan = mppi(partial(self._returns, z, draw), mean, self._proposals(z, draw), self._cfg.plan, draw)
        return plan, remember(table, data.env_ids, {"mean": moved_on(plan.mean)})

    def _check_plan(self) -> None:
        """Check ``policy.horizon`` and the numbers of ``policy.plan`` against each other.

        Raises:
            PolicyConfigError: one of them does not fit.
        """
        plan = self._cfg.plan
        for key, value, low, high in (
            ("horizon", self._cfg.horizon, 2, None),
            ("plan.iterations", plan.iterations, 1, None),
            ("plan.num_elites", plan.num_elites, 1, plan.num_samples),
            ("plan.num_policy_trajectories", plan.num_policy_trajectories, 0, plan.num_samples),
            ("plan.max_std", plan.max_std, plan.min_std, None),
        ):
            if value < low or (high is not None and value > high):
                limit = "" if high is None else f" and at most policy.plan.num_samples={high}"
                raise PolicyConfigError(f"policy.{key} must be at least {low}{limit}, found {value!r}")

    def _proposals(self, z: torch.Tensor, draw: Draw) -> torch.Tensor:
        """Actions of the policy prior along the model: latent states ``[N, 1, L]`` to ``[N, P, H, A]``."""
        z, actions = z.expand(-1, self._cfg.plan.num_policy_trajectories, -1), list[torch.Tensor]()
        while len(actions) < self._cfg.horizon:
            z = self._model.step(z, actions[-1]) if actions else z
            actions.append(self._prior_action(z, draw))
        return torch.stack(actions, 2)

    def _returns(self, z: torch.Tensor, draw: Draw, actions: torch.Tensor) -> torch.Tensor:
        """``sum_{t<H} gamma^t R(z_t, a_t) + gamma^H Q(z_H, a)``, with ``a`` drawn from the prior: latent states
        ``[N, 1, L]`` and actions ``[N, S, H, A]`` to ``[N, S]``.
        """
        z, total, discount = z.expand(-1, actions.shape[1], -1), torch.zeros_like(actions[:, :, 0, 0]), 1.0
        for action in actions.unbind(2):
            total = total + discount * self._model.reward(z, action).mean().squeeze(-1)
            z, discount = self._model.step(z, action), discount * self._cfg.learn.discount_factor
        values = self._model.values(z, self._prior_action(z, draw)).mean().squeeze(-1)
        output: torch.Tensor = total + discount * values.mean(0)
        return output

    def _prior_action(self, z: torch.Tensor, draw: Draw) -> torch.Tensor:
        mu, sigma = self._model.prior(z)
        return torch.tanh(mu + sigma * draw(*mu.shape[1:]))

    def _reset_collect(self, data_id: list[int] | None = None) -> None:
        self._collect_means = forget(self._collect_means, data_id)

    def _reset_eval(self, data_id: list[int] | None = None) -> None:
        self._eval_means = forget(self._eval_means, data_id)

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """``obs, next_obs, action, reward, done``; for one environment or columns of N."""
        return transition_of(obs, policy_output, timestep, time_limit_is_end=self._reference_numerics)

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """Sequences of ``horizon`` steps, one for each step: each field ``[T, ...]``; ``null``: whether a step only
        fills the sequence up.
        """
        batch = marked_real(TransitionBatch.of(transitions))
        sequences = get_train_sample(batch, self._unroll_len, "last", steps_after(batch), self._sequence_overlap)
        return as_given(sequences, transitions)
