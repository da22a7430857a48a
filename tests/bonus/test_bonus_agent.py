"""``DQNAgent``: training, evaluation, acting, data and checkpoints."""

import json
import os
import signal
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import ding
from ding.bonus import (
    PPOF,
    A2CAgent,
    Agent,
    AgentConfigError,
    C51Agent,
    CheckpointError,
    DDPGAgent,
    DQNAgent,
    EvalReturn,
    ExperimentNotFoundError,
    PGAgent,
    PPOAgent,
    PPOOffPolicyAgent,
    SACAgent,
    SQLAgent,
    TD3Agent,
    TrainingReturn,
)
from ding.entry import RunInterrupted
from ding.entry.view.plot import learning_curves
from ding.envs import DingEnvWrapper
from ding.utils.data import NaiveRLDataset

SMALL = {
    "env": {"collector_env_num": 2, "evaluator_env_num": 2, "n_evaluator_episode": 2, "stop_value": 1000},
    "policy": {"model": {"encoder_hidden_size_list": [16, 16]}, "eval": {"evaluator": {"eval_freq": 20}}},
}


class GridEnv(gymnasium.Env):
    """Walk right to the goal: -0.1 per step, 1 at the goal; 10 steps at most."""

    def __init__(self, obs_space: "spaces.Space | None" = None, action_space: "spaces.Space | None" = None) -> None:
        self.observation_space = obs_space or spaces.Discrete(4)
        self.action_space = action_space or spaces.Discrete(2)
        self._place = self._steps = 0

    def _obs(self) -> object:
        if isinstance(self.observation_space, spaces.Discrete):
            return self._place
        self.observation_space.seed(self._place)
        return self.observation_space.sample()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place = self._steps = 0
        return self._obs(), {}

    def step(self, action):
        self._place = max(0, self._place + (1 if np.asarray(action).reshape(-1)[0] else -1))
        self._steps += 1
        done = self._place == 3
        return self._obs(), 1.0 if done else -0.1, done, self._steps == 10, {}


class LockedEnv(GridEnv):
    """An env that cannot be copied."""

    def __deepcopy__(self, memo):
        raise TypeError("a handle of a simulator")


class AskingEnv(GridEnv):
    """Sends a signal to the process at the 30th step of all such envs."""

    signum = signal.SIGINT
    num_steps = 0

    def step(self, action):
        AskingEnv.num_steps += 1
        if AskingEnv.num_steps == 30:
            os.kill(os.getpid(), self.signum)
        return super().step(action)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def trained() -> DQNAgent:
    agent = DQNAgent("CartPole-v1", exp_name="run", cfg=SMALL)
    assert agent.train(step=200, n_iter_log_show=10) == TrainingReturn(wandb_url="")
    return agent


def weights(agent: Agent) -> list[torch.Tensor]:
    return [one.clone() for one in agent.policy.learn_mode.state_dict()["model"].values()]


def equal(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(first, second))


def test_training_leaves_the_folder_of_a_run(trained) -> None:
    assert 200 <= trained.env_step < 210
    assert trained.train_iter > 50
    result = json.loads(Path("run/result.json").read_text())
    assert (result["env_step"], result["train_iter"]) == (trained.env_step, trained.train_iter)
    assert len(result["eval_value_raw"]) == 2
    assert Path("run/total_config.py").is_file()
    names = {path.name for path in Path("run/ckpt").iterdir()}
    assert {"ckpt_best.pth.tar", "iteration_0.pth.tar", f"iteration_{trained.train_iter}.pth.tar"} <= names
    (curve,) = learning_curves(["run"])
    assert len(curve.steps) >= 2
    (losses,) = learning_curves(["run"], tag="learner_iter/total_loss_avg")
    assert len(losses.steps) >= 3


def test_a_second_call_goes_on(trained) -> None:
    before, step = weights(trained), trained.env_step
    trained.train(step=50)
    assert step + 50 <= trained.env_step < step + 60
    assert not equal(before, weights(trained))
    assert [path.name for path in Path().iterdir()] == ["run"]


