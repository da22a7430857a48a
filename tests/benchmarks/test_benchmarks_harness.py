"""The harness of the benchmarks on tiny sides: turns, checks of equal work, verdicts, tables."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import _headline, _process, _quick, _runner, docs, suites  # noqa: E402
from benchmarks._peers import ENV_VARIABLE, PEERS, PeerMissing, python_of, without_paths  # noqa: E402
from benchmarks._plan import AGAIN, DEFAULT_THREADS, ONE_THREAD, Measurement, OpSpec, Target  # noqa: E402
from benchmarks._process import Contestant, SideError, SideProcess, child_env  # noqa: E402
from benchmarks._report import markdown, number  # noqa: E402
from benchmarks._runner import run_measurement  # noqa: E402
from benchmarks._stats import Summary, noise, paired_ratio, relative_spread  # noqa: E402
from benchmarks._store import load_latest, make_document, save  # noqa: E402
from benchmarks.profile import stage_of  # noqa: E402

SIDE = """
import sys, time
from bench_side import Op, Side, serve
pause, per, batch = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
done = {"steps": 0, "updates": 0}
def step():
    time.sleep(pause)
    done["steps"] += 10
    done["updates"] += per
    print("noise of a library")
    return {"size": pause}
def build():
    if pause > 9:
        raise RuntimeError("broken side")
    return Side({"go": Op(step, lambda: dict(done)), "one": Op(step, lambda: {}, single=True)}, {"batch": batch})
serve(build)
"""


# Built only when another process holds the other end of the pipe.
MEETING_SIDE = """
import os, sys, time
from bench_side import Op, Side, serve
steps = 0
def go():
    global steps
    time.sleep(0.001)
    steps += 1
def build():
    os.mkdir(os.path.join(sys.argv[1], str(os.getpid())))
    while len(os.listdir(sys.argv[1])) < 2:
        time.sleep(0.01)
    return Side({"go": Op(go, lambda: {"steps": steps})}, {})
