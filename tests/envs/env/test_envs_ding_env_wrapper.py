"""``DingEnvWrapper``: APIs, spaces, seeds, actions, rewards, replays; and the helpers around env classes."""

import importlib.util
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch
from easydict import EasyDict
from gymnasium import spaces

from ding.envs import (
    BaseEnv,
    DingEnvWrapper,
    create_model_env,
    get_default_wrappers,
    get_env_cls,
    get_vec_env_setting,
    make_gym_env,
)
from ding.envs.env.env_implementation_check import (
    check_all,
    check_array_space,
    check_obs_deepcopy,
    demonstrate_correct_procedure,
)
from ding.envs.testing import CountingEnv, CountingGymEnv


class OldBox:
    """A space of the old gym, which gymnasium does not know."""

    def __init__(self):
        self.low, self.high, self.dtype = np.zeros(2), np.ones(2), np.dtype(np.float64)


OldBox.__name__ = "Box"


class OldDiscrete:
    n = 2


OldDiscrete.__name__ = "Discrete"


class OldEnv:
    """An env of the old gym: 4-field steps, bare observations, a seed method."""

    observation_space = OldBox()
    action_space = OldDiscrete()

    def __init__(self, limit=False):
        self.seeds, self.limit, self.t = [], limit, 0

    def seed(self, seed):
        self.seeds.append(seed)

    def reset(self):
        self.t = 0
        return np.zeros(2)

    def step(self, action):
        self.t += 1
        done = self.t == 2
        return np.full(2, self.t / 2), 1.5, done, {"TimeLimit.truncated": True} if done and self.limit else {}

    def close(self):
        pass


class PortedEnv(gymnasium.Env):
    """A gymnasium env by its import only."""

    observation_space = spaces.Box(0, 1, (1,))
    action_space = spaces.Discrete(2)

    def reset(self):
        return np.zeros(1, np.float32)

    def step(self, action):
        return np.ones(1, np.float32), 1.0, True, {}


class EchoEnv(gymnasium.Env):
    """Keeps the last action."""

    def __init__(self, action_space, observation_space=None, reward=0.0):
        self.action_space = action_space
        self.observation_space = observation_space or spaces.Box(-1, 1, (1,), np.float32)
        self.reward, self.last = reward, None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.options = options
        return self.observation_space.sample(), {}

    def step(self, action):
        self.last = action
        return self.observation_space.sample(), self.reward, False, False, {}


