"""The pipelines with a reward model."""

import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from easydict import EasyDict

import ding
from ding.config import ConfigValueError, UnknownKeyError, read_config
from ding.data.safe_file import read_tree, write_tree
from ding.entry import (
    collect_demo_data,
    drex_collecting_data,
    serial_pipeline,
    serial_pipeline_gail,
    serial_pipeline_guided_cost,
    serial_pipeline_ngu,
    serial_pipeline_onpolicy,
    serial_pipeline_plr,
    serial_pipeline_preference_based_irl,
    serial_pipeline_reward_model_offpolicy,
    serial_pipeline_reward_model_onpolicy,
    serial_pipeline_trex,
    serial_pipeline_trex_onpolicy,
    trex_collecting_data,
)
from ding.entry.serial.run_state import FILE_KIND, STATE, newest_good_snapshot
from ding.reward_model import BaseRewardModel, RndRewardModel, TrexRewardModel
from ding.utils import REWARD_MODEL_REGISTRY, read_file, save_file
from ding.utils.checkpoint import LEARNER, write_parts
from tests.entry.serial.test_serial_exact_resume import digest_of

FOLDER = Path(ding.__file__).parents[1] / "configs" / "cartpole"
CASES = {
    "dqn_rnd": serial_pipeline_reward_model_offpolicy,
    "ppo_rnd": serial_pipeline_reward_model_onpolicy,
    "ppo_icm": serial_pipeline_reward_model_onpolicy,
}


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def config(name: str, **reward_model: object):
    main, create = read_config(FOLDER / f"cartpole_{name}_config.py")
    main.exp_name = "e"
    main.reward_model.update(reward_model)
    return main, create


@pytest.mark.parametrize("name", list(CASES))
def test_some_passes(name):
    main, create = config(name, update_per_collect=1)
    limit = 100 if name == "dqn_rnd" else 300
    CASES[name]((main, create), max_env_step=limit, strict=True)
    assert json.loads(Path("e/result.json").read_text())["env_step"] >= limit
    assert {path.name for path in Path("e/reward_model/ckpt").iterdir()} == {"ckpt_best.pth.tar", "ckpt_last.pth.tar"}


@pytest.mark.parametrize(
    ("name", "pipeline", "mode"),
    [
        ("dqn_rnd", serial_pipeline, "serial_reward_model"),
        ("ppo_icm", serial_pipeline_onpolicy, "serial_reward_model_onpolicy"),
        ("dqn_gail", serial_pipeline, "serial_gail"),
        ("dqn_trex", serial_pipeline, "serial_trex"),
    ],
)
def test_a_pipeline_without_the_model_says_which_has_it(name, pipeline, mode, caplog):
    with pytest.raises(UnknownKeyError, match=f"reward_model: .* ding -m {mode} trains on those of the model"):
        pipeline(config(name), strict=True)
    assert not Path("e").exists()
    pipeline(config(name), max_env_step=8)
    assert f"ding -m {mode} trains" in caplog.text


def test_the_two_models_of_ngu_have_a_pipeline_of_their_own():
    main, create = read_config(FOLDER / "cartpole_ngu_config.py")
    main.exp_name = "e"
    with pytest.raises(UnknownKeyError, match=r"rnd_reward_model: .* -m serial_ngu trains on those of the model"):
        serial_pipeline((main, create), strict=True)


def test_an_on_policy_pipeline_of_another_kind_says_it_too():
    main, create = config("dqn_trex")
    create.policy = {"type": "ppo"}
    main.policy = {"model": {"obs_shape": 4, "action_shape": 2}, "collect": {"n_sample": 80}}
    with pytest.raises(UnknownKeyError, match="ding -m serial_trex_onpolicy trains on those of the model"):
        serial_pipeline_plr((main, create), strict=True)


