"""Recurrent policies learn each step whose target is defined: which steps, and with which targets."""

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from easydict import EasyDict
from gymnasium import spaces

from ding.data import DequeBuffer, TransitionBatch
from ding.envs import DingEnvWrapper, create_env_manager
from ding.policy import NGUPolicy, R2D2CollectTrajPolicy, R2D2GTrXLPolicy, R2D2Policy, R2D3Policy
from ding.policy.errors import PolicyConfigError
from ding.rl_utils import get_train_sample
from ding.utils import deep_merge_dicts
from ding.worker import SampleSerialCollector, create_buffer

GAMMA = 0.9


class Steps(gymnasium.Env):
    """The observation is the number of the step, over 50; the reward is it times 0.1. Ends after ``length`` steps."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length: int, truncated: bool) -> None:
        self.length, self.truncated, self.t = length, truncated, 0

    def observation(self) -> np.ndarray:
        return np.array([self.t / 50], dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.t = 0
        return self.observation(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        over = self.t == self.length
        return self.observation(), 0.1 * self.t, over and not self.truncated, over and self.truncated, {}


def make(cls: type = R2D2Policy, **overrides: Any) -> Any:
    torch.manual_seed(0)
    base: dict[str, Any] = {
        "model": {"obs_shape": 1, "action_shape": 2},
        "discount_factor": GAMMA,
        "priority": True,
        "priority_IS_weight": False,
        "learn": {"batch_size": 2, "value_rescale": False, "learning_rate": 0.0},
        "collect": {"env_num": 2, "n_sample": 4},
        "eval": {"env_num": 2},
    }
    if cls is R2D2GTrXLPolicy:
        base["model"].update(memory_len=4, hidden_size=8, att_layer_num=1, att_head_num=2)
    return cls(deep_merge_dicts(deep_merge_dicts(cls.default_config(), base), overrides))


def collect(policy: Any, length: int, truncated: bool, count: int = 24) -> TransitionBatch:
    envs = [partial(lambda: DingEnvWrapper(Steps(length, truncated)))] * 2
    env = create_env_manager({"type": "base"}, envs)
    collector = SampleSerialCollector(SampleSerialCollector.default_config(), env, policy.collect_mode)
    batch: Any = collector.collect(count, policy_kwargs={"eps": 0.5})
    collector.close()
    return batch


def step_numbers(batch: TransitionBatch) -> np.ndarray:
    return np.rint(np.asarray(batch.columns["obs"])[..., 0] * 50).astype(int)


FORMS = [(8, 0, 1), (8, 0, 3), (4, 2, 1), (4, 2, 3), (5, 7, 2)]


@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("length", [1, 3, 8, 11, 25])
@pytest.mark.parametrize("cls", [R2D2Policy, R2D2GTrXLPolicy], ids=["r2d2", "gtrxl"])
def test_each_step_is_learned(cls, length, truncated):
    for form in FORMS:
        check_that_each_step_is_learned(cls, form, length, truncated)


def check_that_each_step_is_learned(cls: type, form: tuple[int, int, int], length: int, truncated: bool) -> None:
    behind, burnin, nstep = form
    sizes = {"unroll_len": behind + burnin} if cls is R2D2GTrXLPolicy else {"learn_unroll_len": behind}
    batch = collect(make(cls, burnin_step=burnin, nstep=nstep, **sizes), length, truncated, max(12, 3 * length))
    learned = np.asarray(batch.columns["learned"])
    numbers = step_numbers(batch)
    assert set(numbers[learned].tolist()) == set(range(length))
    # Behind the end there is at most what fills up, and none of it is learned.
    assert not (learned & np.asarray(batch.columns["null"])).any()
    first = numbers[:, :1]
    assert not (learned & (first > 0) & (np.arange(burnin + behind) < burnin)).any()


@pytest.mark.parametrize(("truncated", "as_rows"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("length", [3, 8, 11])
@pytest.mark.parametrize("form", FORMS)
def test_the_target_of_each_step_is_that_of_the_whole_episode(form, length, truncated, as_rows):
    """The network knows the state of each step, so all targets can be computed from one pass over the episode."""
    behind, burnin, nstep = form
    policy = make(burnin_step=burnin, nstep=nstep, learn_unroll_len=behind)
    batch = collect(policy, length, truncated, 16)
    model = policy.learn_mode.get_attribute("model")
    with torch.no_grad():
        obs = torch.arange(length + 1).view(-1, 1, 1) / 50
        q = model({"obs": obs, "prev_state": [None]})["logit"][:, 0]
    best = q.max(-1).values
    if not truncated:
        best[length] = 0
    target = torch.stack([
        sum((GAMMA**k * 0.1 * (t + k + 1) for k in range(min(nstep, length - t))), torch.zeros(()))
        + GAMMA ** min(nstep, length - t) * best[min(t + nstep, length)]
        for t in range(length)
    ])  # fmt: skip
    numbers, learned = step_numbers(batch), np.asarray(batch.columns["learned"])
    actions = np.asarray(batch.columns["action"]).reshape(numbers.shape)
    expected = []
    for steps, taken, mask in zip(numbers, actions, learned):
        error = (q[steps[mask], taken[mask]] - target[steps[mask]]).abs()
        expected.append(float(0.9 * error.max() + 0.1 * error.mean()))
    result = policy.learn_mode.forward(batch.rows() if as_rows else batch)
    assert result["priority"] == pytest.approx(expected, rel=1e-4)


def episode(length: int, done: bool = True, **fields: Any) -> list[dict[str, Any]]:
    return [
        {
            "obs": torch.tensor([t / 50]),
            "next_obs": torch.tensor([(t + 1) / 50]),
            "action": torch.tensor(t % 2),
            "prev_state": {"h": torch.full((1, 1, 64), float(t)), "c": torch.full((1, 1, 64), float(t))},
            "reward": torch.tensor([float(t)]),
            "done": done and t == length - 1,
            "begins": t == 0,
            "ends": t == length - 1,
            **fields,
        }
        for t in range(length)
    ]


def test_sequences_of_an_episode_by_hand():
    # Sequences of 2 + 4 steps, of which two in a row share 2 + 2: they begin with steps 0, 2 and 3.
    policy = make(burnin_step=2, learn_unroll_len=4, nstep=2)
    first, second, third = policy.collect_mode.get_train_sample(episode(9))
    assert [one["obs"][:, 0].mul(50).round().int().tolist() for one in (first, second, third)] == [
        [0, 1, 2, 3, 4, 5], [2, 3, 4, 5, 6, 7], [3, 4, 5, 6, 7, 8],
    ]  # fmt: skip
    # The first one knows the state from its first step on; its last two steps have no bootstrap value. Step 7 of the
    # second one needs none, as the episode ends with step 8.
    assert first["learned"].tolist() == [True, True, True, True, False, False]
    assert second["learned"].tolist() == [False, False, True, True, False, True]
    assert third["learned"].tolist() == [False, False, True, True, True, True]
    assert third["reward"].tolist() == [[3, 4], [4, 5], [5, 6], [6, 7], [7, 8], [8, 0]]
    assert third["done"].tolist() == [False] * 4 + [True] * 2
    assert third["value_gamma"].tolist() == pytest.approx([GAMMA**2] * 5 + [GAMMA])
    assert float(second["prev_state"]["h"].max()) == 2
    assert set(first) == {"obs", "action", "prev_state", "reward", "done", "value_gamma", "null", "learned"}


def test_the_observation_after_a_time_limit_by_hand():
    policy = make(burnin_step=0, learn_unroll_len=4, nstep=2)
    first, second = policy.collect_mode.get_train_sample(episode(4, done=False))
    # It is a step of its own, which only fills up: with it there are five steps, and so two sequences.
    assert first["learned"].tolist() == [True, True, False, False]
    assert second["obs"][:, 0].mul(50).round().int().tolist() == [1, 2, 3, 4]
    assert second["null"].tolist() == [False, False, False, True]
    assert second["learned"].tolist() == [False, True, True, False] or second["learned"].tolist() == [True] * 3 + [
        False
    ]
    assert second["value_gamma"].tolist()[:3] == pytest.approx([GAMMA**2, GAMMA**2, GAMMA])


def saved_and_loaded(old: list[Any], kind: str, folder: Any) -> Any:
    """A new buffer with the contents that another one saved."""
    if kind == "deque":
        first, second = DequeBuffer(size=8), DequeBuffer(size=8)
        first.push(old[0])
        first.save_data(str(folder / "saved"))
        second.load_data(str(folder / "saved"))
        return second
    first, second = (create_buffer(EasyDict(type="advanced", replay_buffer_size=8)) for _ in range(2))
    first.push(old, cur_collector_envstep=0)
    second.load_state_dict(first.state_dict())
    first.close()
    return second


@pytest.mark.parametrize("cls", [R2D2Policy, R2D3Policy])
@pytest.mark.parametrize("kind", ["advanced", "deque"])
def test_a_buffer_of_an_older_version_is_learned_from(cls, kind, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    policy = make(cls, burnin_step=2, learn_unroll_len=4, nstep=2)
    whole, other, _ = policy.collect_mode.get_train_sample(episode(9))
    old = {key: value for key, value in whole.items() if key != "learned"}
    buffer = saved_and_loaded([old], kind, tmp_path)
    if kind == "deque":
        buffer.push(other)
        batch = [record.data for record in sorted(buffer.sample(2), key=lambda record: "learned" in record.data)]
    else:
        buffer.push([other], cur_collector_envstep=0)
        assert "extra fields ['learned']" in caplog.text
        batch = sorted(buffer.sample(2, 0), key=lambda row: "learned" in row)
        buffer.close()
    assert ["learned" in row for row in batch] == [False, True]
    # Of the old sequence the steps behind the burn-in are learned.
    rest = {**whole, "learned": np.array([False, False, True, True, False, False])}
    expected = [policy.learn_mode.forward([row])["priority"][0] for row in (rest, other)]
    assert policy.learn_mode.forward(batch)["priority"] == pytest.approx(expected, rel=1e-5)


def test_reference_numerics_cuts_as_the_original_api_does():
    policy = make(burnin_step=2, learn_unroll_len=4, nstep=2, reference_numerics=True)
    samples = policy.collect_mode.get_train_sample([
        {key: value for key, value in step.items() if key not in ("next_obs", "begins", "ends")} for step in episode(9)
    ])  # fmt: skip
    assert [one["obs"][:, 0].mul(50).round().int().tolist() for one in samples] == [
        [0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8],
    ]  # fmt: skip
    assert "learned" not in samples[0]
    batch = collect(policy, 12, False)
    numbers = step_numbers(batch)
    assert set(numbers[:, 0].tolist()) == {0, 6}


@pytest.mark.parametrize(("overlap", "starts"), [(None, {0, 4, 8, 12}), (2, {0, 6, 12}), (7, set(range(13)))])
def test_the_overlap_is_a_setting(overlap, starts):
    policy = make(burnin_step=1, learn_unroll_len=8, nstep=2, overlap_step=overlap)
    assert set(step_numbers(collect(policy, 18, False, 20))[:, 0].tolist()) <= starts | {9, 10, 11}
    samples = policy.collect_mode.get_train_sample(episode(21))
    assert {int(one["obs"][0, 0].mul(50).round()) for one in samples} == starts


@pytest.mark.parametrize("overlap", [0, 1, 8])
def test_an_overlap_that_leaves_steps_out(overlap):
    with pytest.raises(PolicyConfigError, match=rf"policy\.overlap_step .* policy\.nstep=2.* found {overlap}"):
        make(burnin_step=1, learn_unroll_len=8, nstep=2, overlap_step=overlap)


def test_gradients_reach_the_first_step_where_the_episode_begins():
    # What an agent has to keep in mind from the first step on, which the burn-in would hide.
    grads = []
    for begins in (True, False):
        policy = make(burnin_step=2, learn_unroll_len=4, nstep=1, learn={"learning_rate": 0.001})
        steps = [{**step, "begins": begins and step["begins"]} for step in episode(6)]
        samples = policy.collect_mode.get_train_sample(steps)
        model = policy.learn_mode.get_attribute("model")
        seen: list[torch.Tensor] = []

        def remember(_: Any, inputs: tuple[torch.Tensor, ...], seen: list[torch.Tensor] = seen) -> None:
            if torch.is_grad_enabled():
                inputs[0].requires_grad_()
                seen.append(inputs[0])

        handle = model.encoder.register_forward_pre_hook(remember)
        policy.learn_mode.forward(samples)
        handle.remove()
        grads.append([float(x.grad.abs().sum()) if x.grad is not None else 0.0 for x in seen])
    assert grads[0][0] > 0 < grads[0][1]
    assert grads[1][0] == 0 < grads[1][1]


@pytest.mark.parametrize("cls", [R2D3Policy, R2D2CollectTrajPolicy])
def test_relatives_cut_in_the_same_way(cls):
    sizes = {"unroll_len": 4} if cls is R2D2CollectTrajPolicy else {"learn_unroll_len": 4}
    samples = make(cls, burnin_step=2, nstep=2, **sizes).collect_mode.get_train_sample(episode(9))
    assert [one["learned"].tolist() for one in samples] == [
        [True, True, True, True, False, False],
        [False, False, True, True, False, True],
        [False, False, True, True, True, True],
    ]


def test_r2d3_learns_steps_whose_one_step_target_is_defined():
    # A change of the reward of step 7 in the second sequence, where step 8 is not seen, changes nothing.
    losses = []
    for reward in (1.0, 50.0):
        policy = make(R2D3Policy, burnin_step=2, nstep=2, learn_unroll_len=4)
        sample = policy.collect_mode.get_train_sample(episode(9))[1]
        sample["reward"][5] = reward
        losses.append(policy.learn_mode.forward([sample])["total_loss"])
    assert losses[0] == losses[1]


def test_ngu_discounts_by_the_steps_to_the_observation_after_a_time_limit():
    policy = make(
        NGUPolicy, burnin_step=0, nstep=3, learn_unroll_len=6,
        model={"collector_env_num": 2}, collect={"env_num": 2}, eval={"env_num": 2},
    )  # fmt: skip
    previous = {"prev_action": torch.tensor(-1), "prev_reward_extrinsic": torch.zeros(1), "beta": torch.tensor([0])}
    steps = [
        {**step, "next_obs": {"obs": step["next_obs"], **{key: previous[key] for key in previous if key != "beta"}}}
        for step in episode(2, done=False, **previous)
    ]
    (sample,) = policy.collect_mode.get_train_sample(steps)
    assert sample["learned"].tolist() == [True, True, False, False, False, False]
    model, gamma = policy.learn_mode.get_attribute("model"), float(policy.learn_mode.get_attribute("gammas")[0])
    fields = {"beta": torch.zeros(3, 1).long(), "prev_action": torch.full((3, 1), -1)}
    with torch.no_grad():
        q = model({
            "obs": torch.arange(3).view(3, 1, 1) / 50, "prev_state": [None], "prev_reward_extrinsic": torch.zeros(3, 1),
            **fields,
        })["logit"][:, 0]  # fmt: skip
    bootstrap = q[2].max()
    errors = torch.stack([q[0, 0] - (0 + gamma * 1 + gamma**2 * bootstrap), q[1, 1] - (1 + gamma * bootstrap)]).abs()
    result = policy.learn_mode.forward([sample])
    assert result["priority"] == pytest.approx([float(0.9 * errors.max() + 0.1 * errors.mean())], rel=1e-4)


@pytest.mark.parametrize("as_rows", [False, True])
def test_cutting_with_an_overlap(as_rows):
    rows = [{"obs": torch.tensor([float(t)]), "done": False, "reward": torch.zeros(1)} for t in range(8)]
    data: Any = rows if as_rows else TransitionBatch.from_rows(rows)

    def numbers(**kwargs: Any) -> list[list[int]]:
        samples = get_train_sample(data, 4, overlap=2, **kwargs)
        return [[int(x) for x in one["obs"]] for one in samples]

    assert numbers() == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]
    assert numbers(last_fn_type="drop") == numbers()
    data = data[:7]
    assert numbers() == [[0, 1, 2, 3], [2, 3, 4, 5], [3, 4, 5, 6]]
    assert numbers(last_fn_type="null_padding") == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 0]]
    assert numbers(last_fn_type="drop") == [[0, 1, 2, 3], [2, 3, 4, 5]]
    for overlap in (-1, 4):
        with pytest.raises(ValueError, match="overlap"):
            get_train_sample(data, 4, overlap=overlap)
