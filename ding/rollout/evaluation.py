"""Evaluations: a number of episodes, distributed over the environments, and their results.

Exceptions::

    EvaluationError (RuntimeError)    the evaluation cannot finish
"""

import logging
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ding.config import ConfigValueError
from ding.data.roles import EnvManager, EvalMode
from ding.rollout.players import Game, Return, scalar, select
from ding.rollout.record import ratio
from ding.rollout.rollout import VectorStepper, as_network_input, drop_abnormal
from ding.utils.messages import one_time_warning
from ding.utils.nested import Tree, map_nested
from ding.utils.seed import SeedTree

logger = logging.getLogger(__name__)

# Episode length after which an evaluation warns: seconds to a minute of most envs. Few episodes are as long (some of
# Atari games, of at most 27,000 steps).
WARN_STEPS = 10_000
# Number of broken episodes of one env in a row after which the evaluation fails instead of looping forever.
MAX_ABNORMAL_IN_A_ROW = 100


class EvaluationError(RuntimeError):
    """The evaluation cannot finish."""


def seed_evaluation(env: EnvManager, seed: int | None = None) -> None:
    """Give each episode of an evaluation its own seed, which is the same in all evaluations of a run.

    Env ``i`` plays the episodes ``i``, ``i + env_num``, ``i + 2 * env_num``, ..., so the set of episodes depends
    neither on timing nor on the number of envs.

    Args:
        env: Env manager. One without ``seed_episodes`` gets a fixed seed per env.
        seed: seed of the run. ``None``: keep the seeds of the envs; fixed ones (``dynamic_seed=False``) seed the first
            episodes, and the seeds of further episodes are derived from them.
    """
    seed_episodes = getattr(env, "seed_episodes", None)
    if seed is None:
        if seed_episodes is not None:
            seed_episodes()
        return
    tree = SeedTree(seed)

    def seed_of(index: int) -> int:
        return tree.derived("evaluator", index=index, purpose="evaluate")

    if seed_episodes is not None:
        seed_episodes(seed_of)
    else:
        env.seed([seed_of(index) for index in range(env.env_num)], dynamic_seed=False)


class EndlessEpisodes:
    """Warn about evaluation episodes that do not end, after ``warn_steps`` steps and at each doubling.

    Args:
        env_num: number of envs.
        warn_steps: Number of steps of an episode; ``None`` for no warning.
        key: Config key of ``warn_steps``, for messages.

    Raises:
        ValueError: ``warn_steps`` is below 1.
    """

    def __init__(
        self, env_num: int, warn_steps: int | None = WARN_STEPS, key: str = "policy.eval.evaluator.warn_steps"
    ) -> None:
        if warn_steps is not None and warn_steps < 1:
            raise ValueError(f"{key} must be at least 1 or None, got {warn_steps}")
        self._key = key
        self._steps = np.zeros(env_num, dtype=np.int64)
        self._next = math.inf if warn_steps is None else warn_steps

    def note(self, env_ids: np.ndarray, done: np.ndarray) -> None:
        """Count a step of these envs (int64 ``[N]``); ``done`` (bool ``[N]``) marks episodes that ended."""
        self._steps[env_ids] += 1
        self._steps[env_ids[done]] = 0
        if len(env_ids) and self._steps[env_ids].max() >= self._next:
            env_id = int(env_ids[self._steps[env_ids].argmax()])
            logger.warning(
                "an episode of the evaluation does not end: env %d has made %d steps in it. Limit episodes with "
                "env.max_episode_steps, or raise %s where they may be that long",
                env_id,
                self._steps[env_id],
                self._key,
            )
            self._next *= 2

    def restart(self, env_ids: set[int]) -> None:
        """Restart the episode counts of these envs."""
        self._steps[list(env_ids)] = 0


class ReturnStatistics:
    """Mean and standard deviation of all returns, and the last ``kept`` of them, as a task may be endless."""

    def __init__(self, kept: int = 10_000) -> None:
        self.count = 0
        self.mean = 0.0
        self.last: deque[float] = deque(maxlen=kept)
        self._squares = 0.0

    def add(self, value: float) -> None:
        """Add a return by Welford's rule."""
        self.count += 1
        deviation = value - self.mean
        self.mean += deviation / self.count
        self._squares += deviation * (value - self.mean)
        self.last.append(value)

    @property
    def std(self) -> float:
        """Standard deviation; 0 without returns."""
        return math.sqrt(ratio(self._squares, self.count))


