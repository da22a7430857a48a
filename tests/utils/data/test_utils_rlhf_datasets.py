"""Prompts and labelled answers for language models, with a tokenizer of characters."""

import pytest
import torch

from ding.utils.data import OfflineRLDataset, OnlineRLDataset
from ding.utils.data.rlhf_offline_dataset import zero_pad_sequences

RECORDS = [
    {"input": "hello", "output": "yes", "label": 1, "score": 0.5},
    {"input": "a" * 20, "output": "no", "label": 0, "score": 0.6},
    {"input": "hi", "output": "maybe\n", "label": 0, "score": 0.7},
]


class Characters:
    """A token per character; chats are written as ``<role>text`` with the head of the answer at the end."""

    eos_token, eos_token_id, pad_token_id = "$", 1, 0
    chat_template = "plain"

    def __call__(self, text, max_length, **options):
        assert options == {
            "padding": False, "truncation": True, "return_tensors": "pt", "add_special_tokens": False
        }  # fmt: skip
        ids = [1 if character == "$" else 2 + ord(character) % 50 for character in text[:max_length]]
        return {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}

    def apply_chat_template(self, chat, tokenize, add_generation_prompt):
        assert not tokenize
        text = "".join(f"<{message['role']}>{message['content']}" for message in chat)
        return (
            text.upper() * (self.chat_template == "loud")
            + text * (self.chat_template == "plain")
            + ("<assistant>" * add_generation_prompt)
        )


class Mapped(list):
    """What a data set of Hugging Face offers: columns, ``map`` and ``filter``."""

    @property
    def column_names(self):
        return list(self[0])

    def map(self, function, remove_columns, num_proc):
        assert set(remove_columns) == set(self[0])
        assert num_proc == 3
        return Mapped(function(record) for record in self)

    def filter(self, function):
        return Mapped(record for record in self if function(record))

    def __getitem__(self, key):
        return [record[key] for record in self] if isinstance(key, str) else super().__getitem__(key)


def test_prompts_of_the_online_data_set():
    plain = OnlineRLDataset(RECORDS, Characters())
    assert len(plain) == 3
    assert plain[2] == "hi"
    assert OnlineRLDataset(RECORDS, Characters(), input_template="Q: {}!").prompts[0] == "Q: hello!"
    chat = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    records = [{"question": "hello"}, {"question": chat}]
    talking = OnlineRLDataset(records, Characters(), input_key="question", apply_chat_template=True)
    assert list(talking) == ["<user>hello<assistant>", "<system>be brief<user>hi<assistant>"]
    with pytest.raises(AssertionError, match="a string or a list of dicts"):
        OnlineRLDataset([{"input": 3}], Characters(), apply_chat_template=True)


@pytest.mark.parametrize("options", [{}, {"parallel_load": False}, {"num_processors": 3}])
def test_offline_data_set_golden(options):
    """DI-engine ignores the keys, and needs a process group, where it does not load in parallel."""
    records = Mapped(RECORDS) if "num_processors" in options else RECORDS
    data = OfflineRLDataset(records, Characters(), 10, extra_input_keys=["score"], **options)
    assert data.prompt_ids_lens == [5, 2]
    assert data.score == [0.5, 0.7]
    assert data[0] == {"prompt": "hello", "response": "yes", "label": 1, "prompt_ids_len": 5, "score": 0.5}
    ids, mask, labels, lengths, extras = data.collate_fn([data[0], data[1]])
    assert ids.shape == mask.shape == (4, 1, 10)
    assert ids.squeeze(1).tolist() == [
        [6, 3, 10, 10, 13, 23, 3, 17, 34, 1],
        [6, 7, 11, 49, 23, 50, 3, 34, 1, 0],
        [6, 3, 10, 10, 13, 11, 49, 23, 50, 1],
        [6, 7, 23, 3, 17, 34, 1, 0, 0, 0],
    ]
    assert torch.equal(mask, (ids != 0).long())
    assert labels.tolist() == [1, 0, -1, -1]
    assert lengths == [5, 2, 5, 2]
    assert extras == {"score": [0.5, 0.7]}


def test_chats_and_templates_of_the_offline_data_set():
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Yo"}]
    records = [{"q": chat[:1], "a": "Yo", "good": 1, "whole": chat}]
    shared = {"max_length": 99, "input_key": "q", "label_key": "good", "apply_chat_template": True}
    data = OfflineRLDataset(records, Characters(), output_key="a", **shared)
    assert (data.prompts, data.responses) == (["<user>hi<assistant>"], ["Yo"])
    last = OfflineRLDataset(records, Characters(), output_key=None, **{**shared, "input_key": "whole"})
    assert last[0] == data[0]
    loud = OfflineRLDataset(records, Characters(), output_key="a", tokenizer_chat_template="loud", **shared)
    assert loud.prompts == ["<USER>HI<assistant>"]
    plain = OfflineRLDataset(RECORDS, Characters(), 99, input_template="Q: {}", parallel_load=False)
    assert plain.prompts[0] == "Q: hello"
    with pytest.raises(ValueError, match="output_key=None needs apply_chat_template=True"):
        OfflineRLDataset(RECORDS, Characters(), 99, output_key=None)


def test_padding_golden():
    pair = [torch.tensor([[1, 2]]), torch.tensor([[3, 4, 5]])]
    left = zero_pad_sequences(pair)
    assert left.shape == (2, 1, 3)
    assert left.flatten().tolist() == [0, 1, 2, 3, 4, 5]
    assert zero_pad_sequences(pair, "right", 9).flatten().tolist() == [1, 2, 9, 3, 4, 5]
    with pytest.raises(AssertionError, match="side must be"):
        zero_pad_sequences(pair, "middle")
