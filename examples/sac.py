"""SAC on Pendulum, as a task.

It reaches a mean evaluation return of -250 as ``configs/pendulum/pendulum_sac_config.py`` does, after some 32,000 env
steps.

    python examples/sac.py
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
from ding.policy import SACPolicy
from ding.utils import set_pkg_seed

main_config = EasyDict(
    exp_name="pendulum_sac_task",
    env=dict(
        env_id="Pendulum-v1",
        act_scale=True,
        collector_env_num=10,
        evaluator_env_num=5,
        n_evaluator_episode=5,
        stop_value=-250,
    ),
    policy=dict(
        cuda=False,
        random_collect_size=1000,
        model=dict(
            obs_shape=3,
            action_shape=1,
            action_space="reparameterization",
            twin_critic=True,
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            update_per_collect=1,
            batch_size=128,
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            learning_rate_alpha=0.0003,
            ignore_done=True,
        ),
        collect=dict(n_sample=10),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(replay_buffer=dict(replay_buffer_size=100000)),
    ),
)
create_config = EasyDict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="sac"),
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
        policy = SACPolicy(cfg.policy, model=model)

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
