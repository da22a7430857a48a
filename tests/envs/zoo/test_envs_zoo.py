"""The env types of the zoo: spaces, forms of observations, actions and rewards, seeds, infos."""

import importlib
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from easydict import EasyDict
from gymnasium import spaces

import ding
from ding.config import ConfigImportError
from ding.entry import serial_pipeline
from ding.envs import BaseEnvTimestep, DingEnvWrapper, create_env_manager, get_vec_env_setting, zoo
from ding.envs.env import check_reset, check_space_dtype
from ding.envs.env.base_env import EnvConfigError
from ding.envs.zoo import MODULES
from ding.utils import ENV_REGISTRY, import_module
from ding.utils.original_names import installed_zoo

# type, module, config, package that it needs, shape of an observation, action space
TYPES = [
    ("cartpole", "cartpole_env", {}, "", (4,), spaces.Discrete(2)),
    ("mountain_car", "mtcar_env", {}, "", (2,), spaces.Discrete(3)),
    ("acrobot", "acrobot_env", {}, "", (6,), spaces.Discrete(3)),
    ("pendulum", "pendulum_env", {"act_scale": True}, "", (3,), spaces.Box(-1.0, 1.0, (1,))),
    ("pendulum", "pendulum_env", {"act_scale": True, "continuous": False}, "", (3,), spaces.Discrete(11)),
    ("lunarlander", "lunarlander_env", {"env_id": "LunarLander-v2"}, "Box2D", (8,), spaces.Discrete(4)),
    (
        "lunarlander",
        "lunarlander_env",
        {"env_id": "LunarLanderContinuous-v2", "act_scale": True},
        "Box2D",
        (8,),
        spaces.Box(-1.0, 1.0, (2,)),
    ),
    (
        "bipedalwalker",
        "bipedalwalker_env",
        {"act_scale": True, "rew_clip": True},
        "Box2D",
        (24,),
        spaces.Box(-1.0, 1.0, (4,)),
    ),
    ("bitflip", "bitflip_env", {"n_bits": 3}, "", (6,), spaces.Discrete(3)),
    ("cliffwalking", "cliffwalking_env", {"env_id": "CliffWalking-v0"}, "", (48,), spaces.Discrete(4)),
    ("frozen_lake", "frozen_lake_env", {}, "", (16,), spaces.Discrete(4)),
    ("taxi", "taxi_env", {}, "", (34,), spaces.Discrete(6)),
    ("mujoco", "mujoco_env", {"env_id": "Hopper-v3"}, "mujoco", (11,), spaces.Box(-1.0, 1.0, (3,))),
    ("mujoco", "mujoco_env", {"env_id": "Ant-v3"}, "mujoco", (111,), spaces.Box(-1.0, 1.0, (8,))),
    ("mujoco", "mujoco_env", {"env_id": "Humanoid-v3"}, "mujoco", (376,), spaces.Box(-0.4, 0.4, (17,))),
    (
        "mujoco",
        "mujoco_env",
        {"action_bins_per_branch": 5},
        "mujoco",
        (11,),
        spaces.MultiDiscrete([5, 5, 5]),
    ),
    ("minigrid", "minigrid_env", {"max_step": 20}, "minigrid", (2835,), spaces.Discrete(7)),
    ("atari", "atari_env", {}, "ale_py", (4, 84, 84), spaces.Discrete(6)),
    ("atari", "atari_env", {"frame_stack": 1, "is_train": False}, "ale_py", (84, 84), spaces.Discrete(6)),
    ("atari", "atari_env", {"frame_stack": 2, "frame_size": 42}, "ale_py", (2, 42, 42), spaces.Discrete(6)),
]
HYBRID = ("gym_hybrid", "gym_hybrid_env")


def make(kind: str, module: str, **cfg: object):
    import_module([f"ding.envs.zoo.{module}"])
    return ENV_REGISTRY.build(kind, EasyDict(cfg))


