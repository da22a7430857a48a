"""TD3-VAE: TD3 in the latent space of a variational autoencoder of actions (HyAR, Li et al. 2022, arXiv:2109.05490)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ding.data import EnvBatch, TransitionBatch, batched
from ding.data.roles import Samples, StateDict
from ding.model.template.vae import VanillaVAE, kl_to_normal
from ding.policy._learning.loading import load_parts
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.target_update import num_steps
from ding.policy._learning.update import Logs
from ding.policy.common_utils import transition_of
from ding.policy.ddpg import DDPGPolicy
from ding.policy.errors import PolicyConfigError
from ding.utils import POLICY_REGISTRY

_HIDDEN = (256, 256)
_KLD_WEIGHT = _PREDICT_WEIGHT = 0.01
# Samples are relabelled from so many times the mean prediction loss of the warm-up on.
_RELABEL_FACTOR = 4.0
# Shares of the latent actions that lie below the bounds.
_LOW, _HIGH = 0.02, 0.98
# The latent action of a sample that was collected without the policy, as DI-engine has it.
_NO_LATENT = 999.0
_DECODED_SIGMA = 0.1


class LatentSpace(torch.nn.Module):
    """What is known of the latent actions: the bounds in which most of them lie, and how well they predict.

    State: ``low`` and ``high`` ``[latent]``, ``predict_loss`` and ``count`` (0-d).
    """

    low: torch.Tensor
    high: torch.Tensor
    predict_loss: torch.Tensor
    count: torch.Tensor

    def __init__(self, latent_size: int) -> None:
        super().__init__()
        self.register_buffer("low", -torch.ones(latent_size))
        self.register_buffer("high", torch.ones(latent_size))
        self.register_buffer("predict_loss", torch.zeros(()))
        self.register_buffer("count", torch.full((), 1e-4))

    def add_loss(self, loss: torch.Tensor) -> None:
        """Take a loss, 0-d, into the running mean ``predict_loss``."""
        self.count += 1
        self.predict_loss += (loss - self.predict_loss) / self.count

    def set_bounds(self, latent: torch.Tensor) -> None:
        """Set the bounds to percentiles of latent actions ``[B, latent]``."""
        rows = latent.sort(0).values
        self.low.copy_(rows[int(_LOW * len(rows))])
        self.high.copy_(rows[int(_HIGH * len(rows))])


@POLICY_REGISTRY.register("td3-vae")
@POLICY_REGISTRY.register("td3_vae")
class TD3VAEPolicy(DDPGPolicy):
    """TD3 whose actions are latent variables of an autoencoder of the env's actions, which are continuous.

    The autoencoder is conditioned on observations and predicts their change, too. Samples say what is learned from
    them: with ``warm_up`` or ``vae_phase`` the autoencoder, else TD3 (``serial_pipeline_td3_vae`` marks them). Latent
    actions of samples that the autoencoder no longer explains are encoded anew.

    ``model.action_shape`` is the size of the latent action, ``original_action_shape`` that of the env's action.
    """

    has_latent_actions = True

    config = {
        "type": "td3-vae",
        # (int) Dimensions of the env's action.
        "original_action_shape": 2,
        "model": {"twin_critic": True},
        "learn": {
            "actor_update_freq": 2,
            "noise": True,
            "noise_sigma": 0.2,
            "noise_range": {"min": -0.5, "max": 0.5},
            "learning_rate_vae": 1e-4,
            # (int) Updates of the autoencoder on the random samples, before the first collection.
            "warm_up_update": 10000,
            # (int) Passes from one training of the autoencoder to the next.
            "rl_vae_update_circle": 1,
            # (int) Updates of TD3 per pass.
            "update_per_collect_rl": 256,
            # (int) Updates of the autoencoder per training.
            "update_per_collect_vae": 10,
        },
    }

    learn_state = {
        **DDPGPolicy.learn_state,
        "vae_model": "_vae_model",
        "optimizer_vae": "_optimizer_vae",
        "latent_space": "_latent_space",
    }

    def _init_model(self, model: torch.nn.Module | None) -> None:
        super()._init_model(model)
        cfg, latent = self._cfg, self._cfg.model.action_shape
        if not isinstance(latent, int) or not isinstance(cfg.model.obs_shape, int):
            raise PolicyConfigError(
                "policy.model: td3-vae is for vector observations, obs_shape and action_shape (the size of the latent "
                f"action) are ints, found {cfg.model.obs_shape!r} and {latent!r}"
            )
        vae = VanillaVAE(int(cfg.original_action_shape), cfg.model.obs_shape, latent, _HIDDEN)
        self._vae_model, self._latent_space = vae.to(self._device), LatentSpace(latent).to(self._device)

    def _init_learn(self) -> None:
        super()._init_learn()
        learn = self._cfg.learn
        self._optimizer_vae = clipping_adam(self._vae_model.parameters(), learn, lr=learn.learning_rate_vae)

    @batched
    def _forward_learn(self, data: Samples, num_updates: int = 1) -> Logs:
        """One update on B samples, or several on as many times B: of the autoencoder, or of TD3.

        Returns:
            Floats, and of TD3 ``priority`` (B floats); a list of such dicts for several updates.
        """
        warm_up, vae_phase = (_first(data, key) for key in ("warm_up", "vae_phase"))
        phase = "warm_up" if warm_up else "vae" if vae_phase else "rl"
        first, freq = num_steps(self._optimizer_critic) + 1, self._cfg.learn.actor_update_freq
        turns = range(first, first + num_updates)
        # DI-engine begins with the actor, too.
        options = [{"phase": phase, "with_actor": phase == "rl" and (turn + 1) % freq == 0} for turn in turns]
        return self._learn(data, num_updates, options)

    def _update(
        self, batch: Mapping[str, Any], *, with_actor: bool = True, phase: str = "rl", **options: Any
    ) -> dict[str, torch.Tensor]:
        """One update of the autoencoder (``phase`` is ``'warm_up'`` or ``'vae'``), or of TD3 on latent actions.

        The autoencoder minimises ``mean (a' - a)^2 + 0.01 KL + 0.01 mean (d' - (s' - s))^2`` with the decoded action
        ``a'`` and change ``d'``. In the warm-up the mean of its last term is kept; later the bounds are, in which 96 %
        of ``tanh(z)`` lie. TD3 learns from the latent actions that were collected, or from ``tanh(z)`` of samples whose
        own last term is above four times that mean.
        """
        space, change = self._latent_space, batch["next_obs"] - batch["obs"]
        with torch.set_grad_enabled(phase != "rl"):
            output = self._vae_model({"action": batch["action"], "obs": batch["obs"]})
            predict_losses = (output["prediction_residual"] - change).square().mean(-1)
        latent = torch.tanh(output["z"].detach())
        if phase == "rl":
            unexplained = predict_losses > _RELABEL_FACTOR * space.predict_loss
            action = torch.where(unexplained.unsqueeze(-1), latent, batch["latent_action"])
            numbers = super()._update({**batch, "action": action}, with_actor=with_actor)
            return {**numbers, "action": batch["action"].mean()}
        reconstruction_loss = F.mse_loss(output["recons_action"], batch["action"])
        kld_loss, predict_loss = kl_to_normal(output["mu"], output["log_var"]), predict_losses.mean()
        loss = reconstruction_loss + _KLD_WEIGHT * kld_loss + _PREDICT_WEIGHT * predict_loss
        self._optimize(loss, self._optimizer_vae, self._vae_model)
        if phase == "warm_up":
            space.add_loss(predict_loss.detach())
        else:
            space.set_bounds(latent)
        terms = {"reconstruction_loss": reconstruction_loss, "kld_loss": kld_loss, "predict_loss": predict_loss}
        return {"vae_loss": loss, **terms}

    def _may_join_updates(self) -> bool:
        return False

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "vae_loss", "reconstruction_loss", "kld_loss", "predict_loss"]

    def _decoded(self, output: EnvBatch, obs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """The latent actions of an output within the bounds, and the actions of the env: ``[N, ...]``."""
        columns: dict[str, Any] = dict(output.columns)
        space = self._latent_space
        with torch.no_grad():
            latent = torch.as_tensor(columns["action"]).to(self._device).clamp(space.low, space.high)
            seen = torch.as_tensor(obs).to(self._device)
            action = self._vae_model.decode_with_obs(latent, seen)["reconstruction_action"]
        return latent.cpu(), action.cpu()

    @batched
    def _forward_collect(self, data: EnvBatch, **kwargs: Any) -> EnvBatch:  # type: ignore[override]
        """``action`` float32 ``[N, D]``, with noise, and the ``latent_action`` ``[N, latent]`` that it was decoded
        from.
        """
        latent, action = self._decoded(self._act(self._collect_model, data, mode="compute_actor"), data.columns)
        noise, limits = _DECODED_SIGMA * torch.randn(action.shape), self._cfg.learn.get("noise_range")
        noise = noise if limits is None else noise.clamp(limits["min"], limits["max"])
        return EnvBatch(data.env_ids, {"action": (action + noise).clamp(-1.0, 1.0), "latent_action": latent})

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """``obs, next_obs, action, latent_action, reward, done``; for one environment or columns of N.

        Of a random action ``latent_action`` is 999.
        """
        if "latent_action" not in policy_output:
            rows = np.shape(policy_output["action"])[:-1]
            latent = torch.full((*rows, self._cfg.model.action_shape), _NO_LATENT)
            policy_output = {**policy_output, "latent_action": latent}
        fields = ("action", "latent_action")
        return transition_of(obs, policy_output, timestep, fields, time_limit_is_end=self._reference_numerics)

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """``action`` and ``latent_action`` without noise."""
        latent, action = self._decoded(self._act(self._eval_model, data, mode="compute_actor"), data.columns)
        return EnvBatch(data.env_ids, {"action": action, "latent_action": latent})

    def _state_dict_collect(self) -> StateDict:
        return {**super()._state_dict_collect(), **self._latent_state()}

    def _state_dict_eval(self) -> StateDict:
        return {**super()._state_dict_eval(), **self._latent_state()}

    def _latent_state(self) -> StateDict:
        return {"vae_model": self._vae_model.state_dict(), "latent_space": self._latent_space.state_dict()}

    def _load_state_dict_collect(self, state_dict: StateDict) -> None:
        super()._load_state_dict_collect(state_dict)
        self._load_latent_state(state_dict)

    def _load_state_dict_eval(self, state_dict: StateDict) -> None:
        super()._load_state_dict_eval(state_dict)
        self._load_latent_state(state_dict)

    def _load_latent_state(self, state_dict: StateDict) -> None:
        parts = {"vae_model": self._vae_model, "latent_space": self._latent_space}
        load_parts(self, parts, {key: state_dict.get(key, part.state_dict()) for key, part in parts.items()})

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        """A file of DI-engine has neither the optimiser of the autoencoder nor what is known of the latent space."""
        absent = {"optimizer_vae": self._optimizer_vae.state_dict(), "latent_space": self._latent_space.state_dict()}
        super()._load_state_dict_learn({**absent, **state_dict})


def _first(data: Samples, key: str) -> bool:
    """Whether the first sample is marked."""
    if isinstance(data, TransitionBatch):
        column = data.columns.get(key)
        return column is not None and bool(np.asarray(column[0]).all())
    return bool(data[0].get(key, False))