class TestApis:
    def test_gymnasium_env(self):
        env = DingEnvWrapper(CountingGymEnv(episode_length=2, truncate=True))
        assert env.reset().dtype == np.float32
        step = env.step(np.array([1]))
        assert (step.done, step.reward.tolist(), step.reward.dtype) == (False, [1.0], np.float32)
        step = env.step(0)
        assert step.done is True
        assert step.info["TimeLimit.truncated"] is True
        assert step.info["eval_episode_return"].tolist() == [3.0]

    def test_termination_is_no_truncation(self):
        env = DingEnvWrapper(CountingGymEnv(episode_length=1))
        env.reset()
        step = env.step(0)
        assert step.done is True
        assert "TimeLimit.truncated" not in step.info

    @pytest.mark.parametrize("limit", [False, True])
    def test_old_gym_env(self, limit):
        raw = OldEnv(limit)
        env = DingEnvWrapper(raw)
        env.seed(9)
        assert env.reset().dtype == np.float32
        assert raw.seeds == [9]
        assert env.observation_space == spaces.Box(0.0, 1.0, (2,), np.float32)
        env.step(0)
        step = env.step(np.array([1]))
        assert step.done is True
        assert step.info["eval_episode_return"].tolist() == [3.0]
        assert step.info.get("TimeLimit.truncated", False) is limit

    def test_gymnasium_class_with_the_old_signature(self):
        env = DingEnvWrapper(PortedEnv())
        env.seed(1)
        assert env.reset().tolist() == [0.0]
        assert env.step(0).done is True

    def test_step_before_reset(self):
        env = DingEnvWrapper(cfg={"env_id": "CartPole-v1"})
        with pytest.raises(RuntimeError, match="before reset"):
            env.step(0)

    def test_lazy_env_knows_its_spaces(self):
        env = DingEnvWrapper(cfg=EasyDict(env_id="CartPole-v1"))
        assert env.observation_space.shape == (4,)
        assert env.action_space.n == 2
        env.close()
        assert env.reset().shape == (4,)
        env.close()

    def test_mistakes(self):
        with pytest.raises(ValueError, match=r"env\.env_id is missing"):
            DingEnvWrapper(cfg={})
        with pytest.raises(ValueError, match=r"'CartPol-v1'.*CartPole-v1"):
            DingEnvWrapper(cfg={"env_id": "CartPol-v1"}).reset()
        with pytest.raises(NotImplementedError, match=r"'defualt'.*default"):
            DingEnvWrapper(CountingGymEnv(), {"env_wrapper": "defualt"})
        with pytest.raises(KeyError, match="frame_stack"):
            DingEnvWrapper(CountingGymEnv(), {"env_wrapper": [{"type": "frame_stak"}]})
        with pytest.raises(TypeError, match="config or a callable, not int"):
            DingEnvWrapper(CountingGymEnv(), {"env_wrapper": [3]})

    def test_ids_of_packages_that_were_not_imported(self):
        pytest.importorskip("ale_py")
        # ale_py registers when it is first imported, so the process must be a new one.
        code = "from ding.envs import DingEnvWrapper; print(DingEnvWrapper(cfg={'env_id': 'Pong-v4'}).action_space.n)"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
        assert run.stdout.split() == ["6"]

    def test_unknown_ids_name_the_extras_that_are_not_installed(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "minigrid", None)
        with pytest.raises(ValueError, match=r"MiniGird-Empty-v0.*not installed: .*minigrid"):
            DingEnvWrapper(cfg={"env_id": "MiniGird-Empty-v0"}).reset()

    def test_wrapper_lists_mix_configs_and_callables(self):
        wrappers = [
            {"type": "action_repeat", "kwargs": {"action_repeat": 2}},
            gymnasium.wrappers.RecordEpisodeStatistics,
        ]
        env = DingEnvWrapper(CountingGymEnv(episode_length=4), {"env_wrapper": wrappers})
        env.reset()
        assert env.step(0).reward.tolist() == [3.0]
        assert env.step(0).info["episode"]["r"] == 10.0

    def test_dict_and_tuple_observations(self):
        space = spaces.Dict({"a": spaces.Box(0, 1, (2,), np.float64), "b": spaces.Tuple([spaces.Discrete(3)])})
        env = DingEnvWrapper(EchoEnv(spaces.Discrete(2), space))
        obs = env.reset()
        assert obs["a"].dtype == np.float32
        assert isinstance(obs["b"], tuple)
        assert env.observation_space["a"].dtype == np.float32

    def test_reset_options_reach_the_env(self):
        raw = EchoEnv(spaces.Discrete(2))
        DingEnvWrapper(raw).reset(options={"level": 3})
        assert raw.options == {"level": 3}


