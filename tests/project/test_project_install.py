"""What pip makes of the project: a source archive, a wheel from it, an editable install that type checkers follow.

Built by the build backend itself, without an index, and put into empty environments; the requirements are those of the
tests' own environment.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from resolve_extras import requirements

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import ding
import ding.worker
from ding.entry import serial_pipeline
from ding.policy import DQNPolicy
from ding.worker import BaseLearner, SampleSerialCollector

reveal_type(ding.load("exp"))
reveal_type(BaseLearner.train)
reveal_type(SampleSerialCollector.collect)
reveal_type(DQNPolicy.default_model)
reveal_type(serial_pipeline)
"""


def build(what: str, source: Path, out: Path) -> Path:
    """Call a hook of the build backend in ``source``; returns the file that it made in ``out``."""
    out.mkdir(exist_ok=True)
    code = f"from setuptools import build_meta; print(build_meta.build_{what}({str(out)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=True)
    return out / done.stdout.splitlines()[-1]


def source_of(folder: Path) -> Path:
    """A copy of the project, without what tests and builds left in it."""
    source = folder / "source"
    shutil.copytree(ROOT / "ding", source / "ding", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    return source


def environment(folder: Path, wheel: Path) -> Path:
    """The Python of a new environment with a wheel in it, and the packages of this one behind it."""
    venv.create(folder, with_pip=False, symlinks=True)
    site = next(folder.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    others = [path for path in sys.path if path.endswith("-packages")]
    (site / "z_requirements.pth").write_text("\n".join(others))
    return folder / "bin" / "python"


def run(python: Path, *args: str, cwd: Path) -> str:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([python, *args], cwd=cwd, capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_wheel_of_the_source_archive_has_every_file_and_runs(tmp_path) -> None:
    source = source_of(tmp_path)
    with tarfile.open(build("sdist", source, tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    wheel = build("wheel", next((tmp_path / "unpacked").iterdir()), tmp_path / "wheel")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("ding/")}
    assert packed == {path.relative_to(source).as_posix() for path in (source / "ding").rglob("*") if path.is_file()}
    python = environment(tmp_path / "env", wheel)
    assert run(python, "-m", "ding.entry", "-v", cwd=tmp_path).startswith("ding ")
    code = (
        "import ding; agent = ding.train('dqn', 'CartPole-v1', max_env_step=16); print(agent.exp_name, ding.__file__)"
    )
    assert run(python, "-c", code, cwd=tmp_path).split() == [
        "CartPole-v1-dqn",
        str(next((tmp_path / "env").glob("lib/python*/site-packages")) / "ding" / "__init__.py"),
    ]


@pytest.mark.slow
def test_type_checkers_follow_an_editable_install(tmp_path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    python = environment(tmp_path / "env", build("editable", source_of(tmp_path), tmp_path / "wheel"))
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "mypy", "--python-executable", str(python), "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run([*command, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    revealed = [line.partition("Revealed type is ")[2] for line in done.stdout.splitlines() if "Revealed" in line]
    assert len(revealed) == 5
    assert revealed[0] == '"ding.bonus.core.agent.Agent"'
    assert all("def (" in one and one != '"Any"' for one in revealed[1:])


def test_names_of_packages_that_export_lazily_can_be_completed() -> None:
    import ding.entry
    import ding.worker

    assert {"serial_pipeline", "serial_pipeline_onpolicy", "parallel_pipeline"} <= set(dir(ding.entry))
    assert "BaseLearner" in dir(ding.worker)


def test_each_requirement_of_an_extra_is_bounded_below_and_known_to_the_constraints() -> None:
    known = {Requirement(line).name.lower() for line in _constraints()}
    for extra, wanted in requirements().items():
        for one in map(Requirement, wanted):
            assert str(one.specifier) or one.extras, f"{extra}: {one} has no lower bound"
            assert one.name.lower() in known, f"{extra}: constraints.txt has no {one.name}"


def _constraints() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]
