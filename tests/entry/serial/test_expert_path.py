"""Learning beside an expert: what a batch holds, whose priorities go where, and what a run needs."""

import contextlib
import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from easydict import EasyDict

import ding
from ding.config import ConfigValueError, compile_config, read_config
from ding.data import TransitionBatch
from ding.entry import serial_pipeline_dqfd, serial_pipeline_r2d3, serial_pipeline_sqil
from ding.entry.cli import cli
from ding.entry.serial.expert_path import ExpertPath, Mix, mark_expert
from ding.entry.serial_entry_sqil import with_rewards_of_imitation
from ding.policy import create_policy
from ding.utils.file_helper import save_file

CONFIGS = Path(ding.__file__).parents[1] / "configs" / "cartpole"


class Rows:
    """A buffer of rows that gives them in order, and notes what is pushed and updated."""

    def __init__(self, name: str) -> None:
        self.name, self.pushed, self.updates = name, [], []

    def push(self, data: Any, cur_collector_envstep: int) -> None:
        self.pushed.append(data)

    def sample(self, size: int, train_iter: int) -> Any:
        return [{"from": self.name, "replay_unique_id": f"{self.name}{i}"} for i in range(size)]

    def update(self, info: dict[str, Any]) -> None:
        self.updates.append(info)


def make_path(mix: Mix, resumed_at: int | None = None) -> tuple[ExpertPath, Rows, Rows, Any]:
    own, theirs = Rows("own"), Rows("expert")
    attributes = {"batch_size": 4, "priority": True}
    learner = SimpleNamespace(
        train_iter=resumed_at or 0, policy=SimpleNamespace(get_attribute=attributes.get), priority_info={}
    )
    collector = SimpleNamespace(envstep=0, collect=lambda **kwargs: [{"obs": 0, "done": False}] * 2)
    policy = {"learn": {"update_per_collect": 2, "resume_training": resumed_at is not None}}
    parts: Any = SimpleNamespace(
        cfg=EasyDict(policy=policy),
        learner=learner,
        collector=collector,
        commander=SimpleNamespace(step=dict),
        policy=None,
        buffer=own,
    )
    expert: Any = SimpleNamespace(collect=lambda n_sample: [{"obs": 1, "done": False}] * n_sample)
    return ExpertPath(parts, contextlib.nullcontext, (expert, theirs), mix), own, theirs, learner


def mix(**kwargs: Any) -> Mix:
    return Mix(**{"label": mark_expert, "num_expert": lambda size: 1, "buffer": {}, "first_count": 3, **kwargs})


def test_batches_have_the_agents_samples_first_and_priorities_find_their_buffer():
    path, own, theirs, learner = make_path(mix())
    path.prepare()
    assert theirs.pushed == [[{"obs": 1, "done": False, "is_expert": 1}] * 3]
    path.collect()
    assert own.pushed == [[{"obs": 0, "done": False, "is_expert": 0}] * 2]
    assert len(theirs.pushed) == 1
    for batch in path.batches():
        assert [row["from"] for row in batch] == ["own"] * 3 + ["expert"]
        ids = [row["replay_unique_id"] for row in batch]
        learner.priority_info = {"priority": [1.0, 2.0, 3.0, 4.0], "replay_unique_id": ids}
        path.trained()
    assert own.updates == [{"priority": [1.0, 2.0, 3.0], "replay_unique_id": ["own0", "own1", "own2"]}] * 2
    assert theirs.updates == [{"priority": [4.0], "replay_unique_id": ["expert0"]}] * 2


@pytest.mark.parametrize(("resumed_at", "alone"), [(None, 3), (2, 1), (5, 0)])
def test_the_first_updates_are_of_demonstrations_alone(resumed_at, alone):
    path, own, _, _ = make_path(mix(lone_updates=3), resumed_at)
    path.prepare()
    sizes = []
    for _ in range(4):
        path.collect()
        sizes.append([sum(row["from"] == "expert" for row in batch) for batch in path.batches()])
    assert sizes == [[4]] * alone + [[1, 1]] * (4 - alone)
    assert len(own.pushed) == 4 - alone


def test_an_expert_that_plays_in_each_pass():
    path, _, theirs, _ = make_path(mix(first_count=0, pass_count=2, num_expert=lambda size: size))
    path.prepare()
    assert theirs.pushed == []
    path.collect()
    assert [len(pushed) for pushed in theirs.pushed] == [2]
    assert [[row["from"] for row in batch] for batch in path.batches()] == [["expert"] * 4] * 2


def test_marks_are_one_for_each_step_of_a_sequence():
    columns = mark_expert(TransitionBatch({"done": np.zeros((2, 3), bool)}), True).columns
    assert columns["is_expert"].tolist() == [[1, 1, 1]] * 2
    flat = mark_expert(TransitionBatch({"done": np.zeros(2, bool)}), False).columns
    assert flat["is_expert"].tolist() == [0, 0]
    assert [row["is_expert"] for row in mark_expert([{"done": [False] * 3}, {"done": True}], True)] == [[1] * 3, 1]


