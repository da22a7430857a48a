from types import SimpleNamespace

import pytest
import torch
from easydict import EasyDict
from hypothesis import given
from hypothesis import strategies as st

from ding.torch_utils import CountVar, build_log_buffer
from ding.worker import LearnerHook, add_learner_hook, build_learner_hook_by_cfg, merge_hooks, register_learner_hook
from ding.worker.learner.learner_hook import (
    HookConfigError,
    LoadCkptHook,
    LogReduceHook,
    LogShowHook,
    SaveCkptHook,
    UnknownHookError,
    hook_mapping,
    show_hooks,
    simplified_hook_mapping,
)


class NamedHook(LearnerHook):
    def __init__(self, *args, ext_args=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.ext_args = ext_args

    def __call__(self, engine):
        engine.append(self.name)


def counts(hooks):
    return {position: len(at) for position, at in hooks.items()}


def test_simplified_form():
    hooks = build_learner_hook_by_cfg(EasyDict(save_ckpt_after_iter=20, save_ckpt_after_run=True))
    assert counts(hooks) == {"before_run": 0, "after_run": 1, "before_iter": 0, "after_iter": 1}
    assert isinstance(hooks["after_iter"][0], SaveCkptHook)
    hooks = build_learner_hook_by_cfg(
        EasyDict(
            save_ckpt_after_iter=20,
            save_ckpt_after_run=True,
            log_show_after_iter=20,
            load_ckpt_before_run="",
            log_reduce_after_iter=True,
        )
    )
    assert counts(hooks) == {"before_run": 1, "after_run": 1, "before_iter": 0, "after_iter": 3}
    assert [type(hook) for hook in hooks["after_iter"]] == [LogReduceHook, SaveCkptHook, LogShowHook]
    assert [(hook.name, hook.priority) for hook in hooks["after_iter"]] == [
        ("log_reduce_after_iter", 10),
        ("save_ckpt_after_iter", 20),
        ("log_show", 20),
    ]
    assert isinstance(hooks["before_run"][0], LoadCkptHook)
    assert set(simplified_hook_mapping) == {
        "load_ckpt_before_run",
        "log_show_after_iter",
        "save_ckpt_after_iter",
        "save_ckpt_after_run",
        "save_ckpt_every_minutes",
        "log_reduce_after_iter",
    }


@pytest.mark.parametrize("off", [None, False])
def test_false_and_none_make_no_hook(off):
    hooks = build_learner_hook_by_cfg(dict.fromkeys(simplified_hook_mapping, off))
    assert counts(hooks) == dict.fromkeys(LearnerHook.positions, 0)


def test_full_form_may_replace_a_simplified_key():
    cfg = EasyDict(
        save_ckpt_after_iter={
            "name": "save_ckpt_after_iter",
            "type": "save_ckpt",
            "priority": 40,
            "position": "after_iter",
            "ext_args": {"freq": 5},
        }
    )
    (hook,) = build_learner_hook_by_cfg(cfg)["after_iter"]
    assert (hook.name, hook.priority, hook.position) == ("save_ckpt_after_iter", 40, "after_iter")
    hook(SimpleNamespace(rank=0, last_iter=CountVar(4)))  # saves nothing: the frequency is 5
    with pytest.raises(AttributeError, match="instance_name"):
        hook(SimpleNamespace(rank=0, last_iter=CountVar(10)))


def test_full_form_defaults():
    register_learner_hook("named", NamedHook)
    try:
        (hook,) = build_learner_hook_by_cfg({"x": {"name": "x", "type": "named", "position": "before_iter"}})[
            "before_iter"
        ]
    finally:
        del hook_mapping["named"]
    assert (hook.priority, hook.ext_args) == (100, {})


@pytest.mark.parametrize(
    ("cfg", "error", "text"),
    [
        ({"save_ckpt_after_itr": 5}, HookConfigError, "Did you mean 'save_ckpt_after_iter'"),
        ({"x": {"name": "x", "type": "save_ckpt"}}, HookConfigError, "hook.x: missing position"),
        ({"x": {"name": "x", "type": "save_cpt", "position": "after_run"}}, UnknownHookError, "mean 'save_ckpt'"),
        ({"x": {"name": "x", "type": "save_cpt", "position": "after_run"}}, KeyError, "mean 'save_ckpt'"),
        (
            {"x": {"name": "x", "type": "save_ckpt", "position": "after_run", "prioritty": 1}},
            HookConfigError,
            "mean 'priority'",
        ),
        ({"log_show_after_iter": 0}, HookConfigError, "freq must be a whole number"),
        ({"save_ckpt_after_iter": "5"}, HookConfigError, "got '5'"),
        ({"x": {"name": "x", "type": "load_ckpt", "position": "before_run"}}, HookConfigError, "'load_path'"),
        (
            {"x": {"name": "x", "type": "log_show", "position": "after_iter", "ext_args": {"frq": 5}}},
            HookConfigError,
            "hook 'x': ext_args.frq is unknown. Did you mean 'freq'",
        ),
        ({"x": {"name": "x", "type": "log_show", "position": "sometime"}}, AssertionError, "got 'sometime'"),
        ({"x": {"name": "x", "type": "log_show", "position": "after_iter", "priority": -1}}, AssertionError, "-1"),
    ],
)
def test_wrong_configs_are_told(cfg, error, text):
    with pytest.raises(error, match=text):
        build_learner_hook_by_cfg(cfg)


def test_a_missing_checkpoint_is_named(tmp_path):
    hook = build_learner_hook_by_cfg({"load_ckpt_before_run": str(tmp_path / "none.pth.tar")})["before_run"][0]
    with pytest.raises(FileNotFoundError, match=r"hook 'load_ckpt': there is no checkpoint .*none\.pth\.tar"):
        hook(None)


def test_register_takes_learner_hooks_only():
    with pytest.raises(AssertionError, match="subclass of LearnerHook"):
        register_learner_hook("wrong", dict)
    with pytest.raises(AssertionError, match="subclass of LearnerHook"):
        register_learner_hook("wrong", lambda: None)


priorities = st.lists(st.integers(0, 4), max_size=8)


def hooks_of(values, prefix=""):
    hooks = {position: [] for position in LearnerHook.positions}
    for i, priority in enumerate(values):
        add_learner_hook(hooks, NamedHook(f"{prefix}{i}", priority, position="after_iter"))
    return hooks


@given(values=priorities)
def test_added_hooks_run_by_priority_then_in_order_of_insertion(values):
    expected = [f"{i}" for i, _ in sorted(enumerate(values), key=lambda item: item[1])]
    assert [hook.name for hook in hooks_of(values)["after_iter"]] == expected


@given(first=priorities, second=priorities)
def test_merge_is_a_stable_sort(first, second):
    one, two = hooks_of(first, "a"), hooks_of(second, "b")
    merged = merge_hooks(one, two)["after_iter"]
    assert merged == sorted(one["after_iter"] + two["after_iter"], key=lambda hook: hook.priority)
    assert len(one["after_iter"]) == len(first)


def test_merge_needs_the_same_positions():
    with pytest.raises(AssertionError, match="cannot be merged"):
        merge_hooks({"after_iter": []}, {"after_run": []})


def test_show_hooks(caplog):
    with caplog.at_level("INFO", logger="ding"):
        show_hooks(hooks_of([3]))
    assert "after_iter: 0 (NamedHook, priority 3)" in caplog.text


@pytest.fixture
def two_ranks(monkeypatch):
    """A process group of two ranks, of which the other one logs zeros."""
    monkeypatch.setattr(torch.distributed, "get_backend", lambda: "gloo")
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda flat: None)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)


