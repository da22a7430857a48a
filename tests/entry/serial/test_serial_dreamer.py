"""The pipeline of Dreamer: its schedule in env steps, exact resume, images from end to end, what is wrong."""

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import ding
from ding.config import ConfigValueError, read_config
from ding.entry import RunCallback, serial_pipeline, serial_pipeline_dreamer
from ding.entry.application_entry import evaluate
from ding.policy.errors import PolicyUsageError
from ding.utils import WORLD_MODEL_REGISTRY
from ding.world_model.dreamer import DREAMERWorldModel
from tests.entry.serial.test_serial_exact_resume import digest, resumed_config

FOLDER = Path(ding.__file__).parents[1] / "configs"
EVENTS: list[tuple[str, int]] = []
BATCHES: list[dict[str, Any]] = []


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    EVENTS.clear()
    BATCHES.clear()


class NotingBuffer:
    """Notes what a buffer gives."""

    def __init__(self, buffer):
        self.buffer = buffer

    def sample(self, *args):
        windows = self.buffer.sample(*args)
        BATCHES.extend(window.columns for window in windows)
        return windows


@WORLD_MODEL_REGISTRY.register("noting_dreamer", force_overwrite=True)
class NotingModel(DREAMERWorldModel):
    """Notes when and on what it is trained."""

    def train(self, env_buffer=True, envstep=0, *args):
        if not isinstance(env_buffer, bool):
            EVENTS.append(("train", envstep))
            env_buffer = NotingBuffer(env_buffer)
        return super().train(env_buffer, envstep, *args)


class Evaluations(RunCallback):
    """Notes the env steps of evaluations."""

    def on_evaluation(self, status):
        EVENTS.append(("eval", status.env_step))


class DictEnv(gymnasium.Env):
    """Observations are dicts."""

    observation_space = spaces.Dict(place=spaces.Box(-1, 1, (3,)), goal=spaces.Box(-1, 1, (2,)))
    action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {name: np.zeros(space.shape, np.float32) for name, space in self.observation_space.items()}, {}

    def step(self, action):
        return self.reset()[0], 0.0, False, False, {}


gymnasium.register("DreamsOfDicts-v0", DictEnv)


def config(name="pendulum", exp_name="e", **learn):
    main, create = read_config(FOLDER / name / f"{name}_dreamer_config.py")
    main.exp_name, main.policy.imag_horizon = exp_name, 3
    main.env.update(collector_env_num=4, evaluator_env_num=1, n_evaluator_episode=1, stop_value=1000)
    main.env.update(max_episode_steps=25, max_step=25)
    main.policy.update(random_collect_size=100)
    main.policy.learn.update(batch_size=4, batch_length=8, **learn)
    sizes = {"dyn_stoch": 2, "dyn_discrete": 3, "dyn_deter": 8, "units": 8}
    main.policy.model.update(sizes)
    main.world_model.model.update(**sizes, dyn_hidden=8, cnn_depth=4)
    main.world_model.update(pretrain=3, train_freq=2)
    main.policy.collect.n_sample, main.policy.eval.evaluator.eval_freq = 4, 30
    create.world_model.type = "noting_dreamer"
    return main, create


def test_a_pass_trains_before_it_collects():
    main, create = config()
    main.policy.random_collect_size = 1200
    serial_pipeline_dreamer((main, create), max_env_step=1240, callbacks=[Evaluations()])
    # As in DI-engine.
    expected = [("eval", 1200), *[("train", 1200)] * 3, *[("train", step) for step in range(1204, 1232, 4)]]
    expected += [("eval", 1232), ("train", 1232), ("train", 1236), ("eval", 1240)]
    assert expected == EVENTS
    assert json.loads(Path("e/result.json").read_text())["train_iter"] == 12


@pytest.mark.parametrize("name", ["pendulum", "maze"])
def test_half_and_half_is_the_whole(name):
    def run(pair, limit):
        serial_pipeline_dreamer(pair, seed=3, max_train_iter=limit)

    run(config(name, "whole", run_state_freq=6), 12)
    run(config(name, "parts", run_state_freq=6), 6)
    run(resumed_config(config(name, "parts", run_state_freq=6, resume_training=True), "parts"), 12)
    assert EVENTS[:12] == EVENTS[12:]
    whole, parts = (Path(name) / "ckpt" / "iteration_12.pth.tar" for name in ("whole", "parts"))
    assert digest(whole) == digest(parts)


