"""Texts of TabMWP, math word problems about tables (Lu et al. 2022, arXiv:2209.14610): prompts, and extraction of
answers from the output of a language model.

A problem is a dict with ``table``, ``table_title`` (or None), ``question``, ``unit`` (or None), ``choices`` (texts, or
None), ``answer`` and ``solution``.
"""

import random
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

from ding.envs.zoo.tabmwp_models import calc_internlm as calc_internlm
from ding.envs.zoo.tabmwp_models import calc_rwkv as calc_rwkv
from ding.envs.zoo.tabmwp_models import get_gpt3_output as get_gpt3_output
from ding.envs.zoo.tabmwp_models import sample_logits as sample_logits
from ding.utils.names import check_choice

Problem = Mapping[str, Any]

_ANSWER_OF_TEXT = re.compile(r"the answer is\s*(.+)", re.IGNORECASE)
# A number that is not part of a time of day.
_NUMBER = r"(?<![\d:])\$?-?\d[\d,]*(?:\.\d+)?(?:/\d+)?(?![\d:])"
# Patterns of the answer's position, the most reliable first.
_NUMBER_PLACES = (
    re.compile(rf" = \s*({_NUMBER})"),
    re.compile(rf"\b(?:is|be|are|was|were)\s+({_NUMBER})"),
    re.compile(r"(\d{1,2}:\d{2}(?:\s*[AaPp]\.?[Mm]\.?)?)"),
    re.compile(rf"({_NUMBER})"),
)
_PARTS = {"Q": "Question", "T": "Table", "S": "Solution", "A": "Answer"}
_OUTPUTS = ("A", "S", "AS", "SA")


class PromptArgs(Protocol):
    """Config fields of :func:`build_prompt`: the form of an example, and the letters of options."""

    prompt_format: str
    option_inds: Sequence[str]


def get_table_text(problem: Problem) -> str:
    """Return the table, preceded by its title if it has one."""
    title = problem.get("table_title")
    return f"[TITLE]: {title}\n{problem['table']}" if title else str(problem["table"])


def get_question_text(problem: Problem, option_inds: Sequence[str]) -> str:
    """Return the question with its unit and its options."""
    text = str(problem["question"])
    if problem.get("unit"):
        text += f" (Unit: {problem['unit']})"
    if problem.get("choices"):
        options = " ".join(f"({letter}) {choice}" for letter, choice in zip(option_inds, problem["choices"]))
        text += f"\nOptions: {options}"
    return text


def get_answer(problem: Problem) -> str:
    """Return the correct answer."""
    return str(problem["answer"])


def get_solution_text(problem: Problem) -> str:
    """Return the solution in one line, with line breaks as a backslash and an n."""
    return str(problem["solution"]).replace("\n", "\\n")


def create_one_example(
    format: str, table: str, question: str, answer: str, solution: str, test_example: bool = True
) -> str:
    """Return one example of a prompt.

    Args:
        format: Letters of the input, ``-``, letters of the output, e.g. ``TQ-SA``: T the table, Q the question, S the
            solution, A the answer.
        test_example: Omit the answer.

    Raises:
        ValueError: The form is unknown.
    """
    inputs, _, output = format.partition("-")
    if not inputs or not set(inputs) <= set(_PARTS):
        raise ValueError(f"prompt_format={format!r} must be like 'TQ-A': letters of {list(_PARTS)}, '-', an output")
    check_choice("the output of prompt_format", output, _OUTPUTS)
    texts = {"Q": question, "T": table, "S": solution, "A": f"The answer is {answer}."}
    lines = [f"{_PARTS[letter]}: {texts[letter]}" for letter in inputs]
    answered = {
        "A": f"The answer is {answer}.",
        "S": solution,
        "AS": f"The answer is {answer}. BECAUSE: {solution}",
        "SA": f"{solution} The answer is {answer}.",
    }[output]
    lines.append("Answer:" if test_example else f"Answer: {answered}")
    return "\n".join(lines).replace("  ", " ").strip()


