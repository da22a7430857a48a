"""Experiments of several seeds beside each other."""

import json

import pytest
from click.testing import CliRunner
from tensorboardX import SummaryWriter

from ding.config import ConfigValueError
from ding.entry.cli import cli
from ding.entry.view.compare import compare
from ding.entry.view.plot import learning_curves

TAG = "evaluator_step/reward_mean"


def write_run(folder, points, tag=TAG, seed=None, env="CartPole-v1", writer="serial", **result):
    writer = SummaryWriter(str(folder / "log" / writer))
    for step, value in points:
        writer.add_scalar(tag, value, step)
    writer.close()
    main = {"env": {"env_id": env, "stop_value": 10}, "seed": seed}
    # Not run: it would end the process.
    (folder / "total_config.py").write_text(f"raise SystemExit\nexp_config = {main!r}\nmain_config = exp_config\n")
    if result:
        (folder / "result.json").write_text(json.dumps(result))
    return folder


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Solved ones end early; evaluations are at other places.
    write_run(tmp_path / "a_s0", [(0, 0.0), (100, 10.0)], seed=0, stop=True)
    write_run(tmp_path / "a_s1", [(0, 2.0), (50, 12.0)], seed=1, stop=True)
    write_run(tmp_path / "b" / "seed0", [(0, 0.0), (100, 2.0), (200, 4.0)], seed=0, stop=False)
    write_run(tmp_path / "b" / "seed1", [(0, 4.0), (400, 12.0)], seed=1, stop=False)
    return tmp_path


def test_returns_areas_steps_and_probabilities(runs):
    found = compare(["a_s0", "a_s1", "b"])
    a, b = found.rows
    # The shortest run that is not solved ends at 200.
    assert (found.tag, found.at, found.stop_value) == (TAG, 200, 10.0)
    assert (a.name, a.returns.value, a.returns.low, a.returns.high) == ("a", 11.0, 10.0, 12.0)
    assert (b.name, b.returns.value, b.returns.low, b.returns.high) == ("b", 6.0, 4.0, 8.0)
    # Means of the lines: 5 to 100, then 10; 7 to 50, then 12. 2; 4 to 8.
    assert a.area.value == pytest.approx(((5 * 100 + 10 * 100) + (7 * 50 + 12 * 150)) / 200 / 2)
    assert b.area.value == pytest.approx((2 + 6) / 2)
    assert (a.solved, a.steps.value, b.solved, b.steps.value) == (2, 75.0, 1, float("inf"))
    assert (a.probability, b.probability.value) == (None, 1.0)
    assert "compared at 200, where b/seed0 ends (ended), unsolved" in found.notes
    by_steps = compare(["a_s0", "a_s1", "b"], by="steps", stop_value=3.0, at=100)
    # To 3: at 100, at 50; at 200, at once.
    assert [row.steps.value for row in by_steps.rows] == [75.0, 100.0]
    assert by_steps.rows[1].probability.value == 0.5


def test_the_command_prints_a_table_and_json_and_draws(runs):
    done = CliRunner().invoke(cli, ["compare", "a_s*", "b", "--output", "c.png"])
    head, first, second, *rest = done.output.splitlines()
    assert head.split("  ")[0] == "experiment"
    assert first.split()[:5] == ["a_s*", "2", "11", "(10", "to"]
    assert "1 of 2 reached it" in second
    assert second.endswith("1 (1 to 1)")
    assert rest[-1] == "c.png"
    assert (runs / "c.png").read_bytes()[:4] == b"\x89PNG"
    done = CliRunner().invoke(cli, ["compare", "a_s*", "b", "--json"])
    found = json.loads(done.output)
    assert [row["returns"]["value"] for row in found["experiments"]] == [11.0, 6.0]
    assert found["experiments"][1]["steps"] == {"value": None, "low": 75.0 + 325, "high": None}


def test_one_seed_has_no_interval_and_says_so(runs):
    found = compare(["a_s0", "b/seed1"])
    assert (found.rows[0].returns.low, found.rows[1].probability.high) == (None, None)
    assert found.notes[:2] == [
        "a: one seed, so that no interval can be given",
        "b: one seed, so that no interval can be given",
    ]
    assert "(" not in found.table().splitlines()[1]


def test_what_may_mislead_is_noted(runs):
    write_run(runs / "b" / "seed1_260101_120000", [(0, 1.0)], seed=1, env="Pendulum-v1", stop=False)
    (runs / "b" / "seed2" / "log").mkdir(parents=True)
    notes = "\n".join(compare(["b", "a_s*"]).notes)
    assert "b: 1 of 4 runs have no evaluation and are left out" in notes
    assert "b: several runs with seed 1" in notes
    assert "the runs are of several envs (CartPole-v1, Pendulum-v1)" in notes
    assert "a_s0 ended before step 300 unsolved" not in "\n".join(compare(["a_s*"], at=300).notes)
    assert "b/seed0" in compare(["b"], at=300).notes[-1]


def test_misspelt_names_get_the_nearest(runs):
    for names, message in [
        (["a_s9"], r"a_s9: there is no such folder. Did you mean 'a_s"),
        (["b/sed0"], r"Did you mean 'b/seed0'"),
        (["aa_s*"], r"aa_s\*: no folder has a name like this. Did you mean 'a_s"),
        (["b/seed0/total_config.py"], "is a file and no folder"),
    ]:
        with pytest.raises(ConfigValueError, match=message):
            compare(names)
    with pytest.raises(ConfigValueError, match=f"Did you mean '{TAG}'"):
        compare(["b"], tag="evaluator_step/reward_men")
    with pytest.raises(ConfigValueError, match=r"by='area_' is unknown. Did you mean 'area'"):
        compare(["b"], by="area_")


def test_runs_without_env_steps_are_compared_over_train_iterations(tmp_path):
    for seed in (0, 1):
        run = write_run(tmp_path / f"bc_seed{seed}", [(0, 1.0), (0, 5.0)], seed=seed)
        write_run(run, [(0, 1.0), (200, 5.0)], tag="evaluator_iter/reward_mean", writer="iter", seed=seed)
    found = compare([tmp_path])
    assert (found.tag, found.at, found.rows[0].returns.value) == ("evaluator_iter/reward_mean", 200, 5.0)


def test_a_short_seed_in_a_name_counts_where_the_config_has_it(tmp_path):
    write_run(tmp_path / "x_s0", [(0, 0.0)], seed=0)
    write_run(tmp_path / "x_s1", [(0, 0.0)], seed=1)
    write_run(tmp_path / "model_s2", [(0, 0.0)], seed=0)
    labels = {(curve.label.rsplit("/", 1)[-1], curve.runs) for curve in learning_curves([tmp_path])}
    assert labels == {("x", 2), ("model_s2", 1)}
