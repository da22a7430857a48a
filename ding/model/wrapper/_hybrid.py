"""Wrappers that choose hybrid actions: a discrete type with continuous arguments."""

from __future__ import annotations

from typing import Any

from ding.model.wrapper._base import IModelWrapper
from ding.model.wrapper._sample import (
    EpsGreedyMultinomialSampleWrapper,
    EpsGreedySampleWrapper,
    greedy_action,
    normal_sample,
    per_head,
    softmax_action,
)


def _hybrid_output(output: dict[str, Any], action_type: Any) -> dict[str, Any]:
    if "action_args" not in output:
        raise KeyError(f"a hybrid action needs 'action_args' in the output of the model, got {sorted(output)}")
    action = {"action_type": action_type, "action_args": output["action_args"]}
    return {"action": action, "logit": output["logit"]}


class HybridArgmaxSampleWrapper(IModelWrapper):
    """``hybrid_argmax_sample``: the output is ``logit`` and ``action``, a dict of the best ``action_type`` and the
    ``action_args``.

    An output without ``logit`` is passed through.
    """

    takes_arrays = True

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and choose."""
        output = self._tensors(args, kwargs)
        return _hybrid_output(output, per_head(output, greedy_action)) if "logit" in output else output


class HybridEpsGreedySampleWrapper(EpsGreedySampleWrapper):
    """``hybrid_eps_greedy_sample``: ``eps_greedy_sample`` for ``action_type``; output of ``hybrid_argmax_sample``."""

    takes_arrays = True

    def _output(self, output: dict[str, Any], action: Any) -> dict[str, Any]:
        return _hybrid_output(output, action)


class HybridEpsGreedyMultinomialSampleWrapper(EpsGreedyMultinomialSampleWrapper):
    """``hybrid_eps_greedy_multinomial_sample``: ``eps_greedy_multinomial_sample`` for ``action_type``."""

    takes_arrays = True

    def _output(self, output: dict[str, Any], action: Any) -> dict[str, Any]:
        return _hybrid_output(output, action)


class HybridReparamMultinomialSampleWrapper(IModelWrapper):
    """``hybrid_reparam_multinomial_sample``: adds ``action``: a draw of ``softmax(logit['action_type'])`` and a normal
    sample with ``logit['action_args']`` (``mu``, ``sigma``)."""

    takes_arrays = True

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and draw; the sample has no gradient."""
        output = self._tensors(args, kwargs)
        logit = output["logit"]
        action_type = softmax_action(logit["action_type"], output.get("action_mask"))
        output["action"] = {"action_type": action_type, "action_args": normal_sample(logit["action_args"])}
        return output


class HybridDeterministicArgmaxSampleWrapper(IModelWrapper):
    """``hybrid_deterministic_argmax_sample``: adds ``action``: the best ``action_type`` and the mean of the
    arguments.
    """

    takes_arrays = True

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and choose."""
        output = self._tensors(args, kwargs)
        logit = output["logit"]
        action_type = greedy_action(logit["action_type"], output.get("action_mask"))
        output["action"] = {"action_type": action_type, "action_args": logit["action_args"]["mu"]}
        return output
