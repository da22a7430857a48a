"""P-DQN on the hybrid actions of Moving-v0, as a task.

The run of ``configs/gym_hybrid/gym_hybrid_pdqn_config.py``.

    python examples/pdqn.py
"""

import logging

from easydict import EasyDict

from ding.config import compile_config
from ding.data import DequeBuffer
from ding.envs import BaseEnvManagerV2
from ding.envs.zoo.gym_hybrid_env import GymHybridEnv
from ding.framework import ding_init, task
from ding.framework.context import OnlineRLContext
from ding.framework.middleware import (
    CkptSaver,
    OffPolicyLearner,
    StepCollector,
    data_pusher,
    eps_greedy_handler,
    interaction_evaluator,
    online_logger,
    termination_checker,
)
from ding.model import PDQN
from ding.policy import PDQNPolicy
from ding.utils import set_pkg_seed

main_config = EasyDict(
    exp_name="moving_pdqn_task",
    env=dict(
        env_id="Moving-v0",
        act_scale=True,
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=1.8,
    ),
    policy=dict(
        cuda=False,
        discount_factor=0.99,
        model=dict(obs_shape=10, action_shape=dict(action_type_shape=3, action_args_shape=2)),
        learn=dict(update_per_collect=500, batch_size=320, learning_rate=0.0003, target_theta=0.001),
        collect=dict(n_sample=3200),
        eval=dict(evaluator=dict(eval_freq=1000)),
        other=dict(
            eps=dict(type="exp", start=1.0, end=0.1, decay=100000),
            replay_buffer=dict(replay_buffer_size=100000),
        ),
    ),
)
create_config = EasyDict(
    env=dict(type="gym_hybrid", import_names=["ding.envs.zoo.gym_hybrid_env"]),
    env_manager=dict(type="base"),
    policy=dict(type="pdqn"),
)


def main(seed: int = 0, max_env_step: int = 300000) -> OnlineRLContext:
    """Train until the stop value or ``max_env_step``; returns the context of the last iteration."""
    logging.basicConfig(level=logging.INFO)
    cfg = compile_config(main_config, create_cfg=create_config, auto=True, seed=seed)
    ding_init(cfg)
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        envs = [lambda: GymHybridEnv(cfg.env)]
        collector_env = BaseEnvManagerV2(envs * cfg.env.collector_env_num, cfg=cfg.env.manager)
        evaluator_env = BaseEnvManagerV2(envs * cfg.env.evaluator_env_num, cfg=cfg.env.manager)
        set_pkg_seed(cfg.seed, use_cuda=cfg.policy.cuda)

        model = PDQN(**cfg.policy.model)
        buffer_ = DequeBuffer(size=cfg.policy.other.replay_buffer.replay_buffer_size)
        policy = PDQNPolicy(cfg.policy, model=model)

        task.use(interaction_evaluator(cfg, policy.eval_mode, evaluator_env))
        task.use(eps_greedy_handler(cfg))
        task.use(StepCollector(cfg, policy.collect_mode, collector_env))
        task.use(data_pusher(cfg, buffer_))
        task.use(OffPolicyLearner(cfg, policy.learn_mode, buffer_))
        task.use(online_logger(train_show_freq=100))
        task.use(termination_checker(max_env_step=max_env_step))
        task.use(CkptSaver(policy, cfg.exp_name, train_freq=1000))
        task.run()
        collector_env.close()
        evaluator_env.close()
    return task.ctx


if __name__ == "__main__":
    main()