class VectorEvalMonitor:
    """Assign each env its share of the episodes, so that envs with short episodes are not over-represented.

    Env ``i`` plays ``n_episode // env_num`` episodes, the first ``n_episode % env_num`` envs one more. Reports of an
    env beyond its share are ignored.

    Args:
        env_num: number of envs.
        n_episode: number of episodes.

    Raises:
        ConfigValueError: There are fewer episodes than envs (also an ``AssertionError``).
    """

    def __init__(self, env_num: int, n_episode: int) -> None:
        if n_episode < env_num:
            raise ConfigValueError(
                f"n_episode ({n_episode}) must be at least env_num ({env_num}); "
                "lower env.evaluator_env_num or raise env.n_evaluator_episode"
            )
        share, rest = divmod(n_episode, env_num)
        self._quota = [share + 1 if env_id < rest else share for env_id in range(env_num)]
        self._returns: list[list[float]] = [[] for _ in range(env_num)]
        self._infos: list[list[Any]] = [[] for _ in range(env_num)]
        self._frames: list[list[list[np.ndarray]]] = [[[] for _ in range(quota)] for quota in self._quota]
        self._outputs: list[list[list[Any]]] = [[[] for _ in range(quota)] for quota in self._quota]
        self._missing = self.num_episodes = n_episode

    def is_finished(self) -> bool:
        """Return whether every env has played its share."""
        return self._missing == 0

    def is_full(self, env_id: int) -> bool:
        """Return whether this env has played its share."""
        return len(self._returns[env_id]) >= self._quota[env_id]

    def update_reward(self, env_id: int, reward: Return) -> None:
        """Record the return of a finished episode: a number, or an array or tensor with one element."""
        if self.is_full(env_id):
            return
        self._returns[env_id].append(scalar(reward))
        self._missing -= 1

    def update_info(self, env_id: int, info: Mapping[str, object]) -> None:
        """Record the info of a finished episode; tensors and arrays become numbers or lists."""
        if len(self._infos[env_id]) < self._quota[env_id]:
            self._infos[env_id].append(plain_values(info))

    def update_video(self, imgs: Mapping[int, np.ndarray]) -> None:
        """Append a frame ``[H, W, C]`` to the current episode of each of these envs."""
        self._append(self._frames, imgs)

    def update_output(self, output: Mapping[int, Any]) -> None:
        """Append the policy output to the current episode of each of these envs."""
        self._append(self._outputs, output)

    def _append(self, episodes: list[list[list[Any]]], values: Mapping[int, Any]) -> None:
        for env_id, value in values.items():
            if not self.is_full(env_id):
                episodes[env_id][len(self._returns[env_id])].append(value)

    def drop_video(self, env_id: int) -> None:
        """Drop frames and outputs of the current episode of an env, which will not finish."""
        if not self.is_full(env_id):
            self._frames[env_id][len(self._returns[env_id])].clear()
            self._outputs[env_id][len(self._returns[env_id])].clear()

    def get_episode_return(self) -> list[float]:
        """Return the returns of all episodes, env by env."""
        return [value for per_env in self._returns for value in per_env]

    def get_latest_reward(self, env_id: int) -> float:
        """Return the return of the last episode of an env."""
        return self._returns[env_id][-1]

    def get_current_episode(self) -> int:
        """Return the number of recorded episodes."""
        return sum(len(per_env) for per_env in self._returns)

    def get_episode_info(self) -> dict[str, Any] | None:
        """Return the infos of all episodes, env by env, as a dict of lists, plus ``<key>_mean`` for numbers.

        ``None`` if there are none. The keys are those of the first info.
        """
        infos = [info for per_env in self._infos for info in per_env]
        if not infos:
            return None
        columns = {key: [info[key] for info in infos if key in info] for key in infos[0]}
        means = {
            f"{key}_mean": float(np.mean(values))
            for key, values in columns.items()
            if isinstance(values[0], (int, float))
        }
        return {**columns, **means}

    def get_video(self) -> np.ndarray:
        """Return the frames of the worst, median and best episodes: uint8 ``[N, T, C, H, W]``.

        One or two episodes are all returned; three give worst, median and best; more give worst, two medians and best.
        Shorter episodes repeat their last frame.

        Raises:
            ValueError: There are no frames.
        """
        episodes = self._picked(self._frames)
        if not episodes:
            raise ValueError("no frames were noted for any finished episode")
        videos = [np.stack([np.moveaxis(frame, -1, 0) for frame in frames]) for frames in episodes]
        longest = max(len(video) for video in videos)
        return np.stack([np.concatenate([video, video[-1:].repeat(longest - len(video), 0)]) for video in videos])

    get_episode_video = get_video

    def get_episode_output(self) -> list[list[Any]]:
        """Return the policy output at each step of the episodes shown by :meth:`get_video`."""
        return self._picked(self._outputs)

    def _picked(self, episodes: list[list[list[Any]]]) -> list[list[Any]]:
        """Return the worst, median and best of the finished episodes with recorded frames or outputs."""
        noted = [
            (value, steps) for values, of_env in zip(self._returns, episodes) for value, steps in zip(values, of_env)
        ]
        by_return = sorted((one for one in noted if one[1]), key=lambda one: one[0])
        middle, last = (len(by_return) - 1) // 2, len(by_return) - 1
        picked = range(len(by_return)) if len(by_return) <= 3 else (0, middle, middle + 1, last)
        return [by_return[i][1] for i in picked]


