"""How configs are run on several seeds, and how their rows become tables and curves."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import _runs, results  # noqa: E402
from benchmarks._results_plot import curves, plot  # noqa: E402
from benchmarks._results_table import COMMIT, CPU, IQM, RETURN, STEPS, update_table  # noqa: E402

_TITLES = ("config", "algorithm", "stop value", RETURN, STEPS, IQM, CPU, COMMIT)
TABLE = f"""# Results

| {" | ".join(_TITLES)} |
|---|---|---|---|---|---|---|---|
| cartpole_dqn | DQN | 195 | 1, 2, 3 | 1, 2, 3 |  | 9 | older |
| pendulum_sac | SAC | -250 | 1, 2, 3 | 1, 2, 3 |  | 9 | older |

| config | {RETURN} | {STEPS} | {COMMIT} |
|---|---|---|---|
| line_cover_mappo | 1 | 1 | older |

The end.
"""


def row(config, seed, **fields):
    known = {"mode": "serial", "exit_code": 0, "stop": True, "return": 200.0 + seed, "env_steps": 1000 * (seed + 1)}
    return {"config": config, "seed": seed, **known, "train_iters": 1, "cpu_s": 4.0 + seed, "wall_s": 5.0, **fields}


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
    assert _runs.mode_of(name) == mode


def test_a_config_that_is_not_there(tmp_path):
    with pytest.raises(SystemExit, match="there is no config cartpole_dqnn"):
        results.main(["cartpole_dqnn", "--folder", str(tmp_path), "--core-hours", "1"])


def test_the_command_of_a_run():
    limits = _runs.Limits(500, 40, state_freq=10, compiles=True)
    words = _runs.command("cartpole_sqil", 3, "cartpole_sqil_s3", limits)
    assert words[:5] == [sys.executable, "-m", "ding", "-m", "serial_sqil"]
    values = {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("-")}
    assert Path(values["-c"]).name == "cartpole_sqil_config.py"
    assert Path(values["--expert-config"]).name == "cartpole_sql_config.py"
    assert (values["-s"], values["--exp-name"], values["--train-iter"]) == ("3", "cartpole_sqil_s3", "40")
    assert (values["--state-freq"], values["--compile"]) == ("10", "true")


def test_data_are_not_counted_in_env_steps():
    assert "--env-step" in _runs.command("cartpole_dqn", 0, "e", _runs.Limits())
    assert "--env-step" not in _runs.command("pendulum_cql", 0, "e", _runs.Limits())


def test_every_expert_is_a_config():
    for name, expert in _runs.EXPERTS.items():
        assert _runs.config_file(name).exists()
        assert _runs.config_file(expert).exists()


def test_the_plan_leaves_out_what_is_there_and_marks_what_the_budget_does_not_reach(tmp_path, capsys):
    old = row("cartpole_dqn", 0, cpu_s=1800.0)
    (tmp_path / "rows.jsonl").write_text(json.dumps(old) + '\n{"config": "cut o')
    words = ["cartpole_dqn", "cartpole_ppo", "--seeds", "0", "1", "2", "--folder", str(tmp_path), "--dry-run"]
    results.main([*words, "--core-hours", "0.6"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("cartpole")]
    assert [line.split()[:3] for line in lines] == [
        ["cartpole_ppo", "0", "new"],
        ["cartpole_dqn", "1", "new"],
        ["cartpole_ppo", "1", "new"],
        ["cartpole_dqn", "2", "new"],
        ["cartpole_ppo", "2", "new"],
    ]
    assert ["beyond the budget" in line for line in lines] == [False, False, False, True, True]
    with pytest.raises(SystemExit):
        results.main(words)


@pytest.mark.slow
def test_a_run_without_budget_is_stopped_and_continued(tmp_path):
    limits = _runs.Limits(env_steps=3000, train_iters=300, state_freq=50)
    log, home = tmp_path / "cartpole_dqn_s0.log", tmp_path / "cartpole_dqn_s0"

    def left_s(cpu_s):
        return 0 if home.is_dir() and any(home.glob("ckpt/snapshot_*")) else 1

    assert _runs.run("cartpole_dqn", 0, tmp_path, limits, left_s) is None
    assert _runs.is_resumable(home)
    (planned,) = results.plan(["cartpole_dqn"], [0], tmp_path)
    assert planned.state == "continued"
    results.execute([planned], tmp_path, limits, results.Budget(3600.0), jobs=1)
    (made,) = _runs.read_rows(tmp_path)
    assert (made["exit_code"], made["train_iters"] >= 300 or made["stop"]) == (0, True)
    spent = json.loads((tmp_path / "cartpole_dqn_s0.spent.json").read_text())
    assert made["cpu_s"] == pytest.approx(spent["cpu_s"], abs=0.1)
    assert "resume" in log.read_text() or "goes on" in log.read_text()


def test_rows_go_to_the_table_with_their_commit(tmp_path):
    file = tmp_path / "results.md"
    file.write_text(TABLE)
    rows = [row("cartpole_dqn", seed) for seed in range(4)] + [row("pendulum_sac", 0)]
    rows += [row("line_cover_qmix", seed, commit="abc1234", stop=seed != 1) for seed in range(3)]
    rows += [row("line_cover_mappo", seed, commit="abc1234") for seed in range(3)]
    rows += [row("cartpole_bc", seed, commit="abc1234", mode="serial_bc", train_iters=40) for seed in range(3)]
    assert "cartpole_dqn: left as it is, rows do not say their commit" in update_table(file, rows)
    done = update_table(file, rows, commit="1234567")
    assert "pendulum_sac: left as it is, seeds 1, 2 are missing" in done
    lines = file.read_text().splitlines()
    assert lines[4] == (
        "| cartpole_dqn | DQN | 195 | 200, 201, 202 | 1,000, 2,000, 3,000 | 2,500 (1,000 to 4,000), 4 seeds | 4 to 7 "
        "| `1234567` |"
    )
    assert lines[5] == TABLE.splitlines()[5]
    assert "1,000, not within 2,000, 3,000 | never (" in lines[6]
    assert lines[6].endswith("`abc1234` |")
    assert "| none; 40, 40, 40 train iterations |  |" in lines.pop(7)
    assert lines[10] == "| line_cover_mappo | 200, 201, 202 | 1,000, 2,000, 3,000 | `abc1234` |"
    assert lines[11:] == ["", "The end."]


def test_further_seeds_go_to_their_table(tmp_path):
    file = tmp_path / "results.md"
    further = (
        "\n| config | env steps | commit |\n|---|---|---|\n| cartpole_dqn | 7 | older |\n| cartpole_ppo | 8 | older |\n"
    )
    file.write_text(TABLE + further)
    update_table(file, [row("cartpole_dqn", seed, stop=seed != 7) for seed in range(8)], commit="1234567")
    steps = "4,000, 5,000, 6,000, 7,000, not within 8,000"
    assert file.read_text().splitlines()[-2:] == [
        f"| cartpole_dqn | {steps} | `1234567` |",
        "| cartpole_ppo | 8 | older |",
    ]


def test_curves_beside_those_of_stable_baselines3(tmp_path):
    rows = '{"env_step": 5000, "return": 1.5, "cpu_s": 1.0}\n{"env_step": 10000, "return": 2.5, "cpu_s": 2.0}\n'
    (tmp_path / "hopper_sac_s0_sb3.jsonl").write_text(rows)
    ((steps, returns),) = curves("hopper_sac", tmp_path)["stable-baselines3"]
    assert (steps.tolist(), returns.tolist()) == ([5000, 10000], [1.5, 2.5])
    plot(tmp_path, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_each_table_of_results_names_its_commit():
    lines = (ROOT / "docs/results.md").read_text(encoding="utf-8").splitlines()
    heads = [at for at, line in enumerate(lines) if line.startswith("|---")]
    assert heads
    for at in heads:
        title = lines[at - 1]
        above = [line for line in lines[max(0, at - 14) : at - 1] if not line.startswith("|")]
        named = re.search(r"\b[0-9a-f]{8}\b|\bbefore `?[0-9a-f]{8}", " ".join(above))
        assert title.rstrip("| ").endswith("commit") or named, f"no commit is named for the table {title}"