@pytest.mark.parametrize(("kind", "module", "cfg", "package", "shape", "action_space"), TYPES)
def test_forms(kind, module, cfg, package, shape, action_space):
    if package:
        pytest.importorskip(package)
    env = make(kind, module, **cfg)
    env.seed(3, dynamic_seed=False)
    first = env.reset()
    assert env.observation_space.shape == shape
    assert env.action_space == action_space
    check_space_dtype(env)
    check_reset(env)
    action = env.random_action()
    assert action.dtype == (np.float32 if isinstance(action_space, spaces.Box) else np.int64)
    assert action.shape == (action_space.shape or (1,))
    obs, reward, done, info = env.step(action)
    assert obs.shape == shape
    assert obs.dtype == np.float32
    assert reward.shape == (1,)
    assert reward.dtype == np.float32
    assert isinstance(done, bool)
    assert isinstance(info, dict)
    if kind != "bitflip":  # its tasks differ with any seed, and it has no other env to be cloned to
        np.testing.assert_array_equal(env.reset(), first)
        assert env.clone("evaluator").caller == "evaluator"
    env.close()


@pytest.mark.parametrize("name", ["default", "mujoco_default", "atari_default"])
def test_the_name_of_a_list_of_wrappers_means_those_of_the_type(name):
    env = make("cartpole", "cartpole_env", env_wrapper=name)
    assert env.reset().shape == (4,)
    while not (timestep := env.step(0)).done:
        pass
    assert timestep.info["eval_episode_return"] > 1


def test_a_misspelt_name_of_a_list_of_wrappers_is_told():
    with pytest.raises(EnvConfigError, match=r"env\.env_wrapper 'mujoco_defalt' is unknown\. Did you mean 'mujoco_def"):
        make("cartpole", "cartpole_env", env_wrapper="mujoco_defalt")


def test_one_config_per_env():
    cfg = EasyDict(
        type="cartpole", import_names=["ding.envs.zoo.cartpole_env"], collector_env_num=2, evaluator_env_num=1
    )
    cls, collector, evaluator = get_vec_env_setting(cfg)
    assert cls.__name__ == "CartPoleEnv"
    assert [one.is_train for one in collector] == [True, True]
    assert [one.is_train for one in evaluator] == [False]
    assert collector[0] is not collector[1]
    assert cfg.collector_env_num == 2


def test_cartpole_is_cut_after_200_steps():
    env = make("cartpole", "cartpole_env")
    env.seed(0)
    obs = env.reset()
    for _ in range(200):
        # Leaning and falling to the right: push to the right.
        obs, _, done, info = env.step(int(obs[2] + obs[3] * 0.5 + 0.05 * obs[0] + 0.1 * obs[1] > 0))
        if done:
            break
    assert info["TimeLimit.truncated"]
    assert info["eval_episode_return"] == 200


@pytest.mark.parametrize("manager", ["base", "subprocess"])
def test_the_return_is_a_number(manager):
    cfg = EasyDict(type="cartpole", import_names=["ding.envs.zoo.cartpole_env"])
    cls, _, _ = get_vec_env_setting(cfg, collect=False, eval_=False)
    managed = create_env_manager({"type": manager}, [lambda: cls({})])
    managed.seed(0)
    managed.launch()
    try:
        ended = False
        while not ended:
            timestep = managed.step({0: np.array([1])})[0]
            ended = timestep.done
    finally:
        managed.close()
    assert f"{timestep.info['eval_episode_return']:.1f}" == "8.0"
    assert json.dumps(timestep.info["eval_episode_return"]) == "8.0"


def test_the_folder_for_videos_of_evaluations_makes_no_videos_of_training(tmp_path):
    env = make("cartpole", "cartpole_env", replay_path=str(tmp_path))
    env.reset()
    while not env.step(1).done:
        pass
    env.close()
    assert not list(tmp_path.iterdir())


def test_previous_action_and_reward():
    env = make("cartpole", "cartpole_env", obs_plus_prev_action_reward=True)
    assert env.reset()["prev_action"] == -1
    obs = env.step(np.array([1])).obs
    assert obs["prev_action"] == 1
    assert obs["prev_reward_extrinsic"] == 1


