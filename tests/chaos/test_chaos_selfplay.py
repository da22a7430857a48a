"""Self-play with a league in real processes: the config of the coin game, to its stop value."""

import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from chaos_main import put
from chaos_parts import ChaosRun

from ding.config import read_config_with_system
from ding.entry.application_entry import evaluate
from ding.envs.duel_env import DuelEnv
from ding.parallel.planes import FileWeightPlane
from ding.policy import DQNPolicy
from ding.utils import deep_merge_dicts

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

CONFIG = str(Path(__file__).parents[2] / "configs" / "duel" / "parallel" / "duel_dqn_config.py")
PLAYER = "naive_sp_player_default_0"
# A game that is learned in seconds.
SMALL = {
    "main.env.size": 3,
    "main.env.evaluator_episode_num": 3,
    "main.policy.model.encoder_hidden_size_list": [64, 64],
    "main.policy.other.eps.decay": 1500,
    "main.policy.other.commander.eval_interval": 1,
}


@pytest.fixture
def start(tmp_path):
    runs = []

    def begin(**config):
        # A policy folder of the user's stays, so that what the snapshots hold can be looked at.
        config["system.path_policy"] = str(tmp_path / "policies")
        runs.append(ChaosRun(tmp_path, config_file=CONFIG, config=config))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


def snapshots(ratings):
    """Train iterations of the snapshots."""
    tails = [name.removeprefix(f"{PLAYER}_") for name in ratings if name != PLAYER]
    return sorted(int(tail.removesuffix("_historical")) for tail in tails)


def configs(changes):
    """The main and the create config of a run."""
    main, create, _ = read_config_with_system(CONFIG)
    for path, value in changes.items():
        put(main, path.removeprefix("main."), value)
    return main, create


def win_rate(changes, model_state, opponent, games=50):
    """Of the greedy policy with these weights (None: fresh ones)."""
    torch.manual_seed(0)
    main, _ = configs(changes)
    policy = DQNPolicy(deep_merge_dicts(DQNPolicy.default_config(), main.policy), enable_field=["eval"]).eval_mode
    if model_state is not None:
        policy.load_state_dict({"model": model_state})
    env = DuelEnv({**main.env, "eval_opponent": opponent})
    env.seed(1)
    results = []
    for _ in range(games):
        obs, done = env.reset(), False
        while not done:
            action = policy.forward({0: torch.from_numpy(obs)})[0]["action"]
            obs, _, done, info = env.step(action.numpy())
        value = info["eval_episode_return"]
        results.append("wins" if value > 0 else "losses" if value < 0 else "draws")
    return results.count("wins") / games


def evaluation_of(changes, checkpoint, opponent, episodes):
    """What an evaluation of the run finds of these weights."""
    main, create = configs(changes)
    main.env.eval_opponent = opponent
    return evaluate((main, create), seed=0, load_path=str(checkpoint), episodes=episodes)


@pytest.mark.parametrize("changes", [SMALL, pytest.param({}, marks=pytest.mark.slow)], ids=["small", "whole"])
def test_self_play_reaches_its_stop_value_and_leaves_nothing(start, tmp_path, changes):
    run = start(**changes)
    assert run.wait_end() == 0, run.output
    assert run.left_behind() == []

    result = run.result()
    assert result["solved"]
    assert result["best_return"] >= 3
    assert result["tasks"]["failed"] == 0
    # A player that plays itself leaves two samples per step.
    assert result["buffers"]["rows"] / 2 <= result["env_step"] < result["buffers"]["rows"]

    taken = snapshots(result["ratings"])
    assert taken
    assert all(later - sooner >= 200 for sooner, later in pairwise([0, *taken]))
    # Ratings change by games of different players only.
    assert result["ratings"][PLAYER] != 0

    # Untrained, won against the weaker opponent, won against the stronger one.
    log = (tmp_path / result["exp_name"] / "log/commander/commander_evaluator_logger.txt").read_text()
    evaluated = [int(step) for step in re.findall(r"train iteration (-?\d+),", log)]
    assert len(evaluated) >= 3
    assert evaluated == sorted(evaluated)
    assert evaluated[0] >= 0

    planes = [FileWeightPlane(str(tmp_path / "policies"), f"{PLAYER}_ckpt_{step}.pth") for step in taken]
    newest = FileWeightPlane(str(tmp_path / "policies"), f"{PLAYER}_ckpt.pth").fetch()
    weights = [*(plane.fetch() for plane in planes), newest]
    versions = [one.version for one in weights]
    assert versions == sorted(versions)
    # The learner may have published another policy since it told its train iteration, but is in the same phase.
    assert 0 < versions[0] < taken[0] + 200
    for sooner, later in pairwise(weights):
        assert sooner.version == later.version or any(
            not torch.equal(tensor, later.state["model"][name]) for name, tensor in sooner.state["model"].items()
        )

    # The weights that reached the stop value, in the games of that evaluation and in others. The learner trains
    # on while an evaluation lasts, so that the last checkpoint is of other weights, which may be worse.
    best, checkpoint = result["best_evaluation"], tmp_path / result["exp_name"] / "ckpt/ckpt_best.pth.tar"
    assert best["opponent"] == "RULE_BASED"
    again = evaluation_of(changes, checkpoint, best["opponent"], best["episodes"])
    assert (again.mean, again.min, again.max) == pytest.approx((best["mean"], best["min"], best["max"]))
    assert again.mean >= 3
    model = torch.load(checkpoint, weights_only=True)["model"]
    assert win_rate(changes, model, "RULE_BASED") > 0.5
    assert win_rate(changes, model, "RANDOM") > 0.5
    assert win_rate(changes, None, "RULE_BASED") < 0.3


@pytest.mark.slow
def test_the_league_outlives_its_processes(start):
    run = start(**{"main.env.stop_value": 10**9})
    first = run.wait_for(lambda: snapshots(run.status("ratings", {})), "a snapshot")
    for role in ("coordinator", "learner0", "collector0"):
        run.kill_and_wait(role)
        before = run.wait_for(lambda: run.status("ratings", {}), f"a league after {role} was killed")
        assert set(first) <= set(snapshots(before))
        run.wait_for(
            lambda: len(snapshots(run.status("ratings", {}))) > len(snapshots(before)),  # noqa: B023
            f"a snapshot after {role} was killed",
        )
    assert run.status("tasks")["failed"] == 0
