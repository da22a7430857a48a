"""Self-play with a league on the coin game of two players, and how the result plays against others.

    python examples/selfplay.py

The policy learns from games against itself and its snapshots, until it is ahead of an opponent that always goes towards
the coin. Then it plays that opponent and its own first snapshot; the win rates of three seeds are in docs/results.md.
"""

import sys
from pathlib import Path
from typing import Any

from ding.config import read_config
from ding.entry import serial_pipeline_onpolicy
from ding.envs import BaseEnvManager
from ding.envs.duel_env import DuelEnv
from ding.policy import PPOPolicy
from ding.utils import SeedTree
from ding.utils.file_helper import read_file
from ding.worker import BattleInteractionSerialEvaluator, InteractionSerialEvaluator

CONFIG = Path(__file__).parents[1] / "configs" / "duel" / "duel_ppo_league_config.py"


def _written_at(path: Path) -> float:
    return path.stat().st_mtime


def win_rate(leads: list[float]) -> float:
    """Part of the games that were won; a draw is half of one."""
    return sum(0.5 * (lead >= 0) + 0.5 * (lead > 0) for lead in leads) / len(leads)


def games(seed: int, purpose: str, **cfg: Any) -> BaseEnvManager:
    """Ten games at a time."""
    env = BaseEnvManager([lambda: DuelEnv(cfg)] * 10, BaseEnvManager.default_config())
    env.seed(SeedTree(seed).env_seeds(env.env_num, "evaluator", purpose=purpose))
    return env


def against_opponent(policy: PPOPolicy, opponent: str, n_episode: int, seed: int) -> float:
    """Win rate against an opponent of the env."""
    cfg = InteractionSerialEvaluator.default_config()
    cfg.update(stop_value=float("inf"), n_episode=n_episode)
    evaluator = InteractionSerialEvaluator(cfg, games(seed, opponent, eval_opponent=opponent), policy.eval_mode)
    _, info = evaluator.eval()
    evaluator.close()
    return win_rate(info["eval_episode_return"])


def against_snapshot(policy: PPOPolicy, path: Path, n_episode: int, seed: int) -> float:
    """Win rate against the weights in a file."""
    former = PPOPolicy(policy.eval_mode.get_attribute("cfg"), enable_field=["eval"])
    former.eval_mode.load_state_dict(read_file(str(path)))
    cfg = BattleInteractionSerialEvaluator.default_config()
    cfg.update(stop_value=float("inf"), n_episode=n_episode)
    evaluator = BattleInteractionSerialEvaluator(cfg, games(seed, path.stem), [policy.eval_mode, former.eval_mode])
    _, infos = evaluator.eval()
    evaluator.close()
    return win_rate([info["eval_episode_return"] for info in infos[0]])


def main(seed: int = 0, max_env_step: int = 150_000, n_episode: int = 300) -> dict[str, float]:
    """Train, then return the win rates."""
    config = read_config(str(CONFIG))
    config[0].exp_name = f"duel_selfplay_seed{seed}"
    policy: Any = serial_pipeline_onpolicy(config, seed=seed, max_env_step=max_env_step)
    rates = {"GREEDY": against_opponent(policy, "GREEDY", n_episode, seed)}
    # A second run of the same name has a folder with the time in its name.
    folder = max(Path().glob(f"{config[0].exp_name}*"), key=_written_at)
    snapshots = sorted(folder.glob("league/*.pth"), key=_written_at)
    if snapshots:
        rates[snapshots[0].stem] = against_snapshot(policy, snapshots[0], n_episode, seed)
    return rates


if __name__ == "__main__":
    for name, rate in main(int(sys.argv[1]) if len(sys.argv) > 1 else 0).items():
        print(f"win rate against {name}: {rate:.2f}")