class TestSeeds:
    def test_dynamic_seeds_once(self):
        raw = CountingGymEnv()
        env = DingEnvWrapper(raw)
        env.seed(5)
        env.reset()
        env.reset()
        assert raw.seeds == [5, None]

    def test_static_seeds_every_episode(self):
        raw = CountingGymEnv()
        env = DingEnvWrapper(raw)
        env.seed(5, dynamic_seed=False)
        env.reset()
        env.reset()
        assert raw.seeds == [5, 5]

    def test_seed_api_off(self):
        raw = CountingGymEnv()
        env = DingEnvWrapper(raw, seed_api=False)
        env.seed(5)
        env.reset()
        assert raw.seeds == [None]

    def test_global_generators_are_left_alone(self):
        np.random.seed(0)
        expected = np.random.RandomState(0).randint(1000)
        env = DingEnvWrapper(cfg={"env_id": "CartPole-v1"})
        env.seed(3)
        env.reset()
        env.random_action()
        assert np.random.randint(1000) == expected

    def test_random_actions_follow_the_seed(self):
        def draw():
            env = DingEnvWrapper(cfg={"env_id": "CartPole-v1"})
            env.seed(3)
            env.reset()
            return [env.random_action().item() for _ in range(20)]

        assert draw() == draw()
        assert set(draw()) == {0, 1}

    def test_contract(self):
        demonstrate_correct_procedure(lambda cfg: DingEnvWrapper(cfg={"env_id": "CartPole-v1", **cfg}))
        check_all(DingEnvWrapper(cfg={"env_id": "CartPole-v1"}))
        check_all(DingEnvWrapper(cfg={"env_id": "Pendulum-v1", "act_scale": True}))
        check_all(CountingEnv())

    @pytest.mark.parametrize("sound", [True, False])
    def test_contract_of_an_env_whose_seed_is_one_number(self, sound, caplog):
        class OneSeed(CountingEnv):
            def seed(self, seed):
                self.rng = np.random.default_rng(seed if sound else None)

            def reset(self):
                return super().reset() + self.rng.normal()

        demonstrate_correct_procedure(OneSeed)
        assert ("gives other episodes each time" in caplog.text) is not sound


class TestActions:
    @pytest.mark.parametrize("action", [1, np.int64(1), np.array(1), np.array([1]), torch.tensor(1), torch.tensor([1])])
    def test_discrete_actions_become_ints(self, action):
        raw = EchoEnv(spaces.Discrete(2))
        env = DingEnvWrapper(raw)
        env.reset()
        env.step(action)
        assert type(raw.last) is int
        assert raw.last == 1

    def test_box_multidiscrete_dict_and_tuple(self):
        box = spaces.Box(-2, 2, (1,), np.float32)
        cases = [
            (box, torch.tensor([0.5]), np.array([0.5], np.float32)),
            (spaces.MultiDiscrete([2, 3]), np.array([1, 2]), np.array([1, 2])),
            (spaces.MultiDiscrete([5]), np.array([4]), np.array([4])),
            (spaces.Dict({"x": spaces.Discrete(2), "y": box}), {"x": np.array([1]), "y": [0.5]}, {"x": 1, "y": [0.5]}),
            (spaces.Tuple([spaces.Discrete(2), box]), (np.array([1]), np.array([0.5])), (1, np.array([0.5]))),
            (
                spaces.Tuple([spaces.Discrete(2), box]),
                {"action_args": np.array([0.5]), "action_type": np.array([1])},
                (1, np.array([0.5])),
            ),
        ]
        for space, action, expected in cases:
            raw = EchoEnv(space)
            env = DingEnvWrapper(raw)
            env.reset()
            env.step(action)
            assert type(raw.last) is type(expected)
            if isinstance(expected, dict):
                assert raw.last["x"] == 1
                assert raw.last["y"].tolist() == [0.5]
            elif isinstance(expected, tuple):
                assert raw.last == (1, 0.5)
            else:
                np.testing.assert_array_equal(raw.last, expected)

    def test_other_types(self):
        env = DingEnvWrapper(EchoEnv(spaces.Discrete(2)))
        env.reset()
        with pytest.raises(TypeError, match="not str"):
            env.step("left")
        with pytest.raises(TypeError, match=r"shape \(2,\)"):
            env.step(np.array([0, 1]))

    def test_act_scale_clips_and_maps_to_the_bounds(self):
        raw = EchoEnv(spaces.Box(np.array([0.0, -2.0], np.float32), np.array([4.0, 2.0], np.float32)))
        env = DingEnvWrapper(raw, {"act_scale": True})
        env.reset()
        env.step(np.array([0.0, 5.0]))
        np.testing.assert_array_equal(raw.last, np.array([2.0, 2.0], np.float32))
        env.fast_step().step(np.array([-1.0, 0.5]))
        np.testing.assert_array_equal(raw.last, np.array([0.0, 1.0], np.float32))
        assert env.action_space == spaces.Box(-1.0, 1.0, (2,))
        assert env.inner_action_space == raw.action_space

    def test_act_scale_needs_bounds(self):
        space = spaces.Dict({"x": spaces.Box(-np.inf, np.inf, (1,))})
        with pytest.raises(ValueError, match="to the bounds of the env, but its action space is"):
            DingEnvWrapper(EchoEnv(space), {"act_scale": True})

    @pytest.mark.parametrize(("reward", "expected"), [(-50.0, -10.0), (50.0, 50.0)])
    def test_rew_clip_is_a_floor(self, reward, expected):
        env = DingEnvWrapper(EchoEnv(spaces.Discrete(2), reward=reward), {"rew_clip": True})
        env.reset()
        assert env.step(0).reward.tolist() == [expected]
        assert float(env.fast_step().step(0)[1]) == expected

    def test_random_actions_have_the_form_of_policies(self):
        assert DingEnvWrapper(EchoEnv(spaces.Discrete(2))).random_action().shape == (1,)
        action = DingEnvWrapper(EchoEnv(spaces.Dict({"x": spaces.Discrete(2)}))).random_action()
        assert action["x"].dtype == np.int64

    def test_no_fast_step_for_a_subclass_with_its_own_step(self):
        class Own(DingEnvWrapper):
            def step(self, action):
                return super().step(action)

        env = Own(CountingGymEnv())
        env.reset()
        assert env.fast_step() is None


