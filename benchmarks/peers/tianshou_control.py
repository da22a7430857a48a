"""tianshou's SAC, TD3 and DDPG on the common work: the training step of its off-policy trainer, turn by turn."""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
from bench_side import Op, Side, count_optimizer_steps, serve
from bench_work import (
    CONTROL_ALGORITHMS,
    CONTROL_BATCH_SIZE,
    CONTROL_BUFFER_SIZE,
    CONTROL_ENVS,
    CONTROL_HIDDEN,
    control_work,
)


def make_algorithm(name: str) -> Any:
    """Networks, policy and algorithm, as its examples build them."""
    from tianshou.algorithm.modelfree.ddpg import DDPG, ContinuousDeterministicPolicy
    from tianshou.algorithm.modelfree.sac import SAC, AutoAlpha, SACPolicy
    from tianshou.algorithm.modelfree.td3 import TD3
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.exploration import GaussianNoise
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.continuous import (
        ContinuousActorDeterministic,
        ContinuousActorProbabilistic,
        ContinuousCritic,
    )

    space = gymnasium.make("Pendulum-v1").action_space
    sizes = list(CONTROL_HIDDEN)

    def adam() -> Any:
        return AdamOptimizerFactory(lr=3e-4)

    def critic() -> Any:
        net = Net(state_shape=(3,), action_shape=(1,), hidden_sizes=sizes, concat=True)
        return ContinuousCritic(preprocess_net=net)

    actor_net = Net(state_shape=(3,), hidden_sizes=sizes)
    common = {"policy_optim": adam(), "critic": critic(), "critic_optim": adam()}
    twin = {"critic2": critic(), "critic2_optim": adam()}
    if name == "sac":
        actor = ContinuousActorProbabilistic(
            preprocess_net=actor_net, action_shape=(1,), unbounded=True, conditioned_sigma=True
        )
        alpha = AutoAlpha(-1.0, 0.0, adam())
        return SAC(policy=SACPolicy(actor=actor, action_space=space), **common, **twin, alpha=alpha)
    policy = ContinuousDeterministicPolicy(
        actor=ContinuousActorDeterministic(preprocess_net=actor_net, action_shape=(1,)),
        exploration_noise=GaussianNoise(sigma=0.1),
        action_space=space,
    )
    return TD3(policy=policy, **common, **twin) if name == "td3" else DDPG(policy=policy, **common)


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=CONTROL_ALGORITHMS, default="sac")
    args = parser.parse_args()
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.utils.torch_utils import policy_within_training_step

    updates = count_optimizer_steps()
    algorithm = make_algorithm(args.algorithm)
    envs = DummyVectorEnv([lambda: gymnasium.make("Pendulum-v1")] * CONTROL_ENVS)
    buffer = VectorReplayBuffer(CONTROL_BUFFER_SIZE, CONTROL_ENVS)
    collector = Collector(algorithm, envs, buffer, exploration_noise=True)
    collector.reset()
    steps = [0]

    def collect() -> None:
        with policy_within_training_step(algorithm.policy):
            steps[0] += collector.collect(n_step=CONTROL_ENVS).n_collected_steps

    def train() -> None:
        # What one training step of its off-policy trainer does.
        collect()
        with policy_within_training_step(algorithm.policy):
            for _ in range(CONTROL_ENVS):
                algorithm.update(buffer=collector.buffer, sample_size=CONTROL_BATCH_SIZE)

    for _ in range(2 * CONTROL_BATCH_SIZE // CONTROL_ENVS):
        collect()
    # Two optimisers of critics step where the other sides have one.
    critics = 1 if args.algorithm == "ddpg" else 2
    ops = {"train": Op(train, lambda: {"env_steps": steps[0], "updates": updates() - (critics - 1) * steps[0]})}
    return Side(ops, control_work(args.algorithm), collector.env.close, warm_calls=5)


if __name__ == "__main__":
    serve(build, "tianshou")
