"""A tokenizer and an encoder in the place of those of ``transformers``, with which the golden vectors were made."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from unittest import mock

import torch
from torch import nn

from ding.model.template import language_transformer
from tests.world_model.golden import wave


class Tokens(dict):
    def to(self, device):
        return self


class Characters:
    """A token per character: its code modulo 8."""

    def __call__(self, texts, truncation, padding, return_tensors):
        assert (truncation, padding, return_tensors) == (True, True, "pt")
        length = max(map(len, texts))
        ids, mask = torch.zeros(len(texts), length, dtype=torch.long), torch.zeros(len(texts), length)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor([ord(character) % 8 for character in text])
            mask[row, : len(text)] = 1
        return Tokens(input_ids=ids, attention_mask=mask)


class Encoder(nn.Module):
    """An embedding, to which the mean of the sentence is added."""

    config = SimpleNamespace(hidden_size=6)
    device = "cpu"

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(8, 6)

    def forward(self, input_ids, attention_mask, output_hidden_states):
        found, mask = self.emb(input_ids), attention_mask.unsqueeze(-1)
        mean = (found * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)
        return SimpleNamespace(hidden_states=(found, found + mean))


@contextlib.contextmanager
def stand_ins() -> Iterator[None]:
    """Load the stand-ins in the place of pretrained models."""
    loads = {
        "AutoTokenizer": SimpleNamespace(from_pretrained=lambda name: Characters()),
        "AutoModelForTokenClassification": SimpleNamespace(from_pretrained=lambda name: Encoder()),
    }
    with mock.patch.multiple(language_transformer, **loads):
        yield


def fill(model: nn.Module, scale: float) -> None:
    """Set the j-th parameter by name to a wave of phase j."""
    with torch.no_grad():
        for position, (_, parameter) in enumerate(sorted(model.named_parameters())):
            parameter.copy_(scale * wave(tuple(parameter.shape), float(position)))
