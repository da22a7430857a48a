"""The example of self-play: some games of training, then its matches."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "selfplay.py"


@pytest.mark.slow
def test_the_example(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("example_selfplay", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.chdir(tmp_path)
    rates = module.main(seed=0, max_env_step=7_000, n_episode=20)
    opponent, snapshot = rates
    assert opponent == "GREEDY"
    assert snapshot.startswith("naive_sp_player_default_0_ckpt_")
    assert all(0 <= rate <= 1 for rate in rates.values())
