"""What a user gets wrong is answered by one sentence, the lines of their own code, and the path of the whole traceback.

Each row is made on the command line; where it ends in a pipeline, the same mistake is made from Python, too, and the
exception has the same sentence.
"""

import errno
import os
import socket
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import ding
from ding.config import read_config, read_config_with_system
from ding.config.overrides import apply_overrides
from ding.entry import cli, parallel_pipeline, serial_pipeline
from ding.entry.view.failure import sentence_of

SERIAL = """
import numpy as np
from gymnasium.spaces import Box, Discrete

from ding.envs import BaseEnv, BaseEnvTimestep
from ding.utils import ENV_REGISTRY


@ENV_REGISTRY.register("mistaken")
class MistakenEnv(BaseEnv):
    def __init__(self, cfg):
        self.fault = cfg.get("fault")
        if self.fault == "init":
            raise RuntimeError("no display")
        self.observation_space = Box(-1, 1, (4,), np.float32)
        self.action_space = Box(-1, 1, (2,), np.float32) if self.fault == "box" else Discrete(2)
        self.reward_space = Box(-1, 1, (1,), np.float32)

    def seed(self, seed, dynamic_seed=True):
        pass

    def reset(self):
        self.steps = 0
        if self.fault == "reset":
            raise RuntimeError("the simulator is not there")
        obs = np.full(4, np.nan if self.fault == "reset nan" else 0, np.float32)
        return obs[:2] if self.fault == "reset shape" else obs

    def step(self, action):
        self.steps += 1
        if self.fault == "step":
            self.lookup()
        obs = np.full(4, np.nan if self.fault == "step nan" else 0, np.float32)
        obs = obs.astype(np.complex64) if self.fault == "complex" else obs
        obs = obs[:2] if self.fault == "step shape" else obs
        done = self.steps == 5
        reward = np.array([np.nan if self.fault == "reward nan" else 1], np.float32)
        if self.fault == "reward text":
            reward = "much"
        if self.fault == "five values":
            return obs, reward, done, False, {}
        info = {} if self.fault == "no return" else {"eval_episode_return": 5.0}
        return BaseEnvTimestep(obs, reward, done, info if done else {})

    def lookup(self):
        return {}["the key"]

    def close(self):
        pass

    def __repr__(self):
        return "MistakenEnv"


main_config = dict(
    exp_name="exp",
    env=dict(collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1, stop_value=195),
    policy=dict(
        model=dict(obs_shape=4, action_shape=2, encoder_hidden_size_list=[4]),
        learn=dict(update_per_collect=1, batch_size=8),
        collect=dict(n_sample=8),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(eps=dict(start=0.9, end=0.1, decay=1000), replay_buffer=dict(replay_buffer_size=100)),
    ),
)
create_config = dict(env=dict(type="mistaken"), env_manager=dict(type="base"), policy=dict(type="dqn"))
"""

