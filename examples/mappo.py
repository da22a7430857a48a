"""PPO of two agents with one policy and one critic (MAPPO) on a cooperative game, as a task.

The same run in one call is ``serial_pipeline_onpolicy`` with ``configs/line_cover/line_cover_mappo_config.py``. The
best mean return is 7.36, that of random moves 2.44.

It reaches a mean evaluation return of 7 on each of seeds 0 to 4, after 18,900 to 63,500 env steps, in 7 to 25 s.

    python examples/mappo.py
"""

import logging

from easydict import EasyDict

from ding.config import compile_config
from ding.envs import BaseEnvManagerV2
from ding.envs.zoo.line_cover_env import LineCoverEnv
from ding.framework import ding_init, task
from ding.framework.context import OnlineRLContext
from ding.framework.middleware import (
    CkptSaver,
    StepCollector,
    gae_estimator,
    interaction_evaluator,
    multistep_trainer,
    online_logger,
    termination_checker,
)
from ding.model import MAVAC
from ding.policy import PPOPolicy
from ding.utils import set_pkg_seed

n_agent, n_cell = 2, 6
main_config = EasyDict(
    exp_name="line_cover_mappo_task",
    env=dict(
        n_agent=n_agent,
        n_cell=n_cell,
        max_cycles=8,
        agent_specific_global_state=True,
        collector_env_num=8,
        evaluator_env_num=8,
        n_evaluator_episode=64,
        stop_value=7,
    ),
    policy=dict(
        cuda=False,
        action_space="discrete",
        multi_agent=True,
        model=dict(
            agent_num=n_agent,
            agent_obs_shape=3 * n_cell + 3 + n_agent,
            global_obs_shape=(n_agent + 4) * n_cell + 3 + n_agent,
            action_shape=3,
            action_space="discrete",
            actor_head_hidden_size=64,
            critic_head_hidden_size=64,
        ),
        learn=dict(epoch_per_collect=4, batch_size=256, learning_rate=0.001, entropy_weight=0.01),
        collect=dict(n_sample=512, discount_factor=0.95, gae_lambda=0.95),
        eval=dict(evaluator=dict(eval_freq=20)),
    ),
)
create_config = EasyDict(
    env=dict(type="line_cover", import_names=["ding.envs.zoo.line_cover_env"]),
    env_manager=dict(type="base"),
    policy=dict(type="ppo"),
)


def main(seed: int = 0, max_env_step: int = 150_000) -> OnlineRLContext:
    """Train until the stop value or ``max_env_step``; returns the context of the last iteration."""
    logging.basicConfig(level=logging.INFO)
    cfg = compile_config(main_config, create_cfg=create_config, auto=True, seed=seed)
    ding_init(cfg)
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        envs = [lambda: LineCoverEnv(cfg.env)]
        collector_env = BaseEnvManagerV2(envs * cfg.env.collector_env_num, cfg=cfg.env.manager)
        evaluator_env = BaseEnvManagerV2(envs * cfg.env.evaluator_env_num, cfg=cfg.env.manager)
        set_pkg_seed(cfg.seed, use_cuda=cfg.policy.cuda)

        model = MAVAC(**cfg.policy.model)
        policy = PPOPolicy(cfg.policy, model=model)

        task.use(interaction_evaluator(cfg, policy.eval_mode, evaluator_env))
        task.use(StepCollector(cfg, policy.collect_mode, collector_env))
        task.use(gae_estimator(cfg, policy.collect_mode))
        task.use(multistep_trainer(policy.learn_mode, log_freq=50))
        task.use(online_logger(train_show_freq=3))
        task.use(termination_checker(max_env_step=max_env_step))
        task.use(CkptSaver(policy, cfg.exp_name, train_freq=100))
        task.run()
        collector_env.close()
        evaluator_env.close()
    return task.ctx


if __name__ == "__main__":
    main()