@pytest.mark.parametrize(("signum", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, RunInterrupted)])
def test_a_signal_ends_the_iteration_and_training_goes_on_later(signum, raised, monkeypatch) -> None:
    monkeypatch.setattr(AskingEnv, "signum", signum)
    monkeypatch.setattr(AskingEnv, "num_steps", 0)
    agent = DQNAgent(env=AskingEnv, exp_name="run", cfg=SMALL)
    before = signal.getsignal(signum)
    with pytest.raises(raised):
        agent.train(step=500)
    assert signal.getsignal(signum) is before
    assert 0 < agent.env_step < 100
    status = json.loads(Path("run/status.json").read_text())
    assert (status["state"], status["env_step"]) == ("stopped", agent.env_step)
    # Its config does not say how to make the env, so that no command line can.
    assert status["sentence"] == "stopped; go on with: train() of the agent"
    step, state = agent.env_step, weights(agent)
    assert equal(weights(agent.load(f"run/ckpt/iteration_{agent.train_iter}.pth.tar")), state)
    agent.train(step=20)
    assert agent.env_step >= step + 20


class FailingEnv(GridEnv):
    """Fails once: at the 60th step of all such envs."""

    num_steps = 0

    def step(self, action):
        FailingEnv.num_steps += 1
        if FailingEnv.num_steps == 60:
            raise ConnectionError("the simulator is gone")
        return super().step(action)


def test_a_training_that_failed_continues_with_what_it_has(monkeypatch) -> None:
    monkeypatch.setattr(FailingEnv, "num_steps", 0)
    learn = {**SMALL["policy"], "learn": {"batch_size": 4}}
    agent = DQNAgent(env=FailingEnv, exp_name="run", cfg={**SMALL, "policy": learn})
    with pytest.raises(RuntimeError, match="the simulator is gone"):
        agent.train(step=500)
    step, iterations = agent.env_step, agent.train_iter
    assert (0 < step < 60, iterations > 0) == (True, True)
    assert Path("run/ckpt/ckpt_exception.pth.tar").is_file()
    agent.train(step=20)
    assert agent.env_step >= step + 20
    assert agent.train_iter > iterations
    assert [path.name for path in Path().iterdir()] == ["run"]


def test_the_best_checkpoint_is_found_by_a_second_agent_of_the_same_name(trained) -> None:
    again = DQNAgent("CartPole-v1", exp_name="run", cfg=SMALL, seed=7)
    assert again.best is again
    assert equal(weights(again), weights(trained.best))
    again.train(step=10)
    assert again.exp_name.startswith("run_")
    assert again.checkpoint_save_dir == f"{again.exp_name}/ckpt"


def test_an_agent_that_was_not_trained_has_no_best() -> None:
    with pytest.raises(ExperimentNotFoundError, match="nothing has no checkpoints"):
        _ = DQNAgent("CartPole-v1", exp_name="nothing").best
    assert list(Path().iterdir()) == []


def test_the_same_seed_trains_the_same_policy() -> None:
    def run(seed: int) -> list[torch.Tensor]:
        agent = DQNAgent("CartPole-v1", seed=seed, cfg=SMALL)
        agent.train(step=100)
        return weights(agent)

    first = run(1)
    assert equal(first, run(1))
    assert not equal(first, run(2))


def test_evaluations_return_mean_and_deviation(trained) -> None:
    one = trained.deploy()
    assert isinstance(one, EvalReturn)
    assert one.eval_value_std == 0
    assert trained.deploy(seed=0) == trained.deploy(seed=0) == one
    assert trained.deploy(seed=[1, 2, 3]).eval_value > 0
    several = trained.batch_evaluate(env_num=2, n_evaluator_episode=3)
    assert isinstance(several.eval_value, np.float32)
    assert trained.cfg.env.n_evaluator_episode == 2
    with pytest.raises(AssertionError, match="n_episode"):
        trained.batch_evaluate(env_num=4, n_evaluator_episode=2)


