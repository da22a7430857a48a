"""TabMWP: select the examples of a prompt so that a language model solves math word problems about tables (Lu et al.
2022, arXiv:2209.14610).
"""

import ast
import itertools
import json
import logging
import os
import pkgutil
import random
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from ding.data import BaseEnvTimestep
from ding.envs.contract import Obs
from ding.envs.env.base_env import BaseEnv, copy_cfg
from ding.envs.zoo.tabmwp_models import calc_internlm, load_language_model
from ding.envs.zoo.tabmwp_utils import (
    Problem,
    build_prompt,
    create_one_example,
    extract_prediction,
    get_answer,
    get_question_text,
    get_solution_text,
    get_table_text,
    normalize_answer,
)
from ding.utils import ENV_REGISTRY

_log = logging.getLogger(__name__)

_DEFAULTS = {
    "cand_number": 16,
    "train_number": 80,
    "shot_number": 2,
    "prompt_format": "TQ-A",
    "option_inds": ["A", "B", "C", "D", "E", "F"],
    "enable_replay": False,
    "seed": 0,
    "data_path": os.path.join("dizoo", "tabmwp", "data"),
    "answer_fn": None,
    "model_path": None,
    "max_tokens": 64,
    "evaluates": False,
    "reference_numerics": False,
}
_ANSWERS = "model_in_out_{}.txt"
_NO_ANSWERS = (
    "env: tabmwp asks a language model for answers. Give env.answer_fn, a function from a prompt to the text that a "
    "model writes (or its name, 'module:function'), env.model_path, a folder with a causal language model, or "
    "env.enable_replay=True with recorded answers. DI-engine's engines, of which env.engine names one, need a paid "
    "service or the download of a large model"
)


