"""The pipelines with a world model: their schedule in env steps, exact resume, what is wrong."""

import copy
import json
import os
import signal
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

import ding
from ding.config import ConfigValueError, read_config
from ding.entry import RunCallback, RunInterrupted, serial_pipeline, serial_pipeline_dream, serial_pipeline_dyna
from ding.entry.serial_entry_mbrl import create_img_buffer, mbrl_entry_setup
from ding.policy.errors import PolicyUsageError
from ding.utils import WORLD_MODEL_REGISTRY
from ding.worker import ElasticReplayBuffer
from ding.world_model import DreamWorldModel, DynaWorldModel, HybridWorldModel
from tests.entry.serial.test_serial_exact_resume import digest, resumed_config

FOLDER = Path(ding.__file__).parents[1] / "configs" / "pendulum"
PIPELINES = {"sac": serial_pipeline_dyna, "mbsac": serial_pipeline_dream, "stevesac": serial_pipeline_dream}
EVENTS: list[tuple[str, int]] = []


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    EVENTS.clear()


@WORLD_MODEL_REGISTRY.register("still", force_overwrite=True)
class StillModel(HybridWorldModel, nn.Module):
    """Nothing moves; notes when it is trained, evaluated and made use of."""

    def train(self, env_buffer, envstep=0, train_iter=0):
        EVENTS.append(("train", envstep))
        self.last_train_step = envstep

    def eval(self, env_buffer, envstep, train_iter):
        EVENTS.append(("eval", envstep))
        self.last_eval_step = envstep

    def step(self, obs, action, keep_ensemble=False):
        return obs.sum(-1), obs, torch.zeros(obs.shape[:-1])

    def fill_img_buffer(self, policy, env_buffer, img_buffer, envstep, train_iter):
        EVENTS.append(("fill", envstep))
        super().fill_img_buffer(policy, env_buffer, img_buffer, envstep, train_iter)


@WORLD_MODEL_REGISTRY.register("still_dyna", force_overwrite=True)
class StillDyna(DynaWorldModel):
    """No dreams."""

    train = eval = step = StillModel.step


def config(policy, exp_name="e", model="still", **learn):
    main, create = read_config(FOLDER / f"pendulum_{policy}_mbpo_config.py")
    main.exp_name = exp_name
    main.env.update(collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1)
    main.policy.update(random_collect_size=300)
    main.policy.model.update(actor_head_hidden_size=8, critic_head_hidden_size=8)
    main.policy.learn.update(update_per_collect=2, batch_size=20, **learn)
    main.policy.eval.evaluator.eval_freq = 20
    main.world_model.update(train_freq=100, eval_freq=100)
    main.world_model.model.update(hidden_size=4, max_epochs=2, batch_size=256)
    if policy == "sac":
        main.world_model.other.update(rollout_batch_size=50)
    create.world_model.type = model
    return main, create


class Evaluations(RunCallback):
    """Notes the env steps of evaluations."""

    def on_evaluation(self, status):
        EVENTS.append(("policy", status.env_step))


@pytest.mark.parametrize("policy", PIPELINES)
def test_env_steps_say_when_the_model_is_trained_and_the_policy_evaluated(policy):
    main, create = config(policy)
    PIPELINES[policy]((main, create), max_env_step=510, callbacks=[Evaluations()])
    # As DI-engine does it: an evaluation follows the first training, since there was none before.
    expected = [("train", 310), ("fill", 310), ("eval", 320), ("train", 410), ("fill", 410), ("eval", 420)]
    expected += [("train", 510), ("fill", 510)]
    dyna = policy == "sac"
    assert [event for event in EVENTS if event[0] != "policy"] == [one for one in expected if dyna or one[0] != "fill"]
    evaluated = [step for name, step in EVENTS if name == "policy"]
    assert evaluated == [*range(300, 510, 20), 510]
    result = json.loads(Path("e/result.json").read_text())
    # 21 passes; with three imagined steps an update of two becomes one.
    assert result["train_iter"] == 21 * (2 if dyna else 1)


@WORLD_MODEL_REGISTRY.register("stopped", force_overwrite=True)
class StoppedModel(StillModel):
    """Gets a signal in the middle of its second training."""

    began: ClassVar[list[Any]] = []

    def __init__(self, *args):
        super().__init__(*args)
        self.weight = nn.Parameter(torch.zeros(()))

    def train(self, env_buffer, envstep=0, train_iter=0):
        self.began.append((self, copy.deepcopy(self.run_state()), torch.get_rng_state()))
        with torch.no_grad():
            self.weight += torch.rand(())
        if self.last_train_step:
            os.kill(os.getpid(), signal.SIGTERM)
            EVENTS.append(("after the signal", envstep))
        self.last_train_step = envstep


