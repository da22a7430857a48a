"""The command line: options, one-sentence errors, exit codes."""

import importlib
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

import ding
from ding.config import ConfigValueError
from ding.entry import RunInterrupted, cli
from ding.rollout import EvaluationResult

CONFIG = """
main_config = dict(exp_name='from_config', env=dict(stop_value=1), policy=dict(learn=dict(batch_size=2)))
create_config = dict(env=dict(type='x'), env_manager=dict(type='base'), policy=dict(type='dqn'))
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some_config.py").write_text(CONFIG)

    def invoke(*args):
        return CliRunner().invoke(cli, args)

    return invoke


@pytest.fixture
def pipeline(monkeypatch):
    """Replaces the pipeline by one that writes down its arguments."""
    calls = []

    def serial_pipeline(input_cfg, seed, **kwargs):
        kwargs.pop("view")
        calls.append((input_cfg[0], seed, kwargs))

    monkeypatch.setattr(ding.entry, "serial_pipeline", serial_pipeline)
    return calls


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (
            [],
            "ding: which mode? give -m serial, -m parallel or -m eval, or a command such as plot; -h shows all options",
        ),
        (["-m", "serail"], "ding: -m serail: there is no such mode. Did you mean 'serial'?"),
        (["status", "no"], "ding: no/access.json: there is no such file, so no parallel run lasts there"),
        (
            ["-m", "dist", "-M", "colector"],
            "ding: -m dist: which module? -M colector is none. Did you mean 'collector'?",
        ),
        (["-m", "serial"], "ding: which config? give -c FILE, or -e ENV and -p POLICY for one of configs/"),
        (["-m", "serial", "-c", "no.py"], "ding: no.py: there is no such config file"),
        (["-m", "serial", "-c", "no.yaml"], "ding: no.yaml: a config file ends in .py, got '.yaml'"),
        (["-m", "serial", "-e", "a", "-p", "b"], "ding: -e a -p b: there is no configs/a/a_b_config.py"),
        (
            ["-m", "serial", "-c", "some_config.py", "--load-path", "x"],
            "ding: --load-path: there is no checkpoint or experiment folder x",
        ),
        (["plot", "nowhere"], "ding: nowhere: there is no such folder"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence_and_exit_2(run, args, sentence):
    result = run(*args)
    assert result.exit_code == 2
    assert re.split(" Known names|; it has", result.stderr.rstrip())[0] == sentence
    assert result.stdout == ""


def test_an_option_out_of_range_exits_2(run):
    result = run("-m", "serial", "-c", "some_config.py", "--env-step", "1.5")
    assert result.exit_code == 2
    assert "'1.5' is not a whole number of at least 0" in result.stderr


def test_version_and_help(run):
    assert run("-v").stdout.splitlines()[0] == f"ding {ding.__version__}"
    text = run("-h").stdout
    for option in (
        "-m",
        "-c",
        "-s",
        "-e",
        "-p",
        "--exp-name",
        "--train-iter",
        "--env-step",
        "--load-path",
        "-v",
        "-q",
        "-h",
    ):
        assert option in text


def test_query_lists_where_a_name_is_registered(run):
    lines = run("-q", "policy").stdout.splitlines()
    (dqn,) = [line for line in lines if line.split()[0] == "dqn"]
    assert "policy/dqn.py#" in dqn
    result = run("-q", "polcy")
    assert result.exit_code == 2
    assert result.stderr.startswith("ding: -q polcy: there is no such registry. Did you mean 'policy'?")


@pytest.mark.parametrize(
    ("registry", "alias", "file"),
    [
        ("reward_model", "rnd", "reward_model/rnd_reward_model.py#"),
        ("learner", "base", "worker/learner/base_learner.py#"),
        ("player", "naive_sp_player", "league/player.py#"),
        ("dataset", "columns", "data/column_file.py#"),
        ("message_queue", "nng", "framework/message_queue/__init__.py#"),
    ],
)
def test_query_lists_what_packages_register_when_it_is_needed(run, registry, alias, file):
    places = dict(line.split() for line in run("-q", registry).stdout.splitlines())
    assert file in places[alias]


def test_help_imports_no_torch():
    code = (
        "import sys; from ding.entry.cli import cli; cli(['-h'], standalone_mode=False); print('torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.endswith("False\n")


def test_one_seed_keeps_the_name_of_the_config(run, pipeline):
    assert run("-m", "serial", "-c", "some_config.py", "-s", "3", "--env-step", "1e3", "--strict").exit_code == 0
    ((main, seed, kwargs),) = pipeline
    assert (main.exp_name, seed) == ("from_config", 3)
    assert kwargs == {"max_train_iter": 10**8, "max_env_step": 1000, "strict": True}


def test_several_seeds_have_their_own_folders(run, pipeline):
    assert run("-m", "serial", "-c", "some_config.py", "-s", "1", "-s", "0").exit_code == 0
    assert [(m.exp_name, s) for m, s, _ in pipeline] == [
        ("from_config/seed1", 1),
        ("from_config/seed0", 0),
    ]
    del pipeline[:]
    run("-m", "serial", "-c", "some_config.py", "-s", "1", "-s", "2", "--exp-name", "mine")
    assert [m.exp_name for m, _, _ in pipeline] == ["mine/seed1", "mine/seed2"]


def test_without_a_seed_a_saved_config_brings_its_own(run, pipeline, tmp_path):
    (tmp_path / "saved.py").write_text(CONFIG.replace("dict(exp_name", "dict(seed=11, exp_name"))
    run("-m", "serial", "-c", "saved.py")
    run("-m", "serial", "-c", "some_config.py")
    assert [seed for _, seed, _ in pipeline] == [11, 0]


def test_a_predefined_config_is_found_below_the_working_directory(run, pipeline, tmp_path):
    folder = tmp_path / "configs" / "cart"
    folder.mkdir(parents=True)
    (folder / "cart_dqn_config.py").write_text(CONFIG.replace("from_config", "predefined"))
    assert run("-m", "serial", "-e", "cart", "-p", "dqn").exit_code == 0
    assert pipeline[0][0].exp_name == "predefined"


def test_load_path_goes_on_in_the_folder_of_the_checkpoint(run, pipeline, tmp_path):
    (tmp_path / "exp" / "ckpt").mkdir(parents=True)
    (tmp_path / "exp" / "ckpt" / "iteration_5.pth.tar").write_bytes(b"")
    args = ("-m", "serial", "-c", "some_config.py", "--load-path", "exp/ckpt/iteration_5.pth.tar")
    run(*args)
    run(*args, "--exp-name", "fresh")
    main = pipeline[0][0]
    assert main.exp_name == "exp"
    assert main.policy.learn.batch_size == 2
    assert main.policy.learn.resume_training is True
    assert main.policy.learn.learner.hook.load_ckpt_before_run == "exp/ckpt/iteration_5.pth.tar"
    assert pipeline[1][0].exp_name == "fresh"


def test_exit_codes_of_a_run(run, monkeypatch):
    for error, code in [
        (RunInterrupted(2), 130),
        (RunInterrupted(15), 143),
        (ConfigValueError("no"), 2),
        (KeyboardInterrupt(), 130),
        (ValueError("env"), 1),
    ]:

        def fail(*args, error=error, **kwargs):
            raise error

        monkeypatch.setattr(ding.entry, "serial_pipeline", fail)
        assert run("-m", "serial", "-c", "some_config.py").exit_code == code


def test_eval_prints_the_return_of_each_seed(run, monkeypatch):
    module = importlib.import_module("ding.entry.application_entry")
    calls = []

    def evaluate(input_cfg, seed, load_path, replay_path, episodes):
        calls.append((input_cfg[0].exp_name, seed, load_path, replay_path))
        return EvaluationResult.of([10.0 * seed - 1, 10.0 * seed + 1])

    monkeypatch.setattr(module, "evaluate", evaluate)
    args = ("-m", "eval", "-c", "some_config.py", "-s", "1", "-s", "2", "--load-path", "c", "--replay-path", "v")
    result = run(*args)
    assert result.stdout.splitlines() == [
        "seed 1: return 10.00 (std 1.00, 9.00 to 11.00 in 2 episodes)",
        "seed 2: return 20.00 (std 1.00, 19.00 to 21.00 in 2 episodes)",
        "mean over 2 seeds: 15.00",
    ]
    assert calls == [("from_config/seed1", 1, "c", "v"), ("from_config/seed2", 2, "c", "v")]


def test_names_that_do_not_exist_say_so():
    with pytest.raises(ImportError, match="has no 'serial_pipeline_sleeper' in this version"):
        from ding.entry import serial_pipeline_sleeper  # noqa: F401
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = importlib.import_module("ding.entry").nothing