def test_a_video_of_an_episode(trained) -> None:
    pytest.importorskip("imageio_ffmpeg", reason="the extra video is not installed")
    pytest.importorskip("pygame", reason="the extra video is not installed")
    trained.deploy(enable_save_replay=True, concatenate_all_replay=True, seed=[0, 1])
    assert len(list(Path("run/videos/seed0").glob("*.mp4"))) == 1
    assert Path("run/videos/deploy.mp4").stat().st_size > 0
    trained.deploy(enable_save_replay=True, replay_save_path="elsewhere")
    assert len(list(Path("elsewhere").glob("*.mp4"))) == 1


def test_predict_takes_one_observation_or_several() -> None:
    agent = DQNAgent("CartPole-v1", cfg=SMALL)
    env = gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=0)
    action = agent.predict(obs)
    assert type(action) is int
    env.step(action)
    several = np.stack([obs, -obs, obs])
    assert agent.predict(several).tolist() == [action, agent.predict(-obs), action]
    assert agent.predict(torch.from_numpy(several)).tolist() == agent.predict(several.tolist()).tolist()
    assert agent.predict(several[:1]).shape == (1,)
    with pytest.raises(AgentConfigError, match=r"has the shape \[4\].*got \[3\]"):
        agent.predict(obs[:3])
    with pytest.raises(AgentConfigError, match="at least one observation"):
        agent.predict(several[:0])


def test_predict_takes_dicts() -> None:
    box = spaces.Box(-1, 1, (3,), np.float32)
    agent = DQNAgent(env=GridEnv(spaces.Dict({"a": box, "b": box})))
    one = {"a": np.zeros(3), "b": np.ones(3)}
    assert agent.predict(one) in (0, 1)
    assert agent.predict({key: np.stack([value] * 2) for key, value in one.items()}).shape == (2,)
    with pytest.raises(AgentConfigError, match=r"has the keys \['a', 'b'\], got \['a'\]"):
        agent.predict({"a": np.zeros(3)})
    with pytest.raises(AgentConfigError, match="batch axis"):
        agent.predict({"a": np.zeros((2, 3)), "b": np.zeros(3)})


def test_predict_takes_columns_of_what_the_env_inside_gives() -> None:
    agent = DQNAgent(env=GridEnv(spaces.Dict(a=spaces.Box(-1, 1, (3,), np.float64), b=spaces.Discrete(3, start=2))))
    columns = {"a": np.linspace(-1, 1, 6).reshape(2, 3), "b": np.array([2, 4])}
    singles = [agent.predict({"a": columns["a"][row], "b": columns["b"][row]}) for row in range(2)]
    assert agent.predict(columns).tolist() == singles


def test_predict_takes_what_the_env_inside_gives() -> None:
    cells = DQNAgent(env=GridEnv())
    action = cells.predict(3)
    assert action == cells.predict(np.eye(4, dtype=np.float32)[3])
    assert cells.predict([3, 3]).tolist() == cells.predict(np.array([3, 3])).tolist() == [action] * 2
    parts = DQNAgent(env=GridEnv(spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 1, (2, 2))])))
    one = (2, np.full((2, 2), 0.5, np.float32))
    assert parts.predict([one, one]).tolist() == [parts.predict(one)] * 2
    # In another dtype or as lists, and beyond the bounds, as an env itself may be.
    assert parts.predict((2, one[1].tolist())) == parts.predict((2, one[1].astype(np.float64))) == parts.predict(one)
    assert parts.predict((2, one[1] + 1)) in (0, 1)
    assert cells.predict([3]).tolist() == [action]
    pixels = DQNAgent(env=GridEnv(spaces.Box(0, 255, (84, 80, 3), np.uint8)))
    frame = np.random.default_rng(0).integers(0, 256, (84, 80, 3), np.uint8)
    assert pixels.predict(frame) == pixels.predict(frame.transpose(2, 0, 1).astype(np.float32) / 255)
    with pytest.raises(AgentConfigError, match=r"has the shape \[4\]"):
        cells.predict(7)