def test_a_signal_leaves_a_training_of_the_model_which_is_then_as_before_it():
    StoppedModel.began.clear()
    with pytest.raises(RunInterrupted):
        serial_pipeline_dyna(config("sac", model="stopped"), max_env_step=510)
    assert "after the signal" not in dict(EVENTS)
    _, (model, before, random_state) = StoppedModel.began
    assert before["learned"]["weight"] > 0
    torch.testing.assert_close(model.run_state(), before)
    assert torch.equal(torch.get_rng_state(), random_state)


@pytest.mark.parametrize("policy", ["sac", "mbsac"])
def test_half_and_half_is_the_whole(policy):
    def run(pair, limit):
        PIPELINES[policy](pair, seed=3, max_train_iter=limit)

    limit = 40 if policy == "sac" else 20
    run(config(policy, "whole", "mbpo", run_state_freq=limit // 2), limit)
    run(config(policy, "parts", "mbpo", run_state_freq=limit // 2), limit // 2)
    pair = config(policy, "parts", "mbpo", run_state_freq=limit // 2, resume_training=True)
    run(resumed_config(pair, "parts"), limit)
    whole, parts = (Path(name) / "ckpt" / f"iteration_{limit}.pth.tar" for name in ("whole", "parts"))
    assert digest(whole) == digest(parts)


def test_an_on_policy_algorithm_forgets_both_buffers():
    main, create = config("sac")
    main.policy.on_policy = True
    serial_pipeline_dyna((main, create), max_env_step=340)
    assert [event for event in EVENTS if event[0] == "fill"] == [("fill", 310)]
    assert json.loads(Path("e/result.json").read_text())["train_iter"] == 2


def test_workers_of_a_loop_of_ones_own():
    main, create = config("sac")
    cfg, policy, model, buffer, learner, collector, _, evaluator, commander, writer = mbrl_entry_setup((main, create))
    assert isinstance(model, StillModel)
    assert evaluator.should_eval(collector.envstep)
    buffer.push(collector.collect(n_sample=20, policy_kwargs=commander.step()), cur_collector_envstep=20)
    model.train(buffer, 20, 0)
    images = create_img_buffer(cfg, (main, create), model, writer)
    assert isinstance(images, ElasticReplayBuffer)
    model.fill_img_buffer(policy.collect_mode, buffer, images, 20, 0)
    learner.train(model.sample(buffer, images, 20, 0), 20)
    assert (images.count(), learner.train_iter) == (50, 1)
    images.close()


def test_what_is_wrong_is_named():
    main, create = config("sac")
    create.pop("world_model")
    with pytest.raises(ConfigValueError, match=r"create_config.world_model is missing"):
        serial_pipeline_dyna((main, create), max_env_step=320)
    main, create = config("mbsac", model="still_dyna")
    with pytest.raises(ConfigValueError, match=rf"'still_dyna' is no {DreamWorldModel.__name__}"):
        serial_pipeline_dream((main, create), max_env_step=320)
    main, create = config("sac")
    main.policy.priority = True
    create.replay_buffer.type = "advanced"
    with pytest.raises(ConfigValueError, match=r"policy.priority=True"):
        serial_pipeline_dyna((main, create), max_env_step=320)
    with pytest.raises(PolicyUsageError, match="run it with serial_pipeline_dream"):
        serial_pipeline(config("mbsac"), max_env_step=400)


@pytest.mark.parametrize("name", ["sac_mbpo", "sac_ddppo", "mbsac_mbpo", "stevesac_mbpo"])
def test_some_passes_of_the_configs(name):
    main, create = read_config(FOLDER / f"pendulum_{name}_config.py")
    main.exp_name = "e"
    main.policy.random_collect_size = 1000
    main.policy.learn.update_per_collect = 1
    main.world_model.model.update(max_epochs=2, hidden_size=8)
    PIPELINES[create.policy.type]((main, create), max_env_step=1030, strict=True)
    assert json.loads(Path("e/result.json").read_text())["train_iter"] == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sac_mbpo", "mbsac_mbpo", "stevesac_mbpo"])
def test_the_configs_reach_their_stop_value(name):
    main, create = read_config(FOLDER / f"pendulum_{name}_config.py")
    main.exp_name = "e"
    PIPELINES[create.policy.type]((main, create), max_env_step=16000)
    assert json.loads(Path("e/result.json").read_text())["stop"]
