"""Wrappers that choose hybrid actions: a discrete type with continuous arguments."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from ding.model.wrapper._base import IModelWrapper, output_dict
from ding.model.wrapper._sample import (
    Eps,
    EpsGreedySampleWrapper,
    Exploit,
    choose,
    explores,
    greedy_action,
    normal_sample,
    per_head,
    softmax_action,
    split_heads,
)


def _hybrid_output(output: dict[str, Any], action_type: torch.Tensor | list[torch.Tensor]) -> dict[str, Any]:
    if "action_args" not in output:
        raise KeyError(f"a hybrid action needs 'action_args' in the output of the model, got {sorted(output)}")
    action = {"action_type": action_type, "action_args": output["action_args"]}
    return {"action": action, "logit": output["logit"]}


class HybridArgmaxSampleWrapper(IModelWrapper):
    """``hybrid_argmax_sample``: the output is ``logit`` and ``action``, a dict of the best ``action_type`` and the
    ``action_args``.

    An output without ``logit`` is passed through.
    """

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and choose."""
        output = output_dict(self._model.forward(*args, **kwargs), self)
        return _hybrid_output(output, per_head(output, greedy_action)) if "logit" in output else output


class HybridEpsGreedySampleWrapper(EpsGreedySampleWrapper):
    """``hybrid_eps_greedy_sample``: ``eps_greedy_sample`` for ``action_type``; output of ``hybrid_argmax_sample``.

    A row that explores has random arguments too, uniform in [-1, 1], as in arXiv:1511.04143 and arXiv:1810.06394; with
    ``reference_numerics`` it keeps those of the model.
    """

    def _chosen(self, output: dict[str, Any], eps: Eps, exploit: Exploit) -> dict[str, Any]:
        if self._reference_numerics:
            output = super()._chosen(output, eps, exploit)
            return _hybrid_output(output, output["action"])
        logits, masks, _ = split_heads(output)
        explore = explores(logits[0], eps)
        action_type = choose(logits[0], masks[0], explore, exploit)
        chosen = _hybrid_output(output, action_type)
        args = output["action_args"]
        chosen["action"]["action_args"] = torch.where(explore.unsqueeze(-1), torch.rand_like(args) * 2 - 1, args)
        return chosen


class HybridEpsGreedyMultinomialSampleWrapper(HybridEpsGreedySampleWrapper):
    """``hybrid_eps_greedy_multinomial_sample``: the same with a draw from ``softmax(logit / alpha)`` for the best type.

    ``forward`` takes the keyword ``alpha`` too; 1 unless given.
    """

    def _exploit(self, kwargs: dict[str, Any]) -> Exploit:
        return partial(softmax_action, alpha=kwargs.pop("alpha", None))


class HybridReparamMultinomialSampleWrapper(IModelWrapper):
    """``hybrid_reparam_multinomial_sample``: adds ``action``: a draw of ``softmax(logit['action_type'])`` and a normal
    sample with ``logit['action_args']`` (``mu``, ``sigma``)."""

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and draw; the sample has no gradient."""
        output = output_dict(self._model.forward(*args, **kwargs), self)
        logit = output["logit"]
        action_type = softmax_action(logit["action_type"], output.get("action_mask"))
        output["action"] = {"action_type": action_type, "action_args": normal_sample(logit["action_args"])}
        return output


class HybridDeterministicArgmaxSampleWrapper(IModelWrapper):
    """``hybrid_deterministic_argmax_sample``: adds ``action``: the best ``action_type`` and the mean of the
    arguments.
    """

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Run the model and choose."""
        output = output_dict(self._model.forward(*args, **kwargs), self)
        logit = output["logit"]
        action_type = greedy_action(logit["action_type"], output.get("action_mask"))
        output["action"] = {"action_type": action_type, "action_args": logit["action_args"]["mu"]}
        return output