def test_a_policy_of_a_replay_buffer_also_learns_from_what_was_just_collected(caplog):
    main, create = config("ppo_rnd", update_per_collect=1)
    create.policy.type = "ppo_offpolicy"
    main.policy = {"model": {"obs_shape": 4, "action_shape": 2}, "collect": {"n_sample": 80}}
    main.policy["learn"] = {"update_per_collect": 3}
    serial_pipeline_reward_model_onpolicy((main, create), max_env_step=160)
    result = json.loads(Path("e/result.json").read_text())
    assert result["train_iter"] == 6  # two collections
    assert "policy.on_policy is False" in caplog.text


def test_samples_are_gathered_before_the_model_trains_and_a_run_goes_on_with_its_model():
    main, create = config("ppo_rnd", update_per_collect=1, target_new_data_count=500)
    main.policy.learn.update(update_per_collect=2, run_state_freq=1)
    serial_pipeline_reward_model_onpolicy((main, create), max_env_step=500, strict=True)
    result = json.loads(Path("e/result.json").read_text())
    # Two collections of 256, then two rounds of two epochs of four minibatches.
    assert (result["env_step"], result["train_iter"]) == (512, 16)
    main.policy.learn.resume_training = True
    main.policy.learn.learner = {"hook": {"load_ckpt_before_run": "e/ckpt/iteration_16.pth.tar"}}
    serial_pipeline_reward_model_onpolicy((main, create), max_env_step=1000)
    assert json.loads(Path("e/result.json").read_text())["env_step"] == 1024


def expert_checkpoint() -> str:
    """Of a network that has learned nothing."""
    main, create = read_config(FOLDER / "cartpole_dqn_config.py")
    main.exp_name = "expert"
    serial_pipeline((main, create), max_env_step=8)
    return "expert/ckpt/ckpt_best.pth.tar"


def test_gail_collects_demonstrations_and_learns_from_them():
    expert = str(FOLDER / "cartpole_dqn_config.py")
    main, create = config("dqn_gail", update_per_collect=1, collect_count=70, expert_model_path=expert_checkpoint())
    serial_pipeline_gail((main, create), expert, max_env_step=130, strict=True)
    # In each pass at least 64 new samples.
    result = json.loads(Path("e/result.json").read_text())
    assert (result["env_step"], result["train_iter"]) == (192, 15)
    assert len(read_file("e/expert_data.pkl")) == 70
    main.reward_model.data_path = "e"
    serial_pipeline_gail((main, create), expert, max_env_step=64, collect_data=False)


@pytest.mark.parametrize("type_", ["red", "pwil", "pdeil"])
def test_models_of_an_expert(type_):
    expert = read_config(FOLDER / "cartpole_dqn_config.py")
    collect_demo_data(expert, 0, 30, "data.pkl", state_dict_path=expert_checkpoint())
    main, create = config("dqn_rnd")
    sizes = {"red": {"input_size": 5}, "pwil": {"s_size": 4, "a_size": 1}, "pdeil": {"discrete_action": True}}
    main.reward_model, create.reward_model.type = {"expert_data_path": "data.pkl", **sizes[type_]}, type_
    serial_pipeline_reward_model_offpolicy((main, create), max_env_step=130, strict=True)
    assert json.loads(Path("e/result.json").read_text())["train_iter"] > 0


@pytest.mark.parametrize("name", ["dqn", "ppo"])
def test_checkpoints_are_played_and_ranked(name):
    main, create = read_config(FOLDER / f"cartpole_{name}_config.py")
    main.exp_name = "expert"
    main.policy.learn.learner = {"hook": {"save_ckpt_after_iter": 4}}
    on_policy = name == "ppo"
    (serial_pipeline_onpolicy if on_policy else serial_pipeline)((main, create), max_train_iter=9)
    main, create = read_config(FOLDER / f"cartpole_{name}_config.py")
    main.exp_name = "e"
    main.reward_model = {
        "type": "trex", "min_snippet_length": 2, "max_snippet_length": 5, "num_snippets": 8, "update_per_collect": 1,
        "expert_model_path": "expert", "checkpoint_min": 4, "checkpoint_max": 8, "checkpoint_step": 4,
    }  # fmt: skip
    with pytest.raises(FileNotFoundError, match="episodes_data"):
        serial_pipeline_trex((main, create)) if not on_policy else serial_pipeline_trex_onpolicy((main, create))
    checkpoints, episodes, returns, rewards = trex_collecting_data(SimpleNamespace(cfg=(main, create), seed=0))
    assert checkpoints == ["4", "8"]
    assert [len(one) for (one,) in episodes] == [one for (one,) in returns] == [len(one) for (one,) in rewards]
    pipeline = serial_pipeline_trex_onpolicy if on_policy else serial_pipeline_trex
    pipeline((main, create), max_env_step=100, strict=True)
    assert json.loads(Path("e/result.json").read_text())["train_iter"] > 0


