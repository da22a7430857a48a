"""The real thing: DQN on CartPole, a few hundred env steps."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import ding
from ding.config import ConfigValueError, UnknownTypeError, read_config, read_config_directly
from ding.entry import eval as evaluate
from ding.entry import plot, serial_pipeline, serial_pipeline_offline, serial_pipeline_reward_model_offpolicy
from ding.entry.cli import cli
from ding.entry.pipelines.reward_model import serial_pipeline_ngu
from ding.entry.serial.run_state import newest_good_snapshot
from ding.entry.view.plot import learning_curves
from ding.utils.checkpoint import read_checkpoint
from ding.utils.data import DatasetError
from ding.utils.file_helper import read_file

CONFIG_FILE = Path(ding.__file__).parents[1] / "configs" / "cartpole" / "cartpole_dqn_config.py"
STEPS = 160


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def config():
    main, create = read_config(CONFIG_FILE)
    main, create = deepcopy(main), deepcopy(create)
    main.exp_name = "e"
    main.policy.eval.evaluator.eval_freq = 20
    main.env.stop_value = 10**9
    return main, create


def weights(policy):
    return policy.learn_mode.state_dict()["model"]


def equal(a, b):
    return list(a) == list(b) and all(torch.equal(a[name], b[name]) for name in a)


def test_the_same_seed_gives_the_same_parameters_also_from_the_saved_config(config):
    first = weights(serial_pipeline(config, seed=3, max_env_step=STEPS))
    again = weights(serial_pipeline(config, seed=3, max_env_step=STEPS))
    assert equal(first, again)
    for name in ("total_config.py", "formatted_total_config.py"):
        main, create = read_config(Path("e") / name)
        assert main.seed == 3
        assert equal(first, weights(serial_pipeline((main, create), seed=main.seed, max_env_step=STEPS)))
    other = weights(serial_pipeline(config, seed=4, max_env_step=STEPS))
    assert not equal(first, other)


@pytest.mark.parametrize("manager", ["base_v2", "subprocess", "subprocess_v2"])
def test_the_env_manager_makes_no_difference(config, manager):
    expected = weights(serial_pipeline(config, seed=3, max_env_step=STEPS))
    config[1].env_manager.type = manager
    assert equal(expected, weights(serial_pipeline(config, seed=3, max_env_step=STEPS)))


def test_what_a_run_leaves_behind(config, tmp_path):
    before = deepcopy(config)
    serial_pipeline(config, max_env_step=STEPS)
    assert config == before
    exp = tmp_path / "e"
    result = json.loads((exp / "result.json").read_text())
    evaluations = {"eval_value", "eval_value_raw", "last_evaluation", "best_evaluation"}
    assert set(result) == {"stop", "env_step", "train_iter", "finish_time"} | evaluations
    assert (result["stop"], result["env_step"]) == (False, STEPS)
    # 8 samples per pass, a batch of 64: the first 7 passes collect only.
    assert result["train_iter"] == (STEPS // 8 - 7) * 5
    assert len(result["eval_value_raw"]) == 5
    assert result["eval_value"] == pytest.approx(sum(result["eval_value_raw"]) / 5)
    names = {path.relative_to(exp).as_posix() for path in exp.rglob("*") if path.is_file()}
    for name in (
        "total_config.py",
        "formatted_total_config.py",
        "ckpt/ckpt_best.pth.tar",
        f"ckpt/iteration_{result['train_iter']}.pth.tar",
        "log/learner/learner_logger.txt",
        "log/collector/collector_logger.txt",
        "log/evaluator/evaluator_logger.txt",
    ):
        assert name in names
    checkpoint = read_file(str(exp / "ckpt" / f"iteration_{result['train_iter']}.pth.tar"))
    assert (checkpoint["last_iter"], checkpoint["last_step"]) == (result["train_iter"], STEPS)
    (curve,) = learning_curves(["e"])
    assert curve.iqm[-1] == pytest.approx(result["eval_value"], rel=1e-5)
    assert plot(["e"]).is_file()


def test_an_absolute_folder_holds_all_of_a_run(config, tmp_path, monkeypatch):
    config[0].exp_name = str(tmp_path / "far" / "e")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    serial_pipeline(config, max_env_step=STEPS)
    assert list(Path().iterdir()) == []
    assert (tmp_path / "far" / "e" / "log" / "learner" / "learner_logger.txt").is_file()


def test_a_checkpoint_is_gone_on_from(config):
    policy = serial_pipeline(config, max_env_step=STEPS)
    (last,) = [p for p in Path("e/ckpt").glob("iteration_*.pth.tar") if p.name != "iteration_0.pth.tar"]
    main, create = config
    main.policy.learn.resume_training = True
    main.policy.learn.learner = {"hook": {"load_ckpt_before_run": str(last)}}
    resumed = serial_pipeline((main, create), max_env_step=STEPS)
    assert equal(weights(policy), weights(resumed))
    saved = json.loads(Path("e/result.json").read_text())
    assert (saved["env_step"], saved["train_iter"]) == (STEPS, 65)
    serial_pipeline((main, create), max_env_step=2 * STEPS)
    assert json.loads(Path("e/result.json").read_text())["env_step"] == 2 * STEPS
    assert Path("e/resumed_config.py").is_file()
    assert not read_config(Path("e/total_config.py"))[0].policy.learn.resume_training


def test_random_collect_counts_its_env_steps(config):
    config[0].policy.random_collect_size = 64
    serial_pipeline(config, max_env_step=STEPS)
    result = json.loads(Path("e/result.json").read_text())
    assert result["env_step"] == STEPS
    assert result["train_iter"] == (STEPS - 64) // 8 * 5


def test_a_solved_run_stops(config):
    config[0].env.stop_value = 1
    serial_pipeline(config)
    result = json.loads(Path("e/result.json").read_text())
    assert result["stop"] is True
    assert 0 < result["train_iter"] <= 25


def test_eval_gives_the_return_of_the_checkpoint(config):
    serial_pipeline(config, max_env_step=STEPS)
    first = evaluate(config, seed=5, load_path="e/ckpt/ckpt_best.pth.tar")
    assert first == evaluate(config, seed=5, load_path="e/ckpt/ckpt_best.pth.tar")
    assert 8 <= first <= 500
    config[0].policy.learn.learner = {"load_path": "e/ckpt/ckpt_best.pth.tar"}
    assert evaluate(config, seed=5) == first
    with pytest.raises(ConfigValueError, match="there is no checkpoint nowhere"):
        evaluate(config, load_path="nowhere")


def test_mistakes_in_the_pair_are_told(config):
    with pytest.raises(ConfigValueError, match="a path or a pair"):
        serial_pipeline(({},))
    with pytest.raises(ConfigValueError, match=r"create_config\.policy\.type is missing"):
        serial_pipeline((config[0], {}))
    config[1].policy.type = "dqnn"
    with pytest.raises(UnknownTypeError, match=r"no policy is registered as 'dqnn'\. Did you mean"):
        serial_pipeline(config)
    assert not Path("e").exists()


def test_an_error_of_the_env_comes_through_and_everything_is_closed(config):
    from ding.envs import DingEnvWrapper

    closed = []

    class Failing(DingEnvWrapper):
        def step(self, action):
            raise ValueError("the env is broken")

        def close(self):
            closed.append(self)
            super().close()

    cfgs = [config[0].env] * 2
    config[0].env.n_evaluator_episode = 2
    with pytest.raises(Exception, match="the env is broken"):
        serial_pipeline(config, env_setting=(Failing, cfgs, cfgs), max_env_step=STEPS)
    assert len(closed) >= 4


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_checkpoints_and_says_how_to_go_on(signum, code, tmp_path):
    text = (
        CONFIG_FILE.read_text()
        .replace("stop_value=195", "stop_value=10**9")
        .replace('type="base"', 'type="subprocess"')
    )
    (tmp_path / "endless_config.py").write_text(text)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "ding.entry", "-m", "serial", "-c", "endless_config.py", "-s", "0"]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    lines = []
    for line in run.stderr:
        lines.append(line)
        if "env step" in line and not line.split("train iter ")[1].startswith("0 "):
            run.send_signal(signum)
            break
    lines += run.communicate(timeout=60)[0:2]
    assert run.returncode == code, "".join(lines)
    (hint,) = [line for text in lines for line in text.splitlines() if "go on with: " in line]
    words = hint.split("go on with: ")[1].split()
    assert words[:3] == ["ding", "-m", "serial"]
    assert words[words.index("--resume") + 1] == "cartpole_dqn_seed0"
    checkpoint = read_checkpoint(newest_good_snapshot("cartpole_dqn_seed0"))
    assert checkpoint["last_iter"] > 0
    limit = str(checkpoint["last_step"] + 80)
    resumed = CliRunner().invoke(cli, [*words[1:], "--env-step", limit])
    assert resumed.exit_code == 0, resumed.stderr
    result = json.loads(Path("cartpole_dqn_seed0/result.json").read_text())
    assert result["env_step"] == int(limit)
    assert result["train_iter"] > checkpoint["last_iter"]


def test_the_config_solves_cartpole():
    serial_pipeline(CONFIG_FILE, seed=0, max_env_step=3000)
    result = json.loads(Path("cartpole_dqn_seed0/result.json").read_text())
    assert result["stop"] is True
    assert result["eval_value"] >= 195
    assert read_config_directly("cartpole_dqn_seed0/total_config.py")["main_config"].seed == 0


def test_eval_writes_videos(config):
    if importlib.util.find_spec("imageio_ffmpeg") is None and importlib.util.find_spec("cv2") is None:
        pytest.skip("no video writer is installed")
    config[0].env.evaluator_env_num = config[0].env.n_evaluator_episode = 2
    serial_pipeline(config, max_env_step=STEPS)
    evaluate(config, load_path="e/ckpt/ckpt_best.pth.tar", replay_path="videos")
    for number in range(2):
        assert [file.name for file in Path(f"videos/env{number}").iterdir()] == ["CartPole-v1-episode-0.mp4"]


def test_a_run_that_its_config_forbids_leaves_no_folder(config):
    config[0].policy.model.obs_shape = 5
    with pytest.raises(ConfigValueError, match=r"policy\.model\.obs_shape is 5"):
        serial_pipeline(config)
    with pytest.raises(ConfigValueError, match="there is no checkpoint nowhere"):
        evaluate(config, load_path="nowhere")
    assert not Path("e").exists()
    config[0].policy.model.obs_shape = 4
    serial_pipeline(config, max_env_step=STEPS)
    assert Path("e/result.json").is_file()


@pytest.mark.parametrize(
    ("pipeline", "sentence"),
    [
        (serial_pipeline_offline, r"policy\.collect\.data_type is missing"),
        (serial_pipeline_ngu, r"rnd_reward_model is missing"),
        (serial_pipeline_reward_model_offpolicy, r"reward_model is missing"),
    ],
)
def test_a_pipeline_that_lacks_a_section_leaves_no_folder(config, pipeline, sentence):
    with pytest.raises((ConfigValueError, DatasetError), match=sentence):
        pipeline(config, max_train_iter=1)
    assert not Path("e").exists()


def test_a_wrong_config_takes_nothing_away_from_a_folder_that_was_used(config):
    serial_pipeline(config, max_env_step=STEPS)
    before = sorted(Path("e").rglob("*"))
    main, create = config
    main.policy.model.obs_shape = 5
    main.policy.learn.resume_training = True
    with pytest.raises(ConfigValueError, match=r"policy\.model\.obs_shape is 5"):
        serial_pipeline((main, create))
    configs = {Path("e/resumed_config.py"), Path("e/formatted_resumed_config.py")}
    assert sorted(set(Path("e").rglob("*")) - configs) == before
