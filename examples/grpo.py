"""GRPO (or RLOO) on a small language model with random weights: answer with the digits of the prompt in reverse order.

The reward of an answer is the share of its digits that are right; random answers get 0.1, the best 1. Needs the extra
``llm``.

    python examples/grpo.py
    python examples/grpo.py --loss rloo --seed 1
"""

import argparse
import copy
import logging

import torch
from torch.nn.utils import clip_grad_norm_
from transformers import GPT2Config, GPT2LMHeadModel

from ding.rl_utils.grpo import grpo_policy_data, grpo_policy_error
from ding.rl_utils.rloo import rloo_policy_data, rloo_policy_error
from ding.utils import set_pkg_seed

DIGITS, PROMPT_LENGTH = 10, 3
# Prompts of an iteration, answers to each, updates on them.
PROMPTS, GROUP, UPDATES = 32, 8, 2
BETA = 0.005

log = logging.getLogger(__name__)


def make_model() -> GPT2LMHeadModel:
    """Return a model of two layers over the ten digits."""
    config = GPT2Config(
        vocab_size=DIGITS, n_positions=2 * PROMPT_LENGTH, n_embd=64, n_layer=2, n_head=4,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


@torch.no_grad()
def answers(model: GPT2LMHeadModel, prompts: torch.Tensor, greedy: bool = False) -> torch.Tensor:
    """Return prompts ``[B, P]`` with an answer to each, int64 ``[B, 2P]``: drawn, or the most likely one."""
    tokens = prompts
    for _ in range(PROMPT_LENGTH):
        logit = model(tokens).logits[:, -1]
        following = logit.argmax(-1, keepdim=True) if greedy else logit.softmax(-1).multinomial(1)
        tokens = torch.cat([tokens, following], dim=1)
    return tokens


def reward_of(tokens: torch.Tensor) -> torch.Tensor:
    """Return the share of the digits of each answer that are right: ``[B, 2P]`` to ``[B]``."""
    prompt, answer = tokens.split(PROMPT_LENGTH, dim=1)
    return (answer == prompt.flip(1)).float().mean(1)


def logits_of(model: GPT2LMHeadModel, tokens: torch.Tensor) -> torch.Tensor:
    """Return the logits of the tokens of the answers: ``[B, P, V]``."""
    return model(tokens).logits[:, PROMPT_LENGTH - 1 : -1]


def main(loss: str = "grpo", seed: int = 0, iterations: int = 400, stop_value: float = 0.95) -> float:
    """Train until the mean reward of the most likely answers is ``stop_value``; returns that reward."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    set_pkg_seed(seed, use_cuda=False)
    model = make_model()
    reference = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    tests = torch.randint(DIGITS, (256, PROMPT_LENGTH), generator=torch.Generator().manual_seed(seed))
    result = 0.0
    for iteration in range(iterations):
        # All prompts of the first answer before those of the second, as RLOO takes them.
        tokens = answers(model, torch.randint(DIGITS, (PROMPTS, PROMPT_LENGTH)).repeat(GROUP, 1))
        action, reward = tokens[:, PROMPT_LENGTH:], reward_of(tokens).view(GROUP, PROMPTS)
        adv = ((reward - reward.mean(0)) / (reward.std(0) + 1e-6)).flatten()
        with torch.no_grad():
            old, fixed = logits_of(model, tokens), logits_of(reference, tokens)
        for _ in range(UPDATES):
            new = logits_of(model, tokens)
            if loss == "grpo":
                total, info = grpo_policy_error(grpo_policy_data(new, old, fixed, action, adv, None), beta=BETA)
            else:
                total, info = rloo_policy_error(rloo_policy_data(new, old, action, reward, None))
            optimizer.zero_grad()
            total.backward()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        if iteration % 20 == 19:
            result = reward_of(answers(model, tests, greedy=True)).mean().item()
            log.info("iteration %d: reward %.3f, clipped %.3f", iteration + 1, result, info.clipfrac)
            if result >= stop_value:
                break
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loss", choices=["grpo", "rloo"], default="grpo")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    main(arguments.loss, arguments.seed)
