"""Envs that raise, hang or die in a serial run: the run ends with their error, or replaces them and counts it."""

import sys
from pathlib import Path

import pytest

from ding.entry import serial_pipeline
from ding.envs.env_manager import EnvManagerError
from ding.envs.testing import CountingEnv
from tests.entry.serial.test_serial_exact_resume import config


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(manager: str, fault: dict, max_env_step: int = 160, **settings):
    """A run of which the second of two collector envs breaks."""
    main, create = config("run")
    main.env = {
        **{key: main.env[key] for key in ("evaluator_env_num", "n_evaluator_episode", "stop_value")},
        "collector_env_num": 2,
        "manager": settings,
    }
    main.policy.model.obs_shape = 2
    main.policy.priority = main.policy.priority_IS_weight = False
    main.policy.collect.collector = {"collect_print_freq": 1}
    create.env_manager.type = manager
    good = {"episode_length": 8}
    return serial_pipeline(
        (main, create),
        env_setting=(CountingEnv, [good, {**good, "fault": fault}], [good, good]),
        max_env_step=max_env_step,
    )


@pytest.mark.parametrize(
    ("manager", "kind"),
    [
        ("base", "raise"),
        ("subprocess", "kill"),
        pytest.param("subprocess", "raise", marks=pytest.mark.slow),
        pytest.param("subprocess", "hang", marks=pytest.mark.slow),
    ],
)
def test_a_broken_env_is_replaced_and_its_episode_dropped_and_counted(manager, kind) -> None:
    # Each new env breaks in its second episode.
    fault = {"kind": kind, "step": 3, "episode": 1}
    run(manager, fault, on_env_failure="restart", step_timeout=0.5 if kind == "hang" else None)
    text = "".join(path.read_text() for path in Path("run/log/collector").glob("*.txt"))
    counts = [int(line.split(":")[-1]) for line in text.splitlines() if "total_dropped_episode_count" in line]
    assert counts == sorted(counts)
    assert counts[-1] >= 3


@pytest.mark.parametrize("manager", ["base", "subprocess"])
def test_one_that_breaks_in_each_episode_ends_the_run_at_the_limit(manager) -> None:
    with pytest.raises(EnvManagerError, match="Env 1"):
        run(manager, {"kind": "raise", "step": 3}, on_env_failure="restart", max_env_failures=3)


@pytest.mark.parametrize("manager", ["base", "subprocess"])
def test_without_the_setting_a_broken_env_ends_the_run(manager) -> None:
    with pytest.raises(EnvManagerError, match="Env 1"):
        run(manager, {"kind": "raise", "step": 3, "episode": 1})


@pytest.mark.parametrize(("key", "value"), [("on_env_failure", "retry"), ("max_env_failures", 0)])
def test_a_setting_that_is_none_is_refused_by_name(key, value) -> None:
    with pytest.raises(ValueError, match=f"env.manager.{key}"):
        run("base", {"kind": "raise", "step": 99}, **{"on_env_failure": "restart", key: value})


class Exits(CountingEnv):
    """Calls ``sys.exit(0)`` in its second step."""

    def step(self, action):
        return sys.exit(0) if self.core.t == 1 else super().step(action)


def test_an_env_that_exits_is_no_end_of_the_run() -> None:
    main, create = config("run")
    main.env = {key: main.env[key] for key in ("evaluator_env_num", "n_evaluator_episode", "stop_value")}
    main.env["collector_env_num"] = 1
    main.policy.model.obs_shape = 2
    good = {"episode_length": 8}
    with pytest.raises(RuntimeError, match=r"called sys\.exit\(0\)"):
        serial_pipeline((main, create), env_setting=(Exits, [good], [good]), max_env_step=16)
