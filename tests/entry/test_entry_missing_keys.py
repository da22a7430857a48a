"""A key that a plain config leaves out has a default, or a sentence names it before the first env step.

Each key of the configs below is left out in turn. The run must train, or end with an error that names the key (of a
section: a key in it) or the section, make no env step and leave no folder.
"""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ding.entry
from ding.config import read_config
from ding.data import columns_save
from ding.entry import serial_pipeline
from ding.envs import DingEnvWrapper
from ding.utils.errors import UserMistake

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
ONLINE = {
    "cartpole/cartpole_dqn": "serial_pipeline",
    "cartpole/cartpole_r2d2": "serial_pipeline",
    "pendulum/pendulum_sac": "serial_pipeline",
    "cartpole/cartpole_ppo": "serial_pipeline_onpolicy",
    "cartpole/cartpole_pg": "serial_pipeline_onpolicy",
    "cartpole/cartpole_ppg_onpolicy": "serial_pipeline_onpolicy_ppg",
}
QUICK = ("cartpole/cartpole_ppo", "cartpole/cartpole_pg", "cartpole/cartpole_cql")
OFFLINE = {"cartpole/cartpole_bc": "serial_pipeline_bc", "cartpole/cartpole_cql": "serial_pipeline_offline"}


@pytest.fixture
def env_steps(monkeypatch, tmp_path):
    """The number of env steps so far, in a list; the working folder is empty but for a data set."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(64, 4)).astype(np.float32) for name in ("obs", "next_obs")}
    rows.update(action=rng.integers(0, 2, (64, 1)), reward=np.ones((64, 1), np.float32), done=np.zeros(64, bool))
    columns_save(rows, "data")
    counted, step = [0], DingEnvWrapper.step

    def counting(self, action):
        counted[0] += 1
        return step(self, action)

    monkeypatch.setattr(DingEnvWrapper, "step", counting)
    return counted


def paths(section: object, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Each key below a section as a path, sections included; a value has none."""
    for key, value in section.items() if isinstance(section, Mapping) else ():
        yield (*above, key)
        yield from paths(value, (*above, key))


def without(configs: Mapping[str, Any], path: tuple[str, ...]) -> tuple[dict[str, Any], set[str]]:
    """The configs without a key, and the names by which an error may call it."""
    left = deepcopy(dict(configs))
    section: Any = left
    for key in path[:-1]:
        section = section[key]
    value = section.pop(path[-1])
    return left, {path[-1], *(one[-1] for one in paths(value))}


def ends_well(configs: Mapping[str, Any], path: tuple[str, ...], pipeline: str, env_steps: list[int]) -> str | None:
    """Run without a key; returns what is wrong with the end, if anything is."""
    env_steps[0] = 0
    left, names = without(configs, path)
    limits = {"serial_pipeline_bc": {"max_iter": 2}, "serial_pipeline_offline": {"max_train_iter": 2}}
    folder = Path(left["main_config"].get("exp_name", "default_experiment"))
    before = set(Path().iterdir())
    try:
        pipeline_fn = getattr(ding.entry, pipeline)
        pipeline_fn(tuple(left.values()), seed=0, **limits.get(pipeline, {"max_env_step": 1}))
    except UserMistake as error:
        words = set(re.findall(r"\w+", str(error)))
        if not words & names:
            return f"{'.'.join(path)}: the error does not name it: {error}"
        if env_steps[0] or set(Path().iterdir()) != before:
            return f"{'.'.join(path)}: {env_steps[0]} env steps before {error}"
    except Exception as error:
        raise AssertionError(f"{'.'.join(path)}: {error!r}") from error
    else:
        if not folder.is_dir():
            return f"{'.'.join(path)}: the run left no folder"
    return None


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in (*ONLINE, *OFFLINE)]
)
def test_a_missing_key_has_a_default_or_is_named_at_the_start(name, env_steps):
    main, create = read_config(CONFIGS / f"{name}_config.py")
    main.exp_name = "exp"
    main.env.max_episode_steps = 3
    if name in OFFLINE:
        main.policy.collect.update(data_type="columns", data_path="data")
        main.policy.learn.batch_size = 16
    configs = {"main_config": main, "create_config": create}
    tried = [path for path in paths(configs) if len(path) > 1]
    if "random_collect_size" in main.policy:
        # Its default makes 10,000 env steps.
        main.policy.random_collect_size = 0
        tried.remove(("main_config", "policy", "random_collect_size"))
    faults = [ends_well(configs, path, {**ONLINE, **OFFLINE}[name], env_steps) for path in tried]
    assert [fault for fault in faults if fault is not None] == []


def test_each_evaluator_env_plays_an_episode_where_their_number_is_not_given(env_steps):
    main, create = read_config(CONFIGS / "cartpole/cartpole_dqn_config.py")
    main.env.update(evaluator_env_num=6, max_episode_steps=3)
    main.env.pop("n_evaluator_episode")
    serial_pipeline((main, create), seed=0, max_env_step=1)
    assert "'n_evaluator_episode': 6" in Path("cartpole_dqn_seed0/total_config.py").read_text()
