"""Policies that learn from the returns of whole episodes."""

from typing import ClassVar

from ding.data import TransitionBatch, batched
from ding.data.roles import Samples
from ding.policy._acting.stochastic import StochasticPolicy
from ding.policy._samples.segments import as_given, with_returns
from ding.policy.errors import PolicyUsageError
from ding.rl_utils import get_train_sample
from ding.rl_utils.adder import segment_ends


class EpisodePolicy(StochasticPolicy):
    """A policy network without a critic, which learns from the discounted return after each step of an episode.

    Collect whole episodes, for instance with the collector ``episode`` and ``get_train_sample=True``.
    """

    collect_kwargs = {}
    eval_kwargs = {}
    output_fields: ClassVar[tuple[str, ...]] = ("action",)
    keeps_next_obs = False
    _learns_from_transitions = False
    # A time limit ends the sum of rewards as well: nothing here estimates what would follow.
    time_limit_is_end = True

    def default_model(self) -> tuple[str, list[str]]:
        """``pg`` of :mod:`ding.model.template.pg`."""
        return "pg", ["ding.model.template.pg"]

    def _get_gamma(self) -> float:
        """Attribute ``gamma``: the discount of a step."""
        return float(self._cfg.collect.discount_factor)

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """The transitions of whole episodes with ``return`` (float32).

        Raises:
            NotImplementedError: ``learn.ignore_done``.
            PolicyUsageError: a segment is not a whole episode (an ``AssertionError``).
        """
        if self._cfg.learn.ignore_done:
            raise NotImplementedError("policy.learn.ignore_done: a return needs the end of the episode")
        batch = TransitionBatch.of(transitions)
        done = batch.columns["done"]
        if not all(done[int(row)] for row in set((segment_ends(len(batch), batch.lengths) - 1).tolist())):
            raise PolicyUsageError(
                f"{type(self).__name__} learns from whole episodes, but a segment ended before its episode did; "
                "collect with the collector 'episode' and policy.collect.n_episode"
            )
        batch = with_returns(batch, self._cfg.collect.discount_factor)
        return get_train_sample(as_given(batch, transitions), self._unroll_len)
