"""Prioritised level replay: scores by hand, and which level is drawn how often."""

import math

import numpy as np
import pytest
import torch

from ding.data.level_replay import LevelSampler, generate_seeds


@pytest.fixture(autouse=True)
def _seeded():
    np.random.seed(0)


def sampler(levels=4, num_actors=2, **cfg):
    return LevelSampler(generate_seeds(levels, base_seed=10), (3,), 2, num_actors, cfg)


def scored(scores, **cfg):
    """A sampler that has scored the first levels."""
    one = sampler(len(scores), **cfg)
    for index, score in enumerate(scores):
        if score is not None:
            one.update_seed_score(0, index, score, 1)
    return one


def rows(seeds, done, **columns):
    data = {"seed": torch.tensor(seeds), "done": torch.tensor(done, dtype=torch.float32)}
    return data | {key: torch.tensor(value, dtype=torch.float32) for key, value in columns.items()}


ODDS = [math.log(9), 0.0]  # probabilities 0.9 and 0.1
ENTROPY = -(0.9 * math.log(0.9) + 0.1 * math.log(0.1)) / math.log(2)


@pytest.mark.parametrize(
    ("strategy", "score"),
    [
        ("policy_entropy", (1 + ENTROPY) / 2),
        ("least_confidence", (0.5 + 0.1) / 2),
        ("min_margin", 1 - (0.0 + 0.8) / 2),
        ("gae", -0.5),
        ("value_l1", 1.5),
        ("one_step_td_error", 2.0),
    ],
)
def test_the_score_of_a_segment(strategy, score):
    one = sampler(strategy=strategy)
    columns = {"logit": [[0.0, 0.0], ODDS], "adv": [1.0, -2.0], "reward": [1.0, 9.0], "value": [2.0, 5.0]}
    one.update_with_rollouts(rows([11, 11], [0, 1], **columns), 1)
    assert one.seed_scores == pytest.approx([0, score, 0, 0], rel=1e-6)
    assert one.unseen_seed_weights.tolist() == [1, 0, 1, 1]


def test_segments_end_with_episodes_and_with_flags():
    one = sampler(strategy="gae", alpha=0.5)
    # Level 10: an episode of score 1, then one that is cut (3 steps), and another one of the other actor (1 step).
    data = rows([10, 10, 10, 10, 12, 10], [0, 1, 0, 0, 1, 0], adv=[1.0, 1.0, 2.0, 2.0, 7.0, 5.0])
    data["traj_flag"] = torch.tensor([0.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    one.update_with_rollouts(data, 2)
    # The first episode counts half, then the mean of the cut ones does.
    assert one.seed_scores.tolist() == [0.5 * 0.5 + 0.5 * 3.0, 0, 3.5, 0]
    assert not one.partial_seed_steps.any()
    assert not one.partial_seed_scores.any()


def test_without_flags_each_actor_has_as_many_steps():
    one = sampler(strategy="gae")
    one.update_with_rollouts(rows([10, 10, 10, 10], [0, 0, 0, 0], adv=[1.0, 3.0, 5.0, 9.0]), 2)
    # Each actor's segment is scored, and the last one stays.
    assert one.seed_scores[0] == 7.0


def test_weights_by_rank_power_and_staleness():
    assert scored([3.0, 1.0, None, 2.0]).sample_weights() == pytest.approx(np.array([6, 2, 0, 3]) / 11)
    cold = scored([3.0, 1.0, None, 2.0], temperature=0.5).sample_weights()
    assert cold == pytest.approx(np.array([1, 1 / 9, 0, 1 / 4]) / (1 + 1 / 9 + 1 / 4))
    power = scored([3.0, 1.0, None, 2.0], score_transform="power").sample_weights()
    assert power == pytest.approx(np.array([3.001, 1.001, 0, 2.001]) / 6.003)
    stale = scored([3.0, 1.0, None, 2.0], staleness_coef=0.25)
    stale.seed_staleness[:] = [0, 3, 5, 1]
    assert stale.sample_weights() == pytest.approx(
        0.75 * np.array([6, 2, 0, 3]) / 11 + 0.25 * np.array([0, 3, 0, 1]) / 4
    )
    # Where nothing is to be learned, all are alike.
    assert scored([0.0, 0.0, None], score_transform="power", staleness_coef=0.5).sample_weights() == pytest.approx(
        [0.5, 0.5, 0]
    )


def test_staleness_counts_draws():
    one = sampler(1, staleness_coef=0.5)
    one.seed_staleness[:] = 4
    one.sample()
    assert one.seed_staleness.tolist() == [0]


@pytest.mark.parametrize(
    ("scores", "cfg", "seen_part"),
    [
        # Too few were played yet.
        ([1.0, None, None, None], {"rho": 0.5}, 0.0),
        ([1.0, 1.0, None, None], {"rho": 0.5, "nu": 0.25}, 0.75),
        ([1.0, 1.0, 1.0, 1.0], {"nu": 1.0}, 1.0),
        ([1.0, None, None, None], {"replay_schedule": "proportionate"}, 0.25),
        ([1.0, None, None, None], {"replay_schedule": "proportionate", "rho": 0.3}, 0.0),
    ],
)
def test_new_levels_or_old_ones(scores, cfg, seen_part):
    one = scored(scores, **cfg)
    seen = {10 + index for index, score in enumerate(scores) if score is not None}
    drawn = [one.sample() in seen for _ in range(400)]
    assert np.mean(drawn) == pytest.approx(seen_part, abs=0.08)


def test_levels_in_turn_and_at_random():
    one = sampler(3)
    assert [one.sample("sequential") for _ in range(4)] == [10, 11, 12, 10]
    assert {one.sample("random") for _ in range(50)} == {10, 11, 12}
    in_turn = sampler(strategy="sequential")
    in_turn.update_with_rollouts(rows([10], [1]), 1)
    assert in_turn.unseen_seed_weights.all()
    assert in_turn.sample() == 10


def test_a_state_is_taken_up():
    one, other = scored([3.0, 1.0, None]), sampler(3)
    one.sample("sequential")
    other.load_state_dict(one.state_dict())
    assert other.sample_weights().tolist() == one.sample_weights().tolist()
    assert other.sample("sequential") == 11


def test_mistakes():
    with pytest.raises(ValueError, match=r"level_replay.strategy='gea' is unknown. Did you mean 'gae'"):
        sampler(strategy="gea")
    with pytest.raises(ValueError, match="distinct seeds"):
        LevelSampler([1, 1], 3, 2, 1)
    with pytest.raises(KeyError, match="99"):
        sampler(strategy="gae").update_with_rollouts(rows([99], [1], adv=[1.0]), 1)
