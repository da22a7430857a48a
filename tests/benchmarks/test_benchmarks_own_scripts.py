"""Benchmarks that are scripts of their own run to their end; what they measure is not judged."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import offline  # noqa: E402


def test_learning_from_a_data_set_beside_a_single_file(capsys):
    offline.speed(rounds=1, updates=2, compiled=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[-3:]]
    assert [line[0] for line in lines] == ["ding", "single", "ratio"]
    assert all(float(line[-1 if line[0] == "ratio" else -5]) > 0 for line in lines)
