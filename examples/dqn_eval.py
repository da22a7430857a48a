"""Play the DQN policy of a run that ended, and show its mean return.

    python examples/dqn_eval.py [EXP_DIR]

Without a folder it trains `configs/cartpole/cartpole_dqn_config.py` first. `ding -m eval EXP_DIR` does the same.
"""

import sys
from pathlib import Path

from ding.config import read_config
from ding.entry import eval, serial_pipeline

CONFIG = Path(__file__).parents[1] / "configs" / "cartpole" / "cartpole_dqn_config.py"


def main(exp_dir: str | None = None, seed: int = 0, max_env_step: int = 5_000) -> float:
    """Return the mean return of the best weights in ``exp_dir``."""
    configs = read_config(str(CONFIG))
    if exp_dir is None:
        exp_dir = configs[0].exp_name = f"cartpole_dqn_eval_seed{seed}"
        serial_pipeline(configs, seed=seed, max_env_step=max_env_step)
    return eval(configs, seed=seed, load_path=exp_dir)


if __name__ == "__main__":
    print(f"mean return: {main(*sys.argv[1:2]):.1f}")
