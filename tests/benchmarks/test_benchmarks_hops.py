"""How much a reader has to open to follow one pass of a serial run; ``docs/architecture.md`` says the same."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import update_hops  # noqa: E402
from benchmarks.hops import median_pass, serial_passes  # noqa: E402


@pytest.mark.slow
def test_a_serial_pass_stays_short(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls = median_pass(serial_passes())
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    functions, files = map(int, re.search(r"really calls: (\d+) in (\d+) files", page).groups())
    assert len(calls) <= functions
    assert len({file for file, _ in calls}) <= files


@pytest.mark.parametrize("name", update_hops.BOUNDS)
def test_an_update_is_followed_in_few_functions_and_files(name):
    calls = update_hops.calls_of_update(name)
    functions, files = update_hops.BOUNDS[name]
    assert len(calls) <= functions
    assert len({file for file, _ in calls}) <= files
