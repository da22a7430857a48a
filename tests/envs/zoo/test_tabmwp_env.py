"""TabMWP: golden values of its texts, episodes with an answer function and with recorded answers."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from easydict import EasyDict

from ding.envs.zoo.tabmwp_env import TabMWP
from ding.envs.zoo.tabmwp_utils import (
    build_prompt,
    create_one_example,
    extract_prediction,
    get_question_text,
    normalize_answer,
    score_string_similarity,
)
from ding.utils import ENV_REGISTRY

LETTERS = ["A", "B", "C", "D", "E", "F"]


def problem(number):
    return {
        "table": f"apples | {number}\npears | 2",
        "table_title": "Fruit" if number % 2 else None,
        "question": "How many apples and pears are there?",
        "unit": "kg" if number % 3 == 0 else None,
        "choices": None,
        "answer": str(number + 2),
        "solution": f"Add {number}\nand 2.",
    }


@pytest.fixture
def data_path(tmp_path):
    problems = {str(number): problem(number) for number in range(30)}
    (tmp_path / "problems_train.json").write_text(json.dumps(problems), encoding="utf-8")
    return str(tmp_path)


def adds_up(prompt):
    """Answer the last question of a prompt, which is told the right way by examples of even numbers only."""
    *examples, last = prompt.split("\n\n")
    number = int(last.split("apples | ")[1].split()[0])
    seen = [int(example.split("apples | ")[1].split()[0]) for example in examples]
    unit = " kg" if "(Unit: kg)" in last else ""
    return f"The answer is {number + 2}{unit}." if all(one % 2 == 0 for one in seen) else "The answer is unknown."


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("(B)", ["x", "yes we do"], "yes we do"),
        ("b", ["x", "y"], "y"),
        ("The answer is (A) x.", ["x", "y"], "x"),
        ("zzz yes", ["x", "yes we do"], "yes we do"),
        ("The answer is 1,234.", None, "1,234"),
        ("it is 12.5 kg", None, "12.5"),
        ("1+1 = 2", None, "2"),
        ("no idea", None, "no idea"),
        ("The answer is \\frac{3}{4}.\nNo, 5.", None, "3/4"),
        ("It starts at 10:30 A.M.", None, "10:30 A.M."),
    ],
)
def test_the_answer_in_what_a_model_writes(text, options, expected):
    assert extract_prediction(text, options, LETTERS) == expected


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [("$1,234.00", None, "1234"), ("3/4", None, "0.75"), ("0.5000", None, "0.5"), ("12 kg", "kg", "12")]
    + [("-7", None, "-7"), ("1,000", None, "1000"), ("5.", None, "5"), ("10:30 A.M.", None, "10:30 A.M")],
)
def test_the_form_in_which_answers_are_compared(text, unit, expected):
    assert normalize_answer(text, unit) == expected


def test_texts_of_a_prompt():
    assert score_string_similarity("a b", "b c d") == pytest.approx(1 / 3)
    assert (score_string_similarity("a", "a"), score_string_similarity("a", "b")) == (2.0, 0.0)
    asked = {**problem(3), "choices": ["5", "6"]}
    assert get_question_text(asked, LETTERS) == (
        "How many apples and pears are there? (Unit: kg)\nOptions: (A) 5 (B) 6"
    )
    assert create_one_example("TQ-SA", "t", "q", "5", "s", test_example=False) == (
        "Table: t\nQuestion: q\nAnswer: s The answer is 5."
    )
    with pytest.raises(ValueError, match="prompt_format='TX-A'"):
        create_one_example("TX-A", "t", "q", "5", "s")
    problems = {str(number): problem(number) for number in range(3)}
    args = SimpleNamespace(prompt_format="TQ-A", option_inds=LETTERS)
    assert build_prompt(problems, ["1"], "2", args) == (
        "Table: [TITLE]: Fruit\napples | 1\npears | 2\nQuestion: How many apples and pears are there?\n"
        "Answer: The answer is 3.\n\n"
        "Table: apples | 2\npears | 2\nQuestion: How many apples and pears are there?\nAnswer:"
    )
    with pytest.raises(AssertionError, match="problem 2 is one of the examples"):
        build_prompt(problems, ["2"], "2", args)


@pytest.mark.parametrize("repeats", [False, True])
def test_an_episode_asks_each_problem_once(data_path, repeats):
    cfg = {"data_path": data_path, "answer_fn": adds_up, "cand_number": 6, "train_number": 5}
    env = ENV_REGISTRY.build("tabmwp", EasyDict({**cfg, "reference_numerics": repeats}))
    asked, rewards, obs = [], [], env.reset()
    candidates = [int(text.split("apples | ")[1].split()[0]) for text in obs["candidate_samples"]]
    for _ in range(5):
        asked.append(obs["train_sample"])
        shots = env.random_action()
        step = env.step(shots)
        assert step.reward.item() == (1 if all(candidates[shot] % 2 == 0 for shot in shots) else -1)
        rewards.append(step.reward.item())
        obs = step.obs
    assert step.done
    assert step.info["eval_episode_return"] == rewards.count(1) / 5
    assert len(set(asked)) == (4 if repeats else 5)
    assert all("The answer is" not in text for text in (*asked, *obs["candidate_samples"]))
    again = TabMWP({**cfg})
    assert again.reset()["train_sample"] == asked[0]
    assert TabMWP({**cfg, "seed": 1}).reset()["train_sample"] != asked[0]


def test_recorded_answers(data_path, tmp_path):
    records = [{"pid": 7, "shot_pids": [1, 12], "prompt": "", "output": "The answer is 9."}]
    records += [{"pid": 7, "shot_pids": [12, 1], "prompt": "", "output": "The answer is 8."}]
    text = "".join(f"{record!r}\n" for record in records)
    (tmp_path / "model_in_out_train.txt").write_text(text, encoding="utf-8")
    env = TabMWP({"data_path": data_path, "enable_replay": True})
    rewards = []
    for action in ([0, 1], [1, 0]):
        env.reset()
        rewards.append(env.step(np.array(action)).reward.item())
    assert rewards == [1, -1]
    (tmp_path / "model_in_out_eval.txt").write_text("__import__('os').abort()\n", encoding="utf-8")
    with pytest.raises(ValueError, match="malformed"):
        TabMWP({"data_path": data_path, "enable_replay": True, "seed": 1}).reset()


def test_what_is_missing_is_named(data_path, tmp_path):
    with pytest.raises(ValueError, match=r"env.answer_fn.*env.enable_replay"):
        TabMWP({"engine": "text-davinci-002"})
    with pytest.raises(FileNotFoundError, match=r"problems_train\.json"):
        TabMWP({"data_path": str(tmp_path / "none"), "answer_fn": adds_up}).reset()
    with pytest.raises(ValueError, match="has 30"):
        TabMWP({"data_path": data_path, "answer_fn": adds_up}).reset()
    env = TabMWP({"data_path": data_path, "answer_fn": "builtins:str", "cand_number": 3, "train_number": 2})
    env.reset()
    with pytest.raises(ValueError, match="2 different numbers from 0 to 2, found"):
        env.step([1, 1])
    assert env.step([0, 1]).reward.item() == -1


def test_import_paths_of_the_zoo():
    from dizoo.tabmwp.envs import TabMWP as short
    from dizoo.tabmwp.envs.tabmwp_env import TabMWP as long
    from dizoo.tabmwp.envs.utils import extract_prediction as helper

    assert short is long is TabMWP
    assert helper is extract_prediction
