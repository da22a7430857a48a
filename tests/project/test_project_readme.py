"""What the README and the examples show is run as it stands."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ding.entry.cli import cli

ROOT = Path(__file__).resolve().parents[2]


def run(code_or_file: "str | Path", cwd: Path) -> str:
    words = [str(code_or_file)] if isinstance(code_or_file, Path) else ["-c", code_or_file]
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, capture_output=True, text=True, timeout=300, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.S)


def test_the_scripts_of_the_readme_run(tmp_path) -> None:
    pipeline, agent = blocks("python")
    assert len(pipeline.strip().splitlines()) <= 20
    run(pipeline, tmp_path)
    assert (tmp_path / "my_cartpole_dqn" / "result.json").is_file()
    assert "EvalReturn(eval_value=" in run(agent, tmp_path)
    assert (tmp_path / "my_cartpole_ppo" / "result.json").is_file()


def test_the_files_that_the_readme_links_to_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target


def test_the_lines_of_the_readme_name_what_exists() -> None:
    train, first_hour, test, measure = blocks("sh")
    for command in re.findall(r"^ding (\w+)", first_hour, re.M):
        assert cli.get_command(click.Context(cli), command) is not None, command
    assert (ROOT / re.search(r"-c (configs/\S+)", train).group(1)).is_file()
    assert "constraints.txt" in train
    assert test.strip().endswith("pytest -n 2")
    modules = re.findall(r"python -m benchmarks(?:\.(\w+))?", measure)
    assert modules
    assert all((ROOT / "benchmarks" / f"{name or '__main__'}.py").is_file() for name in modules)


@pytest.mark.parametrize("name", ["own_env", "own_policy"])
def test_the_examples_run(name, tmp_path) -> None:
    assert "solved" in run(ROOT / "examples" / f"{name}.py", tmp_path)


def test_the_classic_api_by_hand(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("classic_dqn", ROOT / "examples" / "classic_dqn.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main(max_env_step=6000) >= 195
    assert (tmp_path / "cartpole_classic_dqn" / "ckpt" / "ckpt_best.pth.tar").is_file()
