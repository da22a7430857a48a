"""A run is a function of its seed, and a run that is saved and taken up is the run that went on."""

import hashlib
import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from easydict import EasyDict

import ding
from ding.config import read_config
from ding.data.safe_file import read_tree
from ding.entry import (
    serial_pipeline,
    serial_pipeline_bco,
    serial_pipeline_dqfd,
    serial_pipeline_onpolicy,
    serial_pipeline_r2d3,
    serial_pipeline_sqil,
)
from ding.entry.cli import cli
from ding.entry.serial.run_state import newest_good_snapshot
from ding.envs import DingEnvWrapper
from ding.envs.env.state import EnvStateError
from ding.utils.checkpoint import read_manifest
from ding.utils.data import naive_save
from ding.worker import SampleSerialCollector
from tests.entry.serial.test_expert_path import prepared

CONFIGS = Path(ding.__file__).parents[1] / "configs" / "cartpole"
CONFIG = {
    "exp_name": "exact",
    "env": {
        "env_id": "CartPole-v1",
        "collector_env_num": 4,
        "evaluator_env_num": 2,
        "n_evaluator_episode": 2,
        "stop_value": 1e9,
    },
    "policy": {
        "model": {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [16, 16]},
        "nstep": 3,
        "priority": True,
        "priority_IS_weight": True,
        "learn": {"update_per_collect": 2, "batch_size": 16, "target_update_freq": 7},
        "collect": {"n_sample": 16},
        "eval": {"evaluator": {"eval_freq": 15}},
        "other": {"eps": {"decay": 500}, "replay_buffer": {"type": "advanced", "replay_buffer_size": 200}},
    },
}
CREATE = {
    "env": {"type": "gymnasium", "import_names": ["ding.envs"]},
    "env_manager": {"type": "base"},
    "policy": {"type": "dqn"},
}


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def config(exp_name: str, **learn) -> tuple[EasyDict, EasyDict]:
    main = EasyDict(deepcopy(CONFIG))
    main.exp_name = exp_name
    main.policy.learn.update(learn)
    return main, EasyDict(deepcopy(CREATE))


def digest(checkpoint: Path) -> str:
    """Of all that a checkpoint and the snapshot beside it hold."""
    return digest_of(checkpoint.with_name(checkpoint.name.removesuffix(".pth.tar").replace("iteration", "snapshot")))


def digest_of(snapshot: Path, evaluated_as_often: bool = True) -> str:
    """Of the learner and the rest of the run in a snapshot.

    A run that ended and was resumed has evaluated once more than one that went on: its best may be another one.
    """
    manifest = read_manifest(snapshot)
    learned = torch.load(manifest.path("learner.pth.tar"), weights_only=True)
    state = read_tree(manifest.path("state.safetensors"), "ding.run_state")
    if not evaluated_as_often:
        del state["evaluator"]["best_evaluation"], state["evaluator"]["max_episode_return"]
    # Wall-clock times are no part of the run.
    for one in (state, *([state["expert"]] if "expert" in state else [])):
        # That of a run that collects nothing is empty.
        one["collector"].pop("total_duration", None)
        for episode in one["collector"].get("episode_info", []):
            del episode["time"]
    hashed = hashlib.sha256()
    feed(hashed, {"learned": learned, "state": state})
    return hashed.hexdigest()


def feed(hashed, value) -> None:
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            hashed.update(repr(key).encode())
            feed(hashed, value[key])
    elif isinstance(value, (list, tuple)):
        for item in value:
            feed(hashed, item)
    elif isinstance(value, (torch.Tensor, np.ndarray)):
        array = np.ascontiguousarray(value)
        hashed.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    else:
        hashed.update(repr(value).encode())


def resumed_config(pair, exp_name: str):
    """Have a config go on from the newest snapshot of an experiment."""
    main, create = pair
    main.policy.learn.learner = EasyDict(hook={"load_ckpt_before_run": str(newest_good_snapshot(exp_name))})
    return main, create


def resumed(exp_name: str, **learn) -> tuple[EasyDict, EasyDict]:
    return resumed_config(config(exp_name, resume_training=True, **learn), exp_name)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("buffer", ["advanced", "naive"])
def test_the_same_seed_gives_the_same_run(seed, buffer) -> None:
    digests = []
    for name in ("a", "b"):
        main, create = config(name, run_state_freq=40)
        main.policy.other.replay_buffer.type = buffer
        if buffer == "naive":
            main.policy.priority = main.policy.priority_IS_weight = False
        serial_pipeline((main, create), seed=seed, max_train_iter=40)
        digests.append(digest(Path(name) / "ckpt" / "iteration_40.pth.tar"))
    assert digests[0] == digests[1]


def test_other_seeds_give_other_runs() -> None:
    digests = set()
    for seed in range(2):
        serial_pipeline(config(f"s{seed}", run_state_freq=40), seed=seed, max_train_iter=40)
        digests.add(digest(Path(f"s{seed}") / "ckpt" / "iteration_40.pth.tar"))
    assert len(digests) == 2


