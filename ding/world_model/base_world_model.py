"""Roles of a world model, a learned model of an env, and the factory of its registered classes.

==========================  ============================================================================================
class                       what a policy gets from it
==========================  ============================================================================================
``WorldModel``              one step of the env
``DynaWorldModel``          imagined transitions, which fill a replay buffer of their own
``DreamWorldModel``         imagined trajectories through which the losses of the policy are differentiated
``HybridWorldModel``        both
==========================  ============================================================================================

Shapes: N rows are imagined at once, O and A are the sizes of observation and action, H is the number of imagined steps.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from easydict import EasyDict
from torch import nn

from ding.data.roles import Buffer, CollectMode, Samples, StateDict, Writer
from ding.data.transition_batch import joined_samples
from ding.torch_utils.device import use_cuda
from ding.torch_utils.parameter import frozen
from ding.utils import WORLD_MODEL_REGISTRY, deep_merge_dicts
from ding.world_model.imagination import imagined_samples
from ding.world_model.utils import get_rollout_length_scheduler

Actor = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Observations ``[..., O]`` to actions ``[..., A]`` and what is added to the rewards of these steps, ``[...]``."""


class WorldModel(ABC):
    """A model that learns what the env does, and makes its steps.

    :meth:`train` and :meth:`eval` run when :meth:`should_train` and :meth:`should_eval` say so; each sets
    ``last_train_step`` or ``last_eval_step``.

    A saved run holds :meth:`run_state`. A model of your own that is a ``torch.nn.Module`` resumes with its weights and
    buffers; one that keeps more (an optimizer, say) also has :meth:`training_state` and :meth:`load_training_state`.

    Args:
        cfg: section ``world_model`` of a compiled config; missing keys have the defaults of the class.
        env: an env of the run; a model may use what it knows of the task (``termination_fn``). It is never reset.
        tb_logger: gets the numbers of training and evaluation; ``None`` for none.

    Attributes:
        cfg: ``cfg`` over the defaults.
        device: where the model computes, as ``cfg.cuda`` says.
        rollout_length_scheduler: the function from the env step to the number of imagined steps.
        last_train_step: env step of the newest training; 0 before the first.
        last_eval_step: env step of the newest evaluation; 0 before the first.
    """

    config: ClassVar[dict[str, Any]] = {
        # (int) Env steps from one training to the next.
        "train_freq": 250,
        # (int) Env steps from one evaluation to the next.
        "eval_freq": 250,
        # (bool or 'auto') Whether the model is on the GPU; 'auto': where there is one.
        "cuda": "auto",
        # How many steps are imagined, see `get_rollout_length_scheduler`.
        "rollout_length_scheduler": {
            "type": "linear",
            "rollout_start_step": 20000,
            "rollout_end_step": 150000,
            "rollout_length_min": 1,
            "rollout_length_max": 25,
        },
    }

    @classmethod
    def default_config(cls) -> EasyDict:
        """Return a fresh copy of the defaults of this class over those of its parents, plus ``cfg_type``."""
        merged: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            merged = deep_merge_dicts(merged, copy.deepcopy(vars(base).get("config", {})))
        return EasyDict({**merged, "cfg_type": f"{cls.__name__}Dict"})

    def __init__(self, cfg: Mapping[str, Any], env: object, tb_logger: Writer | None = None) -> None:
        super().__init__()  # a subclass may be a module, too
        self.cfg = EasyDict(deep_merge_dicts(self.default_config(), copy.deepcopy(dict(cfg))))
        self.env, self.tb_logger = env, tb_logger
        self.device = torch.device("cuda" if use_cuda(self.cfg.cuda) else "cpu")
        self.train_freq, self.eval_freq = int(self.cfg.train_freq), int(self.cfg.eval_freq)
        self.rollout_length_scheduler = get_rollout_length_scheduler(self.cfg.rollout_length_scheduler)
        self.last_train_step = self.last_eval_step = 0

    def should_train(self, envstep: int) -> bool:
        """Return whether ``train_freq`` env steps were made since the newest training."""
        return envstep - self.last_train_step >= self.train_freq

    def should_eval(self, envstep: int) -> bool:
        """Return whether ``eval_freq`` env steps were made since the newest evaluation of a model that has trained."""
        return self.last_train_step != 0 and envstep - self.last_eval_step >= self.eval_freq

    @abstractmethod
    def train(self, env_buffer: Buffer, envstep: int, train_iter: int) -> Any:
        """Learn from the transitions of ``env_buffer``."""

    @abstractmethod
    def eval(self, env_buffer: Buffer, envstep: int, train_iter: int) -> Any:
        """Measure how well transitions of ``env_buffer`` are predicted, and log it."""

    @abstractmethod
    def step(
        self, obs: torch.Tensor, action: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return reward ``[N]``, next observation ``[N, O]`` and done ``[N]`` (bool or float) of N steps.

        Args:
            obs: float32 ``[N, O]``.
            action: ``[N, A]`` or ``[N]``.
            args, kwargs: further arguments of a subclass.
        """

    def training_state(self) -> StateDict:
        """Return what later trainings need besides ``state_dict``: optimizers, for instance. Plain data or tensors."""
        return {}

    def load_training_state(self, state_dict: StateDict) -> None:
        """Restore what :meth:`training_state` returned."""
        return

    def run_state(self) -> StateDict:
        """Return all that a run needs to resume the model as if it had not been interrupted."""
        return {
            "learned": dict(self.state_dict()) if isinstance(self, nn.Module) else {},
            "training": self.training_state(),
            "last_train_step": self.last_train_step,
            "last_eval_step": self.last_eval_step,
        }

    def load_run_state(self, state_dict: StateDict) -> None:
        """Restore what :meth:`run_state` returned."""
        if isinstance(self, nn.Module):
            self.load_state_dict(state_dict["learned"])
        self.load_training_state(state_dict["training"])
        self.last_train_step = int(state_dict["last_train_step"])
        self.last_eval_step = int(state_dict["last_eval_step"])


class DynaWorldModel(WorldModel, ABC):
    """A world model whose imagined transitions a policy learns from, as in Dyna (Sutton 1991) and MBPO.

    Attributes:
        real_ratio, rollout_retain, rollout_batch_size: keys of ``cfg.other``.
        buffer_size_scheduler: the function from the env step to the number of imagined transitions to draw from.
    """

    config: ClassVar[dict[str, Any]] = {
        "other": {
            # (float) Share of real transitions in each batch.
            "real_ratio": 0.05,
            # (int) How many trainings of the model the imagined transitions are kept for.
            "rollout_retain": 4,
            # (int) Number of real states from which each imagination begins.
            "rollout_batch_size": 100000,
            "imagination_buffer": {
                "type": "elastic",
                "replay_buffer_size": 6000000,
                "deepcopy": False,
                "enable_track_used_data": False,
                "periodic_thruput_seconds": 60,
            },
        },
    }

    def __init__(self, cfg: Mapping[str, Any], env: object, tb_logger: Writer | None = None) -> None:
        super().__init__(cfg, env, tb_logger)
        other = self.cfg.other
        self.real_ratio = float(other.real_ratio)
        self.rollout_retain, self.rollout_batch_size = int(other.rollout_retain), int(other.rollout_batch_size)

    def buffer_size_scheduler(self, envstep: int) -> int:
        """Return how many imagined transitions ``rollout_retain`` imaginations give at this env step."""
        return self.rollout_length_scheduler(envstep) * self.rollout_batch_size * self.rollout_retain

    def sample(self, env_buffer: Buffer, img_buffer: Buffer, batch_size: int, train_iter: int) -> Samples | None:
        """Draw ``int(batch_size * real_ratio)`` real transitions, followed by imagined ones.

        Returns:
            ``batch_size`` transitions, or ``None`` while one of the buffers holds too few.
        """
        num_real = int(batch_size * self.real_ratio)
        parts = []
        for buffer, size in ((env_buffer, num_real), (img_buffer, batch_size - num_real)):
            part = buffer.sample(size, train_iter) if size else ()
            if part is None:
                return None
            if size:
                parts.append(part)
        return joined_samples(parts)

    def fill_img_buffer(
        self, policy: CollectMode, env_buffer: Any, img_buffer: Buffer, envstep: int, train_iter: int
    ) -> None:
        """Imagine trajectories of ``policy`` from states of ``env_buffer``, and push their training samples.

        Args:
            policy: collect mode; called without further arguments.
            env_buffer: a buffer that draws with replacement (``naive``).
            img_buffer: the imagination buffer.
            envstep: number of real env steps made.
            train_iter: becomes ``collect_iter`` of the transitions.
        """
        begin = env_buffer.sample(self.rollout_batch_size, train_iter, replace=True)
        if begin is None:
            return
        num_steps = self.rollout_length_scheduler(envstep)
        samples = imagined_samples(self.step, policy, begin, num_steps, {"collect_iter": train_iter})
        if len(samples):
            img_buffer.push(samples, cur_collector_envstep=envstep)


class DreamWorldModel(WorldModel, ABC):
    """A world model through which the losses of a policy are differentiated."""

    def rollout(
        self, obs: torch.Tensor, actor_fn: Actor, envstep: int, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Imagine H steps from N states; H is ``rollout_length_scheduler(envstep)``.

        Gradients flow through :meth:`step` to the actions, and not to the parameters of the model.

        Args:
            obs: float32 ``[N, O]``, or with further leading axes that :meth:`step` knows.
            actor_fn: the actor.
            envstep: number of real env steps made.
            kwargs: further arguments of :meth:`step`.

        Returns:
            Observations ``[H + 1, N, O]``, actions ``[H + 1, N, A]``, rewards ``[H, N]`` with what the actor adds to
            them, what the actor adds ``[H + 1, N]``, and dones ``[H, N]``. For H = 0 the third and fifth are empty.
        """
        observations, actions, rewards, bonuses, dones = [obs], [], [], [], []
        with frozen(self.parameters() if isinstance(self, nn.Module) else ()):
            for _ in range(self.rollout_length_scheduler(envstep)):
                action, bonus = actor_fn(obs)
                reward, obs, done = self.step(obs, action, **kwargs)
                observations.append(obs)
                actions.append(action)
                rewards.append(reward + bonus)
                bonuses.append(bonus)
                dones.append(done)
            action, bonus = actor_fn(obs)
        actions.append(action)
        bonuses.append(bonus)
        empty = obs.new_zeros(0)
        return (
            torch.stack(observations),
            torch.stack(actions),
            torch.stack(rewards) if rewards else empty,
            torch.stack(bonuses),
            torch.stack(dones) if dones else empty,
        )


class HybridWorldModel(DynaWorldModel, DreamWorldModel, ABC):
    """A world model that fills an imagination buffer, and through which losses are differentiated."""


def get_world_model_cls(cfg: Mapping[str, Any]) -> type[WorldModel]:
    """Return the class that is registered as ``cfg.type``, after importing ``cfg.import_names``.

    Raises:
        KeyError: the type is missing or not registered; the message names the nearest one.
    """
    return WORLD_MODEL_REGISTRY.class_of(cfg)


def create_world_model(cfg: Mapping[str, Any], *args: Any, **kwargs: Any) -> WorldModel:
    """Build the world model that is registered as ``cfg.type`` with ``cfg`` and the other arguments (env, writer).

    Raises:
        KeyError: the type is missing or not registered; the message names the nearest one.
    """
    model: WorldModel = WORLD_MODEL_REGISTRY.create(copy.deepcopy(dict(cfg)), *args, **kwargs)
    return model
