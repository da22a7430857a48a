"""HER: failed episodes relabelled as successes for the goals they reached."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from ding.data import Row, TransitionBatch
from ding.torch_utils import to_device, to_tensor

Split: TypeAlias = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
Merge: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
GoalReward: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_STRATEGIES = ("final", "future", "episode")


class HerRewardModel:
    """Relabel the goals of an episode (Andrychowicz et al. 2017, arXiv:1707.01495).

    The new goal of a step is a goal achieved in its episode: at the last step (``final``), at a random later step
        (``future``), or at any random step (``episode``).

    Args:
        cfg: ``her_strategy``; ``her_replay_k``, goals per step (1; 4 is common); ``episode_size``, episodes per batch
            (``None``: the batch size); ``sample_per_episode``, steps that are relabelled (``None``: all);
            ``original_ratio``, the share of the steps that keep their goal (0).
        cuda: Whether to return the result on the GPU.

    Raises:
        AssertionError: ``her_strategy`` is unknown.
    """

    def __init__(self, cfg: Mapping[str, Any], cuda: bool = False) -> None:
        self.her_strategy = cfg["her_strategy"]
        if self.her_strategy not in _STRATEGIES:
            raise AssertionError(f"her_strategy must be one of {_STRATEGIES}, got {self.her_strategy!r}")
        self.her_replay_k = cfg.get("her_replay_k", 1)
        self.episode_size: int | None = cfg.get("episode_size")
        self.sample_per_episode: int | None = cfg.get("sample_per_episode")
        self.original_ratio = cfg.get("original_ratio", 0.0)
        self.device = "cuda" if cuda and torch.cuda.is_available() else "cpu"

    def estimate(
        self,
        episode: Sequence[Mapping[str, Any]],
        merge_func: Merge | None = None,
        split_func: Split | None = None,
        goal_reward_func: GoalReward | None = None,
    ) -> list[TransitionBatch]:
        """Return ``her_replay_k`` lists of M transitions with new goals, and the rewards for these.

        Args:
            episode: T transitions with ``obs`` and ``next_obs``. They are not changed.
            merge_func: (observation without goal, goal) -> observation; by default it joins both.
            split_func: observation -> (observation without goal, goal, achieved goal); by default its two halves, of
                which the first is also what is achieved.
            goal_reward_func: (achieved goal, goal) -> reward ``(1,)``; by default 1 where both are equal, else 0.
        """
        columns = to_device(to_tensor(_columns(episode)), self.device)
        split = split_halves if split_func is None else _of_each(split_func)
        merge = join if merge_func is None else _of_each(merge_func)
        goal_reward = is_achieved if goal_reward_func is None else _of_each(goal_reward_func)
        (state, goal, _), (next_state, _, achieved) = split(columns["obs"]), split(columns["next_obs"])
        picked = self._picked(len(episode))
        steps = torch.from_numpy(picked)
        made = []
        for _ in range(self.her_replay_k):
            goals = achieved[torch.from_numpy(self._goal_steps(picked, len(episode)))]
            keeps = torch.from_numpy(np.random.random(len(picked)) < self.original_ratio)
            goals = torch.where(keeps.to(goals.device).view(-1, *[1] * (goals.dim() - 1)), goal[steps], goals)
            rows = TransitionBatch(columns)[picked].columns
            rows["obs"], rows["next_obs"] = merge(state[steps], goals), merge(next_state[steps], goals)
            rows["reward"] = goal_reward(achieved[steps], goals)
            made.append(TransitionBatch(rows))
        return made

    def _picked(self, length: int) -> np.ndarray:
        if self.sample_per_episode is None:
            return np.arange(length)
        return np.random.choice(length, self.sample_per_episode, replace=self.sample_per_episode > length)

    def _goal_steps(self, picked: np.ndarray, length: int) -> np.ndarray:
        if self.her_strategy == "final":
            return np.full_like(picked, length - 1)
        return np.random.randint(picked if self.her_strategy == "future" else 0, length, size=len(picked))


def split_halves(obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Split ``[..., 2n]`` into state ``[..., n]`` and goal ``[..., n]``; the state is also the achieved goal."""
    state, goal = obs.chunk(2, dim=-1)
    return state, goal, state


def join(state: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
    """Concatenate both along the last axis."""
    return torch.cat([state, goal], dim=-1)


def is_achieved(achieved: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
    """Return 1 where all components are equal, else 0; float32 ``[..., 1]``."""
    return (achieved == goal).all(dim=-1, keepdim=True).float()


def _of_each(function: Callable[..., Any]) -> Callable[..., Any]:
    """Convert a function of single values to one of batches."""

    def of_batch(*batches: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        results = [function(*values) for values in zip(*batches)]
        if isinstance(results[0], tuple):
            return tuple(torch.stack(parts) for parts in zip(*results))
        return torch.stack(results)

    return of_batch


def _columns(episode: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return (episode if isinstance(episode, TransitionBatch) else TransitionBatch.from_rows(map(Row, episode))).columns