def test_images_reach_the_world_model_in_the_order_of_their_environment():
    main, create = config("maze")
    main.env.max_step = 5
    serial_pipeline_dreamer((main, create), max_env_step=130)
    image, first, action, reward = (
        np.stack([np.asarray(window[key]) for window in BATCHES]) for key in ("obs", "is_first", "action", "reward")
    )
    assert (image.shape[1:], image.dtype) == ((8, 3, 16, 16), np.uint8)
    # Within an episode the goal stays, and the agent is where its action leads.
    moves, cells = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]]), [1, 4, 6, 9, 12, 14]
    agent = np.array([[np.argwhere(one[2][cells][:, cells])[0] for one in window] for window in image])
    goes_on = first[:, 1:] == 0
    assert goes_on.any()
    assert not goes_on.all()
    goal = image[:, :, 1]
    assert (goal[:, 1:] == goal[:, :-1]).all((2, 3))[goes_on].all()
    step = agent[:, 1:] - agent[:, :-1]
    moved = goes_on & (step != 0).any(-1)
    assert moved.any()
    assert (step == moves[action[:, 1:]])[moved].all()
    assert not reward[first == 1].any()


def test_a_checkpoint_acts_in_the_world_model_of_its_run():
    pairs = [config(), config(exp_name="f")]
    for main, _ in pairs:
        # Else evaluations draw latent states.
        main.policy.collect.collect_dyn_sample = False
    serial_pipeline_dreamer(pairs[0], max_env_step=108)
    found = evaluate(pairs[1], load_path="e/ckpt/iteration_4.pth.tar")
    assert found.mean == pytest.approx(json.loads(Path("e/result.json").read_text())["eval_value"])
    pairs = [config(exp_name="g")]
    pairs[0][1].pop("world_model")
    with pytest.raises(ConfigValueError, match="'dreamer' acts in the states of a world model"):
        evaluate(pairs[0], load_path="e/ckpt/iteration_4.pth.tar")


def test_what_is_wrong_is_named():
    main, create = config()
    create.pop("world_model")
    with pytest.raises(ConfigValueError, match=r"create_config.world_model is missing"):
        serial_pipeline_dreamer((main, create), max_env_step=120)
    main, create = config()
    main.policy.model.dyn_deter = 4
    with pytest.raises(ConfigValueError, match=r"policy.model.dyn_deter is 4, but world_model.model.dyn_deter is 8"):
        serial_pipeline_dreamer((main, create), max_env_step=120)
    main, create = config()
    main.world_model.model.action_type = "discrete"
    with pytest.raises(ConfigValueError, match="action_type is 'discrete', but the env has continuous actions"):
        serial_pipeline_dreamer((main, create), max_env_step=120)
    main, create = config()
    create.env.type = "mbpendulum"
    create.world_model.type, main.world_model.model = "mbpo", {"state_size": 3, "action_size": 1}
    with pytest.raises(ConfigValueError, match="'mbpo' does not learn latent states from sequences"):
        serial_pipeline_dreamer((main, create), max_env_step=120)
    main, create = config()
    main.world_model.model.state_size = 4
    with pytest.raises(ConfigValueError, match=r"state_size is 4, but observations of the env are \(3,\)"):
        serial_pipeline_dreamer((main, create), max_env_step=120)
    main, create = config()
    main.env.env_id, create.env = "DreamsOfDicts-v0", {"type": "gymnasium"}
    text = r"obs_type is 'vector', .* a dict of \{'place': \(3,\), 'goal': \(2,\)\}: begin env.env_wrapper with"
    with pytest.raises(ConfigValueError, match=text):
        serial_pipeline_dreamer((main, create), max_env_step=120)
    with pytest.raises(PolicyUsageError, match="run it with serial_pipeline_dreamer"):
        serial_pipeline(config(), max_env_step=120)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pendulum", "maze"])
def test_the_config_reaches_its_stop_value(name):
    main, create = read_config(FOLDER / name / f"{name}_dreamer_config.py")
    main.exp_name = "e"
    serial_pipeline_dreamer((main, create), max_env_step=16000)
    assert json.loads(Path("e/result.json").read_text())["stop"]