@pytest.mark.parametrize(("index", "torque"), [(0, -2.0), (5, 0.0), (8, 1.2), (10, 2.0)])
def test_discrete_torques(index, torque):
    discrete, continuous = make("pendulum", "pendulum_env", continuous=False), make("pendulum", "pendulum_env")
    for env in (discrete, continuous):
        env.seed(0)
        env.reset()
    expected = continuous.step(np.array([torque], dtype=np.float32))
    found = discrete.step(np.array([index]))
    np.testing.assert_allclose(found.obs, expected.obs, atol=1e-6)
    np.testing.assert_allclose(found.reward, expected.reward, rtol=1e-6)


def test_torques_are_scaled():
    scaled, plain = make("pendulum", "pendulum_env", act_scale=True), make("pendulum", "pendulum_env")
    for env in (scaled, plain):
        env.seed(0)
        env.reset()
    found = scaled.step(np.array([0.5], dtype=np.float32))
    np.testing.assert_array_equal(found.obs, plain.step(np.array([1.0], dtype=np.float32)).obs)


def test_one_hot_cells():
    walk = make("cliffwalking", "cliffwalking_env")
    assert walk.reset().argmax() == 36
    assert walk.step(np.array([0])).obs.argmax() == 24
    lake = make("frozen_lake", "frozen_lake_env", is_slippery=False)
    assert lake.reset().argmax() == 15
    assert lake.step(np.array([1])).obs.argmax() == 3  # cell 4
    own = make("frozen_lake", "frozen_lake_env", desc=["SF", "FG"], is_slippery=False)
    assert own.reset().shape == (4,)


def test_taxi_shows_the_parts_of_its_state():
    env = make("taxi", "taxi_env")
    env.seed(0)
    obs = env.reset()
    row, column, passenger, destination = env.unwrapped.decode(env.unwrapped.s)
    expected = np.zeros(34)
    expected[[5 * row + column, 25 + passenger, 30 + destination]] = 1
    np.testing.assert_array_equal(obs, expected)


# Hybrid actions


def act(kind: int, acceleration: float = 0.0, rotation: float = 0.0) -> dict:
    return {"action_type": np.array([kind]), "action_args": np.array([acceleration, rotation], dtype=np.float32)}


def hybrid(**cfg):
    env = make(*HYBRID, **cfg)
    env.seed(0)
    return env, env.reset()


def test_hybrid_forms():
    env, obs = hybrid()
    assert obs.shape == (10,)
    assert obs.dtype == np.float32
    action = env.random_action()
    assert action["action_type"].shape == (1,)
    assert action["action_args"].shape == (2,)
    timestep = env.step(action)
    assert timestep.info["action_args_mask"].tolist() == [[1, 0], [0, 1], [0, 0]]
    with pytest.raises(ValueError, match="HardMove"):
        hybrid(env_id="HardMove-v0")
    old = DingEnvWrapper(cfg={"env_id": "Sliding-v0", "env_wrapper": "gym_hybrid_default"})
    old.reset()
    assert old.step(old.random_action()).obs.shape == (10,)


@pytest.mark.parametrize("env_id", ["Moving-v0", "Sliding-v0"])
def test_hybrid_pedals(env_id):
    env, obs = hybrid(env_id=env_id)
    x, y, _, cosine, sine = obs[:5]
    # With act_scale, acceleration 0 is half the pedal: a speed of 0.25.
    after = env.step(act(0, 0.0)).obs
    np.testing.assert_allclose(after[:3], [x + 0.00125 * cosine, y + 0.00125 * sine, 0.25], atol=1e-6)
    turned = env.step(act(1, rotation=1.0)).obs
    np.testing.assert_allclose(turned[3:5], [-sine, cosine], atol=1e-6)
    # Sliding: the movement goes on as it was.
    way = [cosine, sine] if env_id == "Sliding-v0" else [-sine, cosine]
    np.testing.assert_allclose(turned[:2] - after[:2], 0.00125 * np.array(way), atol=1e-6)
    assert env.step(act(2)).obs[2] == pytest.approx(0.15)
    env.step(act(2))
    stopped = env.step(act(2)).obs
    assert stopped[2] == 0
    np.testing.assert_allclose(stopped[9], 5 / 200)


