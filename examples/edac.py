"""EDAC on Pendulum as a task: it learns from a data set, and the env is there for evaluations only.

It was run for some updates, and not to its end.

The same run in one call is ``serial_pipeline_offline`` with ``configs/pendulum/pendulum_edac_config.py``. The data are
what ``configs/pendulum/pendulum_sac_data_generation_config.py`` writes; run it first, in the same folder.

    python configs/pendulum/pendulum_sac_data_generation_config.py
    python examples/edac.py
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
from ding.model import EDAC
from ding.policy import EDACPolicy
from ding.utils import set_pkg_seed

main_config = EasyDict(
    exp_name="pendulum_edac_task",
    env=dict(evaluator_env_num=5, n_evaluator_episode=5, stop_value=-250),
    policy=dict(
        cuda=False,
        model=dict(
            obs_shape=3,
            action_shape=1,
            ensemble_num=10,
            actor_head_hidden_size=128,
            critic_head_hidden_size=128,
        ),
        learn=dict(
            batch_size=128,
            learning_rate_q=0.001,
            learning_rate_policy=0.001,
            learning_rate_alpha=0.001,
            ignore_done=True,
            alpha=0.2,
            auto_alpha=False,
            eta=1.0,
        ),
        collect=dict(data_type="columns", data_path="pendulum_sac_data_generation/data"),
        eval=dict(evaluator=dict(eval_freq=500)),
    ),
)
create_config = EasyDict(
    env=dict(type="gymnasium", import_names=["ding.envs"]),
    env_manager=dict(type="base"),
    policy=dict(type="edac"),
)


def main(seed: int = 0, max_train_iter: int = 20_000) -> OfflineRLContext:
    """Train until the stop value or ``max_train_iter``; returns the context of the last iteration."""
    logging.basicConfig(level=logging.INFO)
    cfg = compile_config(main_config, create_cfg=create_config, auto=True, seed=seed)
    ding_init(cfg)
    with task.start(async_mode=False, ctx=OfflineRLContext()):
        envs = [lambda: DingEnvWrapper(cfg=EasyDict(env_id="Pendulum-v1", act_scale=True))]
        evaluator_env = BaseEnvManagerV2(envs * cfg.env.evaluator_env_num, cfg=cfg.env.manager)
        set_pkg_seed(cfg.seed, use_cuda=cfg.policy.cuda)

        dataset = create_dataset(cfg)
        model = EDAC(**cfg.policy.model)
        policy = EDACPolicy(cfg.policy, model=model, enable_field=["learn", "eval"])

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
