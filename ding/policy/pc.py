"""Procedure cloning: a network learns the steps of a search, and acts by searching (Yang et al. 2022,
arXiv:2205.10816).
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

import torch
from torch.nn import functional

from ding.data import EnvBatch, batched
from ding.data.roles import Samples
from ding.model import model_wrap
from ding.policy._learning.optimization import EpochRates, sgd_or_adamw, warmed_up_share
from ding.policy._learning.update import Logs
from ding.policy.base_policy import Policy
from ding.policy.errors import PolicyConfigError, PolicyDataError, PolicyUsageError
from ding.utils import POLICY_REGISTRY

_NO_COLLECT = "pc_bfs learns from searches of mazes (serial_pipeline_pc, ding -m serial_pc) and does not collect"
# Epochs until the learning rate is a tenth, without lr_decay.
_EPOCHS_PER_RATE = 69


def search_states(obs: torch.Tensor, maps: torch.Tensor, num_actions: int) -> torch.Tensor:
    """Return what the network sees of a search: an observation, and a plane for each class of the map.

    Args:
        obs: ``[B, H, W, C]``.
        maps: int64 ``[B, H, W]``, the best action of each cell, ``num_actions`` where it is not known.

    Returns:
        float32 ``[B, H, W, C + num_actions + 1]``.
    """
    # one_hot looks at the values, which a compiled graph cannot.
    planes = maps.unsqueeze(-1) == torch.arange(num_actions + 1, device=maps.device)
    return torch.cat([obs.float(), planes.float()], dim=-1)


def search_loss(
    model: torch.nn.Module, batch: Mapping[str, torch.Tensor], num_actions: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the cross entropy of the maps after a step of the search, and the share of cells that are predicted.

    Args:
        batch: ``obs`` ``[B, H, W, C]``, ``bfs_in`` and ``bfs_out`` ``[B, H, W]``.
    """
    logit = model(search_states(batch["obs"], batch["bfs_in"], num_actions))["logit"].flatten(0, -2)
    wanted = batch["bfs_out"].long().flatten()
    return functional.cross_entropy(logit, wanted), (logit.argmax(-1) == wanted).float().mean()


class _Search:
    """Acts by a search that the network makes, step by step, until it knows what to do where the agent is."""

    def __init__(self, model: Any, num_actions: int, max_steps: int) -> None:
        self._model, self._num_actions, self._max_steps = model, num_actions, max_steps

    def forward(self, obs: torch.Tensor) -> dict[str, torch.Tensor]:
        """Observations ``[N, H, W, C]``, the last plane 1 where the agent is -> ``action`` int64 ``[N]``."""
        agent = obs[..., -1].flatten(1) == 1
        if not (agent.sum(1) == 1).all():
            raise PolicyDataError("pc_bfs acts on observations whose last plane is 1 in one cell, that of the agent")
        unknown, cells = self._num_actions, agent.int().argmax(1)
        actions = torch.full_like(cells, unknown)
        maps = torch.full(obs.shape[:3], unknown, device=obs.device)
        searching = torch.arange(len(obs), device=obs.device)
        for _ in range(self._max_steps):
            logit = self._model.forward(search_states(obs[searching], maps, unknown))["logit"]
            after = logit.argmax(-1)
            found = after.flatten(1).gather(1, cells[searching].unsqueeze(1)).squeeze(1)
            actions[searching] = found
            # A map that stays as it is never leads to more.
            goes_on = (found == unknown) & (after != maps).flatten(1).any(1)
            if not goes_on.any():
                break
            searching, maps = searching[goes_on], after[goes_on]
        lost = actions == unknown
        if lost.any():
            actions[lost] = torch.randint(unknown, (int(lost.sum()),), device=obs.device)
        return {"action": actions}