def test_hybrid_reward_and_ends():
    env, obs = hybrid()
    timestep = env.step(act(0, 1.0))
    np.testing.assert_allclose(timestep.reward, obs[7] - timestep.obs[7] - 0.001, atol=1e-6)
    while not timestep.done:
        timestep = env.step(act(0, 1.0))
    assert timestep.reward == -1
    assert np.abs(timestep.obs[:2]).max() > 1
    env.reset()
    # The step after the 200 loses, as in the original game.
    timesteps = [env.step(act(2)) for _ in range(201)]
    assert [timestep.done for timestep in timesteps] == [False] * 200 + [True]
    assert timesteps[-1].reward == -1
    np.testing.assert_allclose([timestep.reward[0] for timestep in timesteps[:-1]], -0.001, atol=1e-6)


def test_hybrid_starts():
    env, _ = hybrid()
    starts = np.array([env.reset() for _ in range(300)])
    # The agent anywhere on the field, the target with its whole circle.
    np.testing.assert_allclose(np.abs(starts[:, :2]).max(0), 1.0, atol=0.02)
    np.testing.assert_allclose(np.abs(starts[:, 5:7]).max(0), 0.9, atol=0.02)


def test_hybrid_target_is_won_by_stopping_in_it():
    env, obs = hybrid()
    angle = np.arctan2(obs[6] - obs[1], obs[5] - obs[0]) - np.arctan2(obs[4], obs[3])
    for _ in range(2):
        part = np.clip(((angle + np.pi) % (2 * np.pi) - np.pi) / (np.pi / 2), -1, 1)
        env.step(act(1, rotation=part))
        angle -= part * np.pi / 2
    total, timestep = 0.0, None
    while timestep is None or not timestep.done:
        distance, speed = (1.0, 0.0) if timestep is None else (timestep.obs[7], timestep.obs[2])
        # Braking from a speed v takes 10 v steps and a way of v^2 / 40.
        timestep = env.step(act(2) if speed**2 * 0.025 >= distance - 0.05 else act(0, -0.2))
        total = float(timestep.reward[0])
    assert total > 0.9
    assert timestep.obs[8] == 1
    assert timestep.info["eval_episode_return"] > 1


# Packages of extras


def test_mujoco_returns_are_those_of_the_env():
    pytest.importorskip("mujoco")
    cfg = {"norm_obs": {"use_norm": True}, "norm_reward": {"use_norm": True, "reward_discount": 0.9}}
    envs = [make("mujoco", "mujoco_env", delay_reward_step=3, **cfg), make("mujoco", "mujoco_env")]
    ends = []
    for env in envs:
        env.seed(0)
        env.reset()
        timestep, rewards = env.step(np.ones(3, dtype=np.float32)), []
        while not timestep.done:
            timestep = env.step(np.ones(3, dtype=np.float32))
            rewards.append(float(timestep.reward[0]))
        ends.append((timestep.info["eval_episode_return"].item(), rewards[:2]))
    assert ends[0][0] == ends[1][0]
    assert ends[0][1][0] == 0
    assert ends[1][1][0] != 0


def test_minigrid_limit_and_bonus():
    pytest.importorskip("minigrid")
    env = make("minigrid", "minigrid_env", env_id="MiniGrid-Empty-5x5-v0", max_step=3, move_bonus=True)
    env.seed(0)
    env.reset()
    ahead = env.step(np.array([2]))  # one of the two cells to the right
    np.testing.assert_allclose(ahead.reward, (np.hypot(2, 2) - np.hypot(1, 2)) / np.hypot(5, 5), rtol=1e-6)
    assert ahead.info["current_step"] == 1
    assert ahead.info["max_step"] == 3
    env.step(np.array([0]))
    last = env.step(np.array([0]))
    assert last.done
    assert last.info["TimeLimit.truncated"]


