"""2N train iterations are N, a snapshot, a new process and N more, bit for bit: policies and env managers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ding.entry
from ding.config import read_config
from ding.entry.serial.run_state import newest_good_snapshot
from ding.utils.checkpoint import read_manifest
from tests.entry.serial.test_serial_exact_resume import digest_of

CONFIGS = Path(__file__).parents[3] / "configs"
ADVANCED = {"type": "advanced", "replay_buffer_size": 500}
# Config, mode, train iterations of a half, and what makes it small.
POLICIES = {
    "dqn": (
        "cartpole/cartpole_dqn_config.py", "serial", 20,
        {"policy": {"priority": True, "priority_IS_weight": True, "other": {"replay_buffer": ADVANCED}}},
    ),
    "r2d2": (
        "cartpole/cartpole_r2d2_config.py", "serial", 10,
        {"policy": {"learn": {"batch_size": 4, "update_per_collect": 5}, "collect": {"n_sample": 8}}},
    ),
    "ppo": ("cartpole/cartpole_ppo_config.py", "serial_onpolicy", 40, {"policy": {"collect": {"n_sample": 128}}}),
    "recurrent_ppo": ("t_maze/t_maze_ppo_gru_config.py", "serial_onpolicy", 32, {"policy": {"learn_unroll_len": 8}}),
    "sac": (
        "pendulum/pendulum_sac_config.py", "serial", 10,
        {"policy": {"random_collect_size": 200, "learn": {"batch_size": 16}}},
    ),
    "crossq": (
        "pendulum/pendulum_crossq_config.py", "serial", 10,
        {"policy": {"random_collect_size": 200, "learn": {"batch_size": 16}}},
    ),
    "redq": (
        "pendulum/pendulum_redq_config.py", "serial", 50,
        {"policy": {"random_collect_size": 200, "model": {"dropout": 0.1}, "learn": {"batch_size": 16}}},
    ),
    "tdmpc2": (
        "pendulum/pendulum_tdmpc2_config.py", "serial", 10,
        {"policy": {"random_collect_size": 200, "learn": {"batch_size": 16}}},
    ),
    "discrete_sac": (
        "cartpole/cartpole_discrete_sac_config.py", "serial", 10,
        {"policy": {"random_collect_size": 100, "learn": {"batch_size": 16}}},
    ),
    "qmix": (
        "line_cover/line_cover_qmix_config.py", "serial", 20,
        {"policy": {"learn": {"batch_size": 4}, "collect": {"n_sample": 8}}},
    ),
    "mat": (
        "line_cover/line_cover_mat_config.py", "serial_onpolicy", 16,
        {"policy": {"learn": {"batch_size": 16, "epoch_per_collect": 2}, "collect": {"n_sample": 64}}},
    ),
}  # fmt: skip


def configs(name: str, manager: str, exp_name: str, freq: int):
    path, _, _, changes = POLICIES[name]
    main, create = read_config(str(CONFIGS / path))
    merge(main, changes)
    merge(main, {"exp_name": exp_name, "env": {"n_evaluator_episode": 2, "stop_value": 1e9}})
    main.env.evaluator_env_num = min(main.env.evaluator_env_num, 2)
    main.policy.learn.run_state_freq = freq
    create.env_manager.type = manager
    return main, create


def merge(into, changes) -> None:
    for key, value in changes.items():
        if isinstance(value, dict) and key in into:
            merge(into[key], value)
        else:
            into[key] = value


@pytest.mark.slow
@pytest.mark.parametrize("manager", ["base", "subprocess"])
@pytest.mark.parametrize("name", POLICIES)
def test_two_halves_are_the_whole(name, manager, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, mode, half, _ = POLICIES[name]
    pipeline = getattr(ding.entry, mode.replace("serial", "serial_pipeline"))
    pipeline(configs(name, manager, "whole", half), seed=3, max_train_iter=2 * half)
    pipeline(configs(name, manager, "parts", half), seed=3, max_train_iter=half)
    first = newest_good_snapshot("parts")
    assert read_manifest(first).notes["episodes"] == "go on"
    command = [sys.executable, "-m", "ding.entry", "-m", mode, "--resume", "parts", "--train-iter", str(2 * half)]
    done = subprocess.run(
        [*command, "--quiet", "-s", "3"], capture_output=True, text=True, timeout=300, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr
    whole, parts = newest_good_snapshot("whole"), newest_good_snapshot("parts")
    assert parts != first
    assert parts.name == whole.name
    assert digest_of(whole) == digest_of(parts)


@pytest.mark.parametrize(
    ("name", "seed"),
    [("ppo", 0), *(pytest.param(name, seed, marks=pytest.mark.slow) for name in POLICIES for seed in range(1, 6))],
)
def test_the_same_seed_gives_the_same_run_with_each_policy(name, seed, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, mode, half, _ = POLICIES[name]
    pipeline = getattr(ding.entry, mode.replace("serial", "serial_pipeline"))
    for folder in ("a", "b"):
        pipeline(configs(name, "base", folder, half // 4), seed=seed, max_train_iter=half // 4)
    first, second = (newest_good_snapshot(folder) for folder in ("a", "b"))
    assert first.name == second.name
    assert digest_of(first) == digest_of(second)