def test_episodes_that_gymnasium_does_not_limit_come_to_an_end() -> None:
    agent = DQNAgent("CliffWalking-v1", cfg=SMALL)
    assert agent.env.spec.max_episode_steps == 1000
    own = DQNAgent("CliffWalking-v1", cfg={**SMALL, "env": {**SMALL["env"], "env_kwargs": {"max_episode_steps": 5}}})
    assert own.env.spec.max_episode_steps == 5
    assert own.deploy().eval_value == pytest.approx(-5, abs=500)


@pytest.mark.parametrize("data_type", ["naive", "hdf5"])
def test_data_of_the_policy_is_saved(data_type, trained) -> None:
    if data_type == "hdf5":
        pytest.importorskip("h5py", reason="the extra hdf5 is not installed")
    trained.collect_data(env_num=2, n_sample=30, data_type=data_type)
    if data_type == "naive":
        data = NaiveRLDataset("run/demo_data")
        assert len(data) == 30
        assert data[0]["obs"].shape == (4,)
    else:
        assert Path("run/demo_data_demos.hdf5").is_file()
    assert trained.cfg.policy.collect.n_sample == 8
    with pytest.raises(NotImplementedError, match="n_sample"):
        trained.collect_data(n_episode=3)


# Other algorithms.

GRADIENTS = {agent.algorithm: agent for agent in (A2CAgent, PGAgent, PPOAgent, PPOF, PPOOffPolicyAgent)}
AGENTS = {**GRADIENTS, "C51": C51Agent, "SQL": SQLAgent}


@pytest.mark.parametrize("name", AGENTS)
def test_agents_train_on_discrete_actions_and_come_back(name) -> None:
    agent = AGENTS[name]("CartPole-v1", exp_name="run", cfg={"env": SMALL["env"]})
    before = weights(agent)
    agent.train(step=100)
    assert agent.train_iter > 0
    assert not equal(before, weights(agent))
    loaded = ding.load("run")
    assert type(loaded) is AGENTS[name]
    assert loaded.deploy() == agent.best.deploy()


@pytest.mark.parametrize("name", GRADIENTS)
def test_actions_are_within_the_bounds_of_the_env(name) -> None:
    agent = GRADIENTS[name]("Pendulum-v1", exp_name="run", cfg={"env": SMALL["env"]})
    assert agent.cfg.policy.action_space == agent.cfg.policy.model.action_space == "continuous"
    agent.train(step=30)
    obs = np.zeros((5, 3), np.float32)
    actions = agent.predict(obs)
    assert actions.shape == (5, 1)
    assert all(agent.env.action_space.contains(action) for action in actions)
    assert agent.env.action_space.contains(agent.predict(obs[0]))


def test_the_config_of_ppof_is_flat() -> None:
    agent = PPOF(cfg={"env_id": "CartPole-v1", "exp_name": "flat", "n_sample": 64, "value_norm": "popart"})
    assert (agent.cfg.policy.n_sample, agent.exp_name, agent.cfg.env.env_id) == (64, "flat", "CartPole-v1")
    assert PPOF("Pendulum-v1").cfg.policy.n_sample == 400
    agent.collect_data(env_num=2, n_sample=20, data_type="naive")
    assert len(NaiveRLDataset("flat/demo_data")) == 20
    with pytest.raises(AgentConfigError, match=r"PPOF has no setting 'n_smaple'\. Did you mean 'n_sample'"):
        PPOF("CartPole-v1", cfg={"n_smaple": 64})


