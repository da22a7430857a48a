"""What becomes of results: parts of a suite join, targets are judged, charts and pages follow the latest results."""

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import _headline, _quick, docs, setup, suites, targets  # noqa: E402
from benchmarks._peers import ENV_VARIABLE, install_error  # noqa: E402
from benchmarks._plan import DEFAULT_THREADS, ONE_THREAD, Measurement  # noqa: E402
from benchmarks._plots import stamp_in, stamp_of, write_chart  # noqa: E402
from benchmarks._stats import Summary  # noqa: E402
from benchmarks._store import RESULTS, load_latest, make_document, save  # noqa: E402


def measurement(name: str, mode: str = ONE_THREAD, op: str = "go", **rates: tuple[float, ...]) -> dict[str, Any]:
    """A result of two rounds; ``rates`` by label, underscores for spaces."""
    found = {label.replace("_", " "): rate for label, rate in rates.items()}
    figures = {label: Summary(rate, rate).as_dict() for label, rate in found.items()}
    made: dict[str, Any] = {key: {} for key in ("ratios", "cpu_ratios", "counts")}
    one_op = {"name": op, "title": op, "unit": "steps/s", "lower": False, "noise": None, "targets": [], **made}
    sides = {label: {"peer": "ding" if label.startswith("ding") else "sb3", "versions": {}} for label in found}
    plain = {
        "name": name,
        "title": name.title(),
        "remark": "",
        "mode": mode,
        "first": "ding",
        "work": {},
        "load": [1.0],
    }
    return {**plain, "sides": sides, "errors": {}, "ops": [{**one_op, "figures": figures}]}


def document(suite: str, *measurements: dict[str, Any], finished: str = "2026-01-02T00-00-00Z") -> dict[str, Any]:
    made = make_document(suite, suite.title(), list(measurements), 2, f"python -m benchmarks {suite}")
    made["finished"] = finished
    for one in made["measurements"]:
        one["made"] = {**one["made"], "finished": finished}
    return made


def medians(folder: Path, suite: str) -> list[tuple[str, str, float]]:
    found = load_latest(folder)[suite]["measurements"]
    return [(one["name"], one["mode"], one["ops"][0]["figures"]["ding"]["median"]) for one in found]


def test_a_part_of_a_suite_joins_what_was_measured_before(tmp_path):
    whole = document(
        "tiny",
        measurement("a", ding=(1.0, 1.0)),
        measurement("a", DEFAULT_THREADS, ding=(2.0, 2.0)),
        measurement("gone", ding=(3.0, 3.0)),
        finished="2026-01-01T00-00-00Z",
    )
    save(whole, tmp_path)
    part = document("tiny", measurement("a", ding=(5.0, 5.0)), measurement("b", ding=(4.0, 4.0)))
    file = save(part, tmp_path, names=["b", "a"])
    assert medians(tmp_path, "tiny") == [
        ("b", ONE_THREAD, 4.0),
        ("a", ONE_THREAD, 5.0),
        ("a", DEFAULT_THREADS, 2.0),
    ]
    assert file.read_text().count("Made 2026-01-01T00-00-00Z") == 1
    assert len(list((tmp_path / "history").iterdir())) == 2
    save(part, tmp_path)
    assert medians(tmp_path, "tiny") == [("a", ONE_THREAD, 5.0), ("b", ONE_THREAD, 4.0)]


def test_results_from_before_parts_could_join_are_joined_too(tmp_path):
    old = document("tiny", measurement("a", ding=(1.0, 1.0)), finished="2026-01-01T00-00-00Z")
    del old["measurements"][0]["made"]
    save(old, tmp_path)
    save(document("tiny", measurement("b", ding=(4.0, 4.0))), tmp_path, names=["a", "b"])
    kept = load_latest(tmp_path)["tiny"]["measurements"][0]
    assert (kept["name"], kept["made"]["finished"]) == ("a", "2026-01-01T00-00-00Z")


def test_targets_are_judged_by_the_newest_results(monkeypatch):
    entries = [
        {"measurement": "a", "against": ["theirs", "absent"], "at_least": 2.0},
        {"measurement": "a", "at_least": 7.0},
    ]
    common = {"issue": 2, "asks": "speed", "operation": "go", "modes": [ONE_THREAD], "subject": "ding"}
    tested = {"issue": 2, "asks": "sense", "tested_by": "tests"}
    monkeypatch.setattr(targets, "load_targets", lambda: [*({**common, **entry} for entry in entries), tested])
    documents = {
        "old": document("old", measurement("a", ding=(9.0, 9.0), theirs=(1.0, 1.0)), finished="2026-01-01T00-00-00Z"),
        "new": document("new", measurement("a", ding=(8.0, 6.0), theirs=(4.0, 4.0))),
    }
    found = targets.verdicts(documents)
    assert [(one.measured, one.state) for one in found] == [
        (1.75, targets.MISSED),
        (None, targets.NOT_MEASURED),
        (7.0, targets.MET),
        (None, targets.TESTED),
    ]
    assert targets.counted(found) == "1 met, 1 missed, 1 not measured; 1 held by tests"
    assert "| ding / theirs | at least 2 | 1.75 | **missed** |" in targets.table(found)[2]


