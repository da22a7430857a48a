"""Small helpers under the names of DI-engine's modules; values of DI-engine."""

import subprocess
import sys

import click
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from ding.utils.data.base_dataloader import IDataLoader
from ding.utils.deprecation import deprecated
from ding.utils.time_helper_base import TimeWrapper
from torch import nn

from ding.config.config import compile_collector_config, save_project_state
from ding.entry.cli import print_registry, print_version
from ding.envs.env_manager.base_env_manager import timeout_wrapper
from ding.envs.env_manager.subprocess_env_manager import is_abnormal_timestep
from ding.framework.middleware.functional.logger import action_prob, return_distribution, softmax
from ding.model.common.encoder import StructEncoder, prod
from ding.model.template.q_learning import parallel_wrapper
from ding.model.wrapper.model_wrappers import sample_action
from ding.policy.fqf import compute_grad_norm
from ding.policy.ppg import create_shuffled_dataloader
from ding.reward_model.ngu_reward_model import (
    collect_data_and_exclude_null_data_episodic,
    collect_data_and_exclude_null_data_rnd,
    collect_data_rnd,
)
from ding.torch_utils.network.nn_module import weight_init_
from ding.utils import fastcopy
from ding.utils.log_helper import TBLoggerFactory
from ding.utils.log_writer_helper import DistributedWriter, enable_parallel
from ding.utils.memory_helper import ActivationMemState, SimpleMemState, multi_chunk_test
from ding.utils.normalizer_helper import CDFNormalizer1d, atleast_2d, empirical_cdf
from ding.utils.pytorch_ddp_dist_helper import get_group, simple_group_split
from ding.utils.segment_tree import njit
from ding.worker.learner.learner_hook import find_char
from ding.worker.replay_buffer.advanced_buffer import to_positive_index

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("kind", "activation", "values"),
    [
        ("xavier", None, [0.974612, -0.185581, -1.37799, 0.359508, -0.685912, -0.884549]),
        ("kaiming", nn.LeakyReLU(0.2), [1.23378, -0.234931, -1.74443, 0.455109, -0.868313, -1.11977]),
        ("orthogonal", None, [0.573981, -0.109295, -0.811542, -0.345415, -0.930883, -0.118936]),
    ],
)
def test_weights(kind, activation, values) -> None:
    torch.manual_seed(0)
    weight = torch.zeros(2, 3)
    weight_init_(weight, kind, activation)
    assert weight.flatten().tolist() == pytest.approx(values, rel=1e-4)
    with pytest.raises(KeyError, match="unknown"):
        weight_init_(weight, "normal")


def test_memory_of_layers(tmp_path) -> None:
    root = SimpleMemState("root", MIB)
    root.add("a.b", 2 * MIB)
    root.add("a.c", MIB)
    assert root.total_mem == 4 * MIB
    leaves = [{"name": "b", "value": 2}, {"name": "c", "value": 1}]
    assert root.to_json() == {"name": "root", "children": [{"name": "a", "children": leaves}]}
    assert root.dump().splitlines()[0] == "layer: root, layer_mem: 1.00 MB, total_mem: 4.00 MB"
    root.delete("a.b")
    assert root.total_mem == 2 * MIB
    with pytest.raises(AssertionError, match="at the top"):
        root.delete("a")
    assert [state.layer_name for state in ActivationMemState(2).states] == ["activations_0", "activations_1"]
    multi_chunk_test(str(tmp_path))
    assert (tmp_path / "memory.log").read_text().count("step:") == 2


def test_shares_of_returns_and_actions() -> None:
    shares, borders = return_distribution([0, 10, 20, 100])
    assert shares.tolist() == [0, 0.75, 0, 0.25, 0]
    assert borders == ["-50.0", "-10.0", "30.0", "70.0", "110.0"]
    assert softmax(np.array([1000.0, 1000.0])).tolist() == [0.5, 0.5]

    class Bar:
        def set_height(self, height: float) -> None:
            self.height = height

    bars = [Bar(), Bar()]
    assert action_prob(1, [[0, 1], [0.25, 0.75]], bars) is bars
    assert [bar.height for bar in bars] == [0.25, 0.75]


def test_plain_functions() -> None:
    assert find_char("save_ckpt_after_iter", "_", 2, reverse=True) == 9
    assert (find_char("abc", "_", 1), prod([2, 3])) == (-1, 6)
    assert [to_positive_index(index, 5) for index in (None, 2, -1)] == [None, 2, 4]
    assert njit()(find_char)("a_b", "_", 1) == 1
    assert timeout_wrapper(prod) is prod
    assert timeout_wrapper(prod, timeout=30)([4, 2]) == 8

    class Timestep:
        info: object = {"abnormal": True}

    assert is_abnormal_timestep(Timestep())
    Timestep.info = [{}, {"abnormal": True}]
    assert is_abnormal_timestep(Timestep())
    Timestep.info = 1
    with pytest.raises(TypeError, match="int"):
        is_abnormal_timestep(Timestep())
    with pytest.raises(NotImplementedError):
        StructEncoder({"a": 1})


def test_copies() -> None:
    tensor = torch.ones(2, requires_grad=True)
    value = {"a": [np.zeros(2), 1], "b": tensor, "c": (tensor,)}
    copied = fastcopy.copy(value)
    assert copied["a"] is not value["a"]
    assert copied["a"][0] is not value["a"][0]
    assert copied["b"].grad_fn is not None
    assert copied["c"] is value["c"]


