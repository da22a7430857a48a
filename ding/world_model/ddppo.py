"""DDPPO: a second ensemble, which learns to have the right derivatives, supplies the gradients of the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
import torch

from ding.data.roles import Buffer, StateDict, Writer
from ding.utils import WORLD_MODEL_REGISTRY
from ding.world_model.mbpo import MBPOWorldModel, More
from ding.world_model.model.ensemble import EnsembleModel, StandardScaler

# Distances of so many rows to all others are in memory at a time.
_ROWS = 1024


class EnsembleGradientModel(EnsembleModel):
    """An ensemble that learns with a regulariser.

    Attributes:
        reg: its weight in :meth:`update`.
    """

    reg = 1.0

    def train(self, loss: torch.Tensor | bool = True, loss_reg: torch.Tensor | float = 0.0, reg: float = 1.0) -> Any:
        """Make one step of Adam on ``loss + reg * loss_reg``; a bool switches the mode, as ``nn.Module.train`` does."""
        return super().train(loss if isinstance(loss, bool) else loss + reg * loss_reg)

    def update(self, batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Make one training step on ``inputs`` and ``labels`` and on derivatives.

        At ``pool`` ``[E, n, D]`` the change of the labels along the ways to K neighbours, ``ways`` ``[E, n, K, D]``,
        shall be ``changes`` ``[E, n, K, L]``.

        Returns:
            ``mse_loss``, and ``grad_loss``, the mean square of what is lacking, 0-d.
        """
        mean, logvar = self(batch["inputs"], ret_log_var=True)
        loss, mse = self.loss(mean, logvar, batch["labels"])
        lacking = batch["changes"] - self.derivative(batch["pool"], batch["ways"])
        loss_reg = lacking.square().sum(0).mean()
        self.train(loss, loss_reg, self.reg)
        return {"mse_loss": mse.detach().mean(), "grad_loss": loss_reg.detach()}


