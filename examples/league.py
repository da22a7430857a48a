"""A league of a main player and two exploiters on the coin game of two players.

    python examples/league.py [SEED]

All three learn in turn: the main player from games against itself, snapshots of anyone and exploiters that beat it, the
main exploiter from games against the main player, and the league exploiter against all snapshots. An exploiter begins
anew when a snapshot of it was taken. It ends when the main player is ahead of an opponent that always goes towards the
coin; the results of three seeds are in docs/results.md.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

from easydict import EasyDict

from ding.config import compile_config, read_config
from ding.envs import create_env_manager, get_vec_env_setting
from ding.league import ActivePlayer, BaseLeague, OneVsOneLeague
from ding.policy import create_policy
from ding.utils import SeedTree, set_pkg_seed
from ding.utils.file_helper import save_file
from ding.worker import BaseLearner, InteractionSerialEvaluator
from ding.worker.league import LeagueSerialCollector

CONFIG = Path(__file__).parents[1] / "configs" / "duel" / "duel_ppo_exploiters_config.py"


class ExploiterLeague(OneVsOneLeague):
    """Notes which players begin anew after a snapshot."""

    begins_anew: set[str] = set()

    def _mutate_player(self, player: ActivePlayer) -> None:
        if player.mutate({"reset_checkpoint_path": "anew"}) is not None:
            self.begins_anew = self.begins_anew | {player.player_id}
            player.rating = self.metric_env.create_rating()


class Trainee:
    """A player with its policy and workers."""

    def __init__(self, cfg: EasyDict, league: BaseLeague, player_id: str, seed: int) -> None:
        self.cfg, self.league, self.player_id, self.seed = cfg, league, player_id, seed
        # Train iterations of earlier lives.
        self.train_iters, self.lives, self.env_steps = 0, 0, 0
        self.begin()

    def begin(self) -> None:
        """Start with new weights."""
        self.lives += 1
        self.policy: Any = create_policy(self.cfg.policy)
        name = f"{self.player_id}_{self.lives}"
        make, env_cfgs, _ = get_vec_env_setting(self.cfg.env)
        envs = create_env_manager(self.cfg.env.manager, [lambda one=one: make(one) for one in env_cfgs])
        envs.seed(SeedTree(self.seed).env_seeds(envs.env_num, "collector", purpose=name))
        names: dict[str, str] = {"exp_name": self.cfg.exp_name, "instance_name": name}
        self.learner = BaseLearner(self.cfg.policy.learn.learner, self.policy.learn_mode, **names)
        self.collector = LeagueSerialCollector(
            self.cfg.policy.collect.collector, envs, self.policy.collect_mode,
            league=self.league, player_id=self.player_id, **names,
        )  # fmt: skip
        self.save()

    def save(self) -> None:
        """Write the weights to the file from which others play them."""
        save_file(self.league.get_player_by_id(self.player_id).checkpoint_path, self.policy.collect_mode.state_dict())

    def end(self) -> None:
        """Close what plays and learns."""
        self.train_iters += self.learner.train_iter
        self.collector.close()
        self.learner.close()

    def turn(self) -> None:
        """Play some games and learn from them."""
        train_iter, before = self.train_iters + self.learner.train_iter, self.collector.envstep
        samples = self.collector.collect(train_iter=train_iter)
        self.env_steps += self.collector.envstep - before
        self.learner.train(samples, self.collector.envstep)
        self.save()


def main(seed: int = 0, max_env_step: int = 100_000) -> dict[str, Any]:
    """Train until the main player reaches the stop value; ``max_env_step`` counts its own env steps."""
    main_config, create_config = read_config(str(CONFIG))
    main_config.exp_name = f"duel_league_seed{seed}"
    shutil.rmtree(main_config.exp_name, ignore_errors=True)
    cfg = compile_config(main_config, create_cfg=create_config, seed=seed, auto=True, save_cfg=False)
    set_pkg_seed(seed)
    league = ExploiterLeague({**cfg.policy.collect.collector.league, "path_policy": f"{cfg.exp_name}/league"})
    trainees = [Trainee(cfg, league, name, seed) for name in league.active_players_ids]
    make, _, eval_cfgs = get_vec_env_setting(cfg.env)
    evaluator_env = create_env_manager(cfg.env.manager, [lambda one=one: make(one) for one in eval_cfgs])
    evaluator_env.seed(SeedTree(seed).env_seeds(evaluator_env.env_num, "evaluator"), dynamic_seed=False)
    first = trainees[0]
    evaluator = InteractionSerialEvaluator(
        cfg.policy.eval.evaluator, evaluator_env, first.policy.eval_mode, exp_name=cfg.exp_name
    )
    solved = False
    while not solved and first.env_steps < max_env_step:
        if evaluator.should_eval(first.learner.train_iter):
            solved, info = evaluator.eval(train_iter=first.learner.train_iter, envstep=first.env_steps)
        for trainee in trainees:
            trainee.turn()
            if trainee.player_id in league.begins_anew:
                league.begins_anew = league.begins_anew - {trainee.player_id}
                trainee.end()
                trainee.begin()
    for trainee in trainees:
        trainee.end()
    evaluator.close()
    return {
        "solved": solved,
        "lead over GREEDY": sum(info["eval_episode_return"]) / len(info["eval_episode_return"]),
        "env steps of the main player": first.env_steps,
        "env steps": sum(trainee.env_steps for trainee in trainees),
        "lives": {trainee.player_id: trainee.lives for trainee in trainees},
        "win rates of the main player": {
            name: round(league.payoff[first.player_id, name], 2)
            for name in league.payoff.players_ids
            if name != first.player_id
        },
        "ranks": league.player_rank(),
    }


if __name__ == "__main__":
    for key, value in main(int(sys.argv[1]) if len(sys.argv) > 1 else 0).items():
        print(f"{key}: {value}")
