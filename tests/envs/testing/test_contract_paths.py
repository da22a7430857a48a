"""Generated envs on every path: what reaches the learner is what an env emitted, and each env has its own stream."""

import functools
import inspect
from copy import deepcopy

import gymnasium
import numpy as np
import pytest
import torch
from easydict import EasyDict
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ding.bonus import DQNAgent
from ding.config import compile_config
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.data import DequeBuffer, TransitionBatch
from ding.entry import parallel_pipeline, serial_pipeline
from ding.envs import BaseEnvManager, BaseEnvManagerV2, DingEnvWrapper
from ding.envs.testing import GeneratedEnv, env_specs
from ding.framework import OnlineRLContext, task
from ding.framework.middleware import OffPolicyLearner, StepCollector, data_pusher, eps_greedy_handler
from ding.policy import DQNPolicy
from ding.utils.seed import SeedTree
from ding.worker import SampleSerialCollector

ENV_ID = "GeneratedPath-v0"
OBS = st.sampled_from([np.float32, np.float64]).map(lambda dtype: spaces.Box(-1.0, 1.0, (3,), dtype))
ACTIONS = st.integers(-2, 3).map(lambda start: spaces.Discrete(3, start=start))
SPECS = env_specs(OBS, ACTIONS, apis=("gymnasium",), abnormal=False)


def key(obs):
    return np.asarray(obs, dtype=np.float32).tobytes()


class Logged(GeneratedEnv):
    """Remembers what each step began from, and how often it was reset in the middle of an episode."""

    made: list["Logged"] = []
    current = None

    def __init__(self, render_mode=None):
        super().__init__(self.current)
        self.made.append(self)
        self.steps = {}
        self.early_resets = 0
        self._before, self._over = None, True

    def reset(self, *, seed=None, options=None):
        self.early_resets += not self._over
        obs, info = super().reset(seed=seed, options=options)
        self._before, self._over = key(obs), False
        return obs, info

    def step(self, action):
        result = super().step(action)
        step = self.emitted[-1]
        self.steps[self._before] = (int(action) - self.action_space.start, step)
        self._before, self._over = key(step.obs), step.terminated or step.truncated
        return result


@pytest.fixture(scope="module", autouse=True)
def learned():
    """Columns of the batches that policies learn from."""
    batches = []
    plain = inspect.getattr_static(DQNPolicy, "_forward_learn")

    @functools.wraps(plain)
    def forward(self, data):
        columns = data.columns if isinstance(data, TransitionBatch) else TransitionBatch.from_rows(data).columns
        batches.append(
            {
                name: torch.as_tensor(columns[name]).numpy().copy()
                for name in ("obs", "next_obs", "action", "reward", "done")
            }
        )
        return plain(self, data)

    gymnasium.register(ENV_ID, Logged)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DQNPolicy, "_forward_learn", forward)
        yield batches
    del gymnasium.registry[ENV_ID]


MAIN = {
    "exp_name": "run",
    "env": {"env_id": ENV_ID, "collector_env_num": 2, "evaluator_env_num": 1, "n_evaluator_episode": 1,
            "stop_value": 1e9},
    "policy": {
        "model": {"obs_shape": 3, "action_shape": 3, "encoder_hidden_size_list": [8]},
        "nstep": 1,
        "learn": {"update_per_collect": 2, "batch_size": 8},
        "collect": {"n_sample": 8},
        "eval": {"evaluator": {"eval_freq": 1000}},
        "other": {"eps": {"start": 1.0, "end": 1.0}, "replay_buffer": {"replay_buffer_size": 100}},
    },
}  # fmt: skip
CREATE = {"env": {"type": "gymnasium"}, "env_manager": {"type": "base"}, "policy": {"type": "dqn"}}


def configs():
    return EasyDict(deepcopy(MAIN)), EasyDict(deepcopy(CREATE))


def pipeline():
    serial_pipeline(configs(), seed=0, max_env_step=48)


def made_by_hand(manager_cls):
    main, create = configs()
    cfg = compile_config(main, seed=0, auto=True, create_cfg=create, save_cfg=False)
    env = manager_cls([lambda: DingEnvWrapper(cfg=EasyDict(env_id=ENV_ID))] * 2, {})
    env.seed(SeedTree(0).env_seeds(2, "collector"))
    return cfg, env, DQNPolicy(cfg.policy)


def workers():
    cfg, env, policy = made_by_hand(BaseEnvManager)
    collector = SampleSerialCollector(cfg.policy.collect.collector, env, policy.collect_mode)
    for _ in range(4):
        policy.learn_mode.forward(collector.collect(8, policy_kwargs={"eps": 1.0}))
    env.close()


def own_task():
    cfg, env, policy = made_by_hand(BaseEnvManagerV2)
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        buffer = DequeBuffer(size=100)
        task.use(eps_greedy_handler(cfg))
        task.use(StepCollector(cfg, policy.collect_mode, env))
        task.use(data_pusher(cfg, buffer))
        task.use(OffPolicyLearner(cfg, policy.learn_mode, buffer))
        task.run(max_step=4)


def agent():
    main, _ = configs()
    DQNAgent(ENV_ID, seed=0, exp_name="run", cfg={"policy": main.policy, "env": {"collector_env_num": 2}}).train(
        step=48
    )


def parallel():
    main, create, system = map(
        deepcopy, (parallel_test_main_config, parallel_test_create_config, parallel_test_system_config)
    )
    main.env.update(MAIN["env"], collector_env_num=2)
    main.policy.model = EasyDict(MAIN["policy"]["model"])
    main.policy.nstep = 1
    main.policy.other.replay_buffer.replay_buffer_size = 100
    parallel_pipeline((main, create, system), max_train_iter=5, backend="inproc")


PATHS = {"pipeline": pipeline, "workers": workers, "task": own_task, "agent": agent}


def check_path(run, spec, learned, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path_factory.mktemp("run"))
    Logged.made.clear()
    learned.clear()
    Logged.current = spec
    torch.manual_seed(0)
    run()
    emitted = {}
    for env in Logged.made:
        for before, step in env.steps.items():
            assert before not in emitted, "two envs, or two episodes, emitted the same"
            emitted[before] = step
    assert learned
    for batch in learned:
        for row in range(len(batch["obs"])):
            action, step = emitted[key(batch["obs"][row])]
            assert int(batch["action"][row].item()) == action
            assert batch["reward"][row].item() == float(np.asarray(step.reward).item())
            assert bool(batch["done"][row]) is step.terminated
            assert key(batch["next_obs"][row]) == key(step.obs)
    played = [env for env in Logged.made if env.steps]
    seeds = [env.seeds[0] for env in played]
    assert None not in seeds
    assert len(set(seeds)) == len(seeds)


SETTINGS = settings(derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.mark.parametrize("path", PATHS)
@settings(SETTINGS, max_examples=3)
@given(spec=SPECS)
def test_what_is_learned_is_what_envs_emitted(path, spec, learned, tmp_path_factory, monkeypatch):
    check_path(PATHS[path], spec, learned, tmp_path_factory, monkeypatch)
    # Only evaluators break off episodes, and ask for it; the collector's envs did most steps.
    collecting = sorted(Logged.made, key=lambda env: len(env.steps))[-2:]
    assert [env.early_resets for env in collecting] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("path", [*PATHS, "parallel"])
@settings(SETTINGS, max_examples=25)
@given(spec=SPECS)
def test_many_envs_on_each_path(path, spec, learned, tmp_path_factory, monkeypatch):
    check_path({**PATHS, "parallel": parallel}[path], spec, learned, tmp_path_factory, monkeypatch)
