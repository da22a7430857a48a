"""``policy.learn.compile``: updates as recorded and compiled graphs give the numbers of eager ones."""

import contextlib
import logging
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from ding.data import TransitionBatch
from ding.policy import DQNPolicy, PolicyConfigError
from ding.torch_utils import SGD
from ding.torch_utils.graph import compiled_graphs
from ding.utils import deep_merge_dicts
from tests.torch_utils.graph.test_torch_graph_capture import Captures

ROWS = 8


def make(compiled: Any, cls: Any = DQNPolicy, **overrides: Any) -> Any:
    torch.manual_seed(0)
    model = {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [8, 8]}
    cfg = deep_merge_dicts(cls.default_config(), {"model": model, "learn": {"compile": compiled, "batch_size": ROWS}})
    return cls(deep_merge_dicts(cfg, overrides), enable_field=["learn"])


def batches(count: int, rows: int = ROWS) -> list[TransitionBatch]:
    rng = np.random.default_rng(0)
    return [
        TransitionBatch({
            "obs": torch.from_numpy(rng.normal(size=(rows, 4)).astype(np.float32)),
            "next_obs": torch.from_numpy(rng.normal(size=(rows, 4)).astype(np.float32)),
            "action": torch.from_numpy(rng.integers(0, 2, (rows, 1))),
            "reward": torch.from_numpy(rng.normal(size=(rows, 1)).astype(np.float32)),
            "done": rng.random(rows) < 0.2,
        })
        for _ in range(count)
    ]  # fmt: skip


def weights(policy: Any) -> dict[str, torch.Tensor]:
    state = policy.learn_mode.state_dict()
    return {
        f"{part}.{name}": value.clone() for part in ("model", "target_model") for name, value in state[part].items()
    }


def assert_close(left: Any, right: Any, rtol: float = 1e-4) -> None:
    one, other = weights(left), weights(right)
    assert one.keys() == other.keys()
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=rtol, atol=1e-6, msg=name)


RULES = {
    "copied": {"learn": {"target_update_freq": 3}},
    "moved": {"learn": {"target_update_freq": None, "target_theta": 0.1}},
    "clipped by norm": {"learn": {"grad_clip_type": "clip_norm", "grad_clip_value": 0.1}},
    "clipped by value": {"learn": {"grad_clip_type": "clip_value", "grad_clip_value": 0.01, "weight_decay": 0.1}},
    "with a schedule": {"learn": {"lr_scheduler": {"epoch_num": 5, "min_lr_lambda": 0.1}}},
}


@pytest.mark.parametrize("rule", RULES)
def test_recorded_updates_give_the_numbers_of_eager_ones(rule):
    eager, recorded = make(False, **RULES[rule]), make("record", **RULES[rule])
    for batch in batches(7):
        expected, found = eager.learn_mode.forward(batch), recorded.learn_mode.forward(batch)
        assert found == {key: pytest.approx(value, rel=1e-4, abs=1e-6) for key, value in expected.items()}
    assert_close(eager, recorded)
    assert recorded.learn_mode.get_attribute("compiled_updates").graphs.num_compiled == 1


def test_several_updates_in_a_call_are_those_of_several_calls():
    one, joined = make("record"), make("record")
    parts = batches(6)
    single = [one.learn_mode.forward(part) for part in parts]
    several = [
        result
        for start in (0, 3)
        for result in joined.learn_mode.forward(TransitionBatch.concat(parts[start : start + 3]), num_updates=3)
    ]
    for found, expected in zip(several, single, strict=True):
        assert found == {key: pytest.approx(value, rel=1e-4, abs=1e-6) for key, value in expected.items()}
    assert_close(one, joined)


def test_a_resumed_run_goes_on_with_the_same_numbers():
    whole, first, second = make("record"), make("record"), make("record")
    parts = batches(6)
    for part in parts[:3]:
        whole.learn_mode.forward(part)
        first.learn_mode.forward(part)
    second.learn_mode.forward(parts[5])  # a graph that must not outlive what it was recorded with
    second.learn_mode.load_state_dict(first.learn_mode.state_dict())
    for part in parts[3:]:
        assert whole.learn_mode.forward(part) == second.learn_mode.forward(part)
    assert all(torch.equal(value, weights(second)[name]) for name, value in weights(whole).items())


