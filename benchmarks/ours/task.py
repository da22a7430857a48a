"""DQN on CartPole as a task of middleware, or as ``serial_pipeline``. For this project and for DI-engine.

Both forms take the numbers of ``ours/pipeline.py``: 8 env steps, then 5 updates, with the evaluation at the start only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from bench_side import Op, Side, count_optimizer_steps, serve
from ding_parts import OWN, check_import, env_class
from easydict import EasyDict
from pipeline import argument_parser, config, count_collected_steps


def build() -> Side:
    parser = argument_parser(__doc__)
    parser.add_argument("--form", choices=("task", "serial"), default="task")
    args = parser.parse_args()
    check_import()
    updates = count_optimizer_steps()
    work = {"env_steps": args.env_steps, "updates_per_8_env_steps": 5, "eval_freq": args.eval_freq}
    if args.form == "serial":
        from ding.entry import serial_pipeline

        steps = count_collected_steps()

        def run() -> None:
            serial_pipeline(config(args), seed=0, max_env_step=args.env_steps)
    else:
        run_task, total = task_form(args), [0]

        def steps() -> int:
            return total[0]

        def run() -> None:
            total[0] += run_task()

    op = Op(run, lambda: {"env_steps": steps(), "updates": updates()}, single=True)
    return Side({"run": op}, work)


def task_form(args: Any) -> Callable[[], int]:
    """A function that makes one run and returns its env steps; what a script imports at its top is imported here."""
    from ding.config import compile_config
    from ding.data import DequeBuffer
    from ding.envs import BaseEnvManagerV2
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
    )
    from ding.model import DQN
    from ding.policy import DQNPolicy
    from ding.utils import set_pkg_seed

    def run_task() -> int:
        main, create = config(args)
        cfg = compile_config(main, create_cfg=create, auto=True, seed=0)
        ding_init(cfg)
        with task.start(async_mode=False, ctx=OnlineRLContext()):
            env_cfg = EasyDict({"env_id": "CartPole-v1"} if OWN else {"replay_path": None})
            env_fn = functools.partial(env_class(), cfg=env_cfg)
            collector_env = BaseEnvManagerV2([env_fn] * cfg.env.collector_env_num, cfg=cfg.env.manager)
            evaluator_env = BaseEnvManagerV2([env_fn] * cfg.env.evaluator_env_num, cfg=cfg.env.manager)
            set_pkg_seed(0, use_cuda=False)
            buffer_ = DequeBuffer(size=cfg.policy.other.replay_buffer.replay_buffer_size)
            policy = DQNPolicy(cfg.policy, model=DQN(**cfg.policy.model))
            if args.eval_freq < args.env_steps:
                task.use(interaction_evaluator(cfg, policy.eval_mode, evaluator_env))
            task.use(eps_greedy_handler(cfg))
            task.use(StepCollector(cfg, policy.collect_mode, collector_env))
            task.use(data_pusher(cfg, buffer_))
            task.use(OffPolicyLearner(cfg, policy.learn_mode, buffer_))
            task.use(online_logger(train_show_freq=100))
            task.use(CkptSaver(policy, cfg.exp_name))
            task.run(max_step=args.env_steps // 8)
            collector_env.close()
            evaluator_env.close()
        return task.ctx.env_step

    return run_task


if __name__ == "__main__":
    serve(build, "DI-engine", "gym")
