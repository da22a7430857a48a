"""A `rate_limit` with which a run could never get on is refused before anything starts."""

import pytest

from ding.config import ConfigValueError
from ding.config.checks.rate_limit import check_rate_limit

GOOD = {"samples_per_insert": 4, "min_size_to_sample": 64, "error_buffer": 600, "push_size": 96, "sample_size": 64}


def policy(limit, size=1000, batch_size=64, n_sample=96):
    return {
        "learn": {"batch_size": batch_size},
        "collect": {"n_sample": n_sample},
        "other": {"replay_buffer": {"replay_buffer_size": size, "rate_limit": limit}},
    }


@pytest.mark.parametrize("limit", [GOOD, None, {}, {"samples_per_insert": None}])
def test_one_that_works_passes(limit) -> None:
    check_rate_limit(policy(limit), pushes_n_sample=True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"error_buffer": 100}, "hold each other back for ever"),
        ({"min_size_to_sample": 2000}, "is more than replay_buffer_size=1000"),
        ({"samples_per_insert": 0}, "samples_per_insert must be positive"),
        ({"sample_size": 32}, "sample_size is 32, and policy.learn.batch_size is 64"),
        ({"push_size": 8}, "push_size is 8, and policy.collect.n_sample is 96"),
        ({"push_sice": 8}, "unknown key rate_limit.push_sice"),
        ({"timeout_s": -1}, "timeout_s must be"),
    ],
)
def test_one_that_cannot_work_is_refused_by_its_path(change, said) -> None:
    with pytest.raises(ConfigValueError, match=r"policy\.other\.replay_buffer\.rate_limit cannot work") as refused:
        check_rate_limit(policy({**GOOD, **change}), pushes_n_sample=True)
    assert said in str(refused.value)


def test_collectors_of_the_parallel_mode_push_when_they_like() -> None:
    check_rate_limit(policy({**GOOD, "push_size": 8, "error_buffer": 600}), pushes_n_sample=False)


def test_of_several_buffers_each_is_looked_at() -> None:
    several = policy(None)
    several["other"]["replay_buffer"] = {
        "multi_buffer": True,
        "policy": {"replay_buffer_size": 10},
        "value": {"replay_buffer_size": 10, "rate_limit": GOOD},
    }
    with pytest.raises(ConfigValueError, match=r"replay_buffer\.value\.rate_limit"):
        check_rate_limit(several, pushes_n_sample=True)
