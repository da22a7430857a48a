"""Policy and collector of tianshou, as its examples build them."""

from __future__ import annotations

from typing import Any

import gymnasium
from bench_work import BUFFER_SIZE, EPSILON
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, ShmemVectorEnv
from tianshou.utils.net.common import Net


def make_policy(hidden: tuple[int, ...]) -> Any:
    """Epsilon-greedy Q-learning policy."""
    env = gymnasium.make("CartPole-v1")
    return DiscreteQLearningPolicy(
        model=Net(state_shape=(4,), action_shape=2, hidden_sizes=list(hidden)),
        action_space=env.action_space,
        observation_space=env.observation_space,
        eps_training=EPSILON,
    )


def make_algorithm(name: str, hidden: tuple[int, ...], **options: Any) -> Any:
    """DQN, C51 over 51 atoms from 0 to 100, or QR-DQN with 51 quantiles."""
    if name == "dqn":
        from tianshou.algorithm.modelfree.dqn import DQN

        return DQN(policy=make_policy(hidden), is_double=False, **options)
    from tianshou.algorithm.modelfree.c51 import C51, C51Policy
    from tianshou.algorithm.modelfree.qrdqn import QRDQN, QRDQNPolicy

    env = gymnasium.make("CartPole-v1")
    network = Net(state_shape=(4,), action_shape=2, hidden_sizes=list(hidden), softmax=name == "c51", num_atoms=51)
    spaces = {"action_space": env.action_space, "observation_space": env.observation_space, "eps_training": EPSILON}
    if name == "c51":
        return C51(policy=C51Policy(model=network, num_atoms=51, v_min=0.0, v_max=100.0, **spaces), **options)
    return QRDQN(policy=QRDQNPolicy(model=network, **spaces), num_quantiles=51, **options)


def make_collector(policy_or_algorithm: Any, envs: int, shared_memory: bool = False) -> Any:
    """Collector that stores into a replay buffer."""
    vector = (ShmemVectorEnv if shared_memory else DummyVectorEnv)([lambda: gymnasium.make("CartPole-v1")] * envs)
    collector = Collector(policy_or_algorithm, vector, VectorReplayBuffer(BUFFER_SIZE, envs), exploration_noise=True)
    collector.reset()
    return collector
