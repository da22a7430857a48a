"""Which seeds the envs of a serial run get: from the seed tree, the same on every env manager."""

from copy import deepcopy
from pathlib import Path

import pytest
from easydict import EasyDict
from seed_toys import ACTIONS, episodes

from ding.bonus import DQNAgent
from ding.entry import serial_pipeline
from ding.envs import DingEnvWrapper
from ding.utils import SeedTree

MANAGERS = {
    "base": {"type": "base"},
    "subprocess": {"type": "subprocess"},
    "async_subprocess": {"type": "async_subprocess"},
    "gym_vector": {"type": "gym_vector", "vectorization_mode": "async"},
}
MAIN = EasyDict(
    exp_name="run",
    env=dict(env_id="Logged-v0", collector_env_num=3, evaluator_env_num=2, n_evaluator_episode=2, stop_value=1000),
    policy=dict(
        cuda=False,
        random_collect_size=60,
        model=dict(obs_shape=2, action_shape=ACTIONS, encoder_hidden_size_list=[8]),
        learn=dict(update_per_collect=1, batch_size=4),
        collect=dict(n_sample=36),
        other=dict(eps=dict(start=1.0, end=1.0), replay_buffer=dict(replay_buffer_size=200)),
    ),
)
CREATE = EasyDict(
    env=dict(type="gymnasium", import_names=["seed_toys"]), env_manager=dict(type="base"), policy=dict(type="dqn")
)


def run(folder: Path, manager: str, seed: int = 0, draws: bool = False) -> list[dict]:
    """Return the episodes of the collector of a short run."""
    folder.mkdir()
    main, create = deepcopy(MAIN), deepcopy(CREATE)
    main.exp_name = str(folder / "run")
    main.env.env_kwargs = dict(folder=str(folder), draws=draws)
    create.env_manager = EasyDict(MANAGERS[manager])
    serial_pipeline((main, create), seed=seed, max_train_iter=1)
    collected = set(SeedTree(seed).env_seeds(3, "collector"))
    return [one for one in episodes(folder) if one["seed"] in collected]


def test_the_envs_of_all_managers_get_the_seeds_of_the_tree(tmp_path):
    wanted = SeedTree(5).env_seeds(3, "collector")
    for manager in MANAGERS:
        found = run(tmp_path / manager, manager, seed=5)
        assert {one["seed"] for one in found if one["episode"] == 0} == set(wanted), manager


def test_a_repeated_run_plays_the_same_episodes_and_its_neighbour_shares_no_seed(tmp_path):
    def actions(found):
        return sorted((one["seed"], one["episode"], one["actions"]) for one in found)

    first, again, neighbour = (run(tmp_path / name, "base", seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    assert actions(first) == actions(again)
    assert not {one["actions"] for one in first} & {one["actions"] for one in neighbour}
    seeds = [{one["seed"] for one in episodes(tmp_path / name)} for name in "ac"]
    assert not seeds[0] & seeds[1]


@pytest.mark.parametrize("manager", ["subprocess", "async_subprocess", "gym_vector"])
def test_envs_in_processes_draw_from_generators_that_follow_from_their_seeds(tmp_path, manager):
    def drawn(name):
        found = run(tmp_path / name, manager, draws=True)
        return {one["seed"]: one["drawn"] for one in found if one["episode"] == 0}

    first, again = drawn("a"), drawn("b")
    assert first == again
    numbers = [number for draws in first.values() for number in draws]
    assert len(numbers) == 9 == len(set(numbers))


def test_an_agent_that_goes_on_training_does_not_play_its_first_starts_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cfg = deepcopy(MAIN)
    cfg.policy.random_collect_size = 0
    cfg.env.env_kwargs = dict(folder=str(tmp_path))
    env = DingEnvWrapper(cfg=EasyDict(cfg.env))
    agent = DQNAgent(env=env, seed=0, exp_name="agent", cfg=cfg)
    agent.train(step=36, collector_env_num=3)
    trained = {one["seed"] for one in episodes(tmp_path)}
    assert set(SeedTree(0).env_seeds(3, "collector")) <= trained
    agent.train(step=36, collector_env_num=3)
    new = {one["seed"] for one in episodes(tmp_path)} - trained
    assert len(new) >= 3
