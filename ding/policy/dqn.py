"""DQN: Q-learning with a replay buffer and a target network."""

import copy
import logging
from typing import Any

import torch

from ding.data import EnvBatch, TransitionBatch, batched
from ding.model import model_wrap
from ding.policy._forward import float_columns, forward_columns
from ding.policy._target_update import LazyState, num_steps, target_update_rule
from ding.policy.base_policy import Policy
from ding.policy.common_utils import default_preprocess_learn, transition_done
from ding.rl_utils import get_nstep_return_data, get_train_sample, q_nstep_td_data, q_nstep_td_error
from ding.torch_utils import Adam
from ding.torch_utils.network import NoiseLinearLayer
from ding.utils import POLICY_REGISTRY

log = logging.getLogger(__name__)

# What collectors and buffers note about a sample, and learning does not look at.
_BUFFER_FIELDS = ("collect_iter", "replay_unique_id", "replay_buffer_idx", "priority", "staleness", "use")


@POLICY_REGISTRY.register("dqn")
class DQNPolicy(Policy):
    """Deep Q-learning with double Q, n-step returns, priorities and, by the model, dueling heads and noisy nets.

    Mnih et al. 2015 (DQN), van Hasselt et al. 2016 (double Q, arXiv:1509.06461), Wang et al. 2016 (dueling,
    arXiv:1511.06581), Schaul et al. 2016 (priorities, arXiv:1511.05952), Fortunato et al. 2018 (noisy nets,
    arXiv:1706.10295).

    The loss of a sample is ``(Q(s, a) - R)^2`` with
    ``R = sum_{i<n} gamma^i r_i + gamma^n Q'(s_n, argmax_a Q(s_n, a))``,
    where ``Q'`` is the target network. An ``action_mask`` (1: allowed) in the observation, or a ``next_action_mask`` in
    the sample, holds for that argmax too. Priorities are ``|Q - R|``; ``reference_numerics=True`` makes them squares,
    stores time limits as terminal and discounts the tail of a cut piece as the original API does.
    """

    config = {
        "type": "dqn",
        "cuda": False,
        "on_policy": False,
        # (bool) Whether samples are drawn by priority, and whether the loss is weighted to correct for that.
        "priority": False,
        "priority_IS_weight": False,
        "discount_factor": 0.97,
        # (int) Number of rewards before the bootstrap value.
        "nstep": 1,
        # (bool) Whether the network explores by parameter noise (needs model.noise=True).
        "noisy_net": False,
        "model": {"encoder_hidden_size_list": [128, 128, 64]},
        "learn": {
            # (int) Updates per collection.
            "update_per_collect": 3,
            "batch_size": 64,
            "learning_rate": 0.001,
            # (str or None) 'assign', 'momentum', or None to tell by the two keys below: momentum when
            # target_update_freq is None, or when only target_theta was changed; else assign.
            "target_update_type": None,
            # (int or None) The target network is a copy of the learner, renewed every so many updates.
            "target_update_freq": 100,
            # (float) Or it moves by this share towards the learner at each update.
            "target_theta": 0.005,
            # (bool) Whether to bootstrap at the end of an episode too.
            "ignore_done": False,
        },
        "collect": {
            # (int) Samples per collection; give n_sample or n_episode.
            "n_sample": 8,
            # (int) Length of the sequences that trajectories are cut into.
            "unroll_len": 1,
        },
        "eval": {},
        "other": {
            # Epsilon of exploration by env steps: type 'exp' or 'linear'.
            "eps": {"type": "exp", "start": 0.95, "end": 0.1, "decay": 10000},
            "replay_buffer": {"replay_buffer_size": 10000},
        },
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``dqn`` of :mod:`ding.model.template.q_learning`."""
        return "dqn", ["ding.model.template.q_learning"]

    # ------------------------------------------------------------------ learn

    def _init_learn(self) -> None:
        cfg = self._cfg
        self._priority = cfg.priority
        self._priority_IS_weight = cfg.priority_IS_weight
        self._ignored_fields = _BUFFER_FIELDS if cfg.priority_IS_weight else (*_BUFFER_FIELDS, "IS")
        self._gamma, self._nstep = float(cfg.discount_factor), cfg.nstep
        self._optimizer = Adam(self._model.parameters(), lr=cfg.learn.learning_rate)
        rule, kwargs = target_update_rule(cfg.learn, DQNPolicy.config["learn"], self._reference_numerics)
        self._target_model = model_wrap(
            copy.deepcopy(self._model), wrapper_name="target", update_type=rule, update_kwargs=kwargs
        )
        # For subclasses with a ``_forward_learn`` of their own, which take ``action`` from its output; the one below
        # needs logits only.
        self._learn_model = model_wrap(self._model, wrapper_name="argmax_sample")
        self._target_noise = _noise_layers(self._target_model) if cfg.noisy_net else []
        self._learn_noise = _noise_layers(self._model) if cfg.noisy_net else []
        if cfg.noisy_net and not self._learn_noise:
            log.warning("policy.noisy_net=True has no effect: the model has no noise layers (policy.model.noise=True)")
        self._learn_model.reset()
        self._target_model.reset()

    @batched
    def _forward_learn(self, data: "TransitionBatch | list[dict[str, Any]]") -> dict[str, Any]:
        """One update on B samples with ``obs, next_obs, action, reward, done``.

        Returns:
            ``cur_lr, total_loss, q_value, target_q_value`` (floats) and ``priority`` (B floats).
        """
        self._prepare_networks(training=True)
        loss, error, q_value, target_q_value = self._td_error(self._preprocess(data, self._priority_IS_weight))
        self._optimize(loss, self._optimizer, self._learn_model)
        self._target_model.update(LazyState(self._learn_model))
        # One transfer for all numbers: on a GPU each would wait for the device. A sum costs a quarter of a mean.
        sums = torch.stack([loss.detach(), q_value.sum(), target_q_value.sum()])
        numbers = torch.cat([sums, error]).tolist()
        return {
            "cur_lr": self._optimizer.param_groups[0]["lr"],
            "total_loss": numbers[0],
            "q_value": numbers[1] / q_value.numel(),
            "target_q_value": numbers[2] / target_q_value.numel(),
            "priority": numbers[3:],
        }

    def calculate_priority(
        self, data: "TransitionBatch | list[dict[str, Any]]", update_target_model: bool = False
    ) -> dict[str, Any]:
        """Priorities of samples without learning from them; the networks are used in evaluation mode.

        Args:
            data: B samples, as for learning; new ones that no buffer has weighted yet will do, too.
            update_target_model: make the target network a copy of the learner first.

        Returns:
            ``{'priority': [float] * B}``.
        """
        if update_target_model:
            # Not ``update(direct=True)``: the rhythm of the regular copies shall not depend on this.
            self._target_model.load_state_dict(self._learn_model.state_dict(), strict=True)
        self._prepare_networks(training=False)
        with torch.no_grad():
            _, error, _, _ = self._td_error(self._preprocess(data, weighted=False))
        return {"priority": error.tolist()}

    def _preprocess(self, data: Any, weighted: bool) -> dict[str, Any]:
        if isinstance(data, TransitionBatch):
            data = data.without_columns(*self._ignored_fields)
        return default_preprocess_learn(
            data,
            use_priority=self._priority,
            use_priority_IS_weight=weighted,
            use_nstep=True,
            ignore_done=self._cfg.learn.ignore_done,
            device=self._device,
        )

    def _prepare_networks(self, training: bool) -> None:
        self._set_train(self._model, training)
        self._set_train(self._target_model, training)
        for layer in (*self._learn_noise, *self._target_noise):
            layer.enable_noise = True
            layer.reset_noise()

    def _td_error(self, batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Loss, priority ``[B]``, Q values and target Q values; only the loss carries gradients."""
        q_value = self._model(float_columns(batch["obs"], self._device))["logit"]
        next_obs = float_columns(batch["next_obs"], self._device)
        with torch.no_grad():
            target_q_value = self._target_model.forward(next_obs)["logit"]
            mask = batch.get("next_action_mask")
            if mask is None and isinstance(next_obs, dict):
                mask = next_obs.get("action_mask")
            next_action = masked_argmax(self._model(next_obs)["logit"], mask)
        if isinstance(q_value, list):
            return self._multi_head_td_error(batch, q_value, target_q_value, next_action)
        loss, squared = self._head_td_error(batch, q_value, target_q_value, batch["action"], next_action)
        return loss, self._to_priority(squared), q_value.detach(), target_q_value

    def _head_td_error(self, batch: dict[str, Any], *head: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q_value, target_q_value, action, next_action = head
        data = q_nstep_td_data(
            q_value, target_q_value, action, next_action, batch["reward"], batch["done"], batch["weight"]
        )
        return q_nstep_td_error(data, self._gamma, nstep=self._nstep, value_gamma=batch.get("value_gamma"))

    def _multi_head_td_error(
        self, batch: dict[str, Any], q_value: list, target_q_value: list, next_action: list
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Several discrete actions at once: the mean over the heads, each learning with the same reward."""
        action = batch["action"]
        if isinstance(action, torch.Tensor):
            action = list(action.unbind(-1))
        heads = [self._head_td_error(batch, *head) for head in zip(q_value, target_q_value, action, next_action)]
        loss = torch.stack([loss for loss, _ in heads]).mean()
        squared = torch.stack([error for _, error in heads]).mean(0)
        q_values = torch.cat([head.detach() for head in q_value], dim=-1)
        return loss, self._to_priority(squared), q_values, torch.cat(target_q_value, dim=-1)

    def _to_priority(self, squared: torch.Tensor) -> torch.Tensor:
        # The exponent of prioritised replay is meant for |Q - R|, while the criterion gives its square.
        squared = squared.detach()
        return squared.abs() if self._reference_numerics else squared.sqrt()

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "q_value", "target_q_value"]

    def _state_dict_learn(self) -> dict[str, Any]:
        """``model``, ``target_model`` and ``optimizer``."""
        return {
            "model": self._learn_model.state_dict(),
            "target_model": self._target_model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
        }

    def _load_state_dict_learn(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`_state_dict_learn` gave; the keys must be exactly those."""
        self._check_state_keys(state_dict, ("model", "target_model", "optimizer"))
        self._learn_model.load_state_dict(state_dict["model"])
        self._target_model.load_state_dict(state_dict["target_model"])
        self._optimizer.load_state_dict(state_dict["optimizer"])
        self._target_model.reset(target_update_count=num_steps(self._optimizer))

    # ------------------------------------------------------------------ collect

    def _init_collect(self) -> None:
        self._unroll_len = self._cfg.collect.unroll_len
        self._gamma, self._nstep = float(self._cfg.discount_factor), self._cfg.nstep
        self._collect_model = model_wrap(
            self._model, wrapper_name="eps_greedy_sample", reference_numerics=self._reference_numerics
        )
        self._collect_noise = _noise_layers(self._model) if self._cfg.noisy_net else []
        self._collect_model.reset()

    @batched
    def _forward_collect(self, data: EnvBatch, eps: float) -> EnvBatch:  # type: ignore[override]
        """Epsilon-greedy actions: ``logit`` float32 ``[N, actions]`` and ``action`` int64 ``[N, 1]``."""
        self._set_train(self._model, False)
        for layer in self._collect_noise:
            layer.enable_noise = True
        return forward_columns(self._collect_model, data, self._device, eps=eps)

    @batched
    def _process_transition(self, obs: Any, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """``obs, next_obs, action, reward, done``, for one environment or for columns of N."""
        return {
            "obs": obs,
            "next_obs": timestep.obs,
            "action": policy_output["action"],
            "reward": timestep.reward,
            "done": transition_done(timestep, self._reference_numerics),
        }

    @batched
    def _get_train_sample(self, transitions: Any) -> Any:
        """n-step returns (``reward`` of n steps, ``value_gamma``), then sequences of ``collect.unroll_len``."""
        samples = get_nstep_return_data(
            transitions, self._nstep, gamma=self._gamma, reference_tail=self._reference_numerics
        )
        return get_train_sample(samples, self._unroll_len)

    # ------------------------------------------------------------------ eval

    def _init_eval(self) -> None:
        self._eval_model = model_wrap(self._model, wrapper_name="argmax_sample")
        self._eval_noise = _noise_layers(self._model)
        self._eval_model.reset()

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:
        """Greedy actions: ``logit`` float32 ``[N, actions]`` and ``action`` int64 ``[N, 1]``."""
        self._set_train(self._model, False)
        for layer in self._eval_noise:
            layer.enable_noise = False
        return forward_columns(self._eval_model, data, self._device)


def masked_argmax(logit: Any, mask: Any = None) -> Any:
    """The best allowed action ``[B]`` of ``logit`` ``[B, actions]`` under ``mask`` (1: allowed); lists head by head."""
    if isinstance(logit, list):
        masks = mask if isinstance(mask, list) else [mask] * len(logit)
        return [masked_argmax(head, head_mask) for head, head_mask in zip(logit, masks)]
    if mask is not None:
        logit = logit.masked_fill(mask <= 0, -torch.inf)
    return logit.argmax(-1)


def _noise_layers(model: Any) -> list[Any]:
    return [layer for layer in model.modules() if isinstance(layer, NoiseLinearLayer)]
