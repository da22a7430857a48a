"""`ding inspect` shows what a checkpoint holds, and whether the policy of a config loads it."""

from decimal import Decimal
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from ding.entry.cli import cli
from ding.policy import DQNPolicy
from ding.utils import deep_merge_dicts
from ding.utils.checkpoint import save_checkpoint

CONFIG = """
main_config = dict(env=dict(), policy=dict(cuda=True, model=dict(obs_shape=4, action_shape=2,
    encoder_hidden_size_list=[8], dueling=False)))
create_config = dict(env=dict(type='gymnasium'), env_manager=dict(type='base'), policy=dict(type='dqn'))
"""


def run(*args: object) -> tuple[int, list[str]]:
    result = CliRunner().invoke(cli, ["inspect", *map(str, args)])
    return result.exit_code, result.output.splitlines()


@pytest.fixture
def state() -> dict:
    """What the learner of a small DQN saves after a step."""
    model = {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [8], "dueling": False}
    policy = DQNPolicy(deep_merge_dicts(DQNPolicy.default_config(), {"cuda": False, "model": model}))
    state = policy.learn_mode.state_dict()
    moments = {0: {"step": torch.tensor(3.0), "exp_avg": torch.zeros(8, 4)}}
    return {**state, "optimizer": {**state["optimizer"], "state": moments}, "last_iter": 3, "last_step": 96}


def test_a_file_of_di_engine(state, tmp_path) -> None:
    path = tmp_path / "ckpt_best.pth.tar"
    torch.save(state, path)
    code, lines = run(path)
    assert code == 0
    assert lines[0] == f"{path}: {path.stat().st_size:,} bytes"
    assert (
        lines[1] == f"model: {len(state['model'])} tensors, {sum(v.numel() for v in state['model'].values())} numbers"
    )
    assert "  encoder.init.weight  float32 [8, 4]" in lines
    assert lines[-3:] == [
        f"optimizer: optimizer of {len(state['model'])} parameters, lr 0.001; step 3",
        "last_iter: 3",
        "last_step: 96",
    ]


def test_a_folder_of_ours_and_the_best_of_an_experiment(state, tmp_path) -> None:
    path = tmp_path / "exp" / "ckpt" / "iteration_3.pth.tar"
    path.parent.mkdir(parents=True)
    save_checkpoint(path, state, {"train_iter": 3})
    code, lines = run(path.with_name("iteration_3"))
    assert code == 0
    assert "written by ding " in lines[0]
    assert lines[1].startswith("  learner.pth.tar: ")
    assert lines[2] == "  train_iter: 3"
    assert run(tmp_path / "exp")[1][0].startswith(f"{path}: ")


def test_other_entries_are_shown_short(tmp_path) -> None:
    path = tmp_path / "a.pth.tar"
    torch.save({"part": {"alpha": torch.tensor(0.5), "name": "x"}, "seen": list(range(30)), "of": {}}, path)
    assert run(path)[1][1:] == [
        *("part: 2 entries", "  alpha: float32 [] = 0.5", "  name: 'x'"),
        *("seen: list of 30", "of: 0 entries"),
    ]


@pytest.mark.parametrize("change", [False, True])
def test_whether_a_policy_loads_it(state, tmp_path, change) -> None:
    path, config = tmp_path / "ckpt.pth.tar", tmp_path / "config.py"
    config.write_text(CONFIG)
    if change:
        del state["model"]["encoder.init.bias"]
    torch.save(state, path)
    code, lines = run(path, "-c", config)
    assert code == int(change)
    expected = "the state does not fit DQNPolicy: model: 1 not there (encoder.init.bias)" if change else "fits DQN"
    assert lines[-1].startswith(expected)


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda path: path.write_bytes(b"no checkpoint"), "is no file of torch.save"),
        (lambda path: torch.save({"x": Decimal(1)}, path), "is refused: it holds decimal.Decimal"),
        (lambda path: torch.save([1, 2], path), "is no checkpoint: it holds a list"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(tmp_path, write, reason) -> None:
    path = Path(tmp_path / "bad.pth.tar")
    write(path)
    code, lines = run(path)
    assert code == 2
    assert len(lines) == 1
    assert reason in lines[0]
    assert run(tmp_path / "none.pth.tar")[0] == 2


def test_a_folder_without_a_checkpoint(tmp_path) -> None:
    assert run(tmp_path) == (2, [f"ding: {tmp_path} is no checkpoint, and no experiment folder with one"])


def test_a_checkpoint_for_acting_fits(state, tmp_path) -> None:
    path, config = tmp_path / "ckpt_best.pth.tar", tmp_path / "config.py"
    config.write_text(CONFIG)
    torch.save({"model": state["model"]}, path)
    code, lines = run(path, "-c", config)
    assert (code, lines[-1].startswith("fits DQNPolicy")) == (0, True)