@WORLD_MODEL_REGISTRY.register("ddppo")
class DDPPOWorldMode(MBPOWorldModel):
    """The world model of DDPPO (Li et al. 2022, "Gradient information matters in policy optimization by
    back-propagating through model", ICLR): the steps have the values of one ensemble, and the gradients of another.

    The first, ``rollout_model``, learns as that of MBPO. ``gradient_model`` also learns that its derivative along the
    way from a transition to its nearest neighbours is the difference of their labels.

    State: ``rollout_model.*``, ``gradient_model.*`` and ``scaler.*``; with ``model.normalize_labels`` also
    ``label_scaler.*``.

    Attributes:
        rollout_model, gradient_model: the networks; the second is ``None`` with ``model.gradient_model=False``.
        elite_model_idxes_gradient_model: the elites of the second one; empty before its first training, until which
            the gradients are those of the first one.
        last_train_step_gradient_model: env step of its newest training.
        serial_calc_nn: has no effect, since neighbours are found in one go; DI-engine starts processes for it.
    """

    config: ClassVar[dict[str, Any]] = {
        "model": {
            # (bool) Whether there is a second ensemble.
            "gradient_model": True,
            # (int) Number of neighbours.
            "k": 3,
            # (float) Weight of the regulariser.
            "reg": 1,
            # (int) Number of newest transitions among which neighbours are looked for.
            "neighbor_pool_size": 10000,
            # (int) Env steps from one training of the second ensemble to the next.
            "train_freq_gradient_model": 250,
            # (bool) DI-engine's numbers: changes of the state shall be the derivatives of the next state, and of a
            # batch that goes over the end of the pool only the rows at its beginning count.
            "reference_numerics": False,
        },
    }

    _gradient_elites: torch.Tensor

    def __init__(self, cfg: Mapping[str, Any], env: object, tb_logger: Writer | None = None) -> None:
        super().__init__(cfg, env, tb_logger)
        model = self.cfg.model
        self.k, self.reg, self.neighbor_pool_size = int(model.k), float(model.reg), int(model.neighbor_pool_size)
        self.train_freq_gradient_model = int(model.train_freq_gradient_model)
        self.last_train_step_gradient_model = 0
        self.serial_calc_nn = False
        if self.gradient_model is not None:
            self.gradient_model.reg = self.reg
        self._reference_numerics = bool(model.reference_numerics)

    def _make_networks(self) -> None:
        model = self.cfg.model
        self.rollout_model = self._network(EnsembleModel)
        self.gradient_model: Any = self._network(EnsembleGradientModel) if model.gradient_model else None
        self.scaler = StandardScaler(model.state_size + model.action_size).to(self.device)
        self.register_buffer("_gradient_elites", torch.zeros(0, dtype=torch.int64), persistent=False)

    def _networks(self) -> dict[str, EnsembleModel]:
        found: dict[str, EnsembleModel] = {"rollout_model/": self.rollout_model}
        return found if self.gradient_model is None else {**found, "gradient_model/": self.gradient_model}

    @property
    def elite_model_idxes_gradient_model(self) -> list[int]:
        """The elites of the gradient model, the best one first; empty before its first training."""
        found: list[int] = self._gradient_elites.tolist()
        return found

    @elite_model_idxes_gradient_model.setter
    def elite_model_idxes_gradient_model(self, members: list[int]) -> None:
        self._gradient_elites = torch.tensor(list(members), dtype=torch.int64, device=self.device)

    def _labels(self, inputs: torch.Tensor, keep_ensemble: bool) -> torch.Tensor:
        values = self._predict(self.rollout_model, self._elites, inputs, keep_ensemble)
        if self.gradient_model is None or not len(self._gradient_elites) or not torch.is_grad_enabled():
            return values
        other = self._predict(self.gradient_model, self._gradient_elites, inputs, keep_ensemble)
        return values.detach() + (other - other.detach())

    def train(self, env_buffer: Buffer | bool = True, envstep: int = 0, train_iter: int = 0) -> Any:
        """Learn from all transitions of ``env_buffer``; a bool switches the mode, as ``nn.Module.train`` does.

        Raises:
            ConfigValueError: there are too few transitions to hold any out.
            FloatingPointError: the held-out error is not finite.
        """
        if isinstance(env_buffer, bool):
            return super().train(env_buffer)
        count: int = env_buffer.count()
        inputs, labels = self._table(env_buffer.sample(count, train_iter))
        self.elite_model_idxes, numbers = self._fit(self.rollout_model, inputs, labels)
        self._log("rollout_model/", numbers, envstep)
        due = envstep - self.last_train_step_gradient_model >= self.train_freq_gradient_model
        if self.gradient_model is not None and due:
            size = min(count, self.neighbor_pool_size)
            newest: Any = env_buffer
            pool = self._table(newest.sample(size, train_iter, sample_range=slice(-size, None)))
            derivatives = self._derivatives(*pool)
            self.elite_model_idxes_gradient_model, numbers = self._fit(self.gradient_model, inputs, labels, derivatives)
            self._log("gradient_model/", numbers, envstep)
            self.last_train_step_gradient_model = envstep
        self.last_train_step = envstep
        return None

    def _derivatives(self, inputs: torch.Tensor, labels: torch.Tensor) -> More:
        """Fields of the batches of the gradient model, from a pool of P inputs ``[P, D]`` and labels ``[P, L]``."""
        neighbors = torch.from_numpy(get_neighbor_index(inputs.cpu().numpy(), self.k)).to(inputs.device)
        # The networks predict changes of the state. DI-engine compares these with derivatives of the next state.
        identity = torch.zeros(inputs.shape[1], labels.shape[1], device=inputs.device)
        if self._reference_numerics:
            identity[: labels.shape[1] - 1, 1:] = torch.eye(labels.shape[1] - 1)
        too_much = (inputs[neighbors] - inputs.unsqueeze(1)) @ identity
        inputs = self.scaler.transform(inputs)
        ways, changes = (part[neighbors] - part.unsqueeze(1) for part in (inputs, labels))
        changes = changes - too_much
        if self.label_scaler is not None:
            changes = changes / self.label_scaler.std
        members, orders = self.ensemble_size, torch.zeros(0, dtype=torch.int64)

        def fields(start: int) -> dict[str, torch.Tensor]:
            nonlocal orders
            if start == 0:
                orders = torch.rand(members, len(inputs), device=inputs.device).argsort(1)
            rows = orders[:, self._pool_rows(start, len(inputs))]
            return {"pool": inputs[rows], "ways": ways[rows], "changes": changes[rows]}

        return fields

    def _pool_rows(self, start: int, size: int) -> torch.Tensor:
        """Which of the pool's rows belong to the batch that begins at row ``start``: int64 ``[n]``."""
        if not self._reference_numerics:
            return torch.arange(start, start + self.batch_size) % size
        first, last = start % size, (start + self.batch_size) % size
        return torch.arange(first if first < last else 0, last)

    def training_state(self) -> StateDict:
        """Return the states of the optimizers, the elites, and when the gradient model was trained."""
        optimizers = {name: network.optimizer.state_dict() for name, network in self._networks().items()}
        return {
            "optimizers": optimizers,
            "elites": [self.elite_model_idxes, self.elite_model_idxes_gradient_model],
            "last_train_step_gradient_model": self.last_train_step_gradient_model,
        }

    def load_training_state(self, state_dict: StateDict) -> None:
        """Restore what :meth:`training_state` returned."""
        for name, network in self._networks().items():
            network.optimizer.load_state_dict(state_dict["optimizers"][name])
        self.elite_model_idxes, self.elite_model_idxes_gradient_model = state_dict["elites"]
        self.last_train_step_gradient_model = int(state_dict["last_train_step_gradient_model"])


class Tree(Protocol):
    """A tree of points, as ``scipy.spatial.KDTree`` is one."""

    def query(self, x: Any, k: int) -> Any:
        """Return the distances of the ``k`` nearest points to ``x``, and their positions."""


def tree_query(point: Any, tree: Tree, k: int) -> Any:
    """Return the positions of the ``k`` points in ``tree`` that are nearest to one of its own, without itself."""
    return tree.query(point, k=k + 1)[1][1:]


def get_neighbor_index(data: Any, k: int, serial: bool = False) -> np.ndarray:
    """Return for each row the positions of its ``k`` nearest other rows, nearest first: int64 ``[N, k]``.

    Args:
        data: float ``[N, D]``.
        k: number of neighbours; at most N - 1.
        serial: has no effect.
    """
    rows = torch.as_tensor(data)
    near = [torch.cdist(part, rows, compute_mode="donot_use_mm_for_euclid_dist") for part in rows.split(_ROWS)]
    found = [part.topk(k + 1, largest=False).indices[:, 1:] for part in near]
    return torch.cat(found).numpy()


def get_batch_jacobian(net: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, noutputs: int) -> torch.Tensor:
    """Return the Jacobian of a network at each row, with gradients to its weights: ``[B, noutputs, D]``.

    Args:
        net: maps ``[N, D]`` to ``[N, noutputs]``, row by row.
        x: ``[B, D]``.
        noutputs: number of outputs.
    """
    repeated = x.unsqueeze(1).expand(-1, noutputs, -1).detach().reshape(-1, x.shape[-1]).requires_grad_()
    output = net(repeated).reshape(-1, noutputs, noutputs)
    chosen = output.diagonal(dim1=1, dim2=2).sum()
    return torch.autograd.grad(chosen, repeated, create_graph=True)[0].reshape(-1, noutputs, x.shape[-1])