def test_atari_vector_env():
    pytest.importorskip("ale_py")
    import_module(["ding.envs.zoo.atari_env"])
    cfg = {"env_id": "BreakoutNoFrameskip-v4", "frame_size": 42}
    manager = create_env_manager(EasyDict(type="gym_vector"), [lambda: ENV_REGISTRY.build("atari", EasyDict(cfg))] * 2)
    manager.seed(0)
    manager.launch()
    obs = manager.ready_obs
    assert obs[0].shape == (4, 42, 42)
    assert obs[0].dtype == np.float32
    assert manager.observation_space.contains(np.asarray(obs[0]))
    lives = []
    while len(lives) < 2:
        timesteps = manager.step({i: np.array(1) for i in range(2)})
        lives += [timesteps[0].info] if timesteps[0].done else []
    # A lost life ends the episode and not the game.
    assert [info["lives"] for info in lives] == [4, 3]
    assert lives[1]["frame_number"] > lives[0]["frame_number"]
    assert "eval_episode_return" in lives[0]
    manager.close()
    single = ENV_REGISTRY.build("atari", EasyDict(cfg, frame_stack=1))
    with pytest.raises(ValueError, match="frame_stack"):
        single.make_vector_env(2)


# Names of DI-engine's zoo

needs_no_dizoo = pytest.mark.skipif(installed_zoo() is not None, reason="dizoo is installed")


