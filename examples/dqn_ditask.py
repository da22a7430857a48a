"""DQN on CartPole in three processes: a learner, an evaluator, a collector; more processes are more collectors.

``main`` is that of ``examples/dqn.py`` with an exchange of contexts and models in front: each process makes all parts,
and leaves out those that are not for its role. It reaches a mean evaluation return of 195 after 1,000 to 3,000 env
steps; as learner and collector work at the same time, the number differs from run to run.

    ditask --package examples --main dqn_ditask.main --parallel-workers 3

or ``python examples/dqn_ditask.py``. On two machines, with the same ``DING_RUN_TOKEN`` on both::

    ditask --package examples --main dqn_ditask.main --parallel-workers 2 --address 10.0.0.1
    ditask --package examples --main dqn_ditask.main --attach-to tcp://10.0.0.1:50515,tcp://10.0.0.1:50516 --node-ids 2
"""

from easydict import EasyDict

from configs.cartpole.cartpole_dqn_config import create_config, main_config
from ding.config import compile_config
from ding.data import DequeBuffer
from ding.envs import BaseEnvManagerV2, DingEnvWrapper
from ding.framework import Parallel, ding_init, task
from ding.framework.context import OnlineRLContext
from ding.framework.middleware import (
    CkptSaver,
    ContextExchanger,
    ModelExchanger,
    OffPolicyLearner,
    StepCollector,
    data_pusher,
    eps_greedy_handler,
    interaction_evaluator,
    online_logger,
    termination_checker,
)
from ding.model import DQN
from ding.policy import DQNPolicy
from ding.utils import set_pkg_seed

ROLES = {0: task.role.LEARNER, 1: task.role.EVALUATOR}


def main(seed: int = 0, max_env_step: int = 20_000, exp_name: str = "cartpole_dqn_ditask") -> None:
    """Train until the stop value or ``max_env_step``."""
    main_config.exp_name = exp_name
    is_first = not task.router.is_active or task.router.node_id == 0
    cfg = compile_config(
        main_config, create_cfg=create_config, auto=True, seed=seed, save_cfg=is_first, renew_dir=False
    )
    ding_init(cfg)
    with task.start(ctx=OnlineRLContext()):
        envs = [lambda: DingEnvWrapper(cfg=EasyDict(env_id="CartPole-v1"))]
        collector_env = BaseEnvManagerV2(envs * cfg.env.collector_env_num, cfg=cfg.env.manager)
        evaluator_env = BaseEnvManagerV2(envs * cfg.env.evaluator_env_num, cfg=cfg.env.manager)
        # Each process has random numbers and env seeds of its own.
        set_pkg_seed(cfg.seed, use_cuda=cfg.policy.cuda)

        model = DQN(**cfg.policy.model)
        buffer_ = DequeBuffer(size=cfg.policy.other.replay_buffer.replay_buffer_size)
        policy = DQNPolicy(cfg.policy, model=model)

        if task.router.is_active:
            task.add_role(ROLES.get(task.router.node_id, task.role.COLLECTOR))
            task.use(ContextExchanger(skip_n_iter=1))
            task.use(ModelExchanger(model))
        task.use(interaction_evaluator(cfg, policy.eval_mode, evaluator_env))
        task.use(eps_greedy_handler(cfg))
        task.use(StepCollector(cfg, policy.collect_mode, collector_env))
        task.use(data_pusher(cfg, buffer_))
        task.use(OffPolicyLearner(cfg, policy.learn_mode, buffer_))
        task.use(online_logger(train_show_freq=10))
        task.use(CkptSaver(policy, cfg.exp_name, train_freq=100))
        task.use(termination_checker(max_env_step=max_env_step))
        task.run()
        collector_env.close()
        evaluator_env.close()


if __name__ == "__main__":
    Parallel.runner(n_parallel_workers=3)(main)
