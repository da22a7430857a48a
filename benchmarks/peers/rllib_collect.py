"""RLlib's single-agent env runner with an episode replay buffer."""

from __future__ import annotations

import argparse

from bench_side import Op, Side, serve
from bench_work import BUFFER_SIZE, COLLECT_HIDDEN, EPSILON, ROLLOUT, collect_work


def build() -> Side:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=8)
    args = parser.parse_args()
    import ray
    from ray.rllib.algorithms.dqn import DQNConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
    from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer

    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    network = DefaultModelConfig(fcnet_hiddens=list(COLLECT_HIDDEN), fcnet_activation="relu")
    config = (
        DQNConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=args.envs)
        .training(epsilon=EPSILON, dueling=False, double_q=False)
        .rl_module(model_config=network)
    )
    runner = SingleAgentEnvRunner(config=config)
    buffer = EpisodeReplayBuffer(capacity=BUFFER_SIZE)
    steps = [0]

    def collect() -> None:
        episodes = runner.sample(num_timesteps=ROLLOUT * args.envs, random_actions=False)
        buffer.add(episodes)
        steps[0] += sum(len(episode) for episode in episodes)

    work = {**collect_work(args.envs), "network": "mlp"}
    return Side({"collect": Op(collect, lambda: {"env_steps": steps[0]})}, work, ray.shutdown)


if __name__ == "__main__":
    serve(build, "ray")