class EvaluationRunner:
    """Step the envs that still have episodes to play.

    An env that reports ``info['abnormal']`` is reset, and its episode does not count.

    Args:
        env: env manager (v1 interface), reset before.
        policies: eval modes, one per player.
        monitor: Assigns the number of episodes per env.
        game: Splits the envs among several players; ``None`` for one player.
        policy_kwargs: keyword arguments of each ``policy.forward``.
        warn_steps: Episode length after which a warning is logged; ``None`` for none.

    Attributes:
        num_env_steps: env steps so far, without abnormal ones.
        output: Output of the (first) policy at the last step, by env id.
    """

    def __init__(
        self,
        env: EnvManager,
        policies: Sequence[EvalMode],
        monitor: "VectorEvalMonitor",
        game: Game | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        warn_steps: int | None = WARN_STEPS,
    ) -> None:
        self._stepper = VectorStepper(env, policies, game, as_network_input, evaluates=True)
        self._monitor = monitor
        self._kwargs = [policy_kwargs or {} for _ in policies]
        self._num_abnormal = np.zeros(env.env_num, dtype=np.int64)
        self._active = set(range(env.env_num))
        self._endless = EndlessEpisodes(env.env_num, warn_steps)
        # Such a manager cannot skip envs that have completed their share: their steps are ignored.
        self._steps_together = bool(getattr(env, "steps_together", False))
        if monitor.num_episodes > env.env_num and not getattr(env, "seeds_each_episode", True):
            one_time_warning(
                "envs that reset themselves take a seed at the start of an evaluation only: further episodes of each "
                f"env differ from evaluation to evaluation. With env.evaluator_env_num={monitor.num_episodes}, as many "
                "as env.n_evaluator_episode, each episode has a seed of its own"
            )
        self.num_env_steps = 0
        self.output: Mapping[int, Any] = {}

    def step(self) -> list[tuple[int, list[dict[str, Any]]]]:
        """Perform one vector step.

        Returns:
            For each counted episode that ended, its env id and its last info per player. The caller records its return
            in the monitor, and then calls :meth:`finished`.

        Raises:
            EvaluationError: An env reports only abnormal episodes.
        """
        stepper, env = self._stepper, self._stepper.env
        obs = env.ready_obs if self._steps_together else select(env.ready_obs, self._active)
        if not len(obs) and not stepper.is_waiting:
            # These envs have reached the manager's `episode_num`, or are not reset by it.
            env.reset(dict.fromkeys(sorted(self._active)))
            return []
        steps, abnormal = drop_abnormal(stepper.join(env.step(stepper.act(obs, self._kwargs) if len(obs) else {})))
        self._restart(self._active.intersection(abnormal.tolist()))
        if not steps:
            return []
        timesteps, self.output = steps[0].timesteps, steps[0].output
        self._endless.note(timesteps.env_ids, timesteps.done)
        env_ids = timesteps.env_ids.tolist()
        self.num_env_steps += sum(env_id in self._active for env_id in env_ids)
        return [
            (env_ids[position], [step.timesteps.info_at(position) for step in steps])
            for position in np.flatnonzero(timesteps.done).tolist()
            if env_ids[position] in self._active
        ]

    def finished(self, env_id: int) -> None:
        """Reset the policies' memory of an env after the return of its last episode was recorded."""
        self._num_abnormal[env_id] = 0
        if self._monitor.is_full(env_id):
            self._active.discard(env_id)
        for policy in self._stepper.policies:
            policy.reset([env_id])

    def _restart(self, env_ids: set[int]) -> None:
        """Restart the episodes of broken envs."""
        for env_id in env_ids:
            self._num_abnormal[env_id] += 1
            if self._num_abnormal[env_id] > MAX_ABNORMAL_IN_A_ROW:
                raise EvaluationError(
                    f"env {env_id} reported {self._num_abnormal[env_id]} abnormal episodes in a row; "
                    "the evaluation cannot end"
                )
            self._monitor.drop_video(env_id)
        if env_ids:
            self._endless.restart(env_ids)
            self._stepper.restart(sorted(env_ids))


def plain_values(value: object) -> Tree:
    """Return nested values with arrays replaced by lists, or by a number if they have one element."""
    return map_nested(_plain, value)


def _plain(leaf: object) -> object:
    if isinstance(leaf, (torch.Tensor, np.ndarray)):
        size = leaf.numel() if isinstance(leaf, torch.Tensor) else leaf.size
        return leaf.item() if size == 1 else leaf.tolist()
    return leaf.item() if isinstance(leaf, np.generic) else leaf
