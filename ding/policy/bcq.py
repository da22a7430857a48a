"""BCQ: batch-constrained Q-learning from data sets (Fujimoto et al. 2019, arXiv:1812.02900)."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F

from ding.data import EnvBatch, batched
from ding.data.roles import Samples, StateDict
from ding.model import model_wrap
from ding.model.template.bcq import BCQ
from ding.model.template.vae import kl_to_normal
from ding.policy._acting.offline import OfflinePolicy
from ding.policy._learning.critics import critic_losses, priorities
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.target_update import target_network
from ding.policy._learning.update import Logs
from ding.utils import POLICY_REGISTRY

_REPEATS = 10


@POLICY_REGISTRY.register("bcq")
class BCQPolicy(OfflinePolicy):
    """Batch-constrained Q-learning of continuous actions; it learns from data sets only.

    Each sample is regressed to its own target; DI-engine regresses it to those of the whole batch.
    """

    config = {
        "type": "bcq",
        "cuda": False,
        "on_policy": False,
        "priority": False,
        "priority_IS_weight": False,
        "nstep": 1,
        "random_collect_size": 10000,
        "model": {"actor_head_hidden_size": [400, 300], "critic_head_hidden_size": [400, 300], "phi": 0.05},
        "learn": {
            "update_per_collect": 1,
            "batch_size": 100,
            "learning_rate_q": 3e-4,
            "learning_rate_policy": 3e-4,
            "learning_rate_vae": 3e-4,
            "ignore_done": False,
            # (float) The share by which the target network moves to the learner at each update.
            "target_theta": 0.005,
            "discount_factor": 0.99,
            # (float) Weight of the smaller critic beside the larger one.
            "lmbda": 0.75,
            "init_w": 3e-3,
        },
        "collect": {"unroll_len": 1},
        "eval": {},
        "other": {"replay_buffer": {"replay_buffer_size": 1000000}},
    }

    learn_state = {
        "model": "_learn_model",
        "target_model": "_target_model",
        "optimizer_q": "_optimizer_q",
        "optimizer_policy": "_optimizer_policy",
        "optimizer_vae": "_optimizer_vae",
    }

    learn_rates = {"cur_lr": "_optimizer_q"}

    _model: BCQ

    def default_model(self) -> tuple[str, list[str]]:
        """``bcq`` of :mod:`ding.model.template.bcq`."""
        return "bcq", ["ding.model.template.bcq"]

    def _init_learn(self) -> None:
        learn, model = self._cfg.learn, self._model
        self._gamma = float(learn.discount_factor)
        self._optimizer_q = clipping_adam(model.critic.parameters(), learn, lr=learn.learning_rate_q)
        self._optimizer_policy = clipping_adam(model.actor.parameters(), learn, lr=learn.learning_rate_policy)
        self._optimizer_vae = clipping_adam(model.vae.parameters(), learn, lr=learn.learning_rate_vae)
        self._learn_model = model_wrap(model, wrapper_name="base")
        self._target_model = target_network(model, learn, BCQPolicy.config["learn"], self._reference_numerics)

    @batched
    def _forward_learn(self, data: Samples) -> Logs:
        """One update of the model of actions, the critics and the perturbation on B samples; returns floats, and
        ``priority`` (B floats).
        """
        return self._learn(data)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One update of the model of the data's actions (a VAE), of the critics and of the perturbation.

        ``Q_i(s, a)`` meets ``r + discount max_a (lmbda min_i Q_i'(s', a) + (1 - lmbda) max_i Q_i'(s', a))`` over ten
        actions of the data's kind that the target perturbs.
        """
        model, target, lmbda = self._model, self._target_model, self._cfg.learn.lmbda
        output = model.compute_vae(batch)
        reconstruction = F.mse_loss(output["recons_action"], batch["action"])
        divergence = kl_to_normal(output["mu"], output["log_var"])
        vae_loss = reconstruction + 0.5 * divergence
        self._optimize(vae_loss, self._optimizer_vae, model.vae)

        with torch.no_grad():
            next_obs = batch["next_obs"].repeat_interleave(_REPEATS, 0)
            drawn = target.compute_actor({"obs": next_obs, "action": model.draw(next_obs)})["action"]
            next_q = torch.stack(target.compute_critic({"obs": next_obs, "action": drawn})["q_value"])
            next_value = (lmbda * next_q.amin(0) + (1 - lmbda) * next_q.amax(0)).reshape(-1, _REPEATS).amax(1)
            goal = batch["reward"] + batch["discount"] * batch["not_done"] * next_value
        td_errors = torch.stack(model.compute_critic(batch)["q_value"]) - goal
        losses = critic_losses(td_errors, batch["weight"])
        self._optimize(losses.sum(), self._optimizer_q, model.critic)

        with torch.no_grad():
            shown = model.draw(batch["obs"])
        action = model.compute_actor({"obs": batch["obs"], "action": shown})["action"]
        actor_loss = -model.compute_critic({"obs": batch["obs"], "action": action})["q_value"][0].mean()
        self._optimize(actor_loss, self._optimizer_policy, model.actor)
        target.update(model)
        return {
            "td_error": td_errors.detach().square().mean(),
            "target_q_value": next_value.mean(),
            "recons_loss": reconstruction,
            "kld_loss": divergence,
            "vae_loss": vae_loss,
            **dict(zip(("critic_loss", "twin_critic_loss"), losses)),
            "actor_loss": actor_loss,
            "total_loss": vae_loss + losses.sum() + actor_loss,
            "priority": priorities(td_errors, self._reference_numerics),
        }

    def _monitor_vars_learn(self) -> list[str]:
        losses = ["recons_loss", "kld_loss", "vae_loss", "critic_loss", "twin_critic_loss", "actor_loss", "total_loss"]
        return ["cur_lr", "td_error", "target_q_value", *losses]

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        """A perturbation of DI-engine has one output for all dimensions of an action, which each then gets; the
        moments of its optimiser fit no longer.
        """
        state = {**state_dict}
        for key in {"model", "target_model"} & state.keys():
            state[key] = _with_all_outputs(state[key], self._model.action_shape)
        if "optimizer_policy" in state and state.get("model") is not state_dict.get("model"):
            state["optimizer_policy"] = {**state["optimizer_policy"], "state": {}}
        super()._load_state_dict_learn(state)

    def _model_state(self, state_dict: StateDict) -> StateDict:
        state = super()._model_state(state_dict)
        return {"model": _with_all_outputs(state["model"], self._model.action_shape)}

    def _init_eval(self) -> None:
        self._eval_model = model_wrap(self._model, wrapper_name="base")

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """The best of 100 actions of the data's kind: ``action`` float32 ``[N, D]``."""
        return self._act(self._eval_model, EnvBatch(data.env_ids, {"obs": data.columns}), mode="compute_eval")


def _with_all_outputs(weights: StateDict, dims: int) -> StateDict:
    """Weights of a network whose perturbation has ``dims`` outputs; those of one with a single output repeat it."""
    last = [name for name in weights if name.startswith("actor.")][-2:]
    single = {name: weights[name] for name in last if len(weights[name]) == 1 < dims}
    if not single:
        return weights
    return {**weights, **{name: value.repeat_interleave(dims, 0) for name, value in single.items()}}
