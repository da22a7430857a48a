"""Answers labelled good or bad, for preference learning without pairs (KTO; Ethayarajh et al. 2024, 2402.01306)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.data import Dataset

from ding.utils.data.rlhf_online_dataset import Tokenizer, as_chat, chat_text

#: ``input_ids`` and ``attention_mask`` ``[2n, 1, L]``, labels int64 ``[2n]``, lengths of prompts, other keys.
OfflineRLBatch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[int], dict[str, list[Any]]]
_FIELDS = ("prompt", "response", "label", "prompt_ids_len")
# Minimum number of tokens left for an answer, including the end token.
_MIN_ANSWER = 2


class OfflineRLDataset(Dataset[dict[str, Any]]):
    """Prompt, answer and label of each record; ``collate_fn`` makes batches of tokens.

    An item is ``{'prompt', 'response', 'label', 'prompt_ids_len', **extra keys}``. Records whose prompt has
    ``max_length - 2`` tokens or more are left out.

    Args:
        dataset: records; a data set of Hugging Face or any iterable of dicts.
        tokenizer: see :class:`~ding.utils.data.rlhf_online_dataset.Tokenizer`.
        max_length: Maximum number of tokens of prompt and answer together; longer sequences are truncated.
        input_key, output_key, label_key: Record keys of the question, the answer and the label (an integer). With a
            chat template, question and answer are strings or lists of messages, and ``output_key=None`` takes the last
            message of the question as the answer.
        extra_input_keys: further keys to keep; each is an attribute of the data set, too.
        apply_chat_template: build prompt and answer by the chat template of the tokenizer.
        tokenizer_chat_template: Replaces the template of the tokenizer.
        input_template: Format string with one field for the question; only without a chat template.
        num_processors: Number of processes that prepare a data set of Hugging Face.
        parallel_load: Use the data set's ``map`` if it has one; otherwise records are prepared one by one.

    Raises:
        KeyError: a record lacks a key.
        ValueError: ``output_key`` is None without a chat template.
        AssertionError: With a chat template, a question is neither a string nor a list of dicts.
    """

    def __init__(
        self,
        dataset: Iterable[Mapping[str, Any]],
        tokenizer: Tokenizer,
        max_length: int,
        input_key: str = "input",
        extra_input_keys: Sequence[str] = (),
        output_key: str | None = "output",
        label_key: str = "label",
        apply_chat_template: bool = False,
        tokenizer_chat_template: str | None = None,
        input_template: str | None = None,
        num_processors: int = 8,
        parallel_load: bool = True,
    ) -> None:
        if output_key is None and not apply_chat_template:
            raise ValueError("output_key=None needs apply_chat_template=True: a question in plain text has no answer")
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.input_key, self.output_key, self.label_key = input_key, output_key, label_key
        self.extra_input_keys = list(extra_input_keys)
        self.apply_chat_template = apply_chat_template
        self.input_template = input_template
        if apply_chat_template and tokenizer_chat_template:
            tokenizer.chat_template = tokenizer_chat_template

        columns = self._columns_by_map(dataset, num_processors) if parallel_load else None
        if columns is None:
            records = [record for record in map(self._prepare, dataset) if self._fits(record)]
            columns = {name: [record[name] for record in records] for name in (*_FIELDS, *self.extra_input_keys)}
        self.prompts, self.responses, self.labels, self.prompt_ids_lens = (columns[name] for name in _FIELDS)
        for key in self.extra_input_keys:
            setattr(self, key, columns[key])
        self._columns = columns

    def _columns_by_map(self, dataset: Any, num_processors: int) -> dict[str, list[Any]] | None:
        """Return the columns of a Hugging Face data set, prepared in several processes; None for other data sets."""
        if not hasattr(dataset, "map"):
            return None
        prepared = dataset.map(self._prepare, remove_columns=dataset.column_names, num_proc=num_processors)
        prepared = prepared.filter(self._fits)
        return {name: list(prepared[name]) for name in (*_FIELDS, *self.extra_input_keys)}

    def _prepare(self, record: Mapping[str, Any]) -> dict[str, Any]:
        prompt, response = self._prompt_and_response(record)
        tokens = self._tokenize(prompt)["attention_mask"]
        extras = {key: record[key] for key in self.extra_input_keys}
        found = (prompt, response, record[self.label_key], int(tokens.sum()))
        return {**dict(zip(_FIELDS, found, strict=True)), **extras}

    def _prompt_and_response(self, record: Mapping[str, Any]) -> tuple[str, str]:
        question = record[self.input_key]
        response: Any = None if self.output_key is None else record[self.output_key]
        if not self.apply_chat_template:
            return question if self.input_template is None else self.input_template.format(question), response
        chat = as_chat(question, "user")
        if response is None:
            chat, answer = chat[:-1], chat[-1:]
        else:
            answer = as_chat(response, "assistant")
        prompt = chat_text(self.tokenizer, chat, add_generation_prompt=True)
        return prompt, chat_text(self.tokenizer, chat + answer, add_generation_prompt=False)[len(prompt) :]

    def _fits(self, record: Mapping[str, Any]) -> bool:
        return bool(record["prompt_ids_len"] < self.max_length - _MIN_ANSWER)

    def _tokenize(self, text: str) -> Mapping[str, torch.Tensor]:
        return self.tokenizer(
            text,
            max_length=self.max_length,
            padding=False,
            truncation=True,
            return_tensors="pt",
            add_special_tokens=False,
        )

    def __len__(self) -> int:
        return len(self.prompts)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {name: column[index] for name, column in self._columns.items()}

    def collate_fn(self, item_list: Sequence[Mapping[str, Any]]) -> OfflineRLBatch:
        """Return the tokens of n items and of n mismatched pairs, which the estimate of the KL divergence needs.

        Returns:
            ``(input_ids, attention_mask, labels, prompt_ids_lens, extras)``. The first n rows are the items with their
            labels. Row n + i is the prompt of item i with the answer of the next item, and has the label -1. Sequences
            end with the end token and are padded on the right. ``extras`` has a list of n for each extra key.
        """
        following = [*item_list[1:], *item_list[:1]]
        pairs = [*zip(item_list, item_list, strict=True), *zip(item_list, following, strict=True)]
        sequences = [self._sequence(first["prompt"], second["response"]) for first, second in pairs]
        ids, masks = zip(*sequences, strict=True)
        labels = torch.tensor([*(item["label"] for item in item_list), *([-1] * len(item_list))], dtype=torch.long)
        extras = {key: [item[key] for item in item_list] for key in self.extra_input_keys}
        return (
            zero_pad_sequences(ids, side="right", value=self.tokenizer.pad_token_id),
            zero_pad_sequences(masks, side="right"),
            labels,
            [first["prompt_ids_len"] for first, _ in pairs],
            extras,
        )

    def _sequence(self, prompt: str, response: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Return tokens and mask, ``[1, L]``. The last token is the end token, even if the text was truncated."""
        text = (prompt + response).rstrip("\n")
        if not text.endswith(self.tokenizer.eos_token):
            text = f"{text} {self.tokenizer.eos_token}"
        tokens = self._tokenize(text)
        ids, mask = tokens["input_ids"].clone(), tokens["attention_mask"].clone()
        ids[:, -1], mask[:, -1] = self.tokenizer.eos_token_id, 1
        return ids, mask


def zero_pad_sequences(sequences: Sequence[torch.Tensor], side: str = "left", value: int = 0) -> torch.Tensor:
    """Return sequences ``[..., L_i]``, padded by ``value`` on ``side`` to the longest one, as ``[n, ..., L]``.

    Raises:
        AssertionError: ``side`` is neither ``'left'`` nor ``'right'``.
    """
    if side not in ("left", "right"):
        raise AssertionError(f"side must be 'left' or 'right', got {side!r}")
    longest = max(sequence.shape[-1] for sequence in sequences)
    missing = [longest - sequence.shape[-1] for sequence in sequences]
    pads = [(n, 0) if side == "left" else (0, n) for n in missing]
    return torch.stack([F.pad(sequence, pad, value=value) for sequence, pad in zip(sequences, pads, strict=True)])
