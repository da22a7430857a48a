"""TD3 on Pendulum, as a task.

The run of ``configs/pendulum/pendulum_td3_config.py``, which reaches a mean evaluation return of -250 after some
100,000 env steps.

    python examples/td3.py
"""

import logging

from easydict import EasyDict

from ding.config import compile_config
from ding.data import DequeBuffer
from ding.envs import BaseEnvManagerV2, DingEnvWrapper
from ding.framework import ding_init, task
from ding.framework.context import OnlineRLContext
from ding.framework.middleware import (
    CkptSaver,
    OffPolicyLearner,
    StepCollector,
    data_pusher,
    interaction_evaluator,
    online_logger,
    termination_checker,
)
from ding.model import ContinuousQAC
from ding.policy import TD3Policy
from ding.utils import set_pkg_seed

main_config = EasyDict(
    exp_name="pendulum_td3_task",
    env=dict(
        env_id="Pendulum-v1",
        act_scale=True,
        collector_env_num=8,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=800,
        model=dict(obs_shape=3, action_shape=1, action_space="regression", twin_critic=True),
        learn=dict(
            update_per_collect=2,
            batch_size=128,
            learning_rate_actor=0.001,
            learning_rate_critic=0.001,
            ignore_done=True,
            noise_sigma=0.1,
        ),
        collect=dict(n_sample=48, noise_sigma=0.1),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(replay_buffer=dict(replay_buffer_size=20000)),
    ),
)
create_config = EasyDict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="td3"),
)


def main(seed: int = 0, max_env_step: int = 150000) -> OnlineRLContext:
    """Train until the stop value or ``max_env_step``; returns the context of the last iteration."""
    logging.basicConfig(level=logging.INFO)
    cfg = compile_config(main_config, create_cfg=create_config, auto=True, seed=seed)
    ding_init(cfg)
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        envs = [lambda: DingEnvWrapper(cfg=EasyDict(env_id="Pendulum-v1", act_scale=True))]
        collector_env = BaseEnvManagerV2(envs * cfg.env.collector_env_num, cfg=cfg.env.manager)
        evaluator_env = BaseEnvManagerV2(envs * cfg.env.evaluator_env_num, cfg=cfg.env.manager)
        set_pkg_seed(cfg.seed, use_cuda=cfg.policy.cuda)

        model = ContinuousQAC(**cfg.policy.model)
        buffer_ = DequeBuffer(size=cfg.policy.other.replay_buffer.replay_buffer_size)
        policy = TD3Policy(cfg.policy, model=model)

        task.use(interaction_evaluator(cfg, policy.eval_mode, evaluator_env))
        task.use(
            StepCollector(cfg, policy.collect_mode, collector_env, random_collect_size=cfg.policy.random_collect_size)
        )
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