@pytest.mark.parametrize("agent_type", [DQNAgent, PPOF])
def test_a_run_goes_to_wandb_where_the_config_asks_for_it(agent_type, monkeypatch) -> None:
    sent: list[dict] = []
    wandb = ModuleType("wandb")
    wandb.run = SimpleNamespace(url="https://wandb/run")
    wandb.init = lambda *args, **kwargs: None
    wandb.log = lambda data, step=None: sent.append(data)
    wandb.finish = lambda: None
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    switches = {"plot_logger": True}
    agent = agent_type("CartPole-v1", exp_name="run", cfg={"env": SMALL["env"], "wandb_logger": switches})
    assert agent.train(step=100) == TrainingReturn(wandb_url="https://wandb/run")
    assert any("total_loss" in data for data in sent)


# Envs.


@pytest.mark.parametrize(
    "env",
    [
        GridEnv(),
        GridEnv,
        gymnasium.make("CartPole-v1"),
        DingEnvWrapper(cfg={"env_id": "CartPole-v1"}),
        lambda: DingEnvWrapper(gymnasium.make("CartPole-v1")),
        GridEnv(spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 1, (2, 2))])),
        GridEnv(spaces.MultiBinary(5)),
        GridEnv(action_space=spaces.MultiDiscrete([2, 3])),
    ],
    ids=["env", "class", "gymnasium", "ding", "callable", "tuple", "multi_binary", "multi_discrete"],
)
def test_an_agent_takes_any_env_with_discrete_actions(env) -> None:
    agent = DQNAgent(env=env, exp_name="run", cfg=SMALL)
    agent.train(step=20)
    assert agent.env_step >= 20
    agent.deploy(seed=[0, 1])


def test_images_have_their_channels_moved_and_are_scaled() -> None:
    pixels = spaces.Box(0, 255, (84, 80, 3), np.uint8)
    agent = DQNAgent(env=GridEnv(pixels))
    assert agent.env.observation_space.shape == (3, 84, 80)
    assert agent.cfg.policy.model.obs_shape == [3, 84, 80]
    assert agent.predict(np.zeros((2, 3, 84, 80), np.float32)).shape == (2,)


def test_an_agent_solves_an_env_of_the_users_own() -> None:
    cfg = {"env": {"stop_value": 0.75, "collector_env_num": 2, "evaluator_env_num": 1, "n_evaluator_episode": 1}}
    cfg["policy"] = {"eval": {"evaluator": {"eval_freq": 50}}, "other": {"eps": {"decay": 300}}}
    agent = DQNAgent(env=GridEnv, exp_name="grid", cfg=cfg)
    agent.train(step=4000)
    assert agent.best.deploy().eval_value == pytest.approx(0.8)


def test_the_env_that_was_given_stays_untouched() -> None:
    env = GridEnv()
    DQNAgent(env=env, cfg=SMALL).deploy()
    assert env.reset()[0] == 0
    with pytest.raises(
        AgentConfigError, match=r"cannot be copied \(a handle of a simulator\); give its id, or a callable"
    ):
        DQNAgent(env=LockedEnv())
    DQNAgent(env=LockedEnv, cfg=SMALL).deploy()


def test_names_of_envs_that_gymnasium_replaced() -> None:
    agent = DQNAgent("CartPole-v0", cfg=SMALL)
    assert agent.cfg.env.env_id == "CartPole-v1"
    assert agent.env.spec.max_episode_steps == 200
    assert agent.exp_name == "CartPole-v0-DQN"


# What is wrong is named.


def test_actions_that_do_not_fit() -> None:
    box = spaces.Box(-1, 1, (2,), np.float32)
    with pytest.raises(AgentConfigError, match=r"^DQN needs a discrete action space, but that of the env is Box"):
        DQNAgent(env=GridEnv(action_space=box))
    text = spaces.Tuple([spaces.Discrete(2), spaces.Text(3)])
    with pytest.raises(AgentConfigError, match=r"no network acts in the action space Tuple\(Discrete\(2\), Text"):
        DQNAgent(env=GridEnv(action_space=text))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({}, "needs env_id, env, or cfg.env.env_id"),
        ({"env": 3}, "not int"),
        ({"env_id": "CartPole-v1", "cfg": {"env": {"env_id": "Acrobot-v1"}}}, "but cfg.env.env_id is 'Acrobot-v1'"),
    ],
)
def test_arguments_that_contradict(kwargs, message) -> None:
    with pytest.raises(AssertionError, match=message):
        DQNAgent(**kwargs)