def build_prompt(problems: Mapping[str, Problem], shot_pids: Sequence[str], test_pid: str, args: PromptArgs) -> str:
    """Return the prompt of a problem: the examples with their answers, then the problem without its answer.

    Raises:
        AssertionError: The problem is one of the examples.
    """
    if test_pid in shot_pids:
        raise AssertionError(f"problem {test_pid} is one of the examples {list(shot_pids)} of its own prompt")
    examples = []
    for pid in [*shot_pids, test_pid]:
        problem = problems[pid]
        texts = (get_question_text(problem, args.option_inds), get_answer(problem), get_solution_text(problem))
        question, answer, solution = texts
        table = get_table_text(problem)
        examples.append(
            create_one_example(args.prompt_format, table, question, answer, solution, test_example=pid == test_pid)
        )
    return "\n\n".join(examples)


def extract_prediction(output: str, options: Sequence[str] | None, option_inds: Sequence[str]) -> str:
    """Return the answer in the first line of a language model's output.

    Args:
        options: Choices of the problem, one of which is returned; None or empty for a free answer.
        option_inds: Letters of the options.
    """
    text = output.strip().split("\n")[0].strip()
    text = re.sub(r"\\frac\{(\d+)\}\{(\d+)\}", r"\1/\2", text)
    # Use the right-hand side of an equation.
    text = text.partition("=")[2].strip() if "=" in text else text
    if options:
        return _option(text, options, option_inds)
    named = _ANSWER_OF_TEXT.search(text)
    if named:
        return _without_stop(named.group(1))
    for place in _NUMBER_PLACES:
        found: list[str] = place.findall(text)
        if found:
            return _without_stop(found[-1] if place is _NUMBER_PLACES[0] else found[0])
    return _without_stop(text)


def _option(text: str, options: Sequence[str], letters: Sequence[str]) -> str:
    known = "".join(letters)
    for pattern in (
        rf"(?i)^\(?([{known}])\)?[.]?$",
        rf"(?i)\(([{known}])\)",
        # Next to other words a lower-case letter may be a word itself.
        rf"^([{known}])[.:) ]",
        rf"(?i:answer is) ([{known}])\b",
    ):
        found = re.search(pattern, text)
        letter = found.group(1) if found else ""
        letter = letter if letter in letters else letter.upper() if letter.upper() in letters else letter.lower()
        if letter in letters:
            index = list(letters).index(letter)
            return options[index] if index < len(options) else random.choice(options)
    named = _ANSWER_OF_TEXT.search(text)
    said = _without_stop(named.group(1) if named else text)
    return max(options, key=lambda option: score_string_similarity(option, said))


def _without_stop(text: str) -> str:
    text = text.strip()
    return text if re.search(r"[AaPp]\.[Mm]\.$", text) else text.removesuffix(".")


def score_string_similarity(str1: str, str2: str) -> float:
    """Return the similarity of two strings: 2 if equal, else the number of shared words over that of the longer one."""
    if str1 == str2:
        return 2.0
    if " " not in str1 and " " not in str2:
        return 0.0
    first, second = str1.split(" "), str2.split(" ")
    return len(set(first) & set(second)) / max(len(first), len(second))


def normalize_answer(text: str, unit: str | None) -> str:
    """Normalise an answer for comparison: round numbers to three digits; drop unit, currency and trailing zeros."""
    text = re.sub(r"^\s*\$\s*", "", text.strip())
    text = re.sub(r"[,./]\s*$", "", text).strip()
    plain = text.replace(",", "")
    if re.fullmatch(r"-?\d+", plain):
        return str(int(plain))
    if re.fullmatch(r"-?\d+/\d+", plain) and int(plain.split("/")[1]):
        plain = f"{float(Fraction(plain)):.3f}"
    if re.fullmatch(r"-?\d*\.\d+", plain):
        value = round(float(plain), 3)
        return str(int(value)) if value.is_integer() else str(value)
    if unit:
        stripped = text.removesuffix(unit).strip()
        if stripped != text:
            return normalize_answer(stripped, None)
    return text