@pytest.mark.parametrize("in_new_process", [False, True])
def test_half_and_half_is_the_whole(in_new_process) -> None:
    serial_pipeline(config("whole", run_state_freq=40), seed=3, max_train_iter=80)
    serial_pipeline(config("parts", run_state_freq=40), seed=3, max_train_iter=40)
    snapshot = newest_good_snapshot("parts")
    assert str(snapshot).endswith("snapshot_40")
    assert read_manifest(snapshot).notes["episodes"] == "go on"
    ongoing = read_tree(snapshot / "state.safetensors", "ding.run_state")["ongoing"]
    assert ongoing["episodes"]["steps"].any(), "no env was in the middle of an episode"
    if in_new_process:
        words = [sys.executable, "-m", "ding.entry", "-m", "serial", "--load-path", "parts", "--train-iter", "80"]
        done = subprocess.run(
            [*words, "--quiet", "-s", "3"], capture_output=True, text=True, timeout=120, env={**os.environ}
        )
        assert done.returncode == 0, done.stderr
    else:
        serial_pipeline(resumed("parts", run_state_freq=40), seed=3, max_train_iter=80)
    whole, parts = (Path(name) / "ckpt" / "iteration_80.pth.tar" for name in ("whole", "parts"))
    assert digest(whole) == digest(parts)
    results = [json.loads((Path(name) / "result.json").read_text()) for name in ("whole", "parts")]
    for result in results:
        del result["finish_time"]
    assert results[0] == results[1]


class Unknown(DingEnvWrapper):
    """An env of the user's: what its state is, nobody knows."""


def test_without_a_state_of_the_envs_both_begin_new_episodes() -> None:
    def run(cfg, max_train_iter: int) -> None:
        envs = [{"env_id": "CartPole-v1"}] * 4
        serial_pipeline(cfg, seed=3, max_train_iter=max_train_iter, env_setting=(Unknown, envs, envs[:2]))

    run(config("whole", run_state_freq=20), 40)
    run(config("parts", run_state_freq=20), 20)
    noted = read_manifest(newest_good_snapshot("parts")).notes["episodes"]
    assert noted.startswith("begin anew: ")
    assert "Unknown" in noted
    run(resumed("parts", run_state_freq=20), 40)
    whole, parts = (Path(name) / "ckpt" / "iteration_40.pth.tar" for name in ("whole", "parts"))
    assert digest(whole) == digest(parts)


# Raised by torch when its compiler is imported.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
@pytest.mark.parametrize("setting", ["record", pytest.param(True, marks=pytest.mark.slow)])
def test_half_and_half_is_the_whole_with_updates_as_graphs(setting, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))

    def joined(configs: tuple[EasyDict, EasyDict]) -> tuple[EasyDict, EasyDict]:
        main, create = configs
        main.policy.learn.compile = setting
        # Without priorities both updates of a pass are one call.
        main.policy.priority = main.policy.priority_IS_weight = False
        return main, create

    serial_pipeline(joined(config("whole", run_state_freq=20)), seed=3, max_train_iter=40)
    serial_pipeline(joined(config("parts", run_state_freq=20)), seed=3, max_train_iter=20)
    serial_pipeline(joined(resumed("parts", run_state_freq=20)), seed=3, max_train_iter=40)
    whole, parts = (Path(name) / "ckpt" / "iteration_40.pth.tar" for name in ("whole", "parts"))
    assert digest(whole) == digest(parts)


def test_old_states_are_removed_and_checkpoints_stay() -> None:
    serial_pipeline(config("many", run_state_freq=10), seed=0, max_train_iter=50)
    snapshots = sorted(path.name for path in Path("many/ckpt").glob("snapshot_*"))
    assert snapshots == ["snapshot_40", "snapshot_50"]
    assert Path("many/ckpt/iteration_10.pth.tar").is_file()