# A key of the config -> how the sentence begins.
MISTAKES = {
    "policy.learn.batch_size=101": "policy.learn.batch_size is 101, but the replay buffer holds 100 rows at most: make",
    "policy.collect.n_sample=10**9": "policy.collect.n_sample: expected a whole number of at least 1, got '10**9'",
    "policy.collect.n_sample=1000000000": "policy.collect.n_sample is 1000000000, but the replay buffer holds 100 rows",
    "policy.other.replay_buffer.replay_buffer_start_size=200": "policy.other.replay_buffer.replay_buffer_start_size is",
    "policy.other.replay_buffer.replay_buffer_size=0.1": "policy.other.replay_buffer.replay_buffer_size: expected a",
    "policy.other.eps.decay=0": "policy.other.eps.decay: expected a number of at least 1, got 0",
    "policy.other.eps.start=2": "policy.other.eps.start: expected a number between 0 and 1, got 2",
    "policy.learn.batch_size=0": "policy.learn.batch_size: expected a whole number of at least 1, got 0",
    "policy.learn.batch_size=many": "policy.learn.batch_size: expected a whole number of at least 1, got 'many'",
    "policy.learn.update_per_collect=1.5": "policy.learn.update_per_collect: expected a whole number of at least 1,",
    "policy.learn.learning_rate=-1": "policy.learn.learning_rate: expected a number of at least 0, got -1",
    "policy.discount_factor=2": "policy.discount_factor: expected a number between 0 and 1, got 2",
    "policy.nstep=0": "policy.nstep: expected a whole number of at least 1, got 0",
    "policy.nstep.x=0": "policy.nstep: expected a whole number of at least 1, got {'x': 0}",
    "policy.eval.evaluator.eval_freq=-2": "policy.eval.evaluator.eval_freq: expected a whole number of at least -1,",
    "policy.learn.target_update_freq=2.5": "policy.learn.target_update_freq: expected a whole number of at least 1",
    "policy.learn.learner.hook.log_show_after_iter=0": "policy.learn.learner.hook.log_show_after_iter: expected a",
    "policy.other.replay_buffer.alpha=-1": "alpha must be a number in [0, 1], got -1",
    "env.manager.max_retry=-1": "env.manager.max_retry: expected a whole number of at least 0, got -1",
    "create_config.env_manager.max_retry=1.5": "create_config.env_manager.max_retry: expected a whole number of at",
    "env.collector_env_num=0": "env.collector_env_num: expected a whole number of at least 1, got 0",
    "env.evaluator_env_num=3": "env.n_evaluator_episode is 1, but env.evaluator_env_num is 3: each env plays an",
    "policy.learn=3": "policy.learn: expected a dict, got 3",
    "nonsense=1": "nonsense: the config has no such key. ",
    "batch_sise=7": "batch_sise: the config has no such key. Did you mean 'batch_size'?",
    "type=7": "type: give one of ",
    "run_state_freq=-1": "policy.learn.run_state_freq: expected a whole number of at least 0, got -1",
    "run_state_evry_s=1": "run_state_evry_s: the config has no such key. Did you mean 'run_state_every_s'?",
    "policy.learn.bach_size=3": "the config has unknown keys: policy.learn.bach_size=3: did you mean policy.learn.b",
    "policy.learn.nonsense=3": "the config has unknown keys: policy.learn.nonsense=3: DQN",
    "polciy.learn.batch_size=7": "polciy.learn.batch_size: main_config has no section 'polciy'. Did you mean 'policy'?",
    "create_config.polciy.type=dqn": "create_config.polciy.type: create_config has no section 'polciy'. Did you mean",
    "create_config.env_manager.auto_rest=1": "the config has unknown keys: create_config.env_manager.auto_rest=1: did",
    "learning_rate=[1, 2]": "policy.learn.learning_rate: expected a number of at least 0, got [1, 2]",
    "policy.learn.target_update_freq=[1]": "policy.learn.target_update_freq: expected a whole number of at least 1,",
    "policy.collect.n_sample=(1, 2)": "policy.collect.n_sample: expected a whole number of at least 1, got (1, 2)",
    "policy.priority=[1]": "policy.priority: expected True or False, got [1]",
    "env=[1]": "env: expected a dict, got [1]",
    "policy.collect.n_sample=None": "how much to collect is unknown: pass n_sample, or set policy.collect.n_sample",
    "policy.cuda=yes": "policy.cuda: expected True or False, got 'yes'",
    "policy.model.obs_shape=5": "policy.model.obs_shape is 5, but observations of the env are (4,)",
    "policy.model.action_shape=3": "policy.model.action_shape is 3, but the env has 2 actions",
    "policy.model.activation=rleu": "policy.model.activation='rleu' is unknown. Did you mean 'relu'",
    "policy.model.activation=glu": "policy.model.activation='glu' needs sizes; choose another, such as 'relu'",
    "policy.model.encoder_hidden_size_list=[]": "policy.model: hidden_size_list must have at least one width, got []",
    "policy.model.encoder_hidden_size_list=[4, -1]": "policy.model.encoder_hidden_size_list: expected ints of at least",
    "policy.model.head_layer_num=1.5": "policy.model.head_layer_num: expected a whole number, got 1.5",
    "policy.model.norm_type=XX": "policy.model: unknown normalisation 'XX', known are BN, IN, LN, SyncBN (network DQN)",
    "env.fault=box": "policy.type 'dqn' has discrete actions here (network DQN), but the env has continuous",
    "create_config.policy.type=dqm": "create_config.policy.type: no policy is registered as 'dqm'. Did you mean 'dqn'",
    "create_config.policy=3": "create_config.policy.type is missing: it must be the name of a registered policy",
    "create_config.policy.type=ppo": "policy.type 'ppo' is on-policy: run it with serial_pipeline_onpolicy",
    "create_config.env.type=corridor": "create_config.env.type: no env is registered as 'corridor'.",
    "create_config.env_manager.type=bse": "create_config.env_manager.type: no env_manager is registered as 'bse'. Did",
    "create_config.env.import_names=['no_module']": "create_config.env.import_names: ",
    "create_config.comm_learner.type=flask_fs": "create_config.comm_learner: this is a config of the parallel mode;",
    "policy.collect.collector.type=smaple": "policy.collect.collector.type: no serial_collector is registered as",
    "policy.eval.evaluator.type=intraction": "policy.eval.evaluator.type: no serial_evaluator is registered as",
    "policy.other.replay_buffer.type=advancd": "policy.other.replay_buffer.type: no buffer is registered as 'advancd'.",
    "policy.learn.learner.hook.bad={'type':'x','name':'x','position':'after_run','priority':1}": "",
}
# What the env does -> how the sentence begins, and whether a line of the env is to blame.
FAULTS = {
    "init": ("RuntimeError: no display", True),
    "reset": (
        "Env 0 could not be reset: all 2 attempts failed, the last with RuntimeError: the simulator",
        True,
    ),
    "reset nan": (
        "Env 0 could not be reset: all 2 attempts failed, the last with bad data: NaN in the observation",
        False,
    ),
    "reset shape": (
        "Env 0 returned bad data: observation shape (2,) dtype float32 at its reset, expected shape (4,) dtype float32",
        False,
    ),
    "step": ("Env 0 step raised: KeyError: 'the key'", True),
    "step nan": ("Env 0 returned bad data: NaN in the observation", False),
    "step shape": ("Env 0 returned bad data: observation of shape (2,), expected (4,)", False),
    "complex": (
        "Env 0 returned bad data: observation of dtype complex64, expected float32",
        False,
    ),
    "reward nan": ("Env 0 returned bad data: NaN in the reward", False),
    "reward text": ("Env 0 returned bad data: ", False),
    "five values": ("Env 0 step raised: ValueError: too many values to unpack", False),
    "no return": ("env 0 ended an episode without info['eval_episode_return']: add the wrapper", False),
}
# Other options behind `ding -m serial -c config.py`.
OPTIONS = {
    "-s -1": "seed: expected a whole number between 0 and 4294967295, got -1",
    "-s 99999999999": "seed: expected a whole number between 0 and 4294967295, got 99999999999",
    "--strict -o policy.learn.bach_size=3": "the config has unknown keys: policy.learn.bach_size=3: did you mean",
    "--strict -o policy.learn.clip_ratio=0.2": "the config has unknown keys: policy.learn.clip_ratio=0.2: DQN",
    "-o policy.learn.optim_type=adamww": "policy.learn.optim_type='adamww' is unknown. Did you mean 'adamw'?",
    "-o policy.learn.batch_size": "-o policy.learn.batch_size: expected KEY=VALUE, such as policy.learn.batch_size=128",
    "-o policy..x=1": "-o policy..x=1: expected KEY=VALUE",
    "--exp-name config.py/exp": "exp_name: the experiment folder config.py/exp cannot be made: File exists; choose",
    "--load-path nothing": "--load-path: there is no checkpoint or experiment folder nothing",
    "--load-path other.pth.tar": "the checkpoint other.pth.tar does not fit the policy and its policy.model: ",
    "--load-path picture.pth.tar": "picture.pth.tar is no file of torch.save: it begins with the bytes b'\\x89PNG'",
}
# Other command lines.
LINES = {
    "": "which mode? give -m serial, -m parallel or -m eval, or a command such as plot; -h shows all options",
    "-m serail -c config.py": "-m serail: there is no such mode. Did you mean 'serial'?",
    "-m serial": "which config? give -c FILE, or -e ENV and -p POLICY for one of configs/",
    "-m serial -c no.py": "no.py: there is no such config file",
    "-m serial -c no.yaml": "no.yaml: a config file ends in .py, got '.yaml'",
    "-m serial -c syntax.py": "syntax.py:1: syntax error: ",
    "-m serial -c raises.py": "raises.py:1: NameError: name 'nothing' is not defined",
    "-m serial -c empty.py": "empty.py: the file defines no `main_config`.",
    "-m serial -c text.py": "text.py: `main_config` must be a dict, got str",
    "-m parallel -c config.py": "config.py: the file defines no `system_config`. A config without it is one of",
    "-m eval -c config.py": "no weights of the policy: give load_path (--load-path, or policy.learn.learner.load_path",
    "-m eval -c config.py --load-path no.pth.tar": "load_path (--load-path, or policy.learn.learner.load_path in the",
    "-m eval -c config.py --load-path picture.pth.tar": "picture.pth.tar is no file of torch.save: it begins with",
    "-m eval -c config.py --load-path exp": "load_path (--load-path, or policy.learn.learner.load_path in the config):",
    "-m eval -c config.py --load-path other.pth.tar": "the checkpoint does not fit the policy and its policy.model: ",
    "-m eval exp": "exp is no experiment folder: it has no total_config.py",
    "-m eval nothing": "--load-path: there is no checkpoint or experiment folder nothing",
    "-m eval seeds": "seeds holds the runs seed0, seed1: name one of them, such as seeds/seed0",
    "-m collect_demo_data -c config.py": "-m collect_demo_data: give --collect-count, the number of samples or",
    "-m dist -M lerner -c config.py": "-m dist: which module? -M lerner is none. Did you mean 'learner'?",
    "status nothing": "nothing/access.json: there is no such file, so no parallel run lasts there",
    "plot nothing": "nothing: there is no such folder",
    "-m serial --resume nothing": "--resume: there is no checkpoint or experiment folder nothing",
    "plot seeds --out curve.docx": "curve.docx: no picture can be written as .docx; known are ",
    "new config --policy dqn --env CartPole-v1 --out no/c.py": "no/c.py: there is no folder no to write to",
    "plot seeds": "no run has values under the tag 'evaluator_step/reward_mean'.",
}
# Of the parallel config for CartPole.
PARALLEL = {
    "policy.learn.batch_size=100001": "policy.learn.batch_size is 100001, but the replay buffer holds 100000 rows at",
    "policy.model.obs_shape=5": "policy.model.obs_shape is 5, but observations of the env are (4,)",
    "policy.model.action_shape=3": "policy.model.action_shape is 3, but the env has 2 actions",
    "policy.learn.learner.learner_num=0": "main_config.policy.learn.learner.learner_num must be",
    "policy.collect.collector.collector_num=none": "main_config.policy.collect.collector.collector_num",
    "policy.other.eps.decay=0": "policy.other.eps.decay: expected a number of at least 1, got 0",
    "env.stop_value=high": "main_config.env.stop_value must be a number, got 'high'",
    "create_config.comm_learner.type=flask": "create_config.comm_learner.type: no comm_learner is registered as",
    "create_config.comander.type=solo": "create_config.comander.type: create_config has no section 'comander'. Did you",
    "create_config.policy.type=dqm_command": "create_config.policy.type: no policy is registered as 'dqm'. Did you",
    "system_config.coordinator.port=70000": "system_config.coordinator.port must be",
    "batch_sise=7": "batch_sise: the config has no such key. Did you mean 'batch_size'?",
    "polciy.learn.batch_size=7": "polciy.learn.batch_size: main_config has no section 'polciy'. Did you mean 'policy'?",
    "policy.learn.bach_size=7": "the config has unknown keys: policy.learn.bach_size=7: did you mean policy.learn.batc",
    "system_config.coordnator.port=1": "system_config.coordnator: there is no such key; did you mean system_config.c",
    "system_config.communication_mode=smoke": "system_config.communication_mode",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.py").write_text(SERIAL)
    return tmp_path


def parallel_config():
    return str(Path(ding.__file__).resolve().parents[1] / "configs/cartpole/parallel/cartpole_dqn_config.py")


def shown(args, sentence, code):
    """Check one sentence, then only lines of the user's own code, then where the rest is; returns the lines of code."""
    result = CliRunner().invoke(cli, args)
    lines = [line for line in result.stderr.splitlines() if not line.startswith("[")]
    assert (result.exit_code, lines[0][: len(sentence) + 6], result.stdout) == (code, f"ding: {sentence}", "")
    if code == 1:
        assert "Traceback" in Path(lines.pop().removeprefix("the whole traceback is in ")).read_text()
    assert all(line.startswith("  config.py:") for line in lines[1:])
    return lines[0].removeprefix("ding: "), lines[1:]


def raised_in_python(key, pipeline, read, path, **limits):
    """The sentence of the exception, with one key of the config changed."""
    configs = read(path)
    names = ("main_config", "create_config", "system_config")

    def run() -> None:
        apply_overrides([key], dict(zip(names, configs)))
        pipeline(configs, **limits)

    with pytest.raises(Exception) as raised:
        run()
    return sentence_of(raised.value)


@pytest.mark.parametrize("key", MISTAKES)
def test_a_wrong_key(folder, key):
    sentence, lines = shown(["-m", "serial", "-c", "config.py", "--env-step", "9", "-o", key], MISTAKES[key], 2)
    assert lines == []
    assert raised_in_python(key, serial_pipeline, read_config, "config.py", max_env_step=9) == sentence
    assert not (folder / "exp").exists()


def test_a_gpu_that_is_not_there_is_an_error_with_strict(folder):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    args = ["-m", "serial", "-c", "config.py", "--env-step", "9", "-o", "policy.cuda=True"]
    sentence = "policy.cuda=True, but torch finds no CUDA device here: set it to 'auto' (the GPU where"
    shown([*args, "--strict"], sentence, 2)
    assert not (folder / "exp").exists()
    assert CliRunner().invoke(cli, args).exit_code == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_an_env_that_is_wrong(folder, fault):
    key, (begin, blamed) = f"env.fault={fault}", FAULTS[fault]
    sentence, lines = shown(["-m", "serial", "-c", "config.py", "--env-step", "20", "-o", key], begin, 1)
    assert bool(lines) == blamed
    assert raised_in_python(key, serial_pipeline, read_config, "config.py", max_env_step=20) == sentence


@pytest.mark.parametrize("options", OPTIONS)
def test_a_wrong_option(folder, options):
    torch.save({"model": {"weight": torch.zeros(2)}}, "other.pth.tar")
    (folder / "picture.pth.tar").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    _, lines = shown(["-m", "serial", "-c", "config.py", *options.split()], OPTIONS[options], 2)
    assert lines == []


@pytest.mark.parametrize("line", LINES)
def test_a_wrong_command_line(folder, line):
    (folder / "picture.pth.tar").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    for name, text in (
        ("syntax", "main_config = {"),
        ("raises", "nothing()"),
        ("empty", ""),
        ("text", "main_config = ''"),
    ):
        (folder / f"{name}.py").write_text(text + "\n")
    torch.save({"model": {"weight": torch.zeros(2)}}, "other.pth.tar")
    (folder / "exp" / "ckpt").mkdir(parents=True)
    for seed in (0, 1):
        (folder / "seeds" / f"seed{seed}").mkdir(parents=True)
        (folder / "seeds" / f"seed{seed}" / "total_config.py").touch()
    _, lines = shown(line.split(), LINES[line], 2)
    assert lines == []


@pytest.mark.parametrize("key", PARALLEL)
def test_a_wrong_key_of_the_parallel_mode(folder, key):
    path = parallel_config()
    sentence, _ = shown(["-m", "parallel", "-c", path, "-o", key], PARALLEL[key], 2)
    assert raised_in_python(key, parallel_pipeline, read_config_with_system, path) == sentence


def test_a_full_disk(folder, monkeypatch):
    real = os.fsync

    def full(descriptor):
        if "ckpt" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    sentence, lines = shown(
        ["-m", "serial", "-c", "config.py", "--env-step", "20"],
        f"[Errno {errno.ENOSPC}] no space for the checkpoint ",
        2,
    )
    assert lines == []


def test_a_port_that_is_taken(folder):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        sentence = f"system_config.coordinator: [Errno {errno.EADDRINUSE}] port {port} of 127.0.0.1 is taken; give"
        line = ["-m", "dist", "-M", "coordinator", "-c", parallel_config(), "-cdp", str(port)]
        shown(line, sentence, 2)


def test_there_are_sixty_mistakes():
    assert len([*MISTAKES, *FAULTS, *OPTIONS, *LINES, *PARALLEL]) >= 60
