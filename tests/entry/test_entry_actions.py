"""Actions reach every env inside its space: pipelines, tasks, agents, random warm-up, evaluation and ``predict``."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from easydict import EasyDict
from gymnasium import spaces

import ding
from ding.bonus import PPOF, DDPGAgent, DQNAgent, PPOAgent, SACAgent, TD3Agent
from ding.config import ConfigValueError, compile_config
from ding.entry import serial_pipeline, serial_pipeline_onpolicy
from ding.envs import BaseEnvManagerV2, DingEnvWrapper
from ding.envs.env.actions import ActionMapping
from ding.framework import OnlineRLContext, task
from ding.framework.middleware import StepCollector, eps_greedy_handler
from ding.model import ContinuousQAC
from ding.policy import create_policy
from ding.policy.action_kind import check_action_kind
from ding.utils import one_time_warning

EPISODE = 6
GOT = []


class ActionEnv(gymnasium.Env):
    """Notes its actions; one that is not in its space is an error."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._count = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        GOT.append(action)
        self._count += 1
        return np.full(3, self._count / EPISODE, np.float32), 1.0, self._count == EPISODE, False, {}


WIDE = spaces.Box(np.array([0.0, -9.0], np.float32), np.array([5.0, 9.0], np.float32))
SPACES = {
    "start": spaces.Discrete(3, start=-1),
    "starts": spaces.MultiDiscrete([2, 3], start=[1, -4]),
    "switches": spaces.MultiBinary(2),
    "wide": WIDE,
    "square": spaces.Box(-9, 9, (2, 2), np.float32),
    "double": spaces.Box(-2.0, 7.0, (2,), np.float64),
    "unbounded": spaces.Box(-np.inf, np.inf, (2,), np.float32),
    "names": spaces.Dict(move=spaces.Discrete(3, start=1), power=WIDE),
    "parts": spaces.Tuple([spaces.Discrete(3), WIDE, spaces.Box(-9, 9, (1,), np.float32)]),
}
SHAPES = {
    "start": 3,
    "starts": [2, 3],
    "switches": [2, 2],
    "wide": 2,
    "square": 4,
    "double": 2,
    "unbounded": 2,
    "names": {"action_type_shape": 3, "action_args_shape": 2},
    "parts": {"action_type_shape": 3, "action_args_shape": 3},
}
DISCRETE, CONTINUOUS, HYBRID = (
    ("start", "starts", "switches"),
    ("wide", "square", "double", "unbounded"),
    ("names", "parts"),
)
KINDS = dict.fromkeys(DISCRETE, "discrete") | dict.fromkeys(CONTINUOUS, "continuous") | dict.fromkeys(HYBRID, "hybrid")
WORKS = {
    "ppo": (*DISCRETE, *CONTINUOUS, *HYBRID),
    "dqn": DISCRETE,
    "sac": CONTINUOUS,
    "td3": CONTINUOUS,
    "ddpg": HYBRID,
    "pdqn": HYBRID,
}
AGENTS = {"dqn": DQNAgent, "ppo": PPOAgent, "ppof": PPOF, "sac": SACAgent, "td3": TD3Agent, "ddpg": DDPGAgent}
CASES = [(policy, name) for policy, names in WORKS.items() for name in names]
for _name, _space in SPACES.items():
    gymnasium.register(f"Acts-{_name}-v0", ActionEnv, kwargs={"action_space": _space})


def config(policy, name, manager="base", **env):
    kind = KINDS[name]
    model = {"obs_shape": 3, "action_shape": SHAPES[name]}
    section = {"model": model, "learn": {"batch_size": 8}, "collect": {"n_sample": 16}}
    if policy == "ppo":
        model["action_space"] = section["action_space"] = kind
        section["learn"]["epoch_per_collect"] = 1
    else:
        section["learn"]["update_per_collect"] = 1
        section["other"] = {"replay_buffer": {"replay_buffer_size": 64}}
    if policy in ("sac", "td3", "ddpg"):
        model |= {"actor_head_hidden_size": 16, "critic_head_hidden_size": 16}
    if policy in ("dqn", "td3", "sac"):
        section |= {"random_collect_size": 24, "transition_with_policy_data": False}
    if policy == "ddpg":
        section |= {"action_space": "hybrid", "random_collect_size": 0}
        section["other"]["eps"] = {"type": "linear", "start": 0.5, "end": 0.5, "decay": 10}
        model["action_space"] = "hybrid"
    main = EasyDict(
        exp_name="e",
        env={
            "env_id": f"Acts-{name}-v0",
            "collector_env_num": 2,
            "evaluator_env_num": 2,
            "n_evaluator_episode": 2,
            "stop_value": 1e9,
            **env,
        },
        policy=section,
    )
    create = EasyDict(env={"type": "gymnasium"}, env_manager={"type": manager}, policy={"type": policy})
    return main, create


def run(policy, name, manager="base", strict=False, **env):
    pipeline = serial_pipeline_onpolicy if policy == "ppo" else serial_pipeline
    return pipeline(config(policy, name, manager, **env), seed=0, max_env_step=48, strict=strict)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    GOT.clear()


