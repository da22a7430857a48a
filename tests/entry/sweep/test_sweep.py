"""`ding sweep`: the values of the parameters, a study that goes on, pruning, table and picture."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ding.config import ConfigValueError, UnknownKeyError
from ding.entry import cli
from ding.entry.sweep import Parameter, Sweep, TrialResult, parse_parameter, plot_trials, table

CONFIG = """
main_config = dict(
    exp_name="exp",
    env=dict(env_id="CartPole-v1", collector_env_num=1, evaluator_env_num=1, n_evaluator_episode=1, stop_value=1e9),
    policy=dict(
        model=dict(obs_shape=4, action_shape=2, encoder_hidden_size_list=[4]),
        learn=dict(update_per_collect=1, batch_size=4),
        collect=dict(n_sample=4),
        eval=dict(evaluator=dict(eval_freq=2)),
        other=dict(eps=dict(start=0.9, end=0.1, decay=100), replay_buffer=dict(replay_buffer_size=100)),
    ),
)
create_config = dict(env=dict(type="gymnasium"), env_manager=dict(type="base"), policy=dict(type="dqn"))
"""
RATE = parse_parameter("policy.learn.learning_rate=log:1e-4:1e-2")


@pytest.fixture
def config(tmp_path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("c_config.py").write_text(CONFIG)
    return "c_config.py"


def test_parameters_as_they_are_written() -> None:
    assert Parameter("policy.learn.learning_rate", 1e-4, 1e-2, log=True) == RATE
    assert parse_parameter("a.b=1:8") == Parameter("a.b", 1, 8)
    assert parse_parameter("a.b=0.5:1") == Parameter("a.b", 0.5, 1)
    assert parse_parameter("a.b=true,[64, 64],x").choices[0] is True
    assert parse_parameter("a.b=dqn,ppo") == Parameter("a.b", choices=("dqn", "ppo"))


@pytest.mark.parametrize("text", ["a", "a=1", "a=1:2:3", "a=lg:1:2", "a=x:y", "a=2:1", "a=log:0:1"])
def test_parameters_that_are_none(text) -> None:
    with pytest.raises(ConfigValueError, match=f"--param {text}: (expected|the bounds)"):
        parse_parameter(text)


def test_the_table_has_the_best_first() -> None:
    trials = [
        TrialResult(0, "complete", 9.5, {"lr": 0.001}),
        TrialResult(1, "pruned", 90.0, {"lr": 0.1}),
        TrialResult(2, "fail", None, {"lr": 0.2}),
        TrialResult(3, "complete", 20.0, {"lr": 0.002}),
    ]
    assert table(trials).splitlines() == [
        "trial  return  state     lr",
        "3      20.00   complete  0.002",
        "0      9.50    complete  0.001",
        "1      90.00   pruned    0.1",
        "2      -       fail      0.2",
    ]


@pytest.mark.slow
def test_the_picture(tmp_path) -> None:
    pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")
    trials = [TrialResult(0, "complete", 9.5, {"lr": 0.001, "type": "dqn"}), TrialResult(1, "pruned", 1.0, {"lr": 0.1})]
    assert plot_trials(trials, tmp_path / "x.png").read_bytes()[:4] == b"\x89PNG"


@pytest.fixture
def _optuna():
    pytest.importorskip("optuna", reason="the extra 'sweep' is not installed")


@pytest.mark.usefixtures("_optuna")
# Of optuna, about storages that it calls experimental.
@pytest.mark.filterwarnings("ignore::Warning:optuna")
class TestStudy:
    def test_a_key_that_the_config_does_not_know(self, config) -> None:
        with pytest.raises(UnknownKeyError, match=r"policy\.learn\.learning_rat.*did you mean"):
            Sweep(config, [parse_parameter("policy.learn.learning_rat=0.1:0.2")], "s").run(1)
        assert not Path("s").exists()

    @pytest.mark.slow
    def test_a_study_goes_on(self, config) -> None:
        sweep = Sweep(config, [RATE], "s", max_env_step=16)
        first = sweep.run(2)
        again = sweep.run(3)
        assert again[:2] == first
        assert [one.number for one in again] == [0, 1, 2]
        assert all(1e-4 <= one.params[RATE.key] <= 1e-2 and one.state == "complete" for one in again)
        assert sorted(path.name for path in Path("s").iterdir()) == ["study.log", "trial0", "trial1", "trial2"]
        assert len(sweep.run(3)) == 3

    def test_a_process_that_is_killed_ends_the_sweep(self, config) -> None:
        kills = "import multiprocessing, os, signal\nif multiprocessing.parent_process():\n"
        Path(config).write_text(f"{kills}    os.kill(os.getpid(), signal.SIGKILL)\n{CONFIG}")
        with pytest.raises(RuntimeError, match="a process of the sweep was killed"):
            Sweep(config, [RATE], "s", max_env_step=16).run(2, jobs=2)

    @pytest.mark.slow
    def test_a_trial_that_was_left_by_a_killed_sweep_is_tried_again(self, config) -> None:
        sweep = Sweep(config, [RATE], "s", max_env_step=8)
        Path("s").mkdir()
        sweep.open().ask()
        assert [one.state for one in sweep.run(1)] == ["fail", "complete"]

    @pytest.mark.slow
    def test_bad_trials_are_pruned_at_an_evaluation(self, config) -> None:
        sweep = Sweep(config, [parse_parameter("policy.learn.batch_size=4,8")], "s", max_env_step=40)
        Path("s").mkdir()
        study = sweep.open()
        for _ in range(5):  # so many before the median counts
            trial = study.ask()
            for step in range(0, 41, 4):
                trial.report(1e6, step)
            study.tell(trial, 1e6)
        assert [one.state for one in sweep.run(6)][5:] == ["pruned"]

    @pytest.mark.slow
    def test_the_command_with_two_jobs(self, config) -> None:
        pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed")
        args = ["sweep", config, "--param", "policy.learn.batch_size=2,4", "--trials", "3", "--jobs", "2"]
        result = CliRunner().invoke(cli, [*args, "--env-step", "8"])
        assert result.exit_code == 0, result.output
        assert result.stdout.splitlines()[0].split() == ["trial", "return", "state", "policy.learn.batch_size"]
        assert Path("c_sweep/sweep.png").is_file()
        assert len(list(Path("c_sweep").glob("trial*"))) == 3
