"""One set of statistics from what several processes counted, and what happens when their messages come as they like."""

import json

import numpy as np
import pytest

from ding.rl_utils.normalization import Counted, Normalization, Norms

NORMS = Norms((2,), (-3.0, 3.0), 0.9)


def statistics(*batches) -> Normalization:
    one = Normalization()
    one.activate(NORMS)
    for batch in batches:
        one.update_obs(batch)
        one.update_returns(batch[:, 0])
    return one


class Collector:
    """Statistics that are counted for a learner."""

    def __init__(self, *batches) -> None:
        self.counted, self.statistics = Counted(), statistics()
        self.statistics.count_into(self.counted)
        self.count(*batches)

    def count(self, *batches) -> None:
        for batch in batches:
            self.statistics.update_obs(batch)
            self.statistics.update_returns(batch[:, 0])


def sent(one: Collector):
    return json.loads(json.dumps(one.counted.contribution()))


@pytest.fixture
def batches():
    return list(np.random.default_rng(0).normal([5, -100], [1, 20], (6, 40, 2)))


def same(one: Normalization, other: Normalization) -> None:
    a, b = one.obs_constants(), other.obs_constants()
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-4)
    np.testing.assert_allclose(a.std, b.std, rtol=1e-3)
    reward = np.ones((1, 1), np.float32)
    np.testing.assert_allclose(one.scaled_reward(reward), other.scaled_reward(reward), rtol=1e-3)


def test_a_learner_has_the_statistics_of_all_collectors(batches) -> None:
    first, second = Collector(*batches[:2]), Collector(*batches[2:])
    learner = Normalization()
    learner.merge(sent(first))
    learner.merge(sent(second))
    same(learner, statistics(*batches))


def test_messages_may_be_lost_repeated_and_late(batches) -> None:
    one, other = Collector(batches[0]), Collector(*batches[3:])
    early = sent(one)
    one.count(batches[1])
    sent(one)  # lost
    one.count(batches[2])
    late = sent(one)
    learner = Normalization()
    for message in (late, early, late, sent(other), early):
        learner.merge(message)
    same(learner, statistics(*batches))


def test_a_collector_receives_those_of_the_others_and_keeps_its_newest(batches) -> None:
    one, other, learner = Collector(batches[0]), Collector(*batches[1:4]), Normalization()
    learner.merge({**sent(one), **sent(other)})
    one.count(*batches[4:])  # after the learner heard of it
    one.statistics.load_state_dict(learner.state_dict())
    same(one.statistics, statistics(*batches))
    evaluator = statistics()
    evaluator.load_state_dict(learner.state_dict())
    same(evaluator, statistics(*batches[:4]))


def test_a_learner_that_goes_on_from_a_checkpoint_counts_nothing_twice(batches) -> None:
    one, learner = Collector(batches[0]), Normalization()
    learner.load_state_dict(statistics(*batches[1:3]).state_dict())
    learner.merge(sent(one))
    again = Normalization()
    again.load_state_dict(learner.state_dict())
    one.count(*batches[3:])
    again.merge(sent(one))
    same(again, statistics(*batches))


def test_a_serial_run_goes_on_from_a_checkpoint_of_a_parallel_one(batches) -> None:
    learner = Normalization()
    learner.merge(sent(Collector(*batches[:3])))
    serial = statistics()
    serial.load_state_dict(learner.state_dict())
    for batch in batches[3:]:
        serial.update_obs(batch)
        serial.update_returns(batch[:, 0])
    assert set(serial.state_dict()) == {"obs", "returns"}
    same(serial, statistics(*batches))


def test_the_next_task_of_a_collector_adds_to_what_it_counted(batches) -> None:
    one, learner = Collector(*batches[:3]), Normalization()
    learner.merge(sent(one))
    one.statistics = statistics()
    one.statistics.count_into(one.counted)
    one.statistics.load_state_dict(learner.state_dict())
    one.count(*batches[3:])
    same(one.statistics, statistics(*batches))
    learner.merge(sent(one))
    assert len(learner.state_dict()["sources"]) == 1
    same(learner, statistics(*batches))


def test_frozen_statistics_stay() -> None:
    one = statistics()
    with one.frozen():
        assert not one.learns
    assert one.learns


def test_constants_of_a_data_set() -> None:
    one = Normalization()
    one.fix_obs(np.array([1.0, 2.0]), np.array([2.0, 4.0]), 100)
    np.testing.assert_allclose(one.normalized_obs(np.array([[21.0, 2.0]])), [[10.0, 0.0]], rtol=1e-5)
    again = Normalization()
    again.load_state_dict(one.state_dict())
    np.testing.assert_allclose(again.normalized_obs(np.array([[21.0, 2.0]])), [[10.0, 0.0]], rtol=1e-5)
