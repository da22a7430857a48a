"""Env managers alone, with prepared actions. For this project and for DI-engine."""

from __future__ import annotations

import functools

import numpy as np
from bench_side import Op, Side, serve
from bench_work import ROLLOUT
from ding_parts import OWN, arguments, check_import, env_class
from easydict import EasyDict


def build() -> Side:
    args = arguments(__doc__).parse_args()
    check_import()
    from ding.envs import create_env_manager
    from ding.envs.env_manager import get_env_manager_cls

    entry = EasyDict(type=args.manager)
    cfg = get_env_manager_cls(entry).default_config()
    cfg.update(entry)
    env_cfg = EasyDict({"env_id": "CartPole-v1"} if OWN else {"replay_path": None})
    manager = create_env_manager(cfg, [functools.partial(env_class(), cfg=env_cfg)] * args.envs)
    manager.seed(0)
    manager.launch()
    actions = np.random.default_rng(0).integers(0, 2, (256, args.envs, 1))
    steps, turn = [0], [0]

    def step() -> None:
        for _ in range(ROLLOUT):
            turn[0] = (turn[0] + 1) % len(actions)
            row = actions[turn[0]]
            # Envs of a process manager answer when they are ready: only those get an action.
            timesteps = manager.step({env_id: row[env_id] for env_id in manager.ready_obs})
            steps[0] += len(timesteps)

    return Side({"step": Op(step, lambda: {"env_steps": steps[0]})}, {"envs": args.envs}, manager.close)


if __name__ == "__main__":
    serve(build, "DI-engine", "gym")
