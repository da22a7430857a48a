"""MBPO: an ensemble of networks that predicts rewards and changes of the state."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import nn

from ding.config import ConfigValueError
from ding.data import TransitionBatch
from ding.data.roles import Buffer, Samples, StateDict, Writer
from ding.utils import WORLD_MODEL_REGISTRY, write_scalars
from ding.world_model.base_world_model import HybridWorldModel
from ding.world_model.model.ensemble import EnsembleModel, StandardScaler
from ding.world_model.model.steps import TrainingSteps

# A member has improved where its held-out error fell by more than this share.
_IMPROVEMENT = 0.01

More = Callable[[int], dict[str, torch.Tensor]]


@runtime_checkable
class TerminatingEnv(Protocol):
    """An env that says in which states its episodes end."""

    def termination_fn(self, next_obs: torch.Tensor) -> torch.Tensor:
        """Return whether an episode ends in each of the states ``[N, O]``: bool ``[N]``."""


@WORLD_MODEL_REGISTRY.register("mbpo")
class MBPOWorldModel(HybridWorldModel, nn.Module):
    """The world model of MBPO (Janner et al. 2019, arXiv:1906.08253).

    E networks predict the reward and the change of the observation; each learns the transitions in an order of its own,
    until none has got better on held-out ones for some epochs. The best of them, the elites, make the steps: each row
    of a step is predicted by one of them, drawn at random. The env says which observations end an episode
    (``termination_fn``).

    State: ``ensemble_model.*`` and ``scaler.*``; with ``model.normalize_labels`` also ``label_scaler.*``.

    Attributes:
        ensemble_model: the networks.
        scaler: scales their inputs.
        label_scaler: scales what they predict; ``None`` without ``model.normalize_labels``.
        training_steps: makes their training steps, eager or compiled.
    """

    _elites: torch.Tensor

    config: ClassVar[dict[str, Any]] = {
        # (bool, 'auto' or 'record') Whether training steps are compiled, as those of `policy.learn.compile`.
        "compile": False,
        "model": {
            # (int) Number of networks.
            "ensemble_size": 7,
            # (int) How many of them make steps: those with the smallest loss.
            "elite_size": 5,
            # (int) Size of an observation. Required.
            "state_size": None,
            # (int) Size of an action. Required.
            "action_size": None,
            # (int) Numbers in a reward; only 1 is possible.
            "reward_size": 1,
            # (int) Width of the layers.
            "hidden_size": 200,
            # (bool) Whether the weights are regularised.
            "use_decay": False,
            # (bool) Whether rewards and changes of the state are scaled to mean 0 and deviation 1. Without it the one
            # with the largest deviation decides when the training ends. Logged errors of a training are then scaled.
            "normalize_labels": False,
            # (int) Transitions of a training step.
            "batch_size": 256,
            # (float) Share of the transitions that is held out.
            "holdout_ratio": 0.2,
            # (int) Training ends when no network has improved for more epochs than this.
            "max_epochs_since_update": 5,
            # (int or None) The most epochs of a training. Without noise, networks may get better for hours.
            "max_epochs": None,
            # (bool) Whether steps take the predicted mean; else they draw from the predicted distribution.
            "deterministic_rollout": True,
        },
    }

    def __init__(self, cfg: Mapping[str, Any], env: object, tb_logger: Writer | None = None) -> None:
        super().__init__(cfg, env, tb_logger)
        model = self.cfg.model
        for key in ("state_size", "action_size"):
            if not isinstance(model[key], int) or model[key] < 1:
                raise ConfigValueError(f"world_model.model.{key} must be the positive size, found {model[key]!r}")
        if model.reward_size != 1:
            raise ConfigValueError(f"world_model.model.reward_size must be 1, found {model.reward_size!r}")
        if not 1 <= model.elite_size <= model.ensemble_size:
            raise ConfigValueError(
                f"world_model.model.elite_size must lie between 1 and ensemble_size={model.ensemble_size}, "
                f"found {model.elite_size!r}"
            )
        if env is not None and not isinstance(env, TerminatingEnv):
            raise ConfigValueError(
                f"{type(self).__name__} needs an env with termination_fn(next_obs), which {type(env).__name__} lacks, "
                "such as 'mbpendulum' or 'mbmujoco'"
            )
        self.ensemble_size, self.elite_size = int(model.ensemble_size), int(model.elite_size)
        self.batch_size, self.holdout_ratio = int(model.batch_size), float(model.holdout_ratio)
        self.max_epochs_since_update = int(model.max_epochs_since_update)
        self.max_epochs = math.inf if model.max_epochs is None else int(model.max_epochs)
        self.deterministic_rollout = bool(model.deterministic_rollout)
        # A buffer that no state dict has, so that a compiled update of a policy finds the elites of today in it.
        self.register_buffer("_elites", torch.zeros(0, dtype=torch.int64), persistent=False)
        self._make_networks()
        sizes = model.state_size + model.reward_size
        self.label_scaler = StandardScaler(sizes).to(self.device) if model.normalize_labels else None
        self.training_steps = TrainingSteps(self.cfg.compile, type(self).__name__)
        for network in self._networks().values():
            self.training_steps.prepare(network)

    def _make_networks(self) -> None:
        self.ensemble_model = self._network(EnsembleModel)
        self.scaler = StandardScaler(self.cfg.model.state_size + self.cfg.model.action_size).to(self.device)

    def _network(self, kind: type[EnsembleModel]) -> EnsembleModel:
        model = self.cfg.model
        sizes = (model.state_size, model.action_size, model.reward_size, model.ensemble_size, model.hidden_size)
        return kind(*sizes, use_decay=model.use_decay).to(self.device)

    @property
    def elite_model_idxes(self) -> list[int]:
        """The elites, the best one first; empty before the first training."""
        found: list[int] = self._elites.tolist()
        return found

    @elite_model_idxes.setter
    def elite_model_idxes(self, members: Sequence[int]) -> None:
        self._elites = torch.tensor(list(members), dtype=torch.int64, device=self.device)

    def step(
        self,
        obs: torch.Tensor,
        action: torch.Tensor,
        batch_size: int = 8192,
        keep_ensemble: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Make N steps.

        Args:
            obs: float32 ``[N, O]``.
            action: ``[N, A]``, or ``[N]``.
            batch_size: how many rows are predicted at a time.
            keep_ensemble: every network predicts the rows of its own: ``obs`` is ``[E, N, O]``, ``action``
                ``[E, N, A]``, and so are the results.

        Returns:
            Rewards ``[N]``, next observations ``[N, O]``, and dones as the env says them, ``[N]``.

        Raises:
            RuntimeError: the model was not trained yet.
        """
        inputs = self._inputs(obs, action)
        outputs = torch.cat(
            [self._labels(part, keep_ensemble) for part in inputs.split(batch_size, dim=-2)],
            dim=-2,
        )
        next_obs = outputs[..., 1:] + obs.to(outputs.device)
        return outputs[..., 0], next_obs, self._termination(next_obs)

    def _inputs(self, obs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Scaled inputs ``[..., N, D]``."""
        action = action.unsqueeze(-1) if action.ndim < obs.ndim else action
        inputs = torch.cat([obs.to(self.device), action.to(self.device, obs.dtype)], dim=-1)
        return self.scaler.transform(inputs)

    def _termination(self, next_obs: torch.Tensor) -> torch.Tensor:
        if self.env is None:
            raise RuntimeError(f"{type(self).__name__} was made without an env, whose termination_fn its steps need")
        done: torch.Tensor = self.env.termination_fn(next_obs.flatten(0, -2))  # type: ignore[attr-defined]
        return done.reshape(next_obs.shape[:-1])

    def _labels(self, inputs: torch.Tensor, keep_ensemble: bool) -> torch.Tensor:
        """Predicted labels; see :meth:`_predict`."""
        return self._predict(self.ensemble_model, self._elites, inputs, keep_ensemble)

    def _predict(
        self, network: EnsembleModel, elites: torch.Tensor, inputs: torch.Tensor, keep_ensemble: bool
    ) -> torch.Tensor:
        """Labels of ``[N, D]``, each row by an elite, or of ``[E, N, D]`` by all networks."""
        if not len(elites):
            raise RuntimeError("the world model makes no steps before its first training: it has no elite_model_idxes")
        if keep_ensemble:
            return self._drawn(*network(inputs))
        # A random order of the rows, dealt out to the elites: each row is predicted once, and not by every network.
        rows, count = inputs.shape[0], len(elites)
        share = -(-rows // count)
        order = torch.randperm(rows, device=inputs.device)
        padded = order[torch.arange(share * count, device=inputs.device) % rows]
        labels = self._drawn(*network(inputs[padded].unflatten(0, (count, share)), members=elites))
        return torch.empty_like(labels.flatten(0, 1)[:rows]).index_copy(0, order, labels.flatten(0, 1)[:rows])

    def _drawn(self, mean: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
        return self._unscaled(mean if self.deterministic_rollout else mean + var.sqrt() * torch.randn_like(mean))

    def _unscaled(self, labels: torch.Tensor) -> torch.Tensor:
        return labels if self.label_scaler is None else self.label_scaler.inverse_transform(labels)

    def eval(self, env_buffer: Buffer | None = None, envstep: int = 0, train_iter: int = 0) -> Any:
        """Log how well ``eval_freq`` random transitions are predicted; without a buffer as ``nn.Module.eval``.

        ``env_model_step/eval_mse_loss`` is the mean squared error of the networks, ``eval_ensemble_mse_loss`` that of
        their mean, ``eval_model_variances`` how much they differ.
        """
        if env_buffer is None:
            return nn.Module.train(self, False)
        samples = env_buffer.sample(self.eval_freq, train_iter)
        if samples is None:
            return None
        inputs, labels = self._table(samples)
        for prefix, network in self._networks().items():
            with torch.no_grad():
                mean, _ = network(_for_all(self.scaler.transform(inputs), self.ensemble_size))
            mean = self._unscaled(mean)
            numbers = {
                "eval_mse_loss": (mean - labels).square().mean(),
                "eval_ensemble_mse_loss": (mean.mean(0) - labels).square().mean(),
                "eval_model_variances": mean.var(0).mean(),
            }
            self._log(prefix, numbers, envstep)
        self.last_eval_step = envstep
        return None

    def _networks(self) -> dict[str, EnsembleModel]:
        """The networks that learn, by what their tags begin with."""
        return {"": self.ensemble_model}

    def train(self, env_buffer: Buffer | bool = True, envstep: int = 0, train_iter: int = 0) -> Any:
        """Learn from all transitions of ``env_buffer``; a bool switches the mode, as ``nn.Module.train`` does.

        Raises:
            ConfigValueError: there are too few transitions to hold any out.
            FloatingPointError: the held-out error is not finite.
        """
        if isinstance(env_buffer, bool):
            return nn.Module.train(self, env_buffer)
        inputs, labels = self._table(env_buffer.sample(env_buffer.count(), train_iter))
        self.elite_model_idxes, numbers = self._fit(self.ensemble_model, inputs, labels)
        self._log("", numbers, envstep)
        self.last_train_step = envstep
        return None

    def _table(self, samples: Samples) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs ``[N, D]``, not scaled, and labels ``[N, L]`` of transitions."""
        columns = TransitionBatch.of(samples).columns
        obs, action, next_obs, reward = (
            torch.as_tensor(columns[key], dtype=torch.float32).to(self.device).flatten(1)
            for key in ("obs", "action", "next_obs", "reward")
        )
        return torch.cat([obs, action], 1), torch.cat([reward[:, :1], next_obs - obs], 1)

    def _fit(
        self, network: EnsembleModel, inputs: torch.Tensor, labels: torch.Tensor, more: More | None = None
    ) -> tuple[list[int], dict[str, torch.Tensor]]:
        """Train a network, and return its elites and what to log. The scalers are fitted before.

        Args:
            more: further fields of a batch, see :meth:`_epoch`.
        """
        held_out = int(len(inputs) * self.holdout_ratio)
        if not 1 <= held_out < len(inputs):
            raise ConfigValueError(
                f"world_model.model.holdout_ratio={self.holdout_ratio} holds out {held_out} of {len(inputs)} "
                "transitions; collect more before the first training (policy.random_collect_size)"
            )
        self.scaler.fit(inputs[held_out:])
        inputs = self.scaler.transform(inputs)
        if self.label_scaler is not None:
            self.label_scaler.fit(labels[held_out:])
            labels = self.label_scaler.transform(labels)
        held_inputs = _for_all(inputs[:held_out], self.ensemble_size)
        best = Best(network)
        epochs_since_update = epochs = 0
        while epochs == 0 or (epochs < self.max_epochs and epochs_since_update <= self.max_epochs_since_update):
            epochs += 1
            numbers = self._epoch(network, inputs[held_out:], labels[held_out:], more)
            errors = _errors(network, held_inputs, labels[:held_out])
            epochs_since_update = 0 if best.note(errors) else epochs_since_update + 1
        if not bool(torch.isfinite(errors).all()):
            raise FloatingPointError("the world model learns nothing: its held-out error is not finite")
        best.restore()
        order = best.errors.argsort()
        ranked = best.errors[order]
        numbers |= {"curr_holdout_mse_loss": errors.mean(), "best_holdout_mse_loss": ranked.mean()}
        places = {"top": 0, "middle": len(ranked) // 2, "bottom": -1}
        numbers |= {f"{name}_holdout_mse_loss": ranked[place] for name, place in places.items()}
        return order[: self.elite_size].tolist(), numbers

    def _epoch(
        self, network: EnsembleModel, inputs: torch.Tensor, labels: torch.Tensor, more: More | None
    ) -> dict[str, torch.Tensor]:
        """Go through all rows once, each network in an order of its own; returns means to log.

        Args:
            more: ``more(start)`` returns further fields, ``[E, n, ...]``, of the batch that begins at row ``start``.
        """
        table = torch.cat([inputs, labels], 1)
        orders = torch.rand(self.ensemble_size, len(table), device=table.device).argsort(1)
        logs: list[Mapping[str, torch.Tensor]] = []
        for start in range(0, len(table), self.batch_size):
            rows = table[orders[:, start : start + self.batch_size]]
            batch = {"inputs": rows[..., : inputs.shape[1]], "labels": rows[..., inputs.shape[1] :]}
            if more is not None:
                batch |= more(start)
            # The last batch of an epoch has another size in each training.
            full = all(field.shape[1] == self.batch_size for field in batch.values())
            logs.append(self.training_steps(network, batch, repeated=full))
        return {name: torch.stack([one[name] for one in logs]).mean() for name in logs[0]}

    def _log(self, prefix: str, numbers: Mapping[str, torch.Tensor], envstep: int) -> None:
        values = {name: float(value) for name, value in numbers.items()}
        write_scalars(self.tb_logger, f"env_model_step/{prefix}", values, envstep)

    def training_state(self) -> StateDict:
        """Return the state of the optimizer and the elites."""
        return {"optimizer": self.ensemble_model.optimizer.state_dict(), "elites": list(self.elite_model_idxes)}

    def load_training_state(self, state_dict: StateDict) -> None:
        """Restore what :meth:`training_state` returned."""
        self.ensemble_model.optimizer.load_state_dict(state_dict["optimizer"])
        self.elite_model_idxes = [int(one) for one in state_dict["elites"]]


class Best:
    """The weights with which each member of an ensemble had its smallest error.

    Args:
        network: the ensemble.

    Attributes:
        errors: the smallest errors, ``[E]``.
    """

    def __init__(self, network: EnsembleModel) -> None:
        self._weights = [weight for weight in network.parameters() if weight.requires_grad]
        self._kept = [weight.detach().clone() for weight in self._weights]
        self.errors = torch.full((network.ensemble_size,), torch.inf, device=self._weights[0].device)

    @torch.no_grad()
    def note(self, errors: torch.Tensor) -> bool:
        """Keep the weights of the members whose errors ``[E]`` fell by more than 1 %; returns whether there are any."""
        better = errors < (1 - _IMPROVEMENT) * self.errors
        if not bool(better.any()):
            return False
        self.errors = torch.where(better, errors, self.errors)
        for weight, kept in zip(self._weights, self._kept):
            torch.where(better.view(-1, 1, 1), weight, kept, out=kept)
        return True

    @torch.no_grad()
    def restore(self) -> None:
        """Give each member its best weights."""
        for weight, kept in zip(self._weights, self._kept):
            weight.copy_(kept)


@torch.no_grad()
def _errors(network: EnsembleModel, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean squared error of each member, ``[E]``, for scaled inputs ``[E, N, D]`` and labels ``[N, L]``."""
    mean: torch.Tensor = network(inputs, ret_log_var=True)[0]
    return (mean - labels).square().mean(dim=(1, 2))


def _for_all(inputs: torch.Tensor, members: int) -> torch.Tensor:
    return inputs.expand(members, *inputs.shape)
