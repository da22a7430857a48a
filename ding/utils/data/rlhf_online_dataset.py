"""Prompts for online training of a language model."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch.utils.data import Dataset

#: ``{'role': 'user', 'content': 'Hello'}``.
Message = Mapping[str, Any]


class Tokenizer(Protocol):
    """Role protocol of a tokenizer, met by those of ``transformers``."""

    eos_token: Any
    eos_token_id: Any
    pad_token_id: Any
    chat_template: Any

    def __call__(self, text: str, **options: Any) -> Mapping[str, torch.Tensor]:
        """Return ``input_ids`` and ``attention_mask``, int64 ``[1, L]``."""
        ...

    def apply_chat_template(self, conversation: Any, **options: Any) -> str:
        """Return the conversation as text."""
        ...


class OnlineRLDataset(Dataset[str]):
    """A prompt for each record, ready for the tokenizer.

    Args:
        dataset: records; a data set of Hugging Face or a list of dicts.
        tokenizer: needed for its chat template only.
        input_key: key of a record that holds the question: a string, or with a chat template also a list of messages.
        apply_chat_template: build the prompt by the chat template of the tokenizer.
        input_template: format string with one place, for the question; without a chat template only.

    Raises:
        KeyError: a record lacks ``input_key``.
        AssertionError: with a chat template, a question is neither a string nor a list of dicts.
    """

    def __init__(
        self,
        dataset: Iterable[Mapping[str, Any]],
        tokenizer: Tokenizer,
        input_key: str = "input",
        apply_chat_template: bool = False,
        input_template: str | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.input_template = input_template
        self.prompts: list[str] = []
        for record in dataset:
            question = record[input_key]
            if apply_chat_template:
                self.prompts.append(chat_text(tokenizer, as_chat(question, "user"), add_generation_prompt=True))
            else:
                self.prompts.append(question if input_template is None else input_template.format(question))

    def __len__(self) -> int:
        return len(self.prompts)

    def __getitem__(self, index: int) -> str:
        return self.prompts[index]


def as_chat(text: Any, role: str) -> list[Message]:
    """Return a list of messages; a string becomes one message of ``role``.

    Raises:
        AssertionError: ``text`` is neither a list nor a string.
    """
    if isinstance(text, str):
        return [{"role": role, "content": text}]
    if not isinstance(text, Sequence) or not all(isinstance(message, Mapping) for message in text):
        raise AssertionError(f"a chat must be a string or a list of dicts with 'role' and 'content', got {text!r}")
    return list(text)


def chat_text(tokenizer: Tokenizer, chat: list[Message], *, add_generation_prompt: bool) -> str:
    """Return the text of ``chat``, followed by the head of the answer if requested."""
    return str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=add_generation_prompt))