def test_the_list_of_targets_is_that_of_the_suites():
    listed = {
        (one["issue"], one["measurement"], one["operation"], tuple(one["modes"]), one["subject"], against)
        + (one.get("at_least"), one.get("at_most"))
        for one in targets.load_targets()
        if "tested_by" not in one
        for against in one.get("against", [None])
    }
    judged = {
        (target.issue, one.name, op.title, tuple(mode for mode in one.modes if mode in target.modes))
        + (target.subject, target.against, target.at_least if target.at_most is None else None, target.at_most)
        for name in suites.DEFAULT_SUITES
        for one in suites.load(name).measurements()
        for op in one.ops
        for target in op.targets
    }
    assert listed == judged


def test_what_the_targets_name_exists():
    found = {one.name: one for name in suites.SUITES for one in suites.load(name).measurements()}
    for target in targets.load_targets():
        if "tested_by" in target:
            assert (ROOT / target["tested_by"]).is_file()
            continue
        assert target["operation"] in {op.title for op in found[target["measurement"]].ops}


def test_the_page_leaves_out_what_another_suite_measured_later():
    old = document("old", measurement("a", ding=(9.0, 9.0)), finished="2026-01-01T00-00-00Z")
    new = document("new", measurement("a", ding=(8.0, 8.0)))
    text = docs.page({"old": old, "new": new})
    assert "## New" in text
    assert "## Old" not in text


def test_the_readme_shows_the_best_other_peer():
    op = "collect and store"
    rates = {"ding": (40.0, 40.0), "ding_gym_vector": (90.0, 90.0), "DI-engine": (10.0, 10.0)}
    peers = {"torchrl": (5.0, 5.0), "stable-baselines3": (20.0, 20.0)}
    text = _headline.block({"x": document("x", measurement("collector_base_8", op=op, **rates, **peers))})
    assert "| Collector, env steps/s | **40** | 10 (4x) | stable-baselines3: 20 (2x) |" in text
    assert "none has it" in text
    with pytest.raises(ValueError, match="there is no"):
        _headline.put_into("no marks", {})


def test_a_chart_carries_the_stamp_of_its_results(tmp_path):
    pytest.importorskip("matplotlib")
    one = document("tiny", measurement("a", ding=(1.0, 3.0), theirs=(2.0, 2.0)))
    write_chart(one, tmp_path / "tiny.png")
    assert (tmp_path / "tiny.png").read_bytes().startswith(b"\x89PNG")
    assert stamp_in(tmp_path / "tiny.png") == stamp_of(one)
    assert [file.name for file in tmp_path.iterdir()] == ["tiny.png"]


def test_pages_and_charts_are_those_of_the_latest_results():
    documents = load_latest()
    hint = "run python -m benchmarks.docs"
    assert docs.PAGE.read_text(encoding="utf-8") == docs.page(documents), hint
    readme = docs.README.read_text(encoding="utf-8")
    assert readme == _headline.put_into(readme, documents), hint
    for name, one in documents.items():
        assert stamp_in(RESULTS / "latest" / f"{name}.png") == stamp_of(one), hint


def test_setup_installs_anew_what_was_cut_off_or_has_other_pins(tmp_path, monkeypatch, capsys):
    made: list[Path] = []

    def make_venv(folder: Path, python: str) -> None:
        (folder / "bin").mkdir(parents=True)
        made.append(folder)

    monkeypatch.setenv(ENV_VARIABLE, str(tmp_path / "peers"))
    monkeypatch.setattr(setup, "REQUIREMENTS", tmp_path)
    monkeypatch.setattr(setup, "_make_venv", make_venv)
    monkeypatch.setattr(setup, "_run", lambda command: None)
    (tmp_path / "cpprb.txt").write_text("cpprb==1\n")
    (tmp_path / "peers" / "cpprb" / "bin").mkdir(parents=True)
    for pin, times in (("1", 1), ("1", 1), ("2", 2)):
        (tmp_path / "cpprb.txt").write_text(f"cpprb=={pin}\n")
        assert setup.main(["cpprb"]) == 0
        assert len(made) == times

    def fail(command: list[str]) -> None:
        raise subprocess.CalledProcessError(1, command, stderr="WARNING: of a setting\nERROR: no such version")

    monkeypatch.setattr(setup, "_run", fail)
    assert setup.main(["cpprb", "--renew"]) == 1
    assert install_error("cpprb") == "ERROR: no such version"
    assert "no such version" in capsys.readouterr().out


def test_quick_keeps_to_its_time_and_fails_when_an_own_side_does(monkeypatch, tmp_path):
    said: list[str] = []
    results = {"a": {"name": "a", "ops": [], "load": [], "errors": {"ding before": "ImportError: b"}}}
    results["b"] = {"name": "b", "ops": [], "load": [], "errors": {"ding": "trace\nImportError: c"}}
    chosen = [Measurement(name, name, (), ()) for name in results]
    monkeypatch.setattr(_quick, "parent_checkout", lambda commit: contextlib.nullcontext(tmp_path))
    monkeypatch.setattr(_quick, "quick_measurements", lambda other: chosen)
    monkeypatch.setattr(_quick, "run_measurement", lambda one, *_: results[one.name])
    assert _quick.run_quick("HEAD", 1, said.append, budget_s=0.0) == 0
    assert said[:2] == ["a: ding before did not run: ImportError: b", "left out for lack of time: b"]
    assert _quick.run_quick("HEAD", 1, said.append) == 1
    assert "b: ding did not run: ImportError: c" in said
