"""What a newcomer meets in the first hour: a config that registers its own env, folders, the end of a run, hints."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import ding
from ding.config import read_config, read_config_with_system, save_config
from ding.entry import cli, eval, serial_pipeline
from ding.utils import MissingExtraError, require_extra

ROOT = Path(ding.__file__).resolve().parents[1]
CONFIG = '''
from pathlib import Path

from ding.envs import DingEnvWrapper
from ding.utils import ENV_REGISTRY

with open("read.txt", "a") as file:
    file.write("x")


@ENV_REGISTRY.register("own_env_of_the_first_hour")
class OwnEnv(DingEnvWrapper):
    """An env that only this file knows."""


main_config = dict(
    exp_name="exp_seed0",
    env=dict(env_id="CartPole-v1", collector_env_num=1, evaluator_env_num=1, n_evaluator_episode=1, stop_value=1e9),
    policy=dict(
        model=dict(obs_shape=4, action_shape=2, encoder_hidden_size_list=[4]),
        learn=dict(update_per_collect=1, batch_size=4),
        collect=dict(n_sample=4),
        eval=dict(evaluator=dict(eval_freq=100)),
        other=dict(eps=dict(start=0.9, end=0.1, decay=100), replay_buffer=dict(replay_buffer_size=100)),
    ),
)
create_config = dict(
    env=dict(type="own_env_of_the_first_hour"), env_manager=dict(type="base"), policy=dict(type="dqn")
)
'''


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.py").write_text(CONFIG)


def run(*args: str) -> None:
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 0, result.stderr


def test_a_config_that_registers_its_own_env_runs_once_for_all_seeds() -> None:
    run("-m", "serial", "-c", "c.py", "--env-step", "4")
    assert Path("read.txt").read_text() == "x"
    run("-m", "serial", "-c", "c.py", "--env-step", "4", "-s", "0", "-s", "1")
    assert Path("read.txt").read_text() == "xx"
    # A script may read it as often as it likes.
    for seed in (0, 1):
        serial_pipeline("c.py", seed=seed, max_env_step=4)


def test_several_seeds_lie_below_the_name_of_the_config_without_its_seed() -> None:
    run("-m", "serial", "-c", "c.py", "--env-step", "4", "-s", "3", "-s", "5")
    assert sorted(path.name for path in Path("exp").iterdir()) == ["seed3", "seed5"]
    assert not Path("exp_seed0").exists()


def test_an_evaluation_lies_in_the_folder_of_its_run() -> None:
    run("-m", "serial", "-c", "c.py", "--env-step", "8")
    before = sorted(path.name for path in Path().iterdir())
    # The env is registered; a new process needs the file: -c c.py.
    for args in (["exp_seed0"], ["exp_seed0", "-s", "7"], ["--load-path", "exp_seed0/ckpt/ckpt_best.pth.tar"]):
        run("-m", "eval", *args)
    eval(read_config("c.py"), load_path="exp_seed0")
    assert sorted(path.name for path in Path().iterdir()) == before
    assert len(list(Path("exp_seed0/eval").iterdir())) == 4


def test_the_policy_of_a_parallel_run_is_evaluated_in_one_process() -> None:
    configs = read_config_with_system(ROOT / "configs/cartpole/parallel/cartpole_dqn_config.py")
    main, create, _ = configs
    main.policy.model.encoder_hidden_size_list = [4]
    main.env.n_evaluator_episode = 4  # as the compiled config of a run has it, below its number of envs
    serial, made = read_config("c.py")
    serial.policy.model.update(encoder_hidden_size_list=[4])
    serial.exp_name = "parallel"
    serial_pipeline((serial, made), max_env_step=4)
    save_config(main, "parallel/total_config.py", create_cfg=create)
    result = CliRunner().invoke(cli, ["-m", "eval", "parallel"])
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("seed 0: return ")


def lines_of(caplog, *args: str) -> list[str]:
    """What is shown of a run."""
    with caplog.at_level(logging.INFO, "ding"):
        run("-m", "serial", "-c", "c.py", *args)
    return caplog.messages


def test_the_end_of_a_run_names_its_limit_the_best_checkpoint_and_what_comes_next(caplog) -> None:
    *_, before, last = lines_of(caplog, "--env-step", "8")
    assert last.startswith("exp_seed0: reached its limit of 8 env steps: last evaluation: return ")
    assert last.endswith(
        "the best policy is in exp_seed0/ckpt/ckpt_best.pth.tar; next: ding -m eval exp_seed0, or ding plot exp_seed0"
    )
    assert "left" not in before


def test_a_run_without_an_update_says_so_and_why(caplog) -> None:
    *_, last = lines_of(caplog, "--env-step", "4", "-o", "policy.learn.batch_size=64")
    assert "; nothing was learned: it ended before the first update (the replay buffer held 4 rows)" in last


def test_overrides_are_of_all_configs_and_checked_like_the_file(caplog) -> None:
    lines_of(caplog, "--env-step", "4", "-o", "create_config.policy.type=c51", "-o", "batch_size=3")
    main_config, create_config = read_config("exp_seed0/total_config.py")
    assert (create_config.policy.type, main_config.policy.learn.batch_size) == ("c51", 3)
    assert "batch_size" not in main_config


def test_a_missing_package_is_installed_with_the_constraints() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install -c .*constraints\.txt -e '.*\[plot\]'"):
        require_extra("no_such_package_of_the_extra", "plot")


@pytest.mark.slow
def test_the_command_line_starts_without_torch() -> None:
    code = "import sys, ding.entry.cli; print(sorted({'torch', 'numpy', 'flask', 'gymnasium'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