def test_a_clone_is_played_under_less_and_less_noise():
    expert = read_config(FOLDER / "cartpole_dqn_config.py")
    collect_demo_data(expert, 0, 40, "data.pkl", state_dict_path=expert_checkpoint())
    main, create = config("dqn_drex", update_per_collect=1, num_snippets=8, num_trajs=2, min_snippet_length=2)
    main.reward_model.update(offline_data_path="data.pkl", bc_iterations=2, eps_list=[0.0, 1.0], num_trajs_per_bin=2)
    noises, episodes, returns, rewards = drex_collecting_data(SimpleNamespace(cfg=(main, create), seed=0))
    assert noises == ["1.0", "0.0"]
    assert (
        [[len(one) for one in part] for part in episodes] == [[len(one) for one in part] for part in rewards] == returns
    )
    # Without noise the clone does the same in the same state.
    assert len(read_file("e/suboptimal_data.pkl")[1]) == 2
    serial_pipeline_preference_based_irl((main, create), max_env_step=100, strict=True)
    assert json.loads(Path("e/result.json").read_text())["train_iter"] > 0
    del main.reward_model["offline_data_path"]
    with pytest.raises(ConfigValueError, match="offline_data_path is missing"):
        drex_collecting_data(SimpleNamespace(cfg=(main, create), seed=0))


def test_a_clone_of_continuous_actions_gets_noise_added():
    main, create = read_config(FOLDER.parent / "pendulum" / "pendulum_td3_config.py")
    main.exp_name, main.env.evaluator_env_num, main.env.n_evaluator_episode = "e", 1, 1
    rows = [{"obs": np.zeros(3, np.float32), "action": np.full(1, 0.25, np.float32)} for _ in range(40)]
    save_file("data.pkl", rows)
    options = {"bc_iterations": 1, "eps_list": [0.5, 0.0], "num_trajs_per_bin": 1}
    main.reward_model = {"type": "drex", "offline_data_path": "data.pkl", **options}
    drex_collecting_data(SimpleNamespace(cfg=(main, create), seed=0))
    noisy, clean = (
        np.array([float(step["action"]) for step in part[0]]) for part in read_file("e/suboptimal_data.pkl").values()
    )
    assert np.abs(np.diff(noisy)).mean() > 10 * np.abs(np.diff(clean)).mean()
    main.policy.action_space = "hybrid"
    with pytest.raises(ConfigValueError, match="hybrid"):
        drex_collecting_data(SimpleNamespace(cfg=(main, create), seed=0))


def test_guided_cost_learns_beside_an_expert():
    main, create = read_config(FOLDER / "cartpole_ppo_config.py")
    main.exp_name = "expert"
    serial_pipeline_onpolicy((main, create), max_env_step=64)
    main, create = config("guided_cost", update_per_collect=2, store_model_every_n_train=16)
    main.policy.collect.update(n_sample=64, model_path="expert/ckpt/ckpt_best.pth.tar")
    serial_pipeline_guided_cost((main, create), max_env_step=600, strict=True)
    # Two epochs of one minibatch in each pass.
    result = json.loads(Path("e/result.json").read_text())
    assert result["train_iter"] * 32 == result["env_step"] >= 600
    names = {path.name for path in Path("e/reward_model").iterdir()}
    assert names == {"iteration_0.pth.tar", "iteration_16.pth.tar", "final_model.pth.tar"}


