"""Values of the wrong kind are told by their path."""

from typing import Any, ClassVar

import pytest

from ding.config import ConfigValueError
from ding.config.checks.values import check_buffer_fits, check_values

DEFAULTS = {
    "policy": {
        "cuda": False,
        "learn": {"batch_size": 64, "learning_rate": 1e-3, "learner": {"hook": {"log_show_after_iter": 100}}},
        "other": {"eps": {"type": "exp", "start": 0.95}},
        "model": {"layer_num": 2},
        # What a policy of the user's may have.
        "mine": {"sync_freq": 10, "value_decay": 0.1, "warm_steps": -1, "learning_rate_value": 0.1, "gae_lambda": 0.9},
    },
    "env": {"stop_value": 195, "manager": {"max_retry": 1, "reset_timeout": 3.0}},
}


def nested(path, value):
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("policy.learn.batch_size", "many", "a whole number of at least 1"),
        ("policy.learn.batch_size", 0, "a whole number of at least 1"),
        ("policy.learn.batch_size", 1.5, "a whole number of at least 1"),
        ("policy.learn.learning_rate", -1, "a number of at least 0"),
        ("policy.learn.learning_rate", "1e-3", "a number of at least 0"),
        ("policy.other.eps.start", 95, "a number between 0 and 1"),
        ("policy.other.eps.type", "expo", "exp or linear"),
        ("policy.collect.n_sample", "8", "a whole number of at least 1"),
        ("env.collector_env_num", -8, "a whole number of at least 1"),
        ("policy.cuda", "False", "True or False"),
        ("policy.learn.learner.hook.log_show_after_iter", "x", "a whole number of at least 1"),
        ("policy.learn.learner.hook.log_show_after_iter", 0, "a whole number of at least 1"),
        ("policy.mine.sync_freq", 0.5, "a whole number of at least 1"),
        ("policy.mine.learning_rate_value", -1, "a number of at least 0"),
        ("policy.mine.gae_lambda", 1.5, "a number between 0 and 1"),
        ("env.manager.max_retry", 1.5, "a whole number of at least 0"),
        ("env.manager.reset_timeout", -1, "a number of at least 0"),
        ("env.stop_value", float("nan"), "a number"),
        ("policy.learn.learner", "base", "a dict"),
        ("policy.other.eps", 0.1, "a dict"),
        ("policy.learn", None, "a dict"),
        ("policy.random_collect_size", "50", "a whole number of at least 0"),
        ("exp_name", 3, "the name of a folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(path, value, expected):
    with pytest.raises(ConfigValueError) as caught:
        check_values(nested(path, value), DEFAULTS)
    assert str(caught.value) == f"{path}: expected {expected}, got {value!r}"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("policy.learn.batch_size", 1),
        ("policy.learn.batch_size", None),
        ("policy.learn.update_per_collect", 1e3),
        ("policy.eval.evaluator.eval_freq", float("inf")),
        ("policy.cuda", 1),
        ("policy.cuda", True),
        ("policy.cuda", "auto"),
        ("policy.learn.learner.hook", False),
        ("policy.other.eps.type", 3),
        ("policy.mine.batch_size", "many"),
        ("policy.mine.value_decay", -2.5),
        ("policy.mine.warm_steps", -2.5),  # its default is below 0, too
        ("policy.model.layer_num", -2),  # the network says
        ("policy.learn.learner.hook.log_show_after_iter", {"ext_args": {"freq": 5}}),
        ("env.manager.max_retry", float("inf")),
    ],
)  # fmt: skip
def test_everything_else_is_left_to_its_reader(path, value):
    check_values(nested(path, value), DEFAULTS)


def test_a_section_that_a_policy_declares_may_replace_a_number():
    class Annealed:
        optional_keys: ClassVar = {"mine.value_decay": "start end"}

    user = nested("policy.mine.value_decay", {"start": 1, "end": 0})
    check_values(user, DEFAULTS, Annealed)
    with pytest.raises(ConfigValueError, match=r"policy\.mine\.value_decay: expected a number, got {'start'"):
        check_values(user, DEFAULTS)


def test_all_are_told_at_once():
    user = {"policy": {"learn": {"batch_size": 0, "learning_rate": "x"}}}
    with pytest.raises(ConfigValueError, match=r"batch_size: expected .*, got 0; policy\.learn\.learning_rate: "):
        check_values(user, DEFAULTS)


@pytest.mark.parametrize(("n_sample", "lost"), [(64, False), (600, True), (6399, True)])
def test_more_samples_than_the_buffer_holds_are_warned_about(caplog, n_sample, lost):
    check_buffer_fits(off_policy(n_sample))
    assert ("the oldest samples of a collection are lost" in caplog.text) is lost


def test_samples_of_a_hundred_buffers_are_refused():
    with pytest.raises(ConfigValueError, match=r"policy\.collect\.n_sample is 6400, but the replay buffer holds 64"):
        check_buffer_fits(off_policy(6400))


def off_policy(n_sample: int) -> dict[str, Any]:
    buffer = {"replay_buffer_size": 64}
    return {"learn": {"batch_size": 32}, "collect": {"n_sample": n_sample}, "other": {"replay_buffer": buffer}}
