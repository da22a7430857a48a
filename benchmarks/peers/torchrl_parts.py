"""Env, Q network and exploration of torchrl, as its examples build them."""

from __future__ import annotations

from typing import Any

import torchrl
from bench_work import BATCH_SIZE, BUFFER_SIZE, EPSILON, OBS_DIM
from tensordict.nn import TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Composite, LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import GymEnv, RewardSum, SerialEnv, StepCounter, TransformedEnv
from torchrl.modules import MLP, EGreedyModule, QValueActor

torchrl._utils.logger.setLevel("ERROR")


def make_env(envs: int, track: bool, env_id: str = "CartPole-v1") -> Any:
    """``SerialEnv`` of a gymnasium env, with step counter and episode return when ``track``."""
    env = SerialEnv(envs, lambda: GymEnv(env_id))
    if track:
        env = TransformedEnv(env)
        env.append_transform(RewardSum())
        env.append_transform(StepCounter())
    return env


def make_actors(env: Any, hidden: tuple[int, ...]) -> tuple[Any, Any]:
    """``(greedy actor, epsilon-greedy actor)``."""
    net = MLP(in_features=OBS_DIM, out_features=2, num_cells=list(hidden), activation_class=nn.ReLU)
    greedy = QValueActor(
        module=net, spec=Composite(action=env.action_spec, shape=env.batch_size), in_keys=["observation"]
    )
    noise = EGreedyModule(spec=greedy.spec, eps_init=EPSILON, eps_end=EPSILON, annealing_num_steps=10)
    return greedy, TensorDictSequential(greedy, noise)


def make_collector(env: Any, policy: Any, frames: int) -> Any:
    """Endless collector of ``frames`` per batch."""
    return Collector(env, policy, frames_per_batch=frames, total_frames=-1)


def make_buffer(size: int = BUFFER_SIZE, batch_size: int = BATCH_SIZE) -> Any:
    """Replay buffer in memory."""
    return TensorDictReplayBuffer(storage=LazyTensorStorage(size), batch_size=batch_size)
