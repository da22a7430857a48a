"""Language models that answer the prompts of TabMWP, from a local folder with ``transformers`` (extra ``llm``)."""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NoReturn, Protocol

import numpy as np
import torch

from ding.utils import MissingExtraError, install_line

try:
    import transformers
except ImportError:
    transformers = None


class Tokens(Protocol):
    """Output of a tokenizer of ``transformers``: a mapping with ``input_ids`` ``[1, S]``."""

    def __getitem__(self, key: str, /) -> torch.Tensor: ...

    def keys(self) -> Iterable[str]: ...

    def to(self, device: torch.device) -> "Tokens": ...


class Tokenizer(Protocol):
    """Interface of a tokenizer of ``transformers``."""

    def __call__(self, text: str, *, return_tensors: str) -> Tokens: ...

    def decode(self, tokens: torch.Tensor | Sequence[int], *, skip_special_tokens: bool = False) -> str: ...


class RecurrentOutput(Protocol):
    """Output of a recurrent language model: logits ``[1, S, V]`` and its state."""

    logits: torch.Tensor
    state: list[torch.Tensor]


class LanguageModel(Protocol):
    """Interface of a language model of ``transformers``."""

    device: torch.device

    def __call__(
        self, input_ids: torch.Tensor, state: list[torch.Tensor] | None = None, use_cache: bool = True
    ) -> RecurrentOutput: ...

    def generate(self, *, max_new_tokens: int, do_sample: bool, **tokens: torch.Tensor) -> torch.Tensor: ...


def sample_logits(out: torch.Tensor, temperature: float = 1.0, top_p: float = 0.8) -> int:
    """Sample a token among the most likely ones, with NumPy's global generator.

    Args:
        out: Logits ``[V]``.
        temperature: Sampling temperature; lower values prefer likely tokens.
        top_p: Sample only from the smallest set of tokens with at least this total probability.
    """
    probs = out.detach().double().softmax(-1).cpu().numpy()
    order = np.argsort(-probs, kind="stable")
    kept = order[: int(np.searchsorted(np.cumsum(probs[order]), top_p)) + 1]
    weights = (probs[kept] / probs[kept[0]]) ** (1.0 / temperature)
    return int(np.random.choice(kept, p=weights / weights.sum()))


@torch.no_grad()
def calc_rwkv(
    model: LanguageModel, tokenizer: Tokenizer, prompt: str, max_len: int = 10,
    temperature: float = 1.0, top_p: float = 0.8,
) -> str:  # fmt: skip
    """Return ``max_len`` tokens of :func:`sample_logits` with which a recurrent model (RWKV) completes a prompt."""
    tokens, answer = tokenizer(prompt, return_tensors="pt")["input_ids"].to(model.device), []
    state: list[torch.Tensor] | None = None
    for _ in range(max_len):
        output = model(tokens, state=state, use_cache=True)
        state = output.state
        answer.append(sample_logits(output.logits[0, -1], temperature, top_p))
        tokens = torch.tensor([[answer[-1]]], device=model.device)
    return tokenizer.decode(answer)


@torch.no_grad()
def calc_internlm(model: LanguageModel, tokenizer: Tokenizer, prompt: str, max_tokens: int = 64) -> str:
    """Return the most likely completion of a prompt by a causal language model, with at most ``max_tokens`` tokens."""
    tokens = tokenizer(prompt, return_tensors="pt").to(model.device)
    output = model.generate(**tokens, max_new_tokens=max_tokens, do_sample=False)
    return tokenizer.decode(output[0, tokens["input_ids"].shape[1] :], skip_special_tokens=True)


def get_gpt3_output(prompt: str, args: object) -> NoReturn:
    """Raise an error instead of calling the paid service of DI-engine's engine ``text-davinci-002``.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        "text-davinci-002 was a paid service, which has ended and is not called here; set env.answer_fn (a function "
        "from a prompt to a text), env.model_path (folder of a language model), or env.enable_replay=True"
    )


@cache
def load_language_model(folder: str) -> tuple[LanguageModel, Tokenizer]:
    """Load the causal language model of a folder, in evaluation mode, and its tokenizer.

    All envs of a process share them. Nothing is downloaded.

    Raises:
        MissingExtraError: ``transformers`` is not installed.
        FileNotFoundError: The folder does not exist.
    """
    if transformers is None:
        raise MissingExtraError(f"env.model_path needs 'transformers'; install it with: {install_line('llm')}")
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"env.model_path={folder!r} is no folder; nothing is downloaded")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