serve(build)
"""


@pytest.fixture
def side(tmp_path: Path):
    script = tmp_path / "side.py"
    script.write_text(SIDE)

    def make(label: str, pause: float, per: int = 1, batch: int = 64) -> Contestant:
        return Contestant(label, "ding", str(script), (str(pause), str(per), str(batch)))

    return make


def measure(contestants, *ops: OpSpec, persistent: bool = True, rounds: int = 2) -> dict:
    one = Measurement("tiny", "Tiny", tuple(contestants), ops, persistent=persistent)
    return run_measurement(one, ONE_THREAD, rounds, 1.0, lambda _: None)


def go(**changes) -> OpSpec:
    return OpSpec(**{"name": "go", "title": "go on", "unit": "steps", "seconds": 0.05, **changes})


def test_the_faster_side_wins_and_the_target_is_judged(side):
    targets = (Target(2, "slow", 2.0), Target(2, "slow", 1000.0), Target(2, None, 1.0), Target(2, "absent", 1.0))
    result = measure([side("ding", 0.002), side("slow", 0.02)], go(targets=targets))
    op = result["ops"][0]
    assert op["ratios"]["slow"] > 2
    assert [target["met"] for target in op["targets"]] == [True, False, True, None]
    assert op["noise"] is not None
    assert list(op["figures"]) == ["ding", "slow"]
    assert len(op["figures"]["ding"]["wall"]) == 2
    assert result["errors"] == {}


def test_other_work_is_not_compared(side):
    result = measure([side("ding", 0.001), side("other", 0.001, batch=32)], go())
    assert "other work" in result["errors"]["other"]
    assert list(result["ops"][0]["figures"]) == ["ding"]


def test_work_may_vary_in_what_is_compared(side):
    sides = (side("ding", 0.001), side("other", 0.001, batch=32))
    one = Measurement("tiny", "Tiny", sides, (go(),), varies=("batch",))
    result = run_measurement(one, ONE_THREAD, 1, 1.0, lambda _: None)
    assert result["errors"] == {}
    assert result["work"] == {}
    assert result["ops"][0]["ratios"] == {}
    document = make_document("scaling", "Scaling", [result], 1, "python -m benchmarks scaling")
    assert "; other: " in docs.page({"scaling": document})


def test_one_answer_gives_the_figures_of_several_operations(side):
    values = [OpSpec("one", title, "s", None, value="size") for title in ("a", "b")]
    rate = go()
    one = Measurement("tiny", "Tiny", (side("ding", 0.001),), (values[0], rate, values[1]), most_rounds=1)
    assert one.asked() == [(values[0], values[1]), (rate,)]
    result = run_measurement(one, ONE_THREAD, 3, 1.0, lambda _: None)
    figures = {op["title"]: op["figures"]["ding"]["wall"] for op in result["ops"]}
    assert (figures["a"], figures["b"]) == ((0.001,), (0.001,))
    assert len(figures["go on"]) == 1


def test_updates_per_step_are_counted(side):
    op = go(proportion=("updates", "steps", 0.1))
    result = measure([side("ding", 0.001, per=1), side("lazy", 0.001, per=0)], op)
    assert "expected 0.1 each" in result["errors"]["lazy"]
    assert "ding" not in result["errors"]


def test_exact_counts_of_fresh_sides(side):
    op = go(seconds=None, exact=("steps", "updates"))
    result = measure([side("ding", 0.001), side("more", 0.001, per=2)], op, persistent=False)
    assert "more: 2 updates, ding had 1" in result["errors"]["more"]
    assert result["ops"][0]["counts"]["ding"]["steps"] == 20


def test_values_where_less_is_better(side):
    op = OpSpec("one", "size", "bytes", None, value="size", lower=True, targets=(Target(3, None, at_most=0.5),))
    result = measure([side("ding", 0.001), side("other", 0.004)], op)
    assert result["ops"][0]["ratios"]["other"] == pytest.approx(0.25)
    assert result["ops"][0]["targets"][0] == {
        "text": "issue 3: ding at most 0.5",
        "measured": pytest.approx(0.001),
        "met": True,
    }


def test_a_broken_side_is_reported_and_the_rest_goes_on(side):
    result = measure([side("ding", 0.001), side("broken", 10)], go(), rounds=1)
    assert "RuntimeError: broken side" in result["errors"]["broken"]
    assert result["ops"][0]["figures"]["ding"]["median"] > 0


def test_sides_are_built_beside_each_other(tmp_path, monkeypatch):
    """Each waits until another one is being built too."""
    monkeypatch.setattr(_runner, "BUILD_AT_ONCE", 2)
    monkeypatch.setattr(_process, "START_TIMEOUT_S", 30.0)
    script = tmp_path / "side.py"
    script.write_text(MEETING_SIDE)
    (tmp_path / "met").mkdir()
    ends = [Contestant(label, "ding", str(script), (str(tmp_path / "met"),)) for label in ("ding", "other")]
    result = measure(ends, go(), rounds=1)
    assert result["errors"] == {}
    assert list(result["ops"][0]["figures"]) == ["ding", "other"]


def test_a_missing_peer_is_reported(side, tmp_path, monkeypatch):
    monkeypatch.setenv(ENV_VARIABLE, str(tmp_path))
    (tmp_path / "rlox.error.txt").write_text("no wheel for this machine")
    result = measure([side("ding", 0.001), Contestant("SB3", "sb3", "x.py"), Contestant("rlox", "rlox", "x.py")], go())
    assert "python -m benchmarks.setup sb3" in result["errors"]["SB3"]
    assert "no wheel for this machine" in result["errors"]["rlox"]
    with pytest.raises(PeerMissing, match="unknown peer"):
        python_of("nobody")


def test_a_silent_side_is_given_up(side):
    with SideProcess(side("slow", 0.5), 1) as process, pytest.raises(SideError, match="no answer within 0 s"):
        process.ask(timeout_s=0.1, op="one", calls=1)
    assert not process.is_running


def test_the_environment_of_a_side(side, monkeypatch, tmp_path):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    one, default = (child_env(side("ding", 0), threads) for threads in (1, None))
    assert one["OMP_NUM_THREADS"] == "1"
    assert "OMP_NUM_THREADS" not in default
    assert default["PYTHONPATH"].split(":") == [str(ROOT), str(_process.SIDEKIT)]
    peer = child_env(Contestant("SB3", "sb3", "x.py"), None)
    assert str(ROOT) not in peer["PYTHONPATH"].split(":")
    assert "BENCH_DING_ROOT" not in peer


def test_statistics():
    ours, theirs = Summary((10.0, 30.0, 20.0), (1.0, 2.0, 3.0)), Summary((5.0, 10.0, 40.0), (1.0, 1.0, 1.0))
    assert (ours.median, ours.best, ours.median_cpu) == (20.0, 30.0, 2.0)
    assert paired_ratio(ours, theirs) == 2.0
    assert paired_ratio(ours, theirs, cpu=True) == 2.0
    assert noise(ours, theirs) == 1.0
    assert relative_spread([1.0, 2.0, 3.0]) == pytest.approx(0.5)
    assert relative_spread([1.0]) == 0.0
    assert [number(value) for value in (1234567.0, 123.4, 0.01234)] == ["1,234,567", "123", "0.0123"]


def test_results_are_written_and_become_a_page(side, tmp_path):
    result = measure([side("ding", 0.001), side("slow", 0.004)], go(targets=(Target(2, "slow", 1000.0),)), rounds=1)
    document = make_document("collector", "Collector", [result], 1, "python -m benchmarks collector")
    file = save(document, tmp_path / "results")
    assert "| slow |" in file.read_text()
    assert "**missed**" in markdown(document)
    assert load_latest(tmp_path / "results")["collector"] == json.loads(json.dumps(document))
    assert len(list((tmp_path / "results" / "history").iterdir())) == 1
    files = {name: tmp_path / f"{name}.md" for name in ("page", "readme")}
    files["readme"].write_text(f"# A\n{_headline.BEGIN}\nold\n{_headline.END}\nrest\n")
    words = ["--results", str(tmp_path / "results"), "--out", str(files["page"]), "--readme", str(files["readme"])]
    assert docs.main(words) == 0
    page, readme = (file.read_text() for file in files.values())
    assert "## Collector" in page
    assert readme.startswith("# A\n")
    assert readme.endswith("rest\n")
    assert "old" not in readme
    assert "not measured" in readme
    assert str(tmp_path) not in page
    del document["measurements"][0]["ops"][0]["figures"]["ding"]
    assert "| Tiny: go on | one thread | " not in docs.page({"collector": document}).partition("### Targets")[0]


@pytest.mark.parametrize(
    ("wall", "cpu", "load", "slower"),
    [
        (60.0, 60.0, 0.5, True),
        (97.0, 97.0, 0.5, False),
        (150.0, 150.0, 0.5, False),
        (60.0, 99.0, 0.5, True),
        (60.0, 99.0, 1000.0, False),
        (99.0, 60.0, 1000.0, True),
    ],
)
def test_quick_names_what_became_slower(wall, cpu, load, slower):
    def figure(wall: float, cpu: float) -> dict:
        return Summary((wall, wall), (cpu, cpu)).as_dict()

    figures = {"ding": figure(wall, cpu), "ding before": figure(100.0, 100.0)}
    head = {"name": "go", "title": "go", "unit": "steps/s", "lower": False}
    op = {**head, "noise": 0.02, "cpu_noise": 0.01, "figures": figures}
    found = _quick.compared({"name": "tiny", "ops": [op], "load": [load]})
    assert [worse for _, worse in found] == [slower]


def test_every_suite_is_well_formed():
    names = set()
    for suite in suites.SUITES:
        module = suites.load(suite)
        assert module.TITLE
        for one in module.measurements():
            labels = {contestant.label for contestant in one.contestants}
            assert len(labels) == len(one.contestants)
            assert len({op.title for op in one.ops}) == len(one.ops)
            for contestant in one.contestants:
                assert contestant.peer == "ding" or contestant.peer in PEERS
                assert (ROOT / "benchmarks" / contestant.script).is_file()
            for op in one.ops:
                for target in op.targets:
                    assert {target.subject, target.against} - {None} <= labels
            if suite != "vs_reference":
                assert one.name not in names
                names.add(one.name)
    with pytest.raises(KeyError, match="unknown suite"):
        suites.load("nothing")
    for peer in PEERS:
        assert (ROOT / "benchmarks" / "requirements" / f"{peer}.txt").is_file()


def test_quick_measures_own_sides_of_two_checkouts(tmp_path):
    chosen = _quick.quick_measurements(tmp_path)
    assert chosen
    for one in chosen:
        assert {contestant.peer for contestant in one.contestants} == {"ding"}
        assert [c.root for c in one.contestants] == [None, tmp_path]
        assert one.ops


def test_threads_of_a_pinned_side():
    one = Measurement("tiny", "Tiny", (), (), pinned={"fixed": ONE_THREAD})
    assert one.threads_of("fixed" + AGAIN, DEFAULT_THREADS) == 1
    assert one.threads_of("free", DEFAULT_THREADS) is None


@pytest.mark.parametrize(
    ("file", "name", "stage"),
    [
        ("ding/worker/replay_buffer/naive_buffer.py", "sample", "sample"),
        ("ding/worker/replay_buffer/naive_buffer.py", "push", "push"),
        ("ding/worker/collector/_rollout.py", "step", "transition"),
        ("ding/envs/env_manager/base_env_manager.py", "step", "env"),
        ("site-packages/torch/optim/adam.py", "step", "update"),
        ("~", "<built-in method builtins.len>", "other"),
    ],
)
def test_stages_of_a_profile(file, name, stage):
    assert stage_of((file, 1, name)) == stage


def test_recorded_text_names_no_folder_of_the_machine():
    assert without_paths(f"{ROOT}/ding/x.py failed") == "<repo>/ding/x.py failed"