def ngu_config(env_num: int = 2):
    main, create = read_config(FOLDER / "cartpole_ngu_config.py")
    main.exp_name = "e"
    main.env.update(collector_env_num=env_num, evaluator_env_num=1, n_evaluator_episode=1)
    main.policy.model.collector_env_num = main.policy.collect.env_num = env_num
    main.policy.collect.n_sample = main.policy.learn.batch_size = 4
    main.policy.eval.env_num = main.policy.learn.update_per_collect = 1
    for section in ("rnd_reward_model", "episodic_reward_model"):
        main[section].update_per_collect = 1
    return main, create


@pytest.mark.parametrize("env_num", [1, 2])
def test_a_family_of_policies_learns_from_what_is_new(env_num):
    serial_pipeline_ngu(ngu_config(env_num), max_train_iter=2, strict=True)
    assert json.loads(Path("e/result.json").read_text())["train_iter"] == 2
    state = read_file("e/reward_model/ckpt/ckpt_last.pth.tar")
    assert set(state) == {"rnd", "episodic"}


def resumable(name: str, half: int, resume_from: str | None = None, **reward_model: object):
    """A small run that saves a snapshot every ``half`` train iterations."""
    if name == "ngu":
        main, create = ngu_config()
        main.rnd_reward_model.clear_buffer_per_iters = 2
    else:
        main, create = config(name, update_per_collect=2, **reward_model)
        main.env.update(collector_env_num=2, evaluator_env_num=2, n_evaluator_episode=2)
        if "ppo" in name:
            main.policy.collect.n_sample, main.policy.learn.batch_size = 64, 16
    main.env.stop_value = 1e9
    main.policy.learn.run_state_freq = half
    if resume_from is not None:
        main.policy.learn.resume_training = True
        main.policy.learn.learner = {"hook": {"load_ckpt_before_run": resume_from}}
    return main, create


def whole_and_halves(run: Callable[..., Any], name: str, half: int, **reward_model: object) -> tuple[str, str]:
    """Digests of the last snapshots of a run, and of one that was taken up in the middle."""
    digests = []
    for limits in ((2 * half,), (half, 2 * half)):
        snapshot = None
        for limit in limits:
            run(resumable(name, half, snapshot, **reward_model), limit)
            snapshot = str(newest_good_snapshot("e"))
        assert snapshot.endswith(f"snapshot_{2 * half}")
        digests.append(digest_of(Path(snapshot)))
        shutil.rmtree("e")
    return digests[0], digests[1]


@pytest.mark.parametrize(
    ("name", "half", "reward_model"),
    [
        # What was collected outlives the snapshot.
        ("ppo_rnd", 40, {"clear_buffer_per_iters": 100}),
        ("ppo_rnd", 40, {"intrinsic_reward_norm": "running"}),
        ("ppo_icm", 40, {"clear_buffer_per_iters": 2}),
        ("dqn_rnd", 20, {"clear_buffer_per_iters": 3}),
    ],
)
def test_half_and_half_is_the_whole(name, half, reward_model):
    def run(pair, limit):
        CASES[name](pair, seed=3, max_train_iter=limit)

    whole, halves = whole_and_halves(run, name, half, **reward_model)
    assert whole == halves


def test_half_and_half_is_the_whole_of_a_family():
    whole, halves = whole_and_halves(
        lambda pair, limit: serial_pipeline_ngu(pair, seed=3, max_train_iter=limit), "ngu", 3
    )
    assert whole == halves


def test_half_and_half_is_the_whole_with_an_expert():
    expert = str(FOLDER / "cartpole_dqn_config.py")
    settings = {"collect_count": 70, "expert_model_path": expert_checkpoint()}

    def run(pair, limit):
        serial_pipeline_gail(pair, expert, seed=3, max_train_iter=limit)

    whole, halves = whole_and_halves(run, "dqn_gail", 20, **settings)
    assert whole == halves