def test_no_steps() -> None:
    with pytest.raises(AgentConfigError, match="step must be at least 1 env step, got 0"):
        DQNAgent("CartPole-v1").train(step=0)
    assert list(Path().iterdir()) == []


def test_an_unknown_env_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean CartPole-v1"):
        DQNAgent("CartPol-v1")


def test_a_policy_of_any_type_has_an_agent() -> None:
    with pytest.raises(AgentConfigError, match=r"cfg\.policy\.type is missing"):
        Agent("CartPole-v1")
    agent = Agent("CartPole-v1", cfg={**SMALL, "policy": {**SMALL["policy"], "type": "dqn"}})
    agent.train(step=20)
    assert agent.exp_name == "CartPole-v1-Agent"


def test_states_and_checkpoints(trained) -> None:
    by_state = DQNAgent("CartPole-v1", cfg=SMALL, policy_state_dict=trained.policy.learn_mode.state_dict())
    last = f"run/ckpt/iteration_{trained.train_iter}.pth.tar"
    by_path = DQNAgent("CartPole-v1", cfg=SMALL, policy_state_dict=last)
    assert equal(weights(by_state), weights(trained))
    assert equal(weights(by_path), weights(trained))
    acting = DQNAgent("CartPole-v1", cfg=SMALL, policy_state_dict=trained.policy.eval_mode.state_dict())
    assert equal(weights(acting), weights(trained))
    with pytest.raises(CheckpointError, match="no checkpoint of DQN for this network"):
        DQNAgent("CartPole-v1", policy_state_dict=last)
    with pytest.raises(CheckpointError, match="no checkpoint of DQN"):
        trained.load({"model": {}, "critic": {}})
    Path("broken.pth.tar").write_bytes(b"no checkpoint")
    with pytest.raises(CheckpointError, match=r"broken\.pth\.tar"):
        trained.load("broken.pth.tar")
    with pytest.raises(ExperimentNotFoundError, match=r"there is no checkpoint none\.pth\.tar"):
        trained.load("none.pth.tar")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("agent_type", [DQNAgent, C51Agent, PPOAgent, PPOF, PPOOffPolicyAgent, PGAgent])
def test_cartpole_is_solved_in_one_line(agent_type, seed) -> None:
    agent = agent_type("CartPole-v1", exp_name="run", seed=seed, cfg={"env": {"stop_value": 195}})
    agent.train(step=30000)
    assert json.loads(Path("run/result.json").read_text())["stop"]
    assert agent.best.batch_evaluate(env_num=5, n_evaluator_episode=5).eval_value >= 195


@pytest.mark.parametrize("agent_type", [SACAgent, TD3Agent, DDPGAgent])
def test_continuous_control(agent_type, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cfg = {
        "env": {"collector_env_num": 2, "evaluator_env_num": 1, "n_evaluator_episode": 1},
        "policy": {
            "random_collect_size": 8,
            "model": {"actor_head_hidden_size": 8, "critic_head_hidden_size": 8},
            "learn": {"batch_size": 4, "update_per_collect": 1},
            "collect": {"n_sample": 4},
        },
    }
    agent = agent_type("Pendulum-v1", exp_name="e", cfg=cfg)
    agent.train(step=20)
    assert agent.train_iter > 0
    assert agent.env.action_space == spaces.Box(-1.0, 1.0, (1,))
    with pytest.raises(AgentConfigError, match=r"needs a continuous (or hybrid )?action space"):
        agent_type("CartPole-v1", exp_name="e")