def test_imitation_has_rewards_of_its_own():
    for reward in (torch.full((2, 3), 0.5), np.full((2, 3), 0.5)):
        batch = TransitionBatch({"reward": reward})
        for is_expert in (True, False):
            assert np.asarray(with_rewards_of_imitation(batch, is_expert).columns["reward"]).tolist() == (
                [[float(is_expert)] * 3] * 2
            )
        assert np.asarray(batch.columns["reward"]).tolist() == [[0.5] * 3] * 2
    rows = with_rewards_of_imitation([{"obs": 1, "reward": torch.tensor([0.5])}], True)
    assert rows == [{"obs": 1, "reward": torch.tensor([1.0])}]


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def prepared(name: str) -> tuple[EasyDict, EasyDict]:
    """The config of an algorithm, small, with the weights of an expert that has learned nothing."""
    main, create = read_config(CONFIGS / f"cartpole_{name}_config.py")
    main.exp_name = "e"
    main.env.update(collector_env_num=2, evaluator_env_num=2, n_evaluator_episode=2)
    main.policy.learn.batch_size = 8
    if name != "sqil":
        main.policy.learn.update(expert_replay_buffer_size=64, per_train_iter_k=2)
    main.policy.collect.model_path = "expert.pth.tar"
    main.policy.model.encoder_hidden_size_list = [8, 8]
    if name == "r2d3":
        main.policy.collect.update(env_num=2, n_sample=8)
        main.policy.learn.expert_replay_buffer_size = 16
        main.policy.eval.env_num = 2
        main.policy.update(learn_unroll_len=7, burnin_step=1)
    policy = create_policy(compile_config(main, auto=True, create_cfg=create, save_cfg=False).policy)
    save_file("expert.pth.tar", policy.learn_mode.state_dict())
    return main, create


@pytest.mark.parametrize(
    ("name", "pipeline"),
    [("dqfd", serial_pipeline_dqfd), ("r2d3", serial_pipeline_r2d3), ("sqil", serial_pipeline_sqil)],
)
def test_a_run_of_some_passes(workplace, name, pipeline):
    config = prepared(name)
    before = copy.deepcopy(config)
    policy = pipeline(config, config, seed=0, max_env_step=60, strict=True)
    assert config == before
    result = json.loads(Path("e/result.json").read_text())
    assert result["env_step"] >= 60
    assert result["train_iter"] > 2
    assert Path("e/expert_config.py").is_file()
    if name != "dqfd":
        return
    weights = policy.learn_mode.state_dict()["model"]
    again = pipeline(config, config, seed=0, max_env_step=60)
    assert all(torch.equal(value, again.learn_mode.state_dict()["model"][key]) for key, value in weights.items())


def test_the_experts_samples_have_the_steps_of_the_agents(workplace):
    main, create = prepared("sqil")
    expert_main = copy.deepcopy(main)
    main.policy.nstep, expert_main.policy.nstep = 1, 3
    serial_pipeline_sqil((main, create), (expert_main, create), seed=0, max_env_step=40, strict=True)
    assert json.loads(Path("e/result.json").read_text())["train_iter"] > 0


def test_a_run_without_demonstrations_needs_no_expert(workplace):
    main, create = prepared("dqfd")
    Path("expert.pth.tar").unlink()
    with pytest.raises(ConfigValueError, match=r"model_path: there is no checkpoint expert\.pth\.tar"):
        serial_pipeline_dqfd((main, create), (main, create))
    assert not Path("e").exists()
    main.policy.learn.expert_replay_buffer_size = 0
    serial_pipeline_dqfd((main, create), (main, create), max_env_step=40)
    assert json.loads(Path("e/result.json").read_text())["train_iter"] > 0


def test_from_the_command_line_the_experts_config_is_asked_for(workplace):
    main, create = prepared("dqfd")
    text = f"main_config = {json.dumps(main)}\ncreate_config = {json.dumps(create)}\n"
    Path("c.py").write_text(text.replace("true", "True").replace("false", "False").replace("null", "None"))
    words = ["-m", "serial_dqfd", "-c", "c.py", "--env-step", "20", "--quiet"]
    for more, answer, exp in (([], "c.py\n", "asked"), (["--expert-config", "c.py"], None, "named")):
        result = CliRunner().invoke(cli, [*words, *more, "--exp-name", exp], input=answer)
        assert result.exit_code == 0, result.output
        assert ("The config file of the expert" in result.output) == (answer is not None)
        assert Path(exp, "result.json").is_file()


@pytest.mark.parametrize("kind", ["r2d2_collect_traj", "offppo_collect_traj"])
def test_the_expert_of_r2d3_may_be_one_that_only_collects(workplace, kind):
    main, create = prepared("r2d3")
    expert_main, expert_create = copy.deepcopy((main, create))
    expert_create.policy.type = kind
    expert_main.policy.unroll_len = expert_main.policy.pop("learn_unroll_len")
    if kind.startswith("offppo"):
        expert_main.policy.unroll_len = expert_main.policy.collect.unroll_len = 8
        expert_main.policy.model.encoder_hidden_size_list = [64, 64]
        policy = create_policy(compile_config(expert_main, auto=True, create_cfg=expert_create, save_cfg=False).policy)
        save_file("expert.pth.tar", policy.learn_mode.state_dict())
    serial_pipeline_r2d3((main, create), (expert_main, expert_create), seed=0, max_env_step=60)
    assert json.loads(Path("e/result.json").read_text())["train_iter"] > 2
