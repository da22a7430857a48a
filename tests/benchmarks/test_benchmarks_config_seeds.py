"""How configs are run on several seeds."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import config_seeds  # noqa: E402


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("cartpole_dqn", "serial"),
        ("cartpole_ppo", "serial_onpolicy"),
        ("cartpole_dqn_rnd", "serial_reward_model"),
        ("cartpole_ppo_icm", "serial_reward_model_onpolicy"),
        ("cartpole_dqn_gail", "serial_gail"),
        ("cartpole_dqn_drex", "serial_trex"),
        ("cartpole_guided_cost", "serial_guided_cost"),
        ("cartpole_ngu", "serial_ngu"),
        ("cartpole_bc", "serial_bc"),
        ("cartpole_sqil", "serial_sqil"),
        ("pendulum_cql", "serial_offline"),
        ("pendulum_dt", "serial_offline"),
    ],
)
def test_the_pipeline_of_a_config(name, mode):
    assert config_seeds.mode_of(name) == mode


def test_a_config_that_is_not_there():
    with pytest.raises(SystemExit, match="there is no config cartpole_dqnn"):
        config_seeds.mode_of("cartpole_dqnn")


def test_the_command_of_a_run():
    words = config_seeds.command("cartpole_sqil", 3, "cartpole_sqil_s3", 500, 40)
    assert words[:5] == [sys.executable, "-m", "ding", "-m", "serial_sqil"]
    options = dict(zip(words[5::2], words[6::2], strict=False))
    assert Path(options["-c"]).name == "cartpole_sqil_config.py"
    assert Path(options["--expert-config"]).name == "cartpole_sql_config.py"
    assert (options["-s"], options["--exp-name"], options["--train-iter"]) == ("3", "cartpole_sqil_s3", "40")
    assert words[-2:] == ["--expert-config", options["--expert-config"]]


def test_data_are_not_counted_in_env_steps():
    assert "--env-step" in config_seeds.command("cartpole_dqn", 0, "e", 500, 40)
    assert "--env-step" not in config_seeds.command("pendulum_cql", 0, "e", 500, 40)


def test_every_expert_is_a_config():
    for name, expert in config_seeds.EXPERTS.items():
        assert config_seeds.config_file(name).exists()
        assert config_seeds.config_file(expert).exists()
