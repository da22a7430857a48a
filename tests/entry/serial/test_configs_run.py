"""The configs of the algorithms: each makes some passes; the slow ones reach their stop value."""

import json
import runpy
from pathlib import Path

import pytest

import ding
from ding.config import read_config
from ding.entry import (
    serial_pipeline,
    serial_pipeline_onpolicy,
    serial_pipeline_plr,
    serial_pipeline_reward_model_onpolicy,
)
from ding.policy import get_policy_cls

FOLDER = Path(ding.__file__).parents[1] / "configs"
VALUE_BASED = ("bdq", "c51", "fqf", "iqn", "mdqn", "pqn", "qrdqn", "r2d2", "r2d2_gtrxl", "rainbow", "sql", "sqn")
CARTPOLE = (
    *VALUE_BASED,
    "a2c",
    "acer",
    "impala",
    "pg",
    "ppg",
    "ppg_onpolicy",
    "ppo",
    "ppo_offpolicy",
    "ppo_pg",
    "trpo",
)
NAMES = [f"cartpole_{name}" for name in CARTPOLE]
OTHERS = ["acrobot_ppo", "maze_ppo_plr", "t_maze_ppo_lstm", "pendulum_bdq", "pendulum_ppo", "duel_ppo_league"]
BOX2D = ["lunarlander_ppo", "lunarlander_ppo_continuous"]
PACKAGES = {"lunarlander": "Box2D", "minigrid": "minigrid", "pong": "ale_py"}
COOPERATIVE = [
    f"line_cover_{name}" for name in ("qmix", "collaq", "coma", "happo", "madqn", "mappo", "mat", "qtran", "wqmix")
]


CONTROL = ["pendulum_ddpg", "pendulum_td3", "pendulum_d4pg", "pendulum_sac", "cartpole_discrete_sac", "gym_hybrid_ddpg"]
CONTROL += ["gym_hybrid_pdqn"]


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(name: str, short: bool = False, **limits: int) -> dict:
    if package := PACKAGES.get(name.partition("_")[0]):
        pytest.importorskip(package)
    main, create = read_config(next(FOLDER.glob(f"*/{name}_config.py")))
    main.exp_name = "e"
    if short:
        main.env.n_evaluator_episode = main.env.evaluator_env_num
        if "r2d2" in name:
            main.policy.learn.batch_size = main.policy.collect.n_sample = 8
    on_policy = get_policy_cls(create.policy).default_config().on_policy
    pipeline = serial_pipeline_onpolicy if on_policy else serial_pipeline
    if name.endswith("_plr"):
        pipeline = serial_pipeline_plr
    if "reward_model" in create:
        pipeline = serial_pipeline_reward_model_onpolicy
    pipeline((main, create), seed=0, strict=True, **limits)
    return json.loads(Path("e/result.json").read_text())


@pytest.mark.parametrize("name", [*NAMES, *OTHERS[:4], *COOPERATIVE[:1]])
def test_some_passes(name):
    # R2D2 needs 8 sequences, of 42 steps or 13, before it learns.
    limit = 400 if name == "cartpole_r2d2" else 200
    result = run(name, short=True, max_env_step=limit)
    assert result["env_step"] >= limit
    assert result["train_iter"] >= 1


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "pendulum_sac" else pytest.mark.slow) for name in CONTROL]
)
def test_some_passes_of_continuous_control(name):
    assert run(name, max_env_step=5100, max_train_iter=6)["train_iter"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTROL[:5])
def test_the_stop_value_of_continuous_control(name):
    assert run(name, max_env_step=150_000)["stop"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pong_dqn", "pong_dqn_small", "pong_rainbow", "pong_ppo"])
def test_some_passes_of_atari(name):
    pytest.importorskip("ale_py")
    main, create = read_config(FOLDER / "pong" / f"{name}_config.py")
    main.exp_name = "e"
    main.env.update(evaluator_env_num=1, n_evaluator_episode=1)
    if create.policy.type == "ppo":
        main.policy.collect.n_sample, main.policy.learn.epoch_per_collect = 640, 1
    if "random_collect_size" in main.policy:
        main.policy.random_collect_size = 960
    pipeline = serial_pipeline_onpolicy if create.policy.type == "ppo" else serial_pipeline
    pipeline((main, create), seed=0, strict=True, max_env_step=1920)
    result = json.loads(Path("e/result.json").read_text())
    assert result["env_step"] >= 1920
    assert result["train_iter"] >= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *NAMES,
        *OTHERS,
        *COOPERATIVE,
        *BOX2D,
        "minigrid_ppo",
        "mountaincar_ppo",
        "minigrid_ppo_rnd",
        "gym_hybrid_ddpg",
        "gym_hybrid_ppo",
        "acrobot_dqn",
    ],
)
def test_the_stop_value_is_reached(name):
    assert run(name, max_env_step=200_000)["stop"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bc", "bco", "dqfd", "r2d3", "sqil"])
def test_scripts_that_train_their_expert_first(name):
    runpy.run_path(str(FOLDER / "cartpole" / f"cartpole_{name}_config.py"), run_name="__main__")
    assert json.loads(Path(f"cartpole_{name}_seed0/result.json").read_text())["stop"]
