"""Prioritised level replay (Jiang, Grefenstette, Rocktäschel 2021, "Prioritized Level Replay", arXiv:2010.03934).

=================  ==================================================================================================
term               meaning =================
================================================================================================== level the env that
one seed generates segment            consecutive steps of one actor in one level, up to the end of the episode or of
the collection score estimated learning potential of a level, from its most recent segment staleness number of draws
since a level was last drawn =================
==================================================================================================
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from ding.data.roles import StateDict
from ding.utils import Configurable, deep_merge_dicts
from ding.utils.names import check_choice

Columns = Mapping[str, torch.Tensor]

_STATE = ("unseen_seed_weights", "seed_scores", "seed_staleness", "next_seed_index")


def generate_seeds(num_seeds: int = 500, base_seed: int = 0) -> list[int]:
    """Return ``num_seeds`` consecutive seeds, starting at ``base_seed``."""
    return list(range(base_seed, base_seed + num_seeds))


class LevelSampler(Configurable):
    """Draw the next level: an unplayed one, or a played one with a probability that grows with its score.

    Args:
        seeds: the seeds of all levels, each once.
        obs_space: Ignored; DI-engine scripts pass the observation shape here.
        action_space: Number of actions (or a ``Discrete`` space), the unit of ``policy_entropy``.
        num_actors: Number of envs.
        cfg: Overrides of :attr:`config`.

    Attributes:
        seed2index: Seed -> its place in all arrays below.
        unseen_seed_weights: float64 ``[L]``, 1 for levels without a score, else 0.
        seed_scores: float64 ``[L]``.
        partial_seed_scores, partial_seed_steps: ``[num_actors, L]``, mean score and steps of the segments of an update
            that were cut before the end of their episode.
        seed_staleness: float64 ``[L]``.
        next_seed_index: Position of the strategy ``sequential``.

    Raises:
        ValueError: A strategy, schedule or transform is unknown, or seeds are not distinct.
    """

    config: ClassVar[dict[str, Any]] = {
        # (str) Score of a level, see SCORES; or 'random' or 'sequential', which use no scores.
        "strategy": "policy_entropy",
        # (str) 'fixed': replay with probability 1 - nu; 'proportionate': with the fraction of levels that were played.
        "replay_schedule": "fixed",
        # (str) How scores become probabilities: 'rank' or 'power', with this temperature.
        "score_transform": "rank",
        "temperature": 1.0,
        "eps": 0.05,
        # (float) Fraction of the levels to play once before any replay.
        "rho": 0.2,
        # (float) Probability of a new level while unplayed ones remain. Higher values explore more levels.
        "nu": 0.5,
        # (float) Weight of a new score against the old one, in (0, 1]. Higher values forget old scores faster.
        "alpha": 1.0,
        # (float) Weight of the staleness against the score, and its conversion to a probability.
        "staleness_coef": 0,
        "staleness_transform": "power",
        "staleness_temperature": 1.0,
    }

    def __init__(
        self,
        seeds: Sequence[int],
        obs_space: object,
        action_space: object,
        num_actors: int,
        cfg: Mapping[str, Any] | None = None,
    ) -> None:
        self._cfg = deep_merge_dicts(self.default_config(), cfg or {})
        self.seeds = np.array(seeds, dtype=np.int64)
        self.seed2index = {int(seed): index for index, seed in enumerate(self.seeds)}
        if not len(self.seeds) or len(self.seed2index) < len(self.seeds):
            raise ValueError(f"level_replay needs distinct seeds, at least one; found {len(self.seeds)} of them")
        check_choice("level_replay.strategy", self._cfg["strategy"], ("random", "sequential", *SCORES))
        check_choice("level_replay.replay_schedule", self._cfg["replay_schedule"], ("fixed", "proportionate"))
        for key in ("score_transform", "staleness_transform"):
            check_choice(f"level_replay.{key}", self._cfg[key], ("rank", "power"))
        self._num_actions = int(getattr(action_space, "n", action_space))  # type: ignore[call-overload]
        levels = len(self.seeds)
        self.unseen_seed_weights = np.ones(levels)
        self.seed_scores = np.zeros(levels)
        self.partial_seed_scores = np.zeros((num_actors, levels))
        self.partial_seed_steps = np.zeros((num_actors, levels), dtype=np.int64)
        self.seed_staleness = np.zeros(levels)
        self.next_seed_index = 0

    # ------------------------------------------------------------------ draws

    def sample(self, strategy: str | None = None) -> int:
        """Draw the seed of a level, from numpy's global generator.

        Args:
            strategy: ``random`` draws uniformly, ``sequential`` cycles through the levels; by default that of the
                config.
        """
        strategy = strategy or self._cfg["strategy"]
        if strategy == "random":
            return int(self.seeds[np.random.randint(len(self.seeds))])
        if strategy == "sequential":
            index = self.next_seed_index
            self.next_seed_index = (index + 1) % len(self.seeds)
            return int(self.seeds[index])
        return int(self.seeds[self._draw(self.sample_weights() if self._replays() else self.unseen_seed_weights)])

    def _replays(self) -> bool:
        seen = float(np.mean(self.unseen_seed_weights == 0))
        if seen < self._cfg["rho"] or seen == 0:
            return False
        draw = np.random.rand()
        if self._cfg["replay_schedule"] == "fixed":
            return seen == 1 or draw > self._cfg["nu"]
        return draw < seen

    def _draw(self, weights: np.ndarray) -> int:
        index = int(np.random.choice(len(weights), p=weights / weights.sum()))
        if self._cfg["staleness_coef"] > 0:
            self.seed_staleness += 1
            self.seed_staleness[index] = 0
        return index

    def sample_weights(self) -> np.ndarray:
        """Return the replay probabilities of the levels: float64 ``[L]``, 0 for levels without a score."""
        cfg, seen = self._cfg, self.unseen_seed_weights == 0
        weights: np.ndarray = _normed(cfg["score_transform"], cfg["temperature"], self.seed_scores, seen, cfg)
        if cfg["staleness_coef"] > 0:
            staleness = _normed(
                cfg["staleness_transform"], cfg["staleness_temperature"], self.seed_staleness, seen, cfg
            )
            weights = (1 - cfg["staleness_coef"]) * weights + cfg["staleness_coef"] * staleness
        return weights

    def state_dict(self) -> StateDict:
        """Return the state that draws and updates change."""
        return {name: getattr(self, name) for name in _STATE}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore what :meth:`state_dict` returned."""
        for name in _STATE:
            setattr(self, name, state_dict[name])

    # ------------------------------------------------------------------ scores

    def update_with_rollouts(self, train_data: Columns, num_actors: int) -> None:
        """Update the scores of the played levels.

        Args:
            train_data: N samples of a collection, as ``default_preprocess_learn`` returns them: ``seed`` and ``done``
                ``[N]``, and the input of the strategy: ``logit`` ``[N, A]``, ``adv``, or ``reward`` and ``value``. The
                samples of an actor are consecutive and in order. ``traj_flag`` ``[N]`` marks segments that end before
                their episode; without it each actor has N / ``num_actors`` samples.
            num_actors: Number of envs.

        Raises:
            KeyError: A seed is unknown to the sampler, or a field is missing.
        """
        if self._cfg["strategy"] in ("random", "sequential"):
            return
        done = train_data["done"].bool().cpu().numpy()
        seeds = train_data["seed"].cpu().numpy().astype(np.int64).reshape(-1)
        flagged = "traj_flag" in train_data
        ends = _segment_stops(done, seeds, train_data["traj_flag"].cpu().numpy() if flagged else None, num_actors)
        score = SCORES[self._cfg["strategy"]]
        start = 0
        for end in ends.tolist():
            rows = {key: train_data[key][start:end] for key in ("logit", "adv", "reward", "value") if key in train_data}
            actor = 0 if flagged else start * num_actors // len(done)
            update = self.update_seed_score if done[end - 1] else self._update_partial_score
            update(actor, self.seed2index[int(seeds[start])], score(rows, self._num_actions), end - start)
            start = end
        for actor, index in np.argwhere(self.partial_seed_steps).tolist():
            self.update_seed_score(actor, index, 0.0, 0)

    def update_seed_score(self, actor_index: int, seed_idx: int, score: float, num_steps: int) -> None:
        """Update the score of the level at ``seed_idx`` with that of a finished segment."""
        merged = self._update_partial_score(actor_index, seed_idx, score, num_steps)
        self.partial_seed_scores[actor_index, seed_idx] = self.partial_seed_steps[actor_index, seed_idx] = 0
        self.unseen_seed_weights[seed_idx] = 0.0
        alpha = self._cfg["alpha"]
        self.seed_scores[seed_idx] = (1 - alpha) * self.seed_scores[seed_idx] + alpha * merged

    def _update_partial_score(self, actor_index: int, seed_idx: int, score: float, num_steps: int) -> float:
        """Update and return the step-weighted mean of this score and the actor's partial score in this level."""
        place = actor_index, seed_idx
        steps = int(self.partial_seed_steps[place]) + num_steps
        mean = self.partial_seed_scores[place]
        mean += (score - mean) * num_steps / steps
        self.partial_seed_scores[place], self.partial_seed_steps[place] = mean, steps
        return float(mean)


