"""Log-probabilities of tokens under the logits of a language model.

Notation: B sequences, S tokens, V words of the vocabulary. Each function takes logits ``[B, S, V]`` and token numbers
int64 ``[B, S]`` (or ``[S, V]`` and ``[S]``), and returns the log-probability of each token in the dtype of the logits.
They return the same values and differ in memory: V is large, and ``[B, S, V]`` often the largest tensor of an update.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

__all__ = ["LogProbFunction", "efficient_method", "less_efficient_method", "naive_method"]

LogProbFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
#: Older name in DI-engine.
LogitsProcessor = LogProbFunction

# Number of logits per step of efficient_method, unless one sequence has more: 16 MiB of float32.
_CHUNK_SIZE = 1 << 22


def naive_method(logits: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return log-probabilities by a log-softmax over all logits, which doubles their memory."""
    return _gathered(F.log_softmax(logits, dim=-1), index)


def efficient_method(logits: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return log-probabilities a few sequences at a time; float32 and float64 keep no second tensor of all logits.

    Other dtypes use the log-softmax, because the difference of two rounded numbers is too inaccurate.
    """
    exact = logits.dtype in (torch.float32, torch.float64)
    parts = [
        _gathered(some, tokens) - some.logsumexp(-1) if exact else naive_method(some, tokens)
        for some, tokens in _chunks(logits, index)
    ]
    return torch.cat(parts)


def less_efficient_method(logits: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return log-probabilities by ``torch.distributions.Categorical``, which normalises and checks all logits."""
    log_prob: torch.Tensor = torch.distributions.Categorical(logits=logits).log_prob(index)
    return log_prob


def _gathered(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return values.gather(-1, index.unsqueeze(-1)).squeeze(-1)


def _chunks(logits: torch.Tensor, index: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    rows = max(1, _CHUNK_SIZE // max(1, logits[:1].numel()))
    return zip(logits.split(rows), index.split(rows), strict=True)
