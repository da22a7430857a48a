"""Toy text task for policies that select prompt examples: find examples about the subject of a question."""

import string
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ding.data import BaseEnvTimestep
from ding.envs.contract import Obs
from ding.envs.env.base_env import BaseEnv
from ding.utils import ENV_REGISTRY

SUBJECTS = ("apples", "pears", "coins", "books", "trains", "fish", "lamps", "hats")
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine")
_QUESTIONS = ("how many {subject} are in {number} boxes", "{number} friends share some {subject}")
_EXAMPLES = ("{number} {subject} and one more", "a shop sells {number} {subject}")
_FIXED = {word for text in _QUESTIONS + _EXAMPLES for word in text.split() if "{" not in word}
#: Words of all texts, for a tokenizer.
WORDS = tuple(sorted({*_FIXED, *SUBJECTS, *NUMBERS}))


@ENV_REGISTRY.register("word_match")
class WordMatchEnv(BaseEnv):
    """Select ``shot_number`` of the candidates for each question; the reward is the fraction with the question's
    subject.

    An observation is ``{'train_sample': a question, 'candidate_samples': texts}``, the input of the policies
    ``prompt_pg`` and ``prompt_awr``; an action is int64 ``(shot_number,)``, the indices of different candidates. There
    are two candidates for each of 8 subjects, in the same order for all questions and envs. The optimal return is the
    number of questions of an episode; random choices reach an eighth of it.

    Args:
        cfg: ``shot_number`` (default 2), ``n_question`` (questions per episode, default 1).

    Raises:
        ValueError: ``shot_number`` is neither 1 nor 2, or there are no questions.
    """

    def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
        cfg = cfg or {}
        self._shots, self._questions = int(cfg.get("shot_number", 2)), int(cfg.get("n_question", 1))
        if self._shots not in (1, 2) or self._questions < 1:
            raise ValueError(
                "env: word_match needs a shot_number of 1 or 2 and n_question of at least 1, found "
                f"shot_number={self._shots}, n_question={self._questions}"
            )
        self._candidates = [
            text.format(subject=subject, number=NUMBERS[index])
            for text in _EXAMPLES
            for index, subject in enumerate(SUBJECTS)
        ]
        self._rng = np.random.default_rng()
        self._subject, self._num_steps, self._return = 0, 0, 0.0
        text = gymnasium.spaces.Text(max_length=80, charset=string.ascii_lowercase + " ")
        self.observation_space = gymnasium.spaces.Dict(
            {"train_sample": text, "candidate_samples": gymnasium.spaces.Tuple([text] * len(self._candidates))}
        )
        self.action_space = gymnasium.spaces.MultiDiscrete([len(self._candidates)] * self._shots)
        self.reward_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """Seed the questions; ``dynamic_seed`` is ignored."""
        self._rng = np.random.default_rng(seed)

    def reset(self, **kwargs: Any) -> Obs:
        """Ask the first question and return the observation."""
        self._num_steps, self._return = 0, 0.0
        return self._ask()

    def step(self, action: npt.ArrayLike) -> BaseEnvTimestep:  # type: ignore[override]
        """Count the selected candidates about the subject, and ask the next question.

        Raises:
            ValueError: The action is not ``shot_number`` different candidates.
        """
        chosen = np.asarray(action).reshape(-1).tolist()
        if len(chosen) != self._shots or len(set(chosen)) != self._shots or not set(chosen) <= set(self._all()):
            raise ValueError(
                f"the action is {self._shots} different numbers from 0 to {len(self._candidates) - 1}, found {chosen}"
            )
        reward = sum(number % len(SUBJECTS) == self._subject for number in chosen) / self._shots
        self._num_steps += 1
        self._return += reward
        done = self._num_steps >= self._questions
        info = {"eval_episode_return": self._return} if done else {}
        return BaseEnvTimestep(self._ask(), np.array([reward], dtype=np.float32), done, info)

    def _all(self) -> range:
        return range(len(self._candidates))

    def _ask(self) -> dict[str, Any]:
        self._subject = int(self._rng.integers(len(SUBJECTS)))
        question, number = self._rng.choice(_QUESTIONS), self._rng.choice(NUMBERS)
        text = str(question).format(subject=SUBJECTS[self._subject], number=number)
        return {"train_sample": text, "candidate_samples": list(self._candidates)}

    def random_action(self) -> np.ndarray:
        """Return different random candidates, int64 ``(shot_number,)``."""
        return self._rng.permutation(len(self._candidates))[: self._shots]

    def close(self) -> None:
        """Do nothing; the env holds no resources."""

    def __repr__(self) -> str:
        return f"WordMatchEnv(shot_number={self._shots}, n_question={self._questions})"