@pytest.mark.parametrize(("policy", "name"), CASES)
def test_a_pipeline_and_what_is_loaded_from_it(policy, name):
    run(policy, name)
    assert len(GOT) > 48
    agent = ding.load("e")
    obs = np.zeros((4, 3), np.float32)
    assert all(SPACES[name].contains(action) for action in agent.predict(obs))
    assert SPACES[name].contains(agent.predict(obs[0]))
    assert SPACES[name].contains(agent.predict(obs[0], deterministic=False))


@pytest.mark.parametrize("name", SPACES)
def test_a_vector_env(name):
    policy = {"discrete": "dqn", "continuous": "td3", "hybrid": "ppo"}[KINDS[name]]
    run(policy, name, "gym_vector")
    assert len(GOT) > 48


@pytest.mark.parametrize("name", ["start", "wide", "names"])
def test_envs_of_other_processes(name):
    policy = {"discrete": "dqn", "continuous": "td3", "hybrid": "pdqn"}[KINDS[name]]
    run(policy, name, "subprocess")


@pytest.mark.parametrize("policy", ["sac", "td3"])
def test_a_policy_in_the_unit_range_reaches_the_bounds_of_the_space_in_the_warm_up_and_after_it(policy):
    run(policy, "wide")
    warm_up = np.array(GOT[:24])
    assert warm_up[:, 0].min() < 1.0 < 4.0 < warm_up[:, 0].max()
    assert np.abs(warm_up[:, 1]).max() > 6.0
    # A network at its start acts around the middle of each range.
    rest = np.array(GOT[24:])
    assert 1.0 < rest[:, 0].mean() < 4.0


def test_without_scaling_the_warm_up_keeps_to_what_the_network_can_do(caplog):
    run("td3", "square", act_scale=False)
    assert np.abs(np.array(GOT)).max() <= 1.0
    assert "acts in [-1, 1], but actions of the env are Box(-9.0, 9.0, (2, 2), float32)" in caplog.text


def test_without_bounds_the_advice_is_not_to_scale_to_them(caplog):
    one_time_warning.cache_clear()
    env = SimpleNamespace(action_space=spaces.Box(-np.inf, np.inf, (2,), np.float32))
    env.action_mapping = ActionMapping(env.action_space)
    check_action_kind("td3", ContinuousQAC(3, 2, "regression"), env, in_unit_range=True)
    assert "the rest of it is never reached; scale them in a wrapper of your own" in caplog.text


@pytest.mark.parametrize(("policy", "name"), [case for case in CASES if case[0] in ("ppo", "dqn", "td3")])
def test_a_task(policy, name):
    main, create = config(policy, name)
    cfg = compile_config(main, create_cfg=create, auto=True, save_cfg=False)
    env = BaseEnvManagerV2([lambda: DingEnvWrapper(ActionEnv(SPACES[name]), cfg.env)] * 2, cfg.env.manager)
    mode = create_policy(cfg.policy, enable_field=["collect"]).collect_mode
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        if policy == "dqn":
            task.use(eps_greedy_handler(cfg))
        task.use(StepCollector(cfg, mode, env, random_collect_size=cfg.policy.get("random_collect_size", 0)))
        task.run(max_step=3)
    env.close()
    assert len(GOT) >= 48


@pytest.mark.parametrize(
    ("policy", "name"),
    [("ppo", "names"), ("ppo", "starts"), ("dqn", "start"), ("sac", "wide"), ("td3", "square"), ("ddpg", "parts")],
)
def test_an_agent(policy, name):
    defaults = {"learn": {"batch_size": 8}, "collect": {"n_sample": 16}}
    agent = AGENTS[policy](env=ActionEnv(SPACES[name]), cfg={"policy": defaults})
    agent.train(step=32, collector_env_num=2, evaluator_env_num=2)
    assert len(GOT) > 32
    agent.deploy()


def test_what_no_network_acts_in_is_refused_at_the_start():
    main, create = config("ppo", "names")
    main.env.pop("env_id")
    space = spaces.Tuple([spaces.Discrete(3), spaces.Discrete(2), WIDE])
    setting = (lambda cfg: DingEnvWrapper(ActionEnv(space), cfg), [EasyDict()] * 2, [EasyDict()] * 2)
    with pytest.raises(
        ConfigValueError, match=r"policy.type 'ppo': no network acts in the action space Tuple\(Discrete\(3\), Disc"
    ):
        serial_pipeline_onpolicy((main, create), env_setting=setting, seed=0, max_env_step=48)
    assert not GOT


def test_a_wrong_action_of_an_own_policy_names_env_action_and_space():
    with pytest.raises(RuntimeError, match=r"the action 5 is not in the action space Discrete\(3, start=-1\)"):
        _run_with_a_wrong_network(16)


def test_strict_runs_check_each_action():
    main, create = config("dqn", "start")
    assert compile_config(main, create_cfg=create, auto=True, save_cfg=False).env.check_actions == 100
    cfg = compile_config(main, create_cfg=create, auto=True, save_cfg=False, strict=True)
    assert cfg.env.check_actions is True


def _run_with_a_wrong_network(num_steps):
    main, create = config("dqn", "start")
    main.policy.random_collect_size = 0
    main.policy.other.eps = EasyDict(type="linear", start=1.0, end=1.0, decay=10)
    main.policy.model = EasyDict(obs_shape=3, action_shape=7, type="dqn", import_names=["ding.model"])
    return serial_pipeline((main, create), seed=0, max_env_step=num_steps)
