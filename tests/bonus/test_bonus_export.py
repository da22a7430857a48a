"""Exported policies act as ``predict`` does, on observations of the env itself, in actions of the env itself."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import ding
from ding.bonus import (
    PPOF,
    AgentConfigError,
    DDPGAgent,
    DQNAgent,
    PPOAgent,
    PPOOffPolicyAgent,
    SACAgent,
    TD3Agent,
)
from ding.bonus.core.agent import Agent
from ding.bonus.quick.export import network_of
from ding.config.errors import ModelConfigError

# Torch's own note on the format.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.load. is deprecated:DeprecationWarning")

VECTOR = spaces.Box(-1, 1, (3,), np.float32)
WIDE = spaces.Box(np.array([0.0, -9.0], np.float32), np.array([5.0, 0.4], np.float32))
ACTIONS = {
    "discrete": spaces.Discrete(3),
    "start": spaces.Discrete(3, start=-1),
    "several": spaces.MultiDiscrete([2, 3], start=[1, -4]),
    "wide": WIDE,
    "square": spaces.Box(-9, 9, (2, 2), np.float32),
    "half": spaces.Box(-1, 1, (2,), np.float16),
    "hybrid": spaces.Dict(move=spaces.Discrete(3, start=1), power=WIDE),
    "parts": spaces.Tuple([spaces.Discrete(3), WIDE, spaces.Box(-9, 9, (1,), np.float32)]),
}
OBSERVATIONS = {
    "vector": VECTOR,
    "double": spaces.Box(-5.0, 5.0, (3,), np.float64),
    "half": spaces.Box(-5, 5, (3,), np.float16),
    "half_mixed": spaces.Dict(a=spaces.Box(-5, 5, (3,), np.float16), b=spaces.Discrete(3, start=2)),
    "frames": spaces.Box(0, 255, (1, 36, 36), np.uint8),
    "channels_last": spaces.Box(0, 255, (36, 36, 3), np.uint8),
    "number": spaces.Discrete(5, start=2),
    "numbers": spaces.MultiDiscrete([2, 4]),
    "switches": spaces.MultiBinary(4),
    "dict": spaces.Dict(a=VECTOR, b=spaces.Box(0, 1, (2,), np.float32)),
    "mixed": spaces.Dict(a=VECTOR, b=spaces.Discrete(3), c=spaces.Box(0, 255, (2, 2), np.uint8)),
    "tuple": spaces.Tuple([VECTOR, spaces.Discrete(3)]),
    "nested": spaces.Dict(a=spaces.Dict(x=VECTOR), b=spaces.Tuple([spaces.Discrete(2), VECTOR])),
}
NAMES = {"nested": ["a.x", "b.0", "b.1"]}


class SampledEnv(gymnasium.Env):
    """Observations are samples of the space."""

    def __init__(self, obs, actions):
        self.observation_space, self.action_space = obs, actions

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._count = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self._count += 1
        return self.observation_space.sample(), 1.0, self._count == 5, False, {}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def made(cls, obs="vector", actions="discrete", **kwargs):
    agent = cls(env=SampledEnv(OBSERVATIONS[obs], ACTIONS[actions]), exp_name="e", **kwargs)
    # The last layers of some networks begin near 0, where all observations are as good.
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in network_of(agent).parameters():
            if parameter.ndim > 1:
                parameter.copy_(torch.randn_like(parameter) * 2 / parameter[0].numel() ** 0.5)
    return agent


def rows_and_inputs(obs, count=40):
    space = OBSERVATIONS[obs]
    space.seed(3)
    rows = [space.sample() for _ in range(count)]
    return rows, stacked(rows)


def stacked(rows):
    if isinstance(rows[0], dict) and any(isinstance(value, (dict, tuple)) for value in rows[0].values()):
        flat = [{"a.x": row["a"]["x"], "b.0": row["b"][0], "b.1": row["b"][1]} for row in rows]
        return stacked(flat)
    if isinstance(rows[0], dict):
        return {name: stacked([row[name] for row in rows]) for name in rows[0]}
    if isinstance(rows[0], tuple):
        return tuple(stacked(list(parts)) for parts in zip(*rows))
    tensor = torch.from_numpy(np.stack([np.asarray(row) for row in rows]))
    return tensor.to(torch.float32) if tensor.dtype == torch.float64 else tensor


def assert_rows_equal(found, actions):
    for number, action in enumerate(actions):
        if isinstance(action, dict):
            assert found.keys() == action.keys()
            for name, value in action.items():
                np.testing.assert_allclose(found[name][number].numpy(), value, rtol=1e-4, atol=1e-4)
        elif isinstance(action, tuple):
            for part, value in zip(found, action, strict=True):
                np.testing.assert_allclose(part[number].numpy(), value, rtol=1e-4, atol=1e-4)
        else:
            # Files give float32, also for actions of float16.
            tolerance = 2e-3 if getattr(action, "dtype", None) == np.float16 else 1e-4
            np.testing.assert_allclose(found[number].numpy(), action, rtol=tolerance, atol=tolerance)


def check(agent, obs):
    policy = torch.jit.load(ding.export(agent, "policy.pt"))
    rows, inputs = rows_and_inputs(obs)
    wanted = [agent.predict(row) for row in rows]
    space = agent.env.inner_action_space
    assert all(space.contains(action) for action in wanted)
    assert_rows_equal(policy(inputs), wanted)
    return wanted


@pytest.mark.parametrize("cls", [DQNAgent, PPOAgent])
@pytest.mark.parametrize("obs", OBSERVATIONS)
def test_observations_are_those_of_the_env(cls, obs):
    wanted = check(made(cls, obs), obs)
    assert len(set(wanted)) > 1 or obs not in ("vector", "double", "dict")


@pytest.mark.parametrize("obs", ["dict", "frames", "mixed"])
def test_observations_of_a_continuous_policy(obs):
    check(made(SACAgent, obs, "wide"), obs)


@pytest.mark.parametrize(
    ("cls", "actions"),
    [
        (DQNAgent, "start"),
        (DQNAgent, "several"),
        (PPOAgent, "several"),
        (PPOAgent, "wide"),
        (PPOAgent, "square"),
        (PPOAgent, "hybrid"),
        (PPOAgent, "parts"),
        (PPOOffPolicyAgent, "wide"),
        (PPOF, "start"),
        (PPOF, "wide"),
        (SACAgent, "wide"),
        (SACAgent, "square"),
        (TD3Agent, "wide"),
        (TD3Agent, "half"),
        (DDPGAgent, "wide"),
        (DDPGAgent, "hybrid"),
    ],
)
def test_actions_are_those_of_the_env(cls, actions):
    check(made(cls, "vector", actions), "vector")


def test_ppof_refuses_several_discrete_actions():
    with pytest.raises(ModelConfigError, match=r"policy\.model\.action_shape: PPOF has one discrete action"):
        made(PPOF, "vector", "several")


def test_pdqn():
    eps = {"eps": {"type": "exp", "start": 1.0, "end": 0.1, "decay": 10}}
    check(made(Agent, "vector", "parts", cfg={"policy": {"type": "pdqn", "other": eps}}), "vector")


def test_actions_reach_the_bounds_of_the_space():
    agent = made(TD3Agent, "vector", "wide")
    policy = torch.jit.load(ding.export(agent, "policy.pt"))
    actions = policy(torch.from_numpy(np.random.default_rng(0).normal(0, 50, (200, 3)).astype(np.float32))).numpy()
    assert actions[:, 0].min() >= 0.0
    assert actions[:, 0].max() > 4.0
    assert actions[:, 1].min() < -8.0
    assert actions[:, 1].max() <= np.float32(0.4)


def test_a_wrapper_with_a_memory_is_named(caplog):
    wrappers = [{"type": "scaled_float_frame"}, {"type": "frame_stack", "kwargs": {"n_frames": 3}}]
    space = spaces.Box(0, 255, (36, 36), np.uint8)
    agent = DQNAgent(env=SampledEnv(space, ACTIONS["discrete"]), exp_name="e", cfg={"env": {"env_wrapper": wrappers}})
    policy = torch.jit.load(ding.export(agent, "policy.pt"))
    assert "FrameStackWrapper is not part of policy.pt" in caplog.text
    assert policy(torch.zeros(2, 3, 36, 36)).shape == (2,)


def test_the_normalisation_of_the_run_is_part_of_the_file():
    wrappers = [{"type": "obs_norm"}, {"type": "eval_episode_return"}]
    small = {"learn": {"batch_size": 8}, "collect": {"n_sample": 64}}
    cfg = {"env": {"env_wrapper": wrappers}, "policy": small}
    agent = made(PPOAgent, "double", "discrete", cfg=cfg)
    agent.train(step=128, collector_env_num=2, evaluator_env_num=1)
    assert agent.statistics.obs_constants() is not None
    check(agent, "double")


def test_what_cannot_be_exported():
    class Text(SampledEnv):
        def __init__(self):
            super().__init__(spaces.Dict(a=VECTOR, b=spaces.Text(3)), ACTIONS["discrete"])

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, obs):
            return {"logit": self.layer(obs["a"])}

    agent = DQNAgent(env=Text(), exp_name="e", model=Net(), cfg={"env": {"env_wrapper": []}})
    with pytest.raises(AgentConfigError, match=r"only observations of arrays and numbers.* \(at 'b'\)"):
        ding.export(agent, "policy.pt")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "obs", "actions"),
    [
        (PPOAgent, "vector", "wide"),
        (DQNAgent, "frames", "start"),
        (DQNAgent, "mixed", "several"),
        (DQNAgent, "nested", "discrete"),
        (PPOAgent, "tuple", "hybrid"),
        (SACAgent, "dict", "square"),
        (TD3Agent, "number", "wide"),
    ],
)
def test_onnx(cls, obs, actions):
    pytest.importorskip("onnxscript", reason="the extra 'onnx' is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    agent = made(cls, obs, actions)
    session = runtime.InferenceSession(ding.export(agent, "policy.onnx", "onnx"))
    rows, inputs = rows_and_inputs(obs)
    named = (
        inputs
        if isinstance(inputs, dict)
        else dict(enumerate(inputs))
        if isinstance(inputs, tuple)
        else {"obs": inputs}
    )
    given = {str(name): value.numpy() for name, value in named.items()}
    found = dict(zip([one.name for one in session.get_outputs()], session.run(None, given)))
    for number, row in enumerate(rows):
        action = agent.predict(row)
        parts = action if isinstance(action, dict) else {"action": action}
        for name, value in parts.items():
            np.testing.assert_allclose(found[name][number], value, rtol=1e-4, atol=1e-4)