def test_killed_before_a_snapshot_is_whole_the_one_before_is_taken(monkeypatch) -> None:
    class Killed(BaseException):
        pass

    real = os.replace

    def replace_or_die(source, target):
        if str(target).endswith("snapshot_40/manifest.json"):
            raise Killed
        real(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", replace_or_die)
        with pytest.raises(Killed):
            serial_pipeline(config("killed", run_state_freq=20), seed=5, max_train_iter=60)
    assert Path("killed/ckpt/snapshot_40").is_dir()
    assert str(newest_good_snapshot("killed")).endswith("snapshot_20")
    serial_pipeline(resumed("killed", run_state_freq=20), seed=5, max_train_iter=60)
    serial_pipeline(config("undisturbed", run_state_freq=20), seed=5, max_train_iter=60)
    assert digest(Path("killed/ckpt/iteration_60.pth.tar")) == digest(Path("undisturbed/ckpt/iteration_60.pth.tar"))


def test_a_folder_without_a_state_is_told() -> None:
    Path("empty/ckpt").mkdir(parents=True)
    Path("empty/total_config.py").write_text("main_config = {}\ncreate_config = {'policy': {'type': 'dqn'}}\n")
    result = CliRunner().invoke(cli, ["-m", "serial", "--load-path", "empty"])
    assert result.exit_code == 2
    assert "holds neither a snapshot nor a checkpoint" in result.output


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("name", ["dqfd", "r2d3", "sqil"])
def test_half_and_half_is_the_whole_beside_an_expert(name, goes_on, monkeypatch) -> None:
    if not goes_on:
        monkeypatch.setattr(SampleSerialCollector, "ongoing_state", raise_no_state)
    pipeline = {"dqfd": serial_pipeline_dqfd, "r2d3": serial_pipeline_r2d3, "sqil": serial_pipeline_sqil}[name]
    half, digests = 12, []
    expert = prepared(name)  # with weights by chance
    for exp_name, limits in (("whole", (2 * half,)), ("parts", (half, 2 * half))):
        snapshot = None
        for limit in limits:
            main, create = deepcopy(expert)
            main.exp_name, main.env.stop_value, main.policy.learn.run_state_freq = exp_name, 1e9, 4
            if snapshot is not None:
                hook = {"hook": {"load_ckpt_before_run": str(snapshot)}}
                main.policy.learn.update(resume_training=True, learner=EasyDict(hook))
            pipeline((main, create), expert, seed=3, max_train_iter=limit)
            snapshot = newest_good_snapshot(exp_name)
            assert read_manifest(snapshot).notes["episodes"].startswith("go on" if goes_on else "begin anew")
        digests.append((snapshot.name, digest_of(snapshot)))
    assert digests[0] == digests[1]


@pytest.mark.parametrize(("name", "half"), [("ppg", 12), ("ppg_onpolicy", 10)])
def test_half_and_half_is_the_whole_of_phases(name, half) -> None:
    run = serial_pipeline_onpolicy if name == "ppg_onpolicy" else serial_pipeline
    digests = []
    for exp_name, limits in (("whole", (2 * half,)), ("parts", (half, 2 * half))):
        snapshot = None
        for limit in limits:
            main, create = read_config(CONFIGS / f"cartpole_{name}_config.py")
            main.exp_name, main.env.stop_value, main.env.n_evaluator_episode = exp_name, 1e9, 2
            main.env.collector_env_num = main.env.evaluator_env_num = 2
            main.policy.collect.n_sample = 32
            main.policy.learn.update(batch_size=16, run_state_freq=half)
            # The second auxiliary phase goes through samples from before and after the snapshot.
            main.policy.learn.aux_freq = 7
            if snapshot is not None:
                hook = {"hook": {"load_ckpt_before_run": str(snapshot)}}
                main.policy.learn.update(resume_training=True, learner=EasyDict(hook))
            run((main, create), seed=3, max_train_iter=limit)
            snapshot = newest_good_snapshot(exp_name)
            state = read_tree(snapshot / "state.safetensors", "ding.run_state")
            assert state["kept_samples"]["batches"] or limit > half
        digests.append((snapshot.name, digest_of(snapshot)))
    assert digests[0] == digests[1]


def test_half_and_half_is_the_whole_of_cloning_observations() -> None:
    main, create = read_config(CONFIGS / "cartpole_bco_config.py")
    main.env.update(collector_env_num=2, evaluator_env_num=2, n_evaluator_episode=2, stop_value=1e9)
    main.policy.model.encoder_hidden_size_list = [8, 8]
    main.policy.collect.update(n_episode=8, model_path=None, data_path="d.pkl")
    main.policy.learn.update(batch_size=4, train_epoch=2, lr_decay=True, decay_epoch=2, warmup_epoch=1)
    main.bco.update(alpha=0.5)
    steps = [{"obs": np.full(4, t / 8, np.float32), "next_obs": np.full(4, (t + 1) / 8, np.float32)} for t in range(8)]
    episodes = [[{**step, "action": np.array([t % 2])} for t, step in enumerate(steps[:length])] for length in (3, 8)]
    half, digests = 12, []  # two passes of two epochs of three batches
    naive_save(episodes, "d.pkl")
    for exp_name, limits in (("whole", (2 * half,)), ("parts", (half, 2 * half))):
        snapshot = None
        for limit in limits:
            config = deepcopy(main)
            config.exp_name, config.policy.learn.run_state_freq = exp_name, half
            if snapshot is not None:
                hook = {"hook": {"load_ckpt_before_run": str(snapshot)}}
                config.policy.learn.update(resume_training=True, learner=EasyDict(hook))
                # Those of the run before are taken.
                naive_save(episodes[:1], "d.pkl")
            serial_pipeline_bco(
                (config, create), read_config(CONFIGS / "cartpole_dqn_config.py"), 3, max_train_iter=limit
            )
            snapshot = newest_good_snapshot(exp_name)
        digests.append((snapshot.name, digest_of(snapshot)))
    assert digests[0] == digests[1]


def raise_no_state(self) -> None:
    raise EnvStateError("has no state")