def test_there_is_a_graph_for_each_form_of_a_batch_and_no_more():
    policy = make("record")
    for batch in [*batches(2), *batches(2, rows=5), *batches(2)]:
        policy.learn_mode.forward(batch)
    assert policy.learn_mode.get_attribute("compiled_updates").graphs.num_compiled == 2


def test_a_policy_that_loads_states_again_and_again_keeps_its_graph():
    policy, state = make("record"), make(False).learn_mode.state_dict()
    for batch in batches(12):
        policy.learn_mode.load_state_dict(state)
        policy.learn_mode.forward(batch)
    assert policy.learn_mode.get_attribute("compiled_updates").graphs.enabled


def test_gradient_descent_is_eager_with_a_line_that_says_why(caplog):
    class Descending(DQNPolicy):
        def _make_optimizer(self) -> Any:
            return SGD(self._model.parameters(), lr=0.1)

    eager, descending = make(False, cls=Descending), make("record", cls=Descending)
    with caplog.at_level(logging.WARNING):
        for batch in batches(3):
            eager.learn_mode.forward(batch)
            descending.learn_mode.forward(batch)
    assert "steps of SGD" in caplog.text
    assert all(torch.equal(value, weights(descending)[name]) for name, value in weights(eager).items())


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
@pytest.mark.parametrize("rule", RULES)
def test_captured_updates_give_the_numbers_of_eager_ones(rule, on_gpu):
    on_gpu(captures := Captures())
    eager, captured = make(False, **RULES[rule]), make(True, **RULES[rule])
    parts = batches(6)
    for batch in parts[:4]:
        expected, found = eager.learn_mode.forward(batch), captured.learn_mode.forward(batch)
        assert found == {key: pytest.approx(value, rel=1e-4, abs=1e-6) for key, value in expected.items()}
    captured.learn_mode.load_state_dict(captured.learn_mode.state_dict())  # to other places
    for batch in parts[4:]:
        eager.learn_mode.forward(batch)
        captured.learn_mode.forward(batch)
    assert_close(eager, captured)
    updates = captured.learn_mode.get_attribute("compiled_updates").graphs
    assert captures.count == updates.num_compiled <= 2
    assert updates.num_runs == 6


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
def test_what_cannot_be_captured_is_eager_with_a_line_that_says_why(on_gpu, caplog):
    def refuse(function: Any, inputs: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing")

    on_gpu(refuse)
    eager, captured = make(False), make(True)
    with caplog.at_level(logging.WARNING):
        for batch in batches(3):
            assert eager.learn_mode.forward(batch) == captured.learn_mode.forward(batch)
    assert caplog.text.count("learns eagerly: RuntimeError: operation not permitted") == 1
    assert all(torch.equal(value, weights(captured)[name]) for name, value in weights(eager).items())


# Raised by torch when its compiler is imported.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
@pytest.mark.parametrize("inside", [True, False])
def test_a_library_in_the_cache_that_cannot_be_loaded_is_made_anew(tmp_path, monkeypatch, caplog, inside):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    half = tmp_path / ("cache" if inside else "elsewhere") / "half.so"
    half.parent.mkdir()
    half.write_bytes(b"")

    def load(module: Any, _inputs: Any, options: Any) -> Any:
        if half.exists():
            raise ImportError(f"{half}: file too short")
        return module

    monkeypatch.setattr("torch._inductor.compile", load)
    policy = make(True)
    for batch in batches(2):
        policy.learn_mode.forward(batch)
    updates = policy.learn_mode.get_attribute("compiled_updates").graphs
    assert (half.exists(), updates.enabled, updates.num_runs) == ((False, True, 2) if inside else (True, False, 0))
    assert ("half.so: file too short" in caplog.text) is not inside


class Asked(TorchDispatchMode):
    """Counts how often a tensor is asked for its value, for which a host would wait for its GPU."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("rule", ["copied", "clipped by norm"])
def test_updates_ask_no_tensor_for_its_value(rule):
    policy, batch = make("record", **RULES[rule]), TransitionBatch.concat(batches(3))
    policy.learn_mode.forward(batch, num_updates=3)
    with Asked() as asked:
        policy.learn_mode.forward(batch, num_updates=3)
    assert policy.learn_mode.get_attribute("compiled_updates").graphs.num_runs == 2
    assert asked.count == 0


def test_an_update_that_asks_for_a_value_is_eager_with_a_line_that_says_why(caplog):
    class Asking(DQNPolicy):
        def _update(self, batch: Any, **options: Any) -> Any:
            assert batch["reward"].mean().item() < 100
            return super()._update(batch, **options)

    eager, asking = make(False), make("record", cls=Asking)
    with caplog.at_level(logging.WARNING):
        for batch in batches(3):
            eager.learn_mode.forward(batch)
            asking.learn_mode.forward(batch)
    assert caplog.text.count("Asking learns eagerly") == 1
    assert all(torch.equal(value, weights(asking)[name]) for name, value in weights(eager).items())


def test_a_policy_with_an_update_of_its_own_is_eager_with_a_line_that_says_so(caplog):
    class Own(DQNPolicy):
        def _forward_learn(self, data: Any) -> Any:
            return {"cur_lr": 0.0, "total_loss": 0.0}

    policy = make(True, cls=Own)
    with caplog.at_level(logging.WARNING):
        policy.learn_mode.forward(batches(1)[0].rows())
    assert "Own learns eagerly" in caplog.text
    assert policy.learn_mode.get_attribute("updates_per_call") == 1


def test_a_wrong_setting_is_named():
    with pytest.raises(PolicyConfigError, match=r"policy\.learn\.compile"):
        make("always")


def test_without_a_compiler_learning_is_eager(caplog, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    policy = make(True)
    with caplog.at_level(logging.WARNING):
        policy.learn_mode.forward(batches(1)[0])
    assert "no C++ compiler" in caplog.text


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
@pytest.mark.slow
def test_compiled_updates_give_the_numbers_of_eager_ones_and_the_same_bits_again(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    eager, compiled, again = make(False), make(True), make(True)
    for batch in batches(20):
        expected = eager.learn_mode.forward(batch)
        found = compiled.learn_mode.forward(batch)
        assert found == {key: pytest.approx(value, rel=1e-4, abs=1e-6) for key, value in expected.items()}
        assert again.learn_mode.forward(batch) == found
    assert_close(eager, compiled)
    assert all(torch.equal(value, weights(again)[name]) for name, value in weights(compiled).items())
    assert compiled.learn_mode.get_attribute("compiled_updates").graphs.num_compiled == 1


# Raised by torch when its compiler is imported.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
@pytest.mark.slow
def test_auto_learns_eagerly_until_a_graph_is_ready(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("ding.torch_utils.graph.compiled_graphs._AUTO_AFTER_S", 0.0)
    eager, auto = make(False), make("auto")
    (batch,) = batches(1)
    updates = auto.learn_mode.get_attribute("compiled_updates").graphs
    count, drawn = 0, set()
    while not updates.num_runs:
        assert updates.enabled
        auto.learn_mode.forward(batch)
        drawn.add(tuple(torch.rand(4).tolist()))
        count += 1
        if count == 1:
            assert updates.num_runs == 0
    assert len(drawn) == count  # the compiler, which sets torch's generator back, leaves it to the learner
    for _ in range(count):
        eager.learn_mode.forward(batch)
    assert_close(eager, auto, rtol=1e-3)


def test_the_section_of_a_compilation_may_be_left_and_a_later_update_compiles(monkeypatch):
    class Left(BaseException):
        pass

    @contextlib.contextmanager
    def section():
        entered.append("in")
        yield

    def leave(*args):
        raise Left

    entered, policy, batch = [], make(True), batches(1)[0]
    monkeypatch.setattr(compiled_graphs, "_compiled", leave)
    before = weights(policy)
    token = compiled_graphs.compile_section.set(section)
    try:
        with pytest.raises(Left):
            policy.learn_mode.forward(batch)
    finally:
        compiled_graphs.compile_section.reset(token)
    assert entered == ["in"]
    for name, value in weights(policy).items():
        assert torch.equal(value, before[name]), name
    monkeypatch.setattr(compiled_graphs, "_compiled", lambda graph, leaves: graph.module)
    policy.learn_mode.forward(batch)
    assert policy.learn_mode.get_attribute("compiled_updates").graphs.num_runs == 1


def test_a_recording_makes_one_fake_mode_for_all_its_operations(monkeypatch):
    made, original = [], FakeTensorMode.__init__
    monkeypatch.setattr(FakeTensorMode, "__init__", lambda self, **kwargs: made.append(1) or original(self, **kwargs))
    make("record").learn_mode.forward(batches(1)[0])
    assert len(made) == 1
