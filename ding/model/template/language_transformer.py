"""A language model that scores texts: which of the candidates fits a text best (extra ``llm``)."""

import os
import tempfile
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from ding.utils import MODEL_REGISTRY, MissingExtraError, install_line
from ding.utils.names import did_you_mean

try:
    from transformers import (
        AutoModelForTokenClassification,
        AutoTokenizer,
        BertConfig,
        BertForTokenClassification,
        BertTokenizer,
    )
except ImportError:
    AutoModelForTokenClassification = AutoTokenizer = None


@MODEL_REGISTRY.register("language_transformer")
class LanguageTransformer(nn.Module):
    """Scores of candidates for texts: the inner products of their embeddings, and a value of each text.

    The embedding of a text is that of its first token in the last layer of a pretrained encoder.

    State: ``model`` (the encoder), ``value_head``, and ``linear`` with ``add_linear``.

    Arguments:
        model_name: name on the Hugging Face hub, or a local folder, of a tokenizer and an encoder.
        add_linear: put a linear layer of ``embedding_size`` behind the encoder.
        embedding_size: size of an embedding with ``add_linear``.
        freeze_encoder: train what comes behind the encoder only.
        hidden_dim: size of an embedding without ``add_linear``, which must be that of the encoder.
        norm_embedding: normalise what the encoder gives to mean 0 and variance 1, before the linear layer.

    Raises:
        MissingExtraError: ``transformers`` is not installed.
        ValueError: ``hidden_dim`` is not that of the encoder.
    """

    mode = ("compute_actor", "compute_critic", "compute_actor_critic")

    def __init__(
        self,
        model_name: str = "bert-base-uncased",
        add_linear: bool = False,
        embedding_size: int = 128,
        freeze_encoder: bool = True,
        hidden_dim: int = 768,
        norm_embedding: bool = False,
    ) -> None:
        super().__init__()
        if AutoTokenizer is None:
            hint = install_line("llm")
            raise MissingExtraError(f"language_transformer needs 'transformers'; install it with: {hint}")
        self.tokenizer = AutoTokenizer.from_pretrained(model_name)
        self.model = AutoModelForTokenClassification.from_pretrained(model_name)
        width = int(self.model.config.hidden_size)
        if not add_linear and hidden_dim != width:
            raise ValueError(f"policy.model.hidden_dim={hidden_dim}, but the encoder {model_name!r} has {width}")
        if freeze_encoder:
            self.model.requires_grad_(False)
        self.norm = nn.LayerNorm(width, elementwise_affine=False) if norm_embedding else None
        self.linear = nn.Linear(width, embedding_size) if add_linear else None
        self.value_head = nn.Linear(embedding_size if add_linear else width, 1)

    def forward(
        self,
        train_samples: Sequence[str],
        candidate_samples: Sequence[str] | None = None,
        mode: str = "compute_actor",
    ) -> dict[str, Any]:
        """Run ``mode`` on B texts and the C candidates that all of them share.

        Returns:
            Of ``compute_actor`` ``logit`` ``[B, C]`` and ``dist``, a ``Categorical`` of it; of ``compute_critic``
            ``value`` ``[B, 1]``, which needs no candidates; of ``compute_actor_critic`` all of them.

        Raises:
            ValueError: an unknown mode, or no candidates where they are needed.
        """
        if mode not in self.mode:
            raise ValueError(f"mode {mode!r} is unknown.{did_you_mean(mode, self.mode)}")
        embedding, output = self._embedding(train_samples), {}
        if mode != "compute_critic":
            if not candidate_samples:
                raise ValueError(f"mode {mode!r} needs candidate_samples, found {candidate_samples!r}")
            logit = embedding @ self._embedding(candidate_samples).T
            output = {"dist": torch.distributions.Categorical(logits=logit), "logit": logit}
        if mode != "compute_actor":
            output["value"] = self.value_head(embedding)
        return output

    def _embedding(self, texts: Sequence[str]) -> torch.Tensor:
        """``[B, E]`` of B texts."""
        tokens = self.tokenizer(list(texts), truncation=True, padding=True, return_tensors="pt").to(self.model.device)
        embedding: torch.Tensor = self.model(**tokens, output_hidden_states=True).hidden_states[-1][:, 0]
        if self.norm is not None:
            embedding = self.norm(embedding)
        return embedding if self.linear is None else self.linear(embedding)


def make_small_encoder(folder: str, words: Sequence[str], width: int = 32, layers: int = 1) -> str:
    """Write a tokenizer of whole words and a small encoder with random weights, for tests and toy tasks.

    The weights are those of torch's generator, which is left as it was. A folder that exists stays as it is.

    Args:
        folder: where they go.
        words: the vocabulary; other words are unknown.
        width: size of an embedding, a multiple of 4.
        layers: layers of the encoder.

    Returns:
        The absolute path of the folder, a ``model_name`` of :class:`LanguageTransformer`.

    Raises:
        MissingExtraError: ``transformers`` is not installed.
    """
    path = os.path.abspath(folder)
    if os.path.exists(path):
        return path
    if AutoTokenizer is None:
        raise MissingExtraError(f"an encoder needs 'transformers'; install it with: {install_line('llm')}")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=2 * width,
        max_position_embeddings=64,
    )
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as scratch, torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = os.path.join(scratch, "encoder")
        os.mkdir(made)
        with open(os.path.join(made, "vocab.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(vocabulary))
        BertTokenizer(os.path.join(made, "vocab.txt")).save_pretrained(made)
        BertForTokenClassification(config).save_pretrained(made)
        # The folder appears whole; of several processes that make it, the first one wins.
        try:
            os.rename(made, path)
        except OSError:
            if not os.path.isdir(path):
                raise
    return path