def test_a_deprecated_function_warns() -> None:
    @deprecated("1.0", "2.0", up_to="new")
    def old(x: int) -> int:
        """Add one."""
        return x + 1

    with pytest.warns(FutureWarning, match=r"small_helpers\.old is deprecated since 1\.0, .* 2\.0; use new"):
        assert old(1) == 2
    assert old.__doc__.startswith(".. deprecated:: 1.0")


def test_tensors() -> None:
    model = nn.Linear(2, 1)
    model(torch.tensor([[3.0, 4.0]])).sum().backward()
    assert float(compute_grad_norm(model)) == pytest.approx(26**0.5)
    batches = list(create_shuffled_dataloader({"a": torch.arange(5), "b": torch.arange(5)}, 2))
    assert sorted(int(one) for batch in batches for one in batch["a"]) == [0, 1, 2, 3, 4]
    assert parallel_wrapper(lambda x: {"y": [x * 2]})(torch.ones(3, 2, 4))["y"][0].shape == (3, 2, 4)
    prob = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert sample_action(prob=prob).tolist() == [1, 0]
    assert sample_action(logit=torch.zeros(2, 3, 4)).shape == (2, 3)
    samples = [{"obs": torch.arange(4), "action": torch.arange(4), "null": torch.tensor([0, 0, 1, 1])}]
    assert collect_data_rnd(samples)[0][0].tolist() == [0, 1, 2, 3]
    assert collect_data_and_exclude_null_data_rnd(samples)[0].tolist() == [0, 1]
    assert collect_data_and_exclude_null_data_episodic(samples)[1][0].tolist() == [0, 1]


def test_one_column_by_its_distribution() -> None:
    column = np.array([0.0, 1.0, 1.0, 4.0], np.float32)
    quantiles, shares = empirical_cdf(column)
    assert (quantiles.tolist(), shares.tolist()) == ([0, 1, 4], [0.25, 0.75, 1])
    one = CDFNormalizer1d(column)
    assert one.normalize(column).tolist() == [-0.5, 0.5, 0.5, 1]
    assert one.unnormalize(one.normalize(column)).tolist() == column.tolist()
    assert CDFNormalizer1d(np.ones(3)).normalize(column) is column
    assert atleast_2d(column).shape == (4, 1)
    assert get_group(1) is simple_group_split(1, 0, 1) is None
    with pytest.raises(AssertionError, match="3 ranks"):
        simple_group_split(3, 0, 2)


def test_loaders_writers_and_timers(tmp_path) -> None:
    class Loader(IDataLoader):
        _batch_size = 3

        def _get_data(self, batch_size=None):
            return [torch.ones(2)] * batch_size

    assert next(iter(Loader())).shape == (3, 2)
    writer = TBLoggerFactory.create_logger(str(tmp_path))
    assert TBLoggerFactory.create_logger(str(tmp_path)) is writer
    calls: list[object] = []
    enable_parallel("add_scalar", lambda writer, *args: calls.append(args))(writer, "a", 1)
    assert calls == [("a", 1)]
    sent: list[object] = []

    class Router:
        is_active = True

        def emit(self, event: str, *args: object) -> None:
            sent.append((event, *args))

    other = DistributedWriter(str(tmp_path / "b")).plugin(Router())
    enable_parallel("add_scalar", lambda writer, *args: calls.append(args))(other, "a", 2)
    assert (len(calls), sent) == (1, [("distributed_writer", "add_scalar", "a", 2)])
    writer.close()

    class Counter(TimeWrapper):
        @classmethod
        def start_time(cls) -> None:
            calls.clear()

        @classmethod
        def end_time(cls) -> float:
            return 2.0

    assert Counter.wrapper(prod)([2]) == (2, 2.0)


def test_configs(tmp_path, monkeypatch) -> None:
    policy = {"collect": {"collector": {"type": "sample", "collect_print_freq": 7, "deepcopy_obs": True}}}
    user = {"policy": {"collect": {"collector": {"collect_print_freq": 9}}}}
    cfg = compile_collector_config(policy, user, None)
    assert (cfg.type, cfg.collect_print_freq, cfg.deepcopy_obs, cfg.transform_obs) == ("sample", 9, True, False)
    with pytest.raises(AssertionError, match="collector"):
        compile_collector_config({}, user, None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    save_project_state("none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "a.txt").write_text("1")
    for words in (
        ["init", "-q"],
        ["add", "a.txt"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"],
    ):
        subprocess.run(["git", *words], check=True)
    (tmp_path / "a.txt").write_text("2")
    save_project_state("e")
    assert "one" in (tmp_path / "e" / "git_log.txt").read_text()
    assert "+2" in (tmp_path / "e" / "git_diff.txt").read_text()


def test_options_of_command_lines() -> None:
    @click.command()
    @click.option("--version", is_flag=True, callback=print_version, expose_value=False, is_eager=True)
    @click.option("--registry", callback=print_registry, expose_value=False, is_eager=True)
    def command() -> None:
        click.echo("ran")

    assert CliRunner().invoke(command, ["--version"]).output.startswith("ding ")
    assert "dqn" in CliRunner().invoke(command, ["--registry", "policy"]).output
    assert "[ERROR]" in CliRunner().invoke(command, ["--registry", "nothing"]).output
    assert CliRunner().invoke(command, []).output == "ran\n"


def test_they_cost_no_start_up_time() -> None:
    code = "import sys, ding.worker, ding.entry.cli; print([m for m in sys.modules if 'small_helpers' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