def test_a_zoo_whose_envs_need_what_is_not_installed_is_replaced_as_well(tmp_path, monkeypatch, caplog):
    folder = tmp_path / "dizoo" / "taxi" / "envs"
    folder.mkdir(parents=True)
    for path in (folder, folder.parent, folder.parents[1]):
        (path / "__init__.py").write_text("")
    for name in ("taxi_env.py", "racing_env.py"):
        (folder / name).write_text("import gym_of_long_ago\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("dizoo", "dizoo.taxi", "dizoo.taxi.envs"):
        # So that what is imported under this name is taken out again behind the test.
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    import_module(["dizoo.taxi.envs.taxi_env"])
    assert "No module named 'gym_of_long_ago'" in caplog.text
    assert "taxi" in ENV_REGISTRY
    with pytest.raises(ModuleNotFoundError, match="gym_of_long_ago"):
        import_module(["dizoo.taxi.envs.racing_env"])


@needs_no_dizoo
def test_modules_of_the_zoo_that_is_not_installed(caplog):
    names = ["dizoo.classic_control.acrobot.envs.acrobot_env", "dizoo.bitflip.envs"]
    with caplog.at_level(logging.WARNING):
        import_module([*names, *names])
    assert {"acrobot", "bitflip"} <= set(ENV_REGISTRY)
    assert len([record for record in caplog.records if "cannot be imported" in record.getMessage()]) <= len(names)
    with pytest.raises(ModuleNotFoundError, match=r"no env module of the name of 'dizoo\.smac\.envs\.smac_env'"):
        import_module(["dizoo.smac.envs.smac_env"])


@needs_no_dizoo
def test_a_config_of_the_zoo_that_is_not_built():
    create = {
        "env": {"type": "smac", "import_names": ["dizoo.smac.envs.smac_env"]},
        "env_manager": {"type": "base"},
        "policy": {"type": "dqn"},
    }
    with pytest.raises(ConfigImportError, match="smac_env"):
        serial_pipeline((EasyDict(env={}, policy={}), EasyDict(create)))


def test_ids_that_gymnasium_no_longer_has():
    assert DingEnvWrapper(cfg={"env_id": "Taxi-v3"}).spec.id != "Taxi-v3"
    assert DingEnvWrapper(cfg={"env_id": "CartPole-v0"}).spec.max_episode_steps == 200


@pytest.mark.parametrize("name", sorted(MODULES))
def test_each_module_registers_the_type_that_is_asked_for(name):
    source = (Path(zoo.__file__).parent / f"{MODULES[name]}.py").read_text()
    assert f'@ENV_REGISTRY.register("{name}")' in source


def test_a_type_of_the_zoo_needs_no_import_names():
    script = "from ding.envs import get_env_cls; print(get_env_cls({'type': 'line_cover'}).__name__)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "LineCoverEnv"


def test_a_type_of_the_user_comes_before_one_of_the_zoo():
    script = """
from ding.envs import get_env_cls
from ding.utils import ENV_REGISTRY
@ENV_REGISTRY.register("cartpole")
class Mine:
    pass
assert get_env_cls({"type": "cartpole"}) is Mine
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@needs_no_dizoo
def test_plain_imports_of_the_zoo_that_is_not_installed():
    package = importlib.import_module("dizoo.classic_control.cartpole.envs")
    module = importlib.import_module("dizoo.classic_control.pendulum.envs.pendulum_env")
    assert package.CartPoleEnv is ENV_REGISTRY["cartpole"]
    assert module.PendulumEnv is ENV_REGISTRY["pendulum"]
    for name in ("dizoo.smac.envs.smac_env", "dizoo.classic_control.cartpole.config.cartpole_dqn_config"):
        with pytest.raises(ModuleNotFoundError, match="'dizoo' is not installed"):
            importlib.import_module(name)


def zoo_in_a_new_process(code: str, *paths: Path) -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, paths), *sys.path])}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout


@needs_no_dizoo
def test_the_zoo_is_found_before_ding_is_imported() -> None:
    code = "from dizoo.classic_control.cartpole.envs import CartPoleEnv as env; print(env.__module__)"
    assert zoo_in_a_new_process(code).strip() == "ding.envs.zoo.cartpole_env"


def test_an_installed_zoo_has_its_name(tmp_path) -> None:
    (tmp_path / "dizoo" / "taxi").mkdir(parents=True)
    (tmp_path / "dizoo" / "__init__.py").write_text("")
    (tmp_path / "dizoo" / "taxi" / "__init__.py").write_text("")
    code = "import dizoo, dizoo.taxi; print(dizoo.__file__, dizoo.taxi.__file__)"
    own = Path(ding.__file__).parents[1]
    for order in ([own, tmp_path], [tmp_path, own]):
        found = zoo_in_a_new_process(code, *order).split()
        assert found == [str(tmp_path / "dizoo" / name) for name in ("__init__.py", "taxi/__init__.py")]


def test_a_subclass_with_an_episode_of_its_own_makes_the_env_by_the_hook():
    class Own(ENV_REGISTRY["cartpole"]):
        def reset(self):
            if not self._init_flag:
                self._env = self._make_env()
                self._init_flag = True
            self._env.seed(3)
            return self._env.reset()

        def step(self, action):
            obs, reward, done, info = self._env.step(action)
            return BaseEnvTimestep(obs, reward, done, info)

    env = Own({})
    assert env.reset().tolist() == env.reset().tolist()
    assert env.observation_space.shape == (4,)
    steps = 0
    while not (step := env.step(0)).done:
        steps += 1
    assert step.info["eval_episode_return"] == steps + 1


def test_a_subclass_whose_hook_makes_another_env():
    class Short(ENV_REGISTRY["cartpole"]):
        def _make_env(self):
            return gymnasium.make("CartPole-v1", max_episode_steps=2)

    class Wrapped(ENV_REGISTRY["cartpole"]):
        def _make_env(self):
            made = getattr(super(), "_make" + "_env")()
            return gymnasium.wrappers.TransformObservation(made.env, lambda obs: obs * 0, None)

    env = Short({})
    env.reset()
    assert not env.step(0).done
    last = env.step(0)
    assert last.done
    assert last.info["eval_episode_return"] == 2
    assert Wrapped({}).reset().tolist() == [0] * 4