def test_half_and_half_is_the_whole_of_a_cost_that_is_guided():
    main, create = read_config(FOLDER / "cartpole_ppo_config.py")
    main.exp_name = "expert"
    serial_pipeline_onpolicy((main, create), max_env_step=64)

    def run(pair, limit):
        pair[0].policy.collect.update(n_sample=64, model_path="expert/ckpt/ckpt_best.pth.tar")
        pair[0].policy.learn.batch_size = 32
        serial_pipeline_guided_cost(pair, seed=3, max_train_iter=limit)

    whole, halves = whole_and_halves(run, "guided_cost", 16)
    assert whole == halves


def test_a_resumed_run_keeps_its_demonstrations():
    expert = str(FOLDER / "cartpole_dqn_config.py")
    settings = {"collect_count": 70, "expert_model_path": expert_checkpoint()}
    serial_pipeline_gail(resumable("dqn_gail", 20, **settings), expert, seed=3, max_train_iter=20)
    before = Path("e/expert_data.pkl").read_bytes()
    snapshot = str(newest_good_snapshot("e"))
    # With another seed the expert would play something else.
    serial_pipeline_gail(resumable("dqn_gail", 20, snapshot, **settings), expert, seed=4, max_train_iter=40)
    assert Path("e/expert_data.pkl").read_bytes() == before


@pytest.mark.parametrize("type_", ["red", "pwil", "pdeil"])
def test_half_and_half_is_the_whole_with_demonstrations(type_):
    expert = read_config(FOLDER / "cartpole_dqn_config.py")
    collect_demo_data(expert, 0, 30, "data.pkl", state_dict_path=expert_checkpoint())
    # The expert's steps are drawn from the file, by chance.
    sizes = {"red": {"input_size": 5}, "pwil": {"s_size": 4, "a_size": 1}, "pdeil": {"discrete_action": True}}
    own = {"type": type_, "expert_data_path": "data.pkl", **sizes[type_]}
    own |= {} if type_ == "pdeil" else {"sample_size": 20}

    def run(pair, limit):
        main, create = pair
        main.reward_model, create.reward_model.type = own, type_
        serial_pipeline_reward_model_offpolicy((main, create), seed=3, max_train_iter=limit)

    whole, halves = whole_and_halves(run, "dqn_rnd", 10)
    assert whole == halves


def test_a_ranked_model_learns_once(monkeypatch):
    trainings = []
    monkeypatch.setattr(TrexRewardModel, "train", lambda self: trainings.append(1))
    main, create = config("dqn_trex")
    main.policy.learn.run_state_freq = 5
    serial_pipeline_trex((main, create), max_train_iter=5)
    state = read_file("e/reward_model/ckpt/ckpt_last.pth.tar")
    main.policy.learn.resume_training = True
    main.policy.learn.learner = {"hook": {"load_ckpt_before_run": str(newest_good_snapshot("e"))}}
    serial_pipeline_trex((main, create), seed=1, max_train_iter=10)
    assert len(trainings) == 1
    again = read_file("e/reward_model/ckpt/ckpt_last.pth.tar")
    assert all(torch.equal(value, again["model"][key]) for key, value in state["model"].items())


@pytest.mark.parametrize("beside", [True, False])
def test_a_snapshot_of_an_older_release_has_no_reward_model(beside, caplog):
    serial_pipeline_reward_model_onpolicy(resumable("ppo_rnd", 16), seed=3, max_train_iter=16)
    snapshot = newest_good_snapshot("e")
    tree, learner = read_tree(snapshot / STATE, FILE_KIND), (snapshot / LEARNER).read_bytes()
    del tree["reward_model"]
    parts = {
        STATE: lambda target: write_tree(target, tree, FILE_KIND),
        LEARNER: lambda target: Path(target).write_bytes(learner),
    }
    write_parts(snapshot, parts, {})
    if not beside:
        shutil.rmtree("e/reward_model")
    serial_pipeline_reward_model_onpolicy(resumable("ppo_rnd", 16, str(snapshot)), seed=4, max_train_iter=32)
    assert "snapshot_16 holds no reward model, which is not taken up" in caplog.text
    expected = "goes on with what it had learned" if beside else "the reward model begins anew"
    assert expected in caplog.text