class TestReplays:
    def test_one_video_per_episode(self, tmp_path):
        if not any(importlib.util.find_spec(name) for name in ("imageio_ffmpeg", "cv2")):
            pytest.skip("nothing that writes videos is installed")
        env = DingEnvWrapper(CountingGymEnv(render_mode="rgb_array", episode_length=2))
        env.enable_save_replay(str(tmp_path))
        for _ in range(2):
            env.reset()
            while not env.step(0).done:
                pass
            env.reset()  # no step follows: no video
        env.close()
        names = sorted(path.name for path in tmp_path.iterdir())
        assert names == ["rl-video-episode-0.mp4", "rl-video-episode-1.mp4"]
        assert all(path.stat().st_size > 0 for path in tmp_path.iterdir())

    def test_several_envs_record_into_one_folder_at_once(self, tmp_path):
        if not any(importlib.util.find_spec(name) for name in ("imageio_ffmpeg", "cv2")):
            pytest.skip("nothing that writes videos is installed")
        envs = [DingEnvWrapper(CountingGymEnv(render_mode="rgb_array", episode_length=2)) for _ in range(3)]
        for env in envs:
            env.enable_save_replay(str(tmp_path))
            env.reset()
        assert [[env.step(0).done for env in envs] for _ in range(2)] == [[False] * 3, [True] * 3]
        assert sorted(path.name for path in tmp_path.iterdir()) == [f"rl-video-episode-{i}.mp4" for i in range(3)]
        assert all(path.stat().st_size > 0 for path in tmp_path.iterdir())
        for env in envs:
            env.close()

    def test_an_env_of_the_old_gym_is_asked_for_arrays(self, tmp_path):
        if not any(importlib.util.find_spec(name) for name in ("imageio_ffmpeg", "cv2")):
            pytest.skip("nothing that writes videos is installed")

        class Rendering(OldEnv):
            metadata = {"render.modes": ["human", "rgb_array"]}

            def render(self, mode="human"):
                assert mode == "rgb_array"
                return np.zeros((16, 16, 3), np.uint8)

        env = DingEnvWrapper(Rendering())
        env.enable_save_replay(str(tmp_path))
        env.reset()
        while not env.step(0).done:
            pass
        assert [path.name for path in tmp_path.iterdir()] == ["rl-video-episode-0.mp4"]

    def test_without_a_writer_it_says_so_at_once(self, monkeypatch):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
        with pytest.raises(ImportError, match=r"pip install .*\[video\]'"):
            DingEnvWrapper(CountingGymEnv(render_mode="rgb_array")).enable_save_replay("videos")

    def test_an_env_that_does_not_render(self, tmp_path):
        env = DingEnvWrapper(CountingGymEnv())
        env.enable_save_replay(str(tmp_path))
        with pytest.raises(ValueError, match="render_mode 'rgb_array'"):
            env.reset()

    def test_an_env_that_was_made_without_a_render_mode(self, tmp_path):
        pytest.importorskip("pygame")
        env = DingEnvWrapper(gymnasium.make("CartPole-v1", max_episode_steps=3))
        env.enable_save_replay(str(tmp_path))
        env.reset()
        while not env.step(0).done:
            pass
        assert [path.name for path in tmp_path.iterdir()] == ["rl-video-episode-0.mp4"]

    def test_envs_made_by_id_render(self):
        pytest.importorskip("pygame")
        env = DingEnvWrapper(cfg={"env_id": "CartPole-v1"})
        env.reset()
        assert env.render().shape == (400, 600, 3)
        env.close()

    def test_lunar_lander_makes_no_bodies_for_fire_that_nobody_sees(self):
        pytest.importorskip("Box2D")
        pytest.importorskip("pygame")
        env = DingEnvWrapper(cfg={"env_id": "LunarLander-v3"})

        def bodies_after_main_engine():
            for _ in range(5):
                env.step(2)
            return env.unwrapped.world.bodyCount

        env.seed(0)
        env.reset()
        bodies = env.unwrapped.world.bodyCount
        assert env.render_mode == "rgb_array"
        assert bodies_after_main_engine() == bodies
        assert env.render().shape == (400, 600, 3)
        assert bodies_after_main_engine() > bodies
        env.reset()
        assert bodies_after_main_engine() == bodies
        env.close()


