"""Discrete SAC of two agents with one policy, on the game of `configs/line_cover`.

    python examples/masac.py

The best mean return is 7.36, that of random moves 2.44.
"""

from pathlib import Path
from typing import Any

from easydict import EasyDict

from ding.config import read_config
from ding.entry import serial_pipeline

CONFIG = Path(__file__).parents[1] / "configs" / "line_cover" / "line_cover_mappo_config.py"


def main(seed: int = 0, max_env_step: int = 60_000) -> Any:
    """Train and return the policy."""
    game, create = read_config(str(CONFIG))
    model = {key: value for key, value in game.policy.model.items() if key not in ("agent_num", "action_space")}
    main_config = EasyDict(
        exp_name=f"line_cover_masac_seed{seed}",
        env=game.env,
        policy=dict(
            cuda=False,
            multi_agent=True,
            random_collect_size=1000,
            model=dict(**model, twin_critic=True),
            learn=dict(
                update_per_collect=20,
                batch_size=256,
                learning_rate_q=0.001,
                learning_rate_policy=0.001,
                learning_rate_alpha=0.0003,
                target_entropy=-0.2,
            ),
            collect=dict(n_sample=128),
            eval=dict(evaluator=dict(eval_freq=200)),
            other=dict(
                eps=dict(type="linear", start=1, end=0.05, decay=5000),
                replay_buffer=dict(replay_buffer_size=50000),
            ),
        ),
    )
    create_config = EasyDict(env=create.env, env_manager=create.env_manager, policy=dict(type="discrete_sac"))
    return serial_pipeline((main_config, create_config), seed=seed, max_env_step=max_env_step)


if __name__ == "__main__":
    main()