def test_a_model_of_the_users_does_not_keep_a_run_from_being_saved(caplog, monkeypatch):
    monkeypatch.setattr(RndRewardModel, "collected_state", lambda self: {"mine": object()})
    serial_pipeline_reward_model_onpolicy(resumable("ppo_rnd", 16), seed=3, max_train_iter=16)
    assert "the reward model is not saved: " in caplog.text
    snapshot = str(newest_good_snapshot("e"))
    assert snapshot.endswith("snapshot_16")
    serial_pipeline_reward_model_onpolicy(resumable("ppo_rnd", 16, snapshot), seed=3, max_train_iter=32)
    assert "holds no reward model" in caplog.text


class Plain(BaseRewardModel):
    """A model of a user's that keeps no config."""

    config: ClassVar = {}
    trainings: ClassVar[list[int]] = []
    estimates: ClassVar[list[int]] = []

    def __init__(self, config, device, tb_logger):
        self.samples = []

    def collect_data(self, data):
        self.samples += [float(row["reward"]) for row in data]

    def train(self):
        self.trainings.append(len(self.samples))

    def estimate(self, data):
        changed = deepcopy(data)
        for row in changed:
            row["reward"] = row["reward"] * 0 + 5
        self.estimates.append(len(data))
        return changed

    def clear_data(self):
        self.samples = []


def test_a_model_of_the_users_needs_no_config(monkeypatch):
    monkeypatch.setattr(Plain, "trainings", [])
    monkeypatch.setattr(Plain, "estimates", [])
    REWARD_MODEL_REGISTRY.register("plain_rewards", Plain, force_overwrite=True)
    main, create = config("dqn_rnd")
    main.reward_model = create.reward_model = EasyDict(type="plain_rewards")
    main.policy.collect.n_sample, main.policy.learn.batch_size, main.policy.learn.update_per_collect = 16, 8, 1
    main.policy.nstep = 1
    serial_pipeline_reward_model_offpolicy((main, create), max_env_step=32)
    assert set(Plain.trainings) == {16}
    assert Plain.estimates == [8, 8]


def test_the_models_of_a_family_are_checked():
    main, create = ngu_config()
    main.episodic_reward_model.type = "rnd-ngu"
    with pytest.raises(ConfigValueError, match=r"episodic_reward_model\.type: 'rnd-ngu' is no EpisodicNGURewardModel"):
        serial_pipeline_ngu((main, create))
    del main["rnd_reward_model"], create["rnd_reward_model"]
    with pytest.raises(ConfigValueError, match="rnd_reward_model is missing"):
        serial_pipeline_ngu((main, create))


def test_the_kind_of_the_policy_and_the_model_are_checked():
    with pytest.raises(ConfigValueError, match="serial_pipeline_reward_model_onpolicy"):
        serial_pipeline_reward_model_offpolicy(config("ppo_rnd"))
    main, create = config("dqn_rnd")
    del create["reward_model"], main["reward_model"]
    with pytest.raises(ConfigValueError, match=r"create_config\.reward_model is missing"):
        serial_pipeline_reward_model_offpolicy((main, create))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_the_stop_value_is_reached(name):
    CASES[name](config(name), max_env_step=100_000)
    assert json.loads(Path("e/result.json").read_text())["stop"]


@pytest.mark.slow
def test_the_stop_value_of_a_family_is_reached():
    main, create = read_config(FOLDER / "cartpole_ngu_config.py")
    main.exp_name = "e"
    serial_pipeline_ngu((main, create), max_env_step=200_000)
    assert json.loads(Path("e/result.json").read_text())["stop"]
