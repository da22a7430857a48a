"""Benchmarks that are scripts of their own run to their end; what they measure is not judged."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import mujoco, offline  # noqa: E402


def test_learning_from_a_data_set_beside_a_single_file(capsys):
    offline.speed(rounds=1, updates=2, compiled=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[-3:]]
    assert [line[0] for line in lines] == ["ding", "single", "ratio"]
    assert all(float(line[-1 if line[0] == "ratio" else -5]) > 0 for line in lines)


def test_curves_beside_those_of_stable_baselines3(tmp_path):
    rows = '{"env_step": 5000, "return": 1.5, "cpu_s": 1.0}\n{"env_step": 10000, "return": 2.5, "cpu_s": 2.0}\n'
    (tmp_path / "hopper_sac_s0_sb3.jsonl").write_text(rows)
    assert mujoco.curves("hopper_sac", tmp_path)["stable-baselines3"] == [([5000, 10000], [1.5, 2.5])]
    mujoco.plot(tmp_path, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