class TestEnvClasses:
    def test_configs_are_copies(self):
        cfg = EasyDict(type="gymnasium", env_id="CartPole-v1", collector_env_num=2, evaluator_env_num=1, x={"y": 1})
        cls, collect, evaluate = get_vec_env_setting(cfg)
        assert cls is DingEnvWrapper
        assert get_env_cls(cfg) is DingEnvWrapper
        assert [one.is_train for one in collect + evaluate] == [True, True, False]
        assert "collector_env_num" not in collect[0]
        collect[0].x.y = 2
        assert collect[1].x.y == cfg.x.y == 1
        assert get_vec_env_setting(cfg, eval_=False)[2] is None
        assert cls(cfg=evaluate[0]).caller == "evaluator"

    def test_configs_of_base_env_are_copies(self):
        one, two = BaseEnv.create_collector_env_cfg(EasyDict(collector_env_num=2, x={"y": 1}))
        one.x.y = 2
        assert two.x.y == 1
        with pytest.raises(KeyError, match="evaluator_env_num"):
            BaseEnv.create_evaluator_env_cfg(EasyDict())

    def test_missing_or_unknown_type(self):
        with pytest.raises(KeyError, match=r"env\.type is missing"):
            get_env_cls({})
        with pytest.raises(KeyError, match="gymnasium"):
            get_env_cls({"type": "gymnasum"})

    def test_atari_evaluators_play_whole_games(self):
        def kinds(caller):
            return [item["type"] for item in get_default_wrappers("atari_default", "PongNoFrameskip-v4", caller)]

        common = ["noop_reset", "max_and_skip", "fire_reset", "warp_frame", "scaled_float_frame", "frame_stack"]
        assert kinds("evaluator") == [*common, "eval_episode_return"]
        extra = set(kinds("collector")) - set(kinds("evaluator"))
        assert extra == {"episodic_life", "clip_reward"}
        with pytest.raises(ValueError, match="caller"):
            get_default_wrappers("default", caller="player")

    def test_clone(self):
        env = DingEnvWrapper(CountingGymEnv(episode_length=2))
        copy = env.clone("evaluator")
        env.reset()
        env.step(0)
        assert copy.reset().tolist() == [0, 0]
        assert env.step(0).done


