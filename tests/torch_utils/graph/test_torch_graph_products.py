"""Large products of compiled graphs by oneDNN, where MKL leaves AVX-512 unused."""

import pytest
import torch

from ding.policy import DDPGPolicy
from ding.torch_utils.graph import products
from ding.utils import deep_merge_dicts

AMD = "vendor_id : AuthenticAMD\nflags : fpu avx2 avx512f\n"


@pytest.fixture
def slow_mkl(monkeypatch):
    monkeypatch.setattr(products, "mkl_is_slow", lambda: True)
    monkeypatch.setattr(products, "_LARGE", 64 * 48 * 32)


@pytest.fixture
def is_slow_with(monkeypatch, tmp_path):
    """Whether MKL is slow on a processor with this text."""

    def ask(cpuinfo, preloaded=False):
        (tmp_path / "cpuinfo").write_text(cpuinfo)
        monkeypatch.setattr(products, "_CPUINFO", tmp_path / "cpuinfo")
        monkeypatch.setattr(products, "_mkl_takes_it_for_intel", lambda: preloaded)
        return products.mkl_is_slow.__wrapped__()

    return ask


def matrices():
    generator = torch.Generator().manual_seed(0)
    x, weight, gradient = (torch.randn(*shape, generator=generator) for shape in ((64, 48), (32, 48), (64, 32)))
    return {"of a layer": (x, weight.t()), "of rows": (gradient, weight), "of a weight": (gradient.t(), x)}


@pytest.mark.parametrize("case", matrices())
def test_products_equal_those_of_torch(case):
    left, right = matrices()[case]
    found = products.onednn_product(left, right)
    assert found.is_contiguous()
    torch.testing.assert_close(found, left @ right, rtol=1e-5, atol=1e-5)


def test_only_large_products_of_floats_on_a_cpu_go_to_onednn(slow_mkl):
    left, right = torch.ones(64, 48), torch.ones(48, 32)
    assert products.is_better_by_onednn(left, right)
    assert not products.is_better_by_onednn(left[:63], right)
    assert not products.is_better_by_onednn(left.double(), right.double())
    assert not products.is_better_by_onednn(left.to("meta"), right.to("meta"))


def test_products_with_a_few_columns_are_transposed_where_that_is_faster(monkeypatch):
    gradient, x, wide = torch.ones(64, 32), torch.ones(64, 3), torch.ones(64, 20)
    for slow in (False, True):
        monkeypatch.setattr(products, "mkl_is_slow", lambda slow=slow: slow)
        assert products.is_better_transposed(gradient.t(), x)
        assert products.is_better_transposed(gradient, torch.ones(32, 3)) == slow
        assert not products.is_better_transposed(gradient.t(), wide)
        assert not products.is_better_transposed(torch.ones(64, 8).t(), x)
        assert not products.is_better_transposed(gradient.t().to("meta"), x.to("meta"))


def test_mkl_is_slow_on_amd_processors_with_avx_512(is_slow_with):
    there = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    assert is_slow_with(AMD) == there
    assert not is_slow_with(AMD, preloaded=True)
    assert not is_slow_with(AMD.replace("avx512f", ""))
    assert not is_slow_with(AMD.replace("AuthenticAMD", "GenuineIntel"))


def test_without_the_operator_products_stay_with_mkl(is_slow_with, monkeypatch):
    def fail():
        raise AttributeError("no such operator")

    monkeypatch.setattr(products, "_library", fail)
    assert not is_slow_with(AMD)


def policy(compiled):
    torch.manual_seed(0)
    model = {"obs_shape": 3, "action_shape": 1, "action_space": "regression"}
    heads = {"actor_head_hidden_size": 64, "critic_head_hidden_size": 64}
    overrides = {"model": {**model, **heads}, "learn": {"compile": compiled, "batch_size": 64}}
    return DDPGPolicy(deep_merge_dicts(DDPGPolicy.default_config(), overrides), enable_field=["learn"])


def learned(compiled):
    torch.manual_seed(1)
    agent = policy(compiled)
    shapes = {"obs": 3, "next_obs": 3, "action": 1, "reward": 1}
    logged = []
    for _ in range(3):
        columns = {key: torch.randn(64, size) for key, size in shapes.items()}
        rows = [{key: value[i] for key, value in columns.items()} | {"done": i % 7 == 0} for i in range(64)]
        logged.append(agent.learn_mode.forward(rows))
    return agent, logged


# Raised by torch when its compiler is imported.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
@pytest.mark.parametrize("compiled", ["record", pytest.param(True, marks=pytest.mark.slow)])
def test_recorded_updates_with_such_products_give_the_numbers_of_eager_ones(slow_mkl, monkeypatch, tmp_path, compiled):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    (_, expected), (agent, found) = learned(False), learned(compiled)
    assert found == [
        {key: pytest.approx(value, rel=1e-4, abs=1e-6) for key, value in each.items()} for each in expected
    ]
    graphs = agent.learn_mode.get_attribute("compiled_updates").graphs
    (graph,) = (each.graph for each in graphs._graphs.values())
    assert graphs.num_runs == 3
    names = [str(node.target) for node in graph.module.graph.nodes]
    assert names.count("ding.product.default") >= 6
    assert names.count("aten.mm.default") >= 1