@ENV_REGISTRY.register("tabmwp")
class TabMWP(BaseEnv):
    """Select ``shot_number`` of the candidates as examples for each problem.

    The reward is 1 if the language model answers correctly, else -1.

    An observation is ``{'train_sample': a problem, 'candidate_samples': texts}``, all without answers; an action
    contains the indices of different candidates, int64 ``(shot_number,)``. An episode consists of ``train_number``
    problems, and its ``eval_episode_return`` is the fraction of correct answers. The observation after a step is the
    next problem; ``reference_numerics`` repeats the answered one, as in DI-engine.

    ``data_path`` is a folder with ``problems_train.json`` (of the data set TabMWP). With ``enable_replay`` the answers
    come from ``model_in_out_train.txt`` there (``model_in_out_eval.txt`` unless ``seed`` is 0), whose lines are dict
    literals with ``pid``, ``shot_pids`` and ``output``; the episodes use their problems and examples. DI-engine reads
    the same files but has the problem numbers in its source.

    Evaluators have the candidates of the collectors and other problems: the same number, or all that ``data_path`` has
    left; in a replay those of ``model_in_out_eval.txt``, if that file exists. DI-engine's evaluators have the same
    problems as its collectors, as with ``reference_numerics``.

    ``model_path`` is a folder with a causal language model and its tokenizer for ``transformers`` (extra ``llm``),
    which completes a prompt with its most likely tokens, at most ``max_tokens`` (default 64).

    Args:
        cfg: ``answer_fn``, ``model_path`` or ``enable_replay``; ``data_path``, ``cand_number`` (default 16),
            ``train_number`` (80), ``shot_number`` (2), ``prompt_format`` ('TQ-A'), ``option_inds``, ``seed`` (of the
            selection of problems, default 0), ``evaluates`` (use the problems of evaluators; set for their envs).

    Raises:
        ValueError: There is no source of answers, there are too few problems, or an action is invalid.
        FileNotFoundError: A file is missing in ``data_path``.
    """

    @staticmethod
    def create_evaluator_env_cfg(cfg: MutableMapping[str, Any]) -> list[Any]:
        """Return one config per evaluator env: copies of ``cfg`` without ``evaluator_env_num``, with ``evaluates``."""
        return copy_cfg(cfg, "evaluator_env_num", evaluates=True)

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        self._cfg = SimpleNamespace(**{**_DEFAULTS, **cfg})
        answer_fn = self._cfg.answer_fn
        if answer_fn is None and self._cfg.model_path is None and not self._cfg.enable_replay:
            raise ValueError(_NO_ANSWERS)
        self._answer_fn: Callable[[str], str] | None = (
            pkgutil.resolve_name(answer_fn) if isinstance(answer_fn, str) else answer_fn
        )
        self._problems: dict[str, Problem] = {}
        self._recorded: dict[tuple[str, tuple[str, ...]], str] = {}
        self._train_pids: list[str] = []
        self._cand_pids: list[str] = []
        self._num_answered, self._num_right = 0, 0
        self.observation_space = gymnasium.spaces.Dict()
        count = int(self._cfg.cand_number)
        self.action_space = gymnasium.spaces.Discrete(count * (count - 1))
        self.reward_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:
        """Do nothing: the problems depend on ``env.seed``, because all envs share the candidates."""

    def reset(self, **kwargs: Any) -> Obs:
        """Start with the first problem and return the observation."""
        if not self._problems:
            self._load()
        self._num_answered, self._num_right = 0, 0
        return self._obs(0)

    def step(self, action: npt.ArrayLike) -> BaseEnvTimestep:  # type: ignore[override]
        """Request the answer with the selected examples.

        Raises:
            ValueError: The action is not ``shot_number`` different candidates, or the answer is not recorded.
        """
        shots, count = np.asarray(action).reshape(-1).tolist(), len(self._cand_pids)
        if len(shots) != self._cfg.shot_number or len(set(shots)) != len(shots) or not set(shots) <= set(range(count)):
            raise ValueError(
                f"the action is {self._cfg.shot_number} different numbers from 0 to {count - 1}, found {shots}"
            )
        pid, shot_pids = self._train_pids[self._num_answered], [self._cand_pids[shot] for shot in shots]
        problem = self._problems[pid]
        said = extract_prediction(self.get_output(pid, shot_pids), problem.get("choices"), self._cfg.option_inds)
        answer, unit = get_answer(problem), problem.get("unit")
        right = normalize_answer(said, unit).lower() == normalize_answer(answer, unit).lower()
        shown = self._num_answered
        self._num_answered += 1
        self._num_right += right
        done = self._num_answered >= len(self._train_pids)
        info = {"eval_episode_return": self._num_right / self._num_answered} if done else {}
        obs = self._obs(shown if done or self._cfg.reference_numerics else self._num_answered)
        return BaseEnvTimestep(obs, np.array([1 if right else -1], dtype=np.float32), done, info)

    def get_output(self, pid: str, shot_pids: Sequence[str]) -> str:
        """Return the language model's output for a problem with these examples.

        Raises:
            ValueError: Answers are replayed, and this one is not recorded.
            FileNotFoundError: The folder ``model_path`` does not exist.
            MissingExtraError: ``model_path`` requires the extra ``llm``.
        """
        if self._answer_fn is not None or self._cfg.model_path is not None:
            return self._ask(build_prompt(self._problems, shot_pids, pid, self._cfg))
        key = (pid, tuple(shot_pids))
        if key not in self._recorded:
            raise ValueError(f"there is no recorded answer to problem {pid} with the examples {list(shot_pids)}")
        return self._recorded[key]

    def _ask(self, prompt: str) -> str:
        if self._answer_fn is not None:
            return self._answer_fn(prompt)
        model, tokenizer = load_language_model(str(self._cfg.model_path))
        return calc_internlm(model, tokenizer, prompt, int(self._cfg.max_tokens))

    def parse_all_answers(self) -> None:
        """Request the answers to all problems with each pair of candidates, and record them for ``enable_replay``.

        Writes ``sampled_pid.txt`` (candidates, then problems) and ``model_in_out.txt`` to ``data_path``. Rename the
        latter to ``model_in_out_train.txt`` or ``model_in_out_eval.txt``.
        """
        if not self._problems:
            self._load()
        folder = Path(self._cfg.data_path)
        (folder / "sampled_pid.txt").write_text(f"{self._cand_pids}\n{self._train_pids}\n", encoding="utf-8")
        with (folder / "model_in_out.txt").open("w", encoding="utf-8") as file:
            for pid, shots in itertools.product(self._train_pids, itertools.permutations(self._cand_pids, 2)):
                prompt = build_prompt(self._problems, shots, pid, self._cfg)
                record = {"pid": pid, "shot_pids": list(shots), "prompt": prompt, "output": self.get_output(pid, shots)}
                file.write(f"{record!r}\n")

    def _load(self) -> None:
        with open(os.path.join(self._cfg.data_path, "problems_train.json"), encoding="utf-8") as file:
            self._problems = json.load(file)
        evaluates = self._cfg.evaluates and not self._cfg.reference_numerics
        if self._cfg.enable_replay:
            self._read_answers(self._recorded_part(evaluates))
            return
        train, candidates = int(self._cfg.train_number), int(self._cfg.cand_number)
        if len(self._problems) < train + candidates or min(train, candidates) < 1:
            raise ValueError(
                f"env.train_number={train} and env.cand_number={candidates} need as many problems together, and "
                f"{self._cfg.data_path} has {len(self._problems)}"
            )
        drawn = random.Random(self._cfg.seed).sample(sorted(self._problems), train + candidates)
        self._train_pids, self._cand_pids = drawn[:train], drawn[train:]
        if evaluates:
            others = sorted(set(self._problems) - set(drawn))
            if not others:
                raise ValueError(
                    f"env.train_number={train} and env.cand_number={candidates} leave the evaluators none of the "
                    f"{len(self._problems)} problems in {self._cfg.data_path}: use fewer, or more problems"
                )
            self._train_pids = random.Random(self._cfg.seed).sample(others, min(train, len(others)))

    def _recorded_part(self, evaluates: bool) -> str:
        """Return which recorded answers are replayed."""
        if self._cfg.seed != 0:
            return "eval"
        if not evaluates:
            return "train"
        if os.path.exists(os.path.join(self._cfg.data_path, _ANSWERS.format("eval"))):
            return "eval"
        _log.warning(
            "%s has no %s: evaluators are asked the problems of the collectors",
            self._cfg.data_path, _ANSWERS.format("eval"),
        )  # fmt: skip
        return "train"

    def _read_answers(self, part: str) -> None:
        with open(os.path.join(self._cfg.data_path, _ANSWERS.format(part)), encoding="utf-8") as file:
            records = [ast.literal_eval(line) for line in file if line.strip()]
        for record in records:
            shots = tuple(map(str, record["shot_pids"]))
            self._recorded[str(record["pid"]), shots] = str(record["output"])
        self._train_pids = list(dict.fromkeys(pid for pid, _ in self._recorded))
        self._cand_pids = sorted(
            {shot for _, shots in self._recorded for shot in shots}, key=lambda pid: (len(pid), pid)
        )
        if not self._train_pids:
            raise ValueError(f"{_ANSWERS.format(part)} in {self._cfg.data_path} has no answers")

    def _text(self, pid: str) -> str:
        problem = self._problems[pid]
        return create_one_example(
            self._cfg.prompt_format,
            get_table_text(problem),
            get_question_text(problem, self._cfg.option_inds),
            get_answer(problem),
            get_solution_text(problem),
            test_example=True,
        )

    def _obs(self, number: int) -> dict[str, Any]:
        return {
            "train_sample": self._text(self._train_pids[number]),
            "candidate_samples": [self._text(pid) for pid in self._cand_pids],
        }

    def random_action(self) -> np.ndarray:
        """Return different random candidates, int64 ``(shot_number,)``."""
        return np.random.permutation(len(self._cand_pids))[: self._cfg.shot_number]

    def close(self) -> None:
        """Do nothing; the env holds no resources."""

    def __repr__(self) -> str:
        return f"TabMWP(train_number={self._cfg.train_number}, cand_number={self._cfg.cand_number})"