class TestChecks:
    def test_shared_memory_is_found(self):
        class Sharing(CountingEnv):
            memory = np.zeros(2, np.float32)

            def step(self, action):
                return super().step(action)._replace(obs=self.memory)

        with pytest.raises(AssertionError, match="share memory"):
            check_obs_deepcopy(Sharing({"episode_length": 20}))

    def test_wrong_arrays_are_found(self):
        space = spaces.Box(0, 1, (2,), np.float32)
        with pytest.raises(AssertionError, match="dtype float64"):
            check_array_space(np.zeros(2), space, "obs")
        with pytest.raises(AssertionError, match="shape"):
            check_array_space(np.zeros(3, np.float32), space, "obs")
        with pytest.raises(AssertionError, match="upper bound"):
            check_array_space(np.full(2, 2.0, np.float32), space, "obs")


def test_an_env_as_a_model_of_the_world():
    cfg = EasyDict(type="gymnasium", env_id="CartPole-v1", import_names=["ding.envs"])
    env = create_model_env(cfg)
    assert isinstance(env, DingEnvWrapper)
    assert env.reset().shape == (4,)
    env.close()
    assert (cfg.type, cfg.import_names) == ("gymnasium", ["ding.envs"])


class TestMakeGymEnv:
    def test_it_renders_to_arrays_and_takes_arguments(self):
        env = make_gym_env("CartPole-v1", max_episode_steps=3)
        env.reset(seed=0)
        assert env.render().dtype == np.uint8
        assert [env.step(0)[3] for _ in range(3)] == [False, False, True]
        assert make_gym_env("CartPole-v1", render_mode=None).render_mode is None

    def test_an_id_that_is_not_built_any_more(self):
        assert make_gym_env("Taxi-v2").spec.id in gymnasium.registry

    def test_an_id_that_nobody_registered(self):
        with pytest.raises(ValueError, match="did you mean CartPole-v1"):
            make_gym_env("CartPol-v1")


class NoModeEnv(gymnasium.Env):
    """Can draw, but its constructor takes no render mode."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, **settings):
        self.settings = settings

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, True, False, {}

    def render(self):
        return np.zeros((8, 8, 3), np.uint8)


class PlainNoModeEnv(NoModeEnv):
    def __init__(self):
        super().__init__()


class ModeOfParentEnv(NoModeEnv):
    def __init__(self, render_mode=None, size=8):
        super().__init__()
        self.render_mode = render_mode


class PassingEnv(ModeOfParentEnv):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)


@pytest.mark.parametrize(("cls", "mode"), [(PlainNoModeEnv, None), (PassingEnv, "rgb_array")])
def test_a_render_mode_is_handed_to_constructors_that_take_one(cls, mode, monkeypatch):
    name = f"{cls.__name__}-v0"
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    gymnasium.register(name, entry_point=cls)
    env = DingEnvWrapper({"env_id": name})
    assert env.reset().shape == (2,)
    assert env.unwrapped.render_mode == mode


def test_an_env_without_the_argument_is_drawn_for_videos(tmp_path, monkeypatch):
    pytest.importorskip("imageio", reason="videos need the extra 'video'")
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    gymnasium.register("DrawnNoMode-v0", entry_point=PlainNoModeEnv)
    env = DingEnvWrapper({"env_id": "DrawnNoMode-v0"})
    env.enable_save_replay(str(tmp_path))
    env.reset()
    env.step(np.array([0]))
    env.close()
    assert list(tmp_path.glob("*.mp4"))
