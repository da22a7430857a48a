"""DreamerV3: actor and critic learn in the imagination of a world model (Hafner et al. 2023, arXiv:2301.04104).

Shapes: B sequences of T steps, from each of which H steps are imagined, N = B * T; F and A the sizes of a latent
feature and of an action.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from ding.data import EnvBatch, TimestepBatch, TransitionBatch, batched
from ding.data.roles import Samples, StateDict
from ding.model import model_wrap
from ding.policy._acting.latents import Table, forget, joined_states, remember, remembered, split_states
from ding.policy._acting.observations import output_column
from ding.policy._learning.loading import load_parts
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.target_update import num_steps
from ding.policy._learning.update import Logs
from ding.policy._samples.segments import as_given
from ding.policy.base_policy import Policy
from ding.policy.common_utils import transition_of
from ding.policy.errors import PolicyStateError, PolicyUsageError
from ding.policy.mbpolicy.utils import (
    RewardEMA,
    compute_actor_loss,
    compute_critic_loss,
    compute_target,
    imagine,
    statistics,
)
from ding.torch_utils.parameter import frozen
from ding.utils import POLICY_REGISTRY
from ding.utils.rows import take

# What an imagined trajectory is described by in the log.
_LOGGED = ("value", "target", "imag_reward", "imag_action")
_MOMENTS = ("mean", "std", "min", "max")


@POLICY_REGISTRY.register("dreamer")
class DREAMERPolicy(Policy):
    """An actor and a critic over the latent states of a world model, which learn along imagined trajectories.

    The actor climbs the gradients of lambda returns through the dynamics. Values are two-hot classifications in symlog
    space. The critic stays near a slow copy of itself, and advantages are scaled to the range of returns.

    ``learn.forward`` takes latent states, as the world model's ``train`` returns them. To act, the policy remembers the
    latent state and the last action of each environment until its episode ends.

    A sample is an observation with the action that led to it, the reward of that action, ``discount``, 0 where the
    episode ended there, and ``is_first``, 1 for the first observation of an episode. With ``reference_numerics=True``
    a sample is an observation with the action that followed it, as in DI-engine, whose world model learns another
    order of actions and observations than the one in which the policy acts.
    """

    config: ClassVar[dict[str, Any]] = {
        "type": "dreamer",
        "cuda": False,
        "on_policy": False,
        # (int) Env steps of random actions before the first training.
        "random_collect_size": 5000,
        # (bool) Whether these are actions of the policy.
        "transition_with_policy_data": False,
        # (int) Number of states of an imagined trajectory.
        "imag_horizon": 15,
        "learn": {
            # (float) Lambda of the returns.
            "lambda_": 0.95,
            # (float) Limit of the norm of each gradient.
            "grad_clip": 100,
            "learning_rate": 3e-5,
            # (int) Kept for configs of other policies: `world_model.train_freq` says how often it learns.
            "update_per_collect": 1,
            # (int) Sequences in a batch.
            "batch_size": 16,
            # (int) Steps of a sequence.
            "batch_length": 64,
            # (bool) Whether imagined states are drawn, or the most likely ones.
            "imag_sample": True,
            # (bool) Whether the critic stays near its slow copy.
            "slow_value_target": True,
            # (int) Updates between two moves of the slow copy towards the critic.
            "slow_target_update": 1,
            # (float) The share by which the slow copy moves.
            "slow_target_fraction": 0.02,
            # (float) Discount factor per step.
            "discount": 0.997,
            # (bool) Whether advantages are divided by the range of returns, where that is above 1.
            "reward_EMA": True,
            # (float) Weight of the entropy of actions.
            "actor_entropy": 3e-4,
            # (float) Weight of the entropy of imagined states.
            "actor_state_entropy": 0.0,
            # (float) Weight of the value itself in the loss of the critic.
            "value_decay": 0.0,
            # (bool) Kept for configs of other policies: the world model knows where episodes end.
            "ignore_done": False,
        },
        "collect": {
            "n_sample": 1,
            "unroll_len": 1,
            # (int or None) Kept for configs of DI-engine: the world model knows the number of actions.
            "action_size": None,
            # (bool) Whether latent states are drawn when acting, in evaluations too.
            "collect_dyn_sample": True,
        },
        "eval": {},
        "other": {
            "replay_buffer": {
                # (str) A buffer that gives sequences.
                "type": "sequence",
                "replay_buffer_size": 500000,
                # (str or None) Sequences may run from one episode of an environment to its next.
                "end_field": None,
                # (str or None) The field that tells the environments apart, each of which a sequence follows.
                "stream_field": "env_id",
            },
        },
    }

    learn_state = {
        "model": "_learn_model",
        "slow_value": "_slow_value",
        "reward_ema": "_reward_ema",
        "optimizer_value": "_optimizer_value",
        "optimizer_actor": "_optimizer_actor",
    }
    learn_rates: ClassVar[dict[str, str]] = {"cur_lr": "_optimizer_actor"}
    acts_in_unit_range: ClassVar[bool] = True

    _model: Any
    _keeps_outputs, _acts_in_world_model = False, True
    _remembered: ClassVar[tuple[str, ...]] = ("collect_states", "running")
    _world_model: Any = None

    def default_model(self) -> tuple[str, list[str]]:
        """``dreamervac`` of :mod:`ding.model.template.vac`."""
        return "dreamervac", ["ding.model.template.vac"]

    def _init_learn(self) -> None:
        learn, critic = self._cfg.learn, self._model.critic
        self._learn_model = self._model
        self._optimizer_value = clipping_adam(critic.parameters(), learn)
        self._optimizer_actor = clipping_adam(self._model.actor.parameters(), learn)
        follow = {"update_type": "momentum", "update_kwargs": {"theta": learn.slow_target_fraction}}
        self._slow_value = model_wrap(copy.deepcopy(critic), wrapper_name="target", **follow)
        self._reward_ema = RewardEMA(self._device)

    @batched
    def _forward_learn(self, start: Mapping[str, torch.Tensor], world_model: Any = None, envstep: int = 0) -> Logs:
        """One update of actor and critic; returns floats.

        Args:
            start: latent states ``[B, T, ...]``, from each of which a trajectory is imagined.
            world_model: makes the steps; its parameters stay as they are. None: that of the pipeline.
            envstep: not used.

        Raises:
            PolicyUsageError: there is no world model.
        """
        self._world_model = self._world(world_model)
        every = int(self._cfg.learn.slow_target_update)
        follows = every == 1 or num_steps(self._optimizer_value) % every == 0
        return self._learn(start, 1, [{"follows": follows}])  # type: ignore[arg-type]

    def _learn_batch(self, data: Any, weighted: bool | None = None) -> dict[str, Any]:
        return {key: value.detach().to(self._device) for key, value in data.items()}

    def _update(self, batch: Mapping[str, Any], follows: bool = True) -> dict[str, torch.Tensor]:  # type: ignore[override]
        """With ``R_t`` the lambda return of the imagined state ``s_t``, ``w_t`` the probability of getting there and
        ``S`` the range of returns, the actor minimises ``-mean w_t ((R_t - V(s_t)) / S + eta H(pi(s_t)))``, with
        gradients through the dynamics, and the critic ``-mean w_t (log p(R_t) + log p(V_slow(s_t)))``.
        """
        cfg, world, clip = self._cfg.learn, self._world_model, float(self._cfg.learn.grad_clip)
        actor, critic = self._model.actor, self._model.critic
        if follows:
            self._slow_value.update(critic)
        with frozen((*world.parameters(), *critic.parameters())):
            feat, state, action = imagine(cfg, world, batch, actor, self._cfg.imag_horizon)
            reward = world.heads["reward"](feat).mode()
            target, weights, value = compute_target(cfg, world, critic, feat, state, reward)
            entropy = actor(feat.detach()).entropy()
            state_entropy = world.dynamics.get_dist(state).entropy() if cfg.actor_state_entropy > 0 else None
            actor_loss, numbers = compute_actor_loss(
                cfg, actor, self._reward_ema, feat, state, action, target, entropy, state_entropy, weights, value
            )
        slow = self._slow_value.forward if cfg.slow_value_target else None
        critic_loss = compute_critic_loss(cfg, critic, slow, feat, target, weights)
        actor_norm = self._optimize(actor_loss, self._optimizer_actor, actor, clip)
        critic_norm = self._optimize(critic_loss, self._optimizer_value, critic, clip)
        assert actor_norm is not None
        assert critic_norm is not None
        for name, found in zip(_LOGGED, (value, target, reward, action)):
            numbers |= statistics(found, name)
        norms = {"actor_grad_norm": actor_norm, "critic_grad_norm": critic_norm}
        losses = {"critic_loss": critic_loss.detach(), "actor_loss": actor_loss.detach()}
        return {**numbers, "actor_ent": entropy.detach().mean(), **norms, **losses}

    def _world(self, world_model: Any) -> Any:
        world = self._world_model if world_model is None else world_model
        if world is None:
            raise PolicyUsageError(
                f"{type(self).__name__} learns and acts in the latent states of a world model: run it with "
                "serial_pipeline_dreamer (ding -m serial_dreamer), or give forward a world_model"
            )
        return world

    def _monitor_vars_learn(self) -> list[str]:
        learn = self._cfg.learn
        names = ["normed_target", *_LOGGED]
        ranges = ["EMA_005", "EMA_095"] if learn.reward_EMA else []
        bonuses = [name for name in ("actor_entropy", "actor_state_entropy") if learn[name] > 0]
        losses = ["actor_ent", "actor_grad_norm", "critic_grad_norm", "critic_loss", "actor_loss", "cur_lr"]
        return [f"{name}_{moment}" for name in names for moment in _MOMENTS] + ranges + bonuses + losses

    def _state_dict_learn(self) -> StateDict:
        """The parts of :attr:`learn_state`, and the weights of the world model in which the policy acts."""
        world = {} if self._world_model is None else {"world_model": dict(self._world_model.state_dict())}
        return {**super()._state_dict_learn(), **world}

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        """Load what :meth:`_state_dict_learn` returned. A state of DI-engine gets the critic for the slow one, measures
        the range of returns anew, and leaves the world model as it is.
        """
        state_dict = self._load_world(state_dict, required=False)
        parts = {key: getattr(self, attribute) for key, attribute in self.learn_state.items()}
        if "model" in state_dict:
            critic = {key[7:]: value for key, value in state_dict["model"].items() if key.startswith("critic.")}
            state_dict = {"slow_value": critic, "reward_ema": self._reward_ema.state_dict(), **state_dict}
        load_parts(self, parts, state_dict)

    def _load_state_dict_collect(self, state_dict: StateDict) -> None:
        super()._load_state_dict_collect(self._load_world(state_dict))

    def _load_state_dict_eval(self, state_dict: StateDict) -> None:
        super()._load_state_dict_eval(self._load_world(state_dict))

    def _load_world(self, state_dict: StateDict, required: bool = True) -> StateDict:
        """Load the weights of the world model, where there is one; return the rest of the state.

        Raises:
            PolicyStateError: there are none in the state.
        """
        weights = state_dict.get("world_model")
        if self._world_model is not None and weights is not None:
            self._world_model.load_state_dict(weights)
        elif self._world_model is not None and required:
            raise PolicyStateError(
                f"the state of {type(self).__name__} has no 'world_model', so the policy would act in one that has "
                f"learned nothing; it has {sorted(map(str, state_dict))}"
            )
        return {key: value for key, value in state_dict.items() if key != "world_model"}

    # Acting.

    def _init_collect(self) -> None:
        self._unroll_len = 1
        self._collect_model = self._model
        self._collect_states: Table = {}
        # Whether an episode has begun in an environment, by its id.
        self._running = np.zeros(0, dtype=np.bool_)

    def _init_eval(self) -> None:
        self._eval_model = self._model
        self._eval_states: Table = {}

    @batched
    def _forward_collect(  # type: ignore[override]
        self,
        data: EnvBatch,
        world_model: Any = None,
        envstep: int = 0,
        reset: Any = None,
        state: Sequence[Any] | None = None,
    ) -> EnvBatch:
        """Draw actions: ``action`` float32 ``[N, A]`` or int64 ``[N, 1]``, ``logprob`` ``[N, 1]``, ``state``: a latent
        state and an action for each environment, and ``env_id``.

        Args:
            data: observations.
            world_model: None: that of the pipeline.
            envstep: not used.
            reset: 1 for each environment whose episode begins, ``[N]``; only with ``state``.
            state: the states that the last call returned. Without it the policy remembers them itself.

        Raises:
            PolicyUsageError: there is no world model.
        """
        output, self._collect_states = self._act_from(self._collect_states, data, world_model, reset, state, True)
        return output

    @batched
    def _forward_eval(  # type: ignore[override]
        self, data: EnvBatch, world_model: Any = None, reset: Any = None, state: Sequence[Any] | None = None
    ) -> EnvBatch:
        """As :meth:`_forward_collect`, with the most likely actions."""
        output, self._eval_states = self._act_from(self._eval_states, data, world_model, reset, state, False)
        return output

    @torch.no_grad()
    def _act_from(
        self, table: Table, data: EnvBatch, world_model: Any, reset: Any, state: Sequence[Any] | None, explores: bool
    ) -> tuple[EnvBatch, Table]:
        """Act, and return the table of states with the new ones."""
        world, count, given = self._world(world_model), len(data), reset is not None or state is not None
        begin = {**world.dynamics.initial(count), "action": torch.zeros(count, world.action_size, device=self._device)}
        latent = begin if given else remembered(table, data.env_ids, begin)
        action = latent.pop("action")
        if state is not None:
            latent, action = joined_states(state, self._device)
        if reset is not None:
            goes_on = 1 - torch.as_tensor(np.asarray(reset), dtype=action.dtype, device=action.device).view(-1, 1)
            latent = {key: value * goes_on.view(-1, *[1] * (value.ndim - 1)) for key, value in latent.items()}
            action = action * goes_on
        embed = world.encoder(world.network_obs(data.columns))
        latent, _ = world.dynamics.obs_step(latent, action, embed, self._cfg.collect.collect_dyn_sample)
        dist = self._model.actor(world.dynamics.get_feat(latent))
        action = dist.sample() if explores else dist.mode()
        if not given:
            table = remember(table, data.env_ids, {**latent, "action": action})
        output = {
            "action": action.argmax(-1) if world.action_type == "discrete" else action,
            "logprob": dist.log_prob(action),
        }
        columns = {key: output_column(value) for key, value in output.items()}
        return EnvBatch.unchecked(
            data.env_ids, {**columns, "state": split_states(latent, action), "env_id": data.env_ids}
        ), table

    def _reset_collect(self, data_id: list[int] | None = None) -> None:
        self._collect_states = forget(self._collect_states, data_id)
        self._running[slice(None) if data_id is None else [one for one in data_id if one < len(self._running)]] = False

    def _reset_eval(self, data_id: list[int] | None = None) -> None:
        self._eval_states = forget(self._eval_states, data_id)

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """``obs, action, reward, discount, done``, and what :meth:`_get_train_sample` needs: ``next_obs``, ``begins``
        (whether the episode begins with ``obs``) and ``env_id``; for one environment or for columns of N.
        """
        in_columns = isinstance(timestep, TimestepBatch)
        transition = transition_of(obs, policy_output, timestep, time_limit_is_end=self._reference_numerics)
        done = transition["done"]
        transition["discount"] = 1.0 - np.asarray(done, dtype=np.float32) if in_columns else 1.0 - done
        env_ids = timestep.env_ids if in_columns else np.array([policy_output.get("env_id", 0)])
        if env_ids.max() >= len(self._running):
            self._running = np.append(self._running, np.zeros(env_ids.max() + 1 - len(self._running), dtype=np.bool_))
        begins = ~self._running[env_ids]
        self._running[env_ids] = ~np.asarray(timestep.done, dtype=np.bool_)
        if self._reference_numerics:
            del transition["next_obs"]
            return {**transition, "env_id": env_ids if in_columns else int(env_ids[0])}
        if not in_columns:
            begins, env_ids = bool(begins[0]), int(env_ids[0])
        return {**transition, "begins": begins, "env_id": env_ids}

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """The observations of trajectory segments, each with what led to it: ``obs``, ``action`` (int64 0-d or float32
        ``[A]``), ``reward``, ``discount``, ``done``, ``is_first`` and ``env_id``.

        The first observation of an episode is a sample, too: its action and reward are 0.
        """
        batch = TransitionBatch.of(transitions)
        columns = dict(batch.columns)
        if columns["action"].ndim == 2 and not columns["action"].is_floating_point():
            columns["action"] = columns["action"].squeeze(1)
        if self._reference_numerics:
            return as_given(TransitionBatch.unchecked(columns, len(batch), batch.lengths), transitions)
        begins, first_obs = np.asarray(columns.pop("begins"), dtype=np.int64), columns["obs"]
        columns["obs"] = columns.pop("next_obs")
        source = np.repeat(np.arange(len(begins)), 1 + begins)
        # The first of both samples of a transition with which an episode begins.
        first = np.append(source[1:] == source[:-1], False)
        samples = {key: take(column, source) for key, column in columns.items()}
        samples["obs"][first] = take(first_obs, source[first])
        for key, value in {"action": 0, "reward": 0, "discount": 1, "done": False}.items():
            samples[key][first] = value
        samples["is_first"] = first.astype(np.float32)
        lengths = np.add.reduceat(1 + begins, np.cumsum(batch.segment_lengths()) - batch.segment_lengths())
        return as_given(TransitionBatch.unchecked(samples, len(source), lengths), transitions)