def log_buffer():
    return {name: build_log_buffer() for name in ("scalar", "scalars", "histogram")}


def test_log_reduce_averages_numbers_tensors_lists_and_dicts(two_ranks):
    buffer = log_buffer()
    buffer["scalar"].update({"loss": 4.0, "count": 3, "t": torch.tensor([2.0, 6.0]), "noreduce_id": 8})
    buffer["scalars"]["group"] = {"a": 1.0, "noreduce_b": "text"}
    buffer["histogram"]["h"] = [2.0, 4.0]
    LogReduceHook("log_reduce", 10, position="after_iter")(SimpleNamespace(log_buffer=buffer))
    assert dict(buffer["scalar"].items()) == {"loss": 2.0, "count": 1.5, "t": [1.0, 3.0], "noreduce_id": 8}
    assert buffer["scalars"]["group"] == {"a": 0.5, "noreduce_b": "text"}
    assert buffer["histogram"]["h"] == [1.0, 2.0]


def test_log_reduce_refuses_what_has_no_mean(two_ranks):
    buffer = log_buffer()
    buffer["scalar"]["name"] = "x"
    with pytest.raises(TypeError, match=r"'scalar\.name'.*str"):
        LogReduceHook("log_reduce", 10, position="after_iter")(SimpleNamespace(log_buffer=buffer))
