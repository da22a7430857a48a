"""The toy text task: its questions, rewards and errors."""

import numpy as np
import pytest

from ding.envs.zoo.word_match_env import SUBJECTS, WORDS, WordMatchEnv


def best(obs):
    """The two candidates with the subject of the question, found by reading."""
    (subject,) = set(obs["train_sample"].split()) & set(SUBJECTS)
    return [number for number, text in enumerate(obs["candidate_samples"]) if subject in text.split()]


def test_rewards_are_the_share_of_candidates_about_the_subject():
    env = WordMatchEnv({"n_question": 3})
    env.seed(0)
    obs = env.reset()
    rewards = []
    for right in (2, 1, 0):
        assert env.observation_space.contains({**obs, "candidate_samples": tuple(obs["candidate_samples"])})
        good = best(obs)
        bad = [number for number in range(16) if number not in good]
        step = env.step(np.array(good[:right] + bad[: 2 - right]))
        rewards.append(step.reward.item())
        obs = step.obs
    assert rewards == [1.0, 0.5, 0.0]
    assert step.done
    assert step.info == {"eval_episode_return": 1.5}


def test_questions_come_from_the_seed_and_use_known_words():
    def asked(seed):
        env = WordMatchEnv()
        env.seed(seed)
        return [env.reset() for _ in range(50)]

    assert asked(0) == asked(0) != asked(1)
    assert all(obs["candidate_samples"] == asked(1)[0]["candidate_samples"] for obs in asked(0))
    words = {
        word for obs in asked(0) for text in (obs["train_sample"], *obs["candidate_samples"]) for word in text.split()
    }
    assert words <= set(WORDS)


@pytest.mark.parametrize("action", [[1, 1], [0, 16], [-1, 0], [3], [1, 2, 3]])
def test_other_actions_are_refused(action):
    env = WordMatchEnv()
    env.reset()
    with pytest.raises(ValueError, match="2 different numbers from 0 to 15"):
        env.step(action)


def test_random_actions_are_allowed_and_wrong_settings_named():
    env = WordMatchEnv({"shot_number": 1})
    env.reset()
    assert 0.0 <= env.step(env.random_action()).reward.item() <= 1.0
    with pytest.raises(ValueError, match="shot_number=3"):
        WordMatchEnv({"shot_number": 3})