@POLICY_REGISTRY.register("pc_bfs")
class ProcedureCloningBFSPolicy(Policy):
    """A policy that learns breadth-first search from its steps, and acts by what its own search finds.

    A sample is a step of the search of an expert, as :func:`ding.utils.data.load_bfs_datasets` gives it: ``obs``
    ``[H, W, C]`` with the agent in the last plane, and ``bfs_in`` and ``bfs_out`` ``[H, W]``, the best action of each
    cell before and after the step, ``num_actions`` where it is not known.
    """

    config = {
        "type": "pc_bfs",
        "cuda": False,
        "on_policy": False,
        # (bool) Kept for configs of DI-engine: actions are discrete.
        "continuous": False,
        # (int or None) Cells along an axis of the mazes of serial_pipeline_pc; None: 16.
        "maze_size": None,
        # (int or None) Number of actions; None: model.action_shape.
        "num_actions": None,
        # (int) Steps of a search, after which an action is drawn at random.
        "max_bfs_steps": 100,
        "learn": {
            "update_per_collect": 1,
            "batch_size": 32,
            "learning_rate": 1e-5,
            # (bool) Whether the learning rate is ``warmup_lr`` for ``warmup_epoch`` epochs, and is multiplied with
            # ``decay_rate`` every ``decay_epoch`` epochs after them. Else it is divided by 10 every 69 epochs.
            "lr_decay": False,
            "decay_epoch": 30,
            "decay_rate": 0.1,
            "warmup_lr": 1e-4,
            "warmup_epoch": 3,
            # (str) 'SGD' or 'Adam' (with decoupled weight decay).
            "optimizer": "SGD",
            "momentum": 0.9,
            "weight_decay": 1e-4,
            "ignore_done": False,
        },
        "collect": {
            "unroll_len": 1,
            # Kept for configs of DI-engine.
            "noise": False,
            "noise_sigma": 0.2,
            "noise_range": {"min": -0.5, "max": 0.5},
        },
        "eval": {},
        "other": {"replay_buffer": {"replay_buffer_size": 10000}},
    }

    extends_obs = True
    #: The fields of a data set that are learned from.
    learn_fields: ClassVar[tuple[str, ...]] = ("obs", "bfs_in", "bfs_out")

    def default_model(self) -> tuple[str, list[str]]:
        """``pc_bfs`` of :mod:`ding.model.template.procedure_cloning`."""
        return "pc_bfs", ["ding.model.template.procedure_cloning"]

    def _get_num_actions(self) -> int:
        given, shape = self._cfg.num_actions, self._cfg.model.get("action_shape")
        if given is None and shape is None:
            raise PolicyConfigError("policy.num_actions: give it, or policy.model.action_shape")
        if given is not None and shape is not None and given != shape:
            raise PolicyConfigError(f"policy.num_actions is {given}, but policy.model.action_shape is {shape}")
        return int(shape if given is None else given)

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._num_actions = self._get_num_actions()
        self._optimizer = sgd_or_adamw(self._model.parameters(), learn)
        #: Moved on by the pipeline after each epoch.
        self._lr_scheduler = EpochRates(self._optimizer, self._lr_share)
        self._learn_model = model_wrap(self._model, wrapper_name="base")

    def _lr_share(self, epoch: int) -> float:
        if self._cfg.learn.lr_decay:
            return warmed_up_share(self._cfg.learn, epoch)
        # DI-engine divides after the epochs 0, 69, 138, ..., so that the rate of the config holds for one epoch.
        first = 0 if self._reference_numerics else _EPOCHS_PER_RATE
        divisions = (epoch - 1 - first) // _EPOCHS_PER_RATE + 1 if epoch > first else 0
        return float(0.1**divisions)

    @batched
    def _forward_learn(self, data: Samples) -> Logs:
        """One update on B samples with ``obs``, ``bfs_in`` and ``bfs_out``.

        Returns:
            ``cur_lr, total_loss, acc`` (floats).
        """
        return self._learn(data)

    def _learn_batch(self, data: Samples, weighted: bool | None = None) -> dict[str, Any]:
        """As usual.

        Raises:
            PolicyDataError: a map has another value than the actions and 'not known'.
        """
        batch = super()._learn_batch(data, weighted)
        for name in ("bfs_in", "bfs_out"):
            low, high = (int(end) for end in batch[name].aminmax())
            if low < 0 or high > self._num_actions:
                raise PolicyDataError(
                    f"{name} has values from {low} to {high}, expected 0 to {self._num_actions} (policy.num_actions)"
                )
        return batch

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One step towards the expert's search: the cross entropy of each cell of the map ``bfs_out`` after a step of
        it, given the observation and the map ``bfs_in`` before it.
        """
        loss, accuracy = search_loss(self._model, batch, self._num_actions)
        self._optimize(loss, self._optimizer, self._model)
        return {"total_loss": loss, "acc": accuracy}

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "acc"]

    def _init_eval(self) -> None:
        self._eval_model = model_wrap(self._model, wrapper_name="base")
        self._search = _Search(self._eval_model, self._get_num_actions(), int(self._cfg.max_bfs_steps))

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """``action`` int64 ``[N, 1]``: what the search finds where the agent is; a random one where it finds none.

        Args:
            data: observations ``[N, H, W, C]``.
        """
        return self._act(self._search, data)

    def _init_collect(self) -> None:
        return

    def _forward_collect(self, data: Any, **kwargs: Any) -> NoReturn:
        raise PolicyUsageError(_NO_COLLECT)

    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> NoReturn:
        raise PolicyUsageError(_NO_COLLECT)

    def _get_train_sample(self, transitions: Any) -> NoReturn:
        raise PolicyUsageError(_NO_COLLECT)
