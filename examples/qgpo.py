"""QGPO on a point mass as a task: a diffusion learns the actions of a data set, then energies that guide it.

The data are what ``configs/point_mass/point_mass_data_generation.py`` writes; run it first, in the same folder.

The run is short: it shows the parts. At scale 1 it returns -0.1 to -0.4 where behaviour cloning has -0.75; energies
need many more updates, see docs/results.md.

    python configs/point_mass/point_mass_data_generation.py
    python examples/qgpo.py
"""

import logging

from easydict import EasyDict

from ding.config import compile_config
from ding.envs import BaseEnvManagerV2
from ding.envs.zoo.point_mass_env import PointMassEnv
from ding.framework import ding_init, task
from ding.framework.context import OfflineRLContext
from ding.framework.middleware import (
    CkptSaver,
    interaction_evaluator,
    offline_logger,
    qgpo_offline_data_fetcher,
    qgpo_support_data_generator,
    termination_checker,
    trainer,
)
from ding.model import QGPO
from ding.policy import QGPOPolicy
from ding.utils import set_pkg_seed
from ding.utils.data import QGPOD4RLDataset

main_config = EasyDict(
    exp_name="point_mass_qgpo_task",
    env=dict(env_id="point_mass-v0", evaluator_env_num=10, n_evaluator_episode=10, stop_value=10),
    dataset=dict(env_id="point_mass-v0", data_path="point_mass_data/point_mass-v0.hdf5", reward_scale=2.0),
    policy=dict(
        cuda=False,
        model=dict(device="cpu", obs_dim=4, action_dim=2, qgpo_critic=dict(alpha=3, q_alpha=1)),
        learn=dict(
            learning_rate=0.001,
            batch_size=256,
            batch_size_q=256,
            M=4,
            diffusion_steps=8,
            behavior_policy_stop_training_iter=500,
            energy_guided_policy_begin_training_iter=500,
            q_value_stop_training_iter=2000,
        ),
        eval=dict(guidance_scale=[0.0, 1.0, 3.0], diffusion_steps=8, evaluator=dict(eval_freq=2000)),
    ),
)
create_config = EasyDict(
    env=dict(type="point_mass"),
    env_manager=dict(type="base"),
    policy=dict(type="qgpo"),
)


def main(seed: int = 0, max_train_iter: int = 2_001) -> OfflineRLContext:
    """Train for ``max_train_iter`` updates, with evaluations at each guidance scale; returns the last context."""
    logging.basicConfig(level=logging.INFO)
    cfg = compile_config(main_config, create_cfg=create_config, auto=True, seed=seed)
    ding_init(cfg)
    with task.start(async_mode=False, ctx=OfflineRLContext()):
        set_pkg_seed(cfg.seed, use_cuda=cfg.policy.cuda)
        dataset = QGPOD4RLDataset(cfg.dataset)
        policy = QGPOPolicy(cfg.policy, model=QGPO(cfg.policy.model), enable_field=["learn", "eval"])

        task.use(qgpo_support_data_generator(cfg, dataset, policy))
        task.use(qgpo_offline_data_fetcher(cfg, dataset, collate_fn=None))
        task.use(trainer(cfg, policy.learn_mode))
        managers = []
        for scale in cfg.policy.eval.guidance_scale:
            managers.append(BaseEnvManagerV2([PointMassEnv] * cfg.env.evaluator_env_num, cfg=cfg.env.manager))
            task.use(interaction_evaluator(cfg, policy.eval_mode, managers[-1], guidance_scale=scale))
        task.use(offline_logger())
        task.use(termination_checker(max_train_iter=max_train_iter))
        task.use(CkptSaver(policy, cfg.exp_name, train_freq=2000))
        task.run()
        for manager in managers:
            manager.close()
    return task.ctx


if __name__ == "__main__":
    main()
