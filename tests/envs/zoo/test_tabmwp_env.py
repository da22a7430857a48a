"""TabMWP: golden values of its texts, episodes with an answer function and with recorded answers."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.envs.zoo.tabmwp_env import TabMWP
from ding.envs.zoo.tabmwp_utils import (
    build_prompt,
    calc_rwkv,
    create_one_example,
    extract_prediction,
    get_gpt3_output,
    get_question_text,
    normalize_answer,
    sample_logits,
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
        ("it is 7:30 P.M.", None, "7:30 P.M."),
        ("3+4=7", None, "7"),
        ("a dog, so y y", ["x", "y y"], "y y"),
        ("A. because", ["x", "y y"], "x"),
    ],
)
def test_the_answer_in_what_a_model_writes(text, options, expected):
    assert extract_prediction(text, options, LETTERS) == expected


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [("$1,234.00", None, "1234"), ("3/4", None, "0.75"), ("0.5000", None, "0.5"), ("12 kg", "kg", "12")]
    + [("-7", None, "-7"), ("1,000", None, "1000"), ("5.", None, "5"), ("10:30 A.M.", None, "10:30 A.M")]
    + [("1234567/2", None, "617283.5"), ("2/1", None, "2"), ("1/0", None, "1/0"), ("1,200 kg", "kg", "1200")],
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


def test_evaluators_have_problems_of_their_own(data_path, tmp_path, caplog):
    """DI-engine's are asked what the collectors learn from."""

    def asked(**cfg):
        cfg = {"data_path": data_path, "collector_env_num": 1, "evaluator_env_num": 1, **cfg}
        (own,), (others,) = TabMWP.create_collector_env_cfg(cfg), TabMWP.create_evaluator_env_cfg(cfg)
        found = []
        for env in (TabMWP(own), TabMWP(others)):
            obs, done = env.reset(), False
            texts = [obs["train_sample"]]
            while not done:
                obs, _, done, _ = env.step([0, 1])
                texts.append(obs["train_sample"])
            found.append((set(texts), obs["candidate_samples"]))
        return found

    sizes = {"cand_number": 3, "train_number": 15, "answer_fn": "builtins:str"}
    (own, candidates), (others, same) = asked(**sizes)
    assert (len(own), len(others), candidates) == (15, 12, same)
    assert not own & others
    (own, _), (others, _) = asked(**sizes, reference_numerics=True)
    assert own >= others
    with pytest.raises(ValueError, match=r"env.train_number=27 .* leave the evaluators none of the 30 problems"):
        asked(**{**sizes, "train_number": 27})
    for part, pid in (("train", 7), ("eval", 8)):
        record = {"pid": pid, "shot_pids": [1, 12], "prompt": "", "output": "The answer is 9."}
        (tmp_path / f"model_in_out_{part}.txt").write_text(f"{record!r}\n", encoding="utf-8")
        (own, _), (others, _) = asked(enable_replay=True)
        assert (own == others) == (part == "train")
        assert caplog.text.count("are asked the problems of the collectors") == 1


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


def test_answers_that_an_env_recorded_replace_the_model(data_path, tmp_path):
    cfg = {"data_path": data_path, "cand_number": 3, "train_number": 4}
    recorder = TabMWP({**cfg, "answer_fn": adds_up})
    recorder.parse_all_answers()
    assert len((tmp_path / "sampled_pid.txt").read_text(encoding="utf-8").splitlines()) == 2
    (tmp_path / "model_in_out.txt").rename(tmp_path / "model_in_out_train.txt")
    env = TabMWP({"data_path": data_path, "enable_replay": True})
    first, replayed = recorder.reset(), env.reset()
    assert first["train_sample"] == replayed["train_sample"]
    order = [replayed["candidate_samples"].index(text) for text in first["candidate_samples"]]
    for shots in ([0, 1], [2, 0], [1, 2], [0, 2]):
        assert recorder.step(shots).reward == env.step([order[shot] for shot in shots]).reward


def test_tokens_are_drawn_among_the_likely_ones_at_any_temperature():
    np.random.seed(0)
    logit = torch.tensor([0.0, 3.0, 2.0, -5.0])
    drawn = [[sample_logits(logit, temperature) for _ in range(50)] for temperature in (1.0, 0.1, 10.0)]
    assert set(drawn[0]) == set(drawn[2]) == {1, 2}
    assert drawn[1].count(1) >= 49
    assert {sample_logits(logit, top_p=0.5) for _ in range(20)} == {1}
    with pytest.raises(NotImplementedError, match="a paid service"):
        get_gpt3_output("1 + 1", None)


def test_a_local_language_model_answers(data_path, tmp_path):
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "apples", "pears"]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    tokenizer = transformers.BertTokenizer(str(tmp_path / "vocab.txt"))
    sizes = {"vocab_size": len(words), "bos_token_id": 0, "eos_token_id": 0}
    causal = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**sizes, n_embd=8, n_layer=1, n_head=2, n_positions=128, pad_token_id=0)
    )
    recurrent = transformers.RwkvForCausalLM(transformers.RwkvConfig(**sizes, hidden_size=8, num_hidden_layers=2))
    causal.save_pretrained(tmp_path / "causal")
    tokenizer.save_pretrained(tmp_path / "causal")
    cfg = {"data_path": data_path, "cand_number": 3, "train_number": 1, "max_tokens": 3}
    env = TabMWP({**cfg, "model_path": str(tmp_path / "causal")})
    env.reset()
    step = env.step([0, 1])
    assert step.done
    assert step.reward.item() == -1
    assert len(calc_rwkv(recurrent, tokenizer, "apples", max_len=4).split()) == 4
    missing = TabMWP({**cfg, "model_path": str(tmp_path / "none")})
    missing.reset()
    with pytest.raises(FileNotFoundError, match=r"env\.model_path=.* is no folder; nothing is downloaded"):
        missing.step([0, 1])
