"""A task of three nodes, a learner and two collectors that act at random, for ``ditask``."""

import os
from pathlib import Path

from easydict import EasyDict
from seed_toys import ACTIONS

from ding.config import compile_config
from ding.data import DequeBuffer
from ding.envs import BaseEnvManagerV2, DingEnvWrapper
from ding.framework import OnlineRLContext, ding_init, task
from ding.framework.middleware import (
    ContextExchanger,
    ModelExchanger,
    OffPolicyLearner,
    StepCollector,
    data_pusher,
    eps_greedy_handler,
    termination_checker,
)
from ding.model import DQN
from ding.policy import DQNPolicy
from ding.utils import set_pkg_seed


def main() -> None:
    """Train for some env steps in the folder that the environment names."""
    folder = Path(os.environ["LOGGED_FOLDER"])
    main_config = EasyDict(
        exp_name=str(folder / "run"),
        env=dict(collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1, stop_value=10**9),
        policy=dict(
            model=dict(obs_shape=2, action_shape=ACTIONS, encoder_hidden_size_list=[8]),
            learn=dict(update_per_collect=1, batch_size=4),
            collect=dict(n_sample=24),
            other=dict(eps=dict(start=1.0, end=1.0), replay_buffer=dict(replay_buffer_size=1000)),
        ),
    )
    create = EasyDict(
        env=dict(type="gymnasium", import_names=["ding.envs"]), env_manager=dict(type="base"), policy=dict(type="dqn")
    )
    cfg = compile_config(
        main_config, create_cfg=create, auto=True, seed=0, save_cfg=task.router.node_id == 0, renew_dir=False
    )
    ding_init(cfg)
    with task.start(ctx=OnlineRLContext()):
        env_cfg = EasyDict(env_id="Logged-v0", env_kwargs=dict(folder=str(folder)))
        env = BaseEnvManagerV2([lambda: DingEnvWrapper(cfg=env_cfg)] * 2, cfg=cfg.env.manager)
        set_pkg_seed(cfg.seed, use_cuda=cfg.policy.cuda)
        model = DQN(**cfg.policy.model)
        policy = DQNPolicy(cfg.policy, model=model)
        buffer_ = DequeBuffer(size=cfg.policy.other.replay_buffer.replay_buffer_size)
        task.add_role(task.role.LEARNER if task.router.node_id == 0 else task.role.COLLECTOR)
        task.use(ContextExchanger(skip_n_iter=1))
        task.use(ModelExchanger(model))
        task.use(eps_greedy_handler(cfg))
        task.use(StepCollector(cfg, policy.collect_mode, env))
        task.use(data_pusher(cfg, buffer_))
        task.use(OffPolicyLearner(cfg, policy.learn_mode, buffer_))
        task.use(termination_checker(max_env_step=600))
        task.run()
        env.close()