def _segment_stops(done: np.ndarray, seeds: np.ndarray, flags: np.ndarray | None, num_actors: int) -> np.ndarray:
    """Return the end positions of the segments (int64 ``[S]``)."""
    last = done.copy()
    last[:-1] |= seeds[1:] != seeds[:-1]
    if flags is not None:
        last |= flags.reshape(-1).astype(bool)
    else:
        of_each = max(1, len(last) // num_actors)
        last[of_each - 1 :: of_each] = True
    last[-1] = True
    return np.flatnonzero(last) + 1


def _normed(
    transform: str, temperature: float, values: np.ndarray, seen: np.ndarray, cfg: Mapping[str, Any]
) -> np.ndarray:
    """Return probabilities of all levels from their values; 0 for unplayed levels."""
    weights = np.zeros(len(values))
    if transform == "rank":
        ranks = np.empty(int(seen.sum()))
        ranks[np.argsort(-values[seen], kind="stable")] = np.arange(1, len(ranks) + 1)
        weights[seen] = ranks ** (-1.0 / temperature)
    else:
        eps = 0.0 if cfg["staleness_coef"] > 0 else 1e-3
        weights[seen] = np.maximum(values[seen] + eps, 0.0) ** (1.0 / temperature)
    total = weights.sum()
    normed: np.ndarray = weights / total if total > 0 else seen / seen.sum()
    return normed


def _policy_entropy(rows: Columns, num_actions: int) -> float:
    log_p = rows["logit"].log_softmax(-1)
    return float((-(log_p.exp() * log_p).sum(-1)).mean()) / math.log(num_actions)


def _least_confidence(rows: Columns, num_actions: int) -> float:
    return float((1 - rows["logit"].softmax(-1).max(-1).values).mean())


def _min_margin(rows: Columns, num_actions: int) -> float:
    best = rows["logit"].softmax(-1).topk(2, dim=-1).values
    return float(1 - (best[..., 0] - best[..., 1]).mean())


def _gae(rows: Columns, num_actions: int) -> float:
    return float(rows["adv"].mean())


def _value_l1(rows: Columns, num_actions: int) -> float:
    return float(rows["adv"].abs().mean())


def _one_step_td_error(rows: Columns, num_actions: int) -> float:
    """Return the undiscounted one-step TD error, as in DI-engine; 0 for a segment of one step."""
    reward, value = rows["reward"], rows["value"]
    return float((reward[:-1] + value[:-1] - value[1:]).abs().mean()) if len(reward) > 1 else 0.0


# Strategy -> score of the segment in these rows; levels with higher scores are replayed sooner.
SCORES: dict[str, Callable[[Columns, int], float]] = {
    "policy_entropy": _policy_entropy,
    "least_confidence": _least_confidence,
    "min_margin": _min_margin,
    "gae": _gae,
    "value_l1": _value_l1,
    "one_step_td_error": _one_step_td_error,
}
