"""The relatives of QMIX on a real cooperative game: columns and rows, sequences, states, what is not learned."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch, TransitionBatch
from ding.envs.zoo.line_cover_env import LineCoverEnv
from ding.policy import (
    CollaQPolicy,
    COMAPolicy,
    MADQNPolicy,
    PolicyConfigError,
    QMIXPolicy,
    QTRANPolicy,
    WQMIXPolicy,
)
from ding.policy.coma import mixed_logit
from ding.utils import deep_merge_dicts, set_pkg_seed

ENVS, STEPS, CELLS = 3, 5, 4
SLOW = pytest.mark.slow
ENDS = np.arange(STEPS) == STEPS - 1
SEEN, GLOBAL = 3 * CELLS + 5, 3 * CELLS
QMIX = {
    "agent_num": 2, "obs_shape": SEEN, "global_obs_shape": GLOBAL, "action_shape": 3, "hidden_size_list": [8, 8],
}  # fmt: skip
COMA = {
    "agent_num": 2,
    "obs_shape": {"agent_state": SEEN, "global_state": GLOBAL},
    "action_shape": 3,
    "actor_hidden_size_list": [8, 8],
}
CASES: dict[str, Any] = {
    "qmix": (QMIXPolicy, QMIX, {}),
    "qmix-double": (QMIXPolicy, QMIX, {"learn": {"double_q": True}}),
    "wqmix": (WQMIXPolicy, QMIX, {}),
    "wqmix-cw": (WQMIXPolicy, QMIX, {"learn": {"wqmix_ow": False}}),
    "qtran": (QTRANPolicy, {**QMIX, "embedding_size": 8}, {}),
    "collaq": (CollaQPolicy, {**QMIX, "alone_obs_shape": 2 * CELLS}, {}),
    "madqn": (MADQNPolicy, {**QMIX, "global_obs_shape": SEEN + GLOBAL}, {"nstep": 2}),
    "coma": (COMAPolicy, COMA, {}),
}


def policy_of(case: str, **overrides: Any) -> Any:
    cls, model, more = CASES[case]
    set_pkg_seed(0, use_cuda=False)
    given = {"model": model, "collect": {"env_num": ENVS, "unroll_len": 3}, "eval": {"env_num": ENVS}}
    cfg = deep_merge_dicts(cls.default_config(), deep_merge_dicts(given, more))
    return cls(deep_merge_dicts(cfg, overrides))


def games(case: str) -> list[LineCoverEnv]:
    envs = []
    for index in range(ENVS):
        cfg = {"n_cell": CELLS, "max_cycles": STEPS, "agent_specific_global_state": case == "madqn"}
        envs.append(LineCoverEnv(cfg))
        envs[-1].seed(index)
    return envs


def tensors(obs: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {key: torch.from_numpy(value) for key, value in obs.items()}


def stacked(rows: list[dict[str, np.ndarray]]) -> dict[str, torch.Tensor]:
    return {key: torch.from_numpy(np.stack([row[key] for row in rows])) for key in rows[0]}


def collect(policy: Any, case: str, columns: bool) -> list[Any]:
    """One episode of each env, as columns or as rows, with the same actions from the same seed."""
    set_pkg_seed(1, use_cuda=False)
    mode, envs, ids = policy.collect_mode, games(case), np.arange(ENVS)
    obs = [env.reset() for env in envs]
    episodes: list[list[Any]] = [[] for _ in envs]
    for _ in range(STEPS):
        if columns:
            seen = EnvBatch(ids, stacked(obs))
            output = mode.forward(seen, eps=0.5)
            actions = output.columns["action"].numpy()
        else:
            output = mode.forward({i: tensors(one) for i, one in enumerate(obs)}, eps=0.5)
            actions = np.stack([output[i]["action"].numpy() for i in range(ENVS)])
        steps = [env.step(action) for env, action in zip(envs, actions)]
        following = [step.obs for step in steps]
        if columns:
            done = np.array([step.done for step in steps])
            reward = np.stack([step.reward for step in steps])
            batch = TimestepBatch(ids, stacked(following), torch.from_numpy(reward), done, done, {})
            made = TransitionBatch(mode.process_transition(seen.columns, output.columns, batch))
            for i in range(ENVS):
                episodes[i].append(made[[i]])
        else:
            for i, step in enumerate(steps):
                one = BaseEnvTimestep(tensors(step.obs), torch.from_numpy(step.reward), step.done, step.info)
                episodes[i].append(mode.process_transition(tensors(obs[i]), output[i], one))
        obs = following
    if not columns:
        return episodes
    return [TransitionBatch(TransitionBatch.concat(steps).columns) for steps in episodes]


def samples_of(policy: Any, episodes: list[Any]) -> list[Any]:
    return [row for episode in episodes for row in policy.collect_mode.get_train_sample(episode)]


def close(left: Any, right: Any) -> None:
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            close(left[key], right[key])
    else:
        np.testing.assert_allclose(np.asarray(left), np.asarray(right), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_columns_and_rows_agree(case: str) -> None:
    by_columns, by_rows = policy_of(case), policy_of(case)
    columns, rows = collect(by_columns, case, True), collect(by_rows, case, False)
    left, right = samples_of(by_columns, columns), samples_of(by_rows, rows)
    assert len(left) == len(right) == 2 * ENVS
    for one, other in zip(left, right):
        close(dict(one), dict(other))
    close(by_columns.learn_mode.forward(TransitionBatch.from_rows(left)), by_rows.learn_mode.forward(right))
    obs = [env.reset() for env in games(case)]
    greedy = by_columns.eval_mode.forward(EnvBatch(np.arange(ENVS), stacked(obs)))
    expected = by_rows.eval_mode.forward({i: tensors(one) for i, one in enumerate(obs)})
    for i in range(ENVS):
        close(greedy[i]["action"], expected[i]["action"])
        assert (obs[i]["action_mask"][np.arange(2), greedy[i]["action"]] == 1).all()


@pytest.mark.parametrize("case", CASES)
def test_a_learn_state_goes_on_where_it_was(case: str) -> None:
    policy, other = policy_of(case), policy_of(case)
    data = samples_of(policy, collect(policy, case, False))
    policy.learn_mode.forward(data)
    other.learn_mode.load_state_dict(copy.deepcopy(policy.learn_mode.state_dict()))
    assert policy.learn_mode.forward(data) == other.learn_mode.forward(data)


@pytest.mark.parametrize(
    "case", ["qmix", "wqmix", pytest.param("collaq", marks=SLOW), pytest.param("madqn", marks=SLOW)]
)
def test_recorded_updates_give_the_numbers_of_eager_ones(case: str) -> None:
    eager, recorded = policy_of(case), policy_of(case, learn={"compile": "record"})
    set_pkg_seed(1, use_cuda=False)
    samples = samples_of(eager, collect(eager, case, columns=True))
    for _ in range(3):
        expected, found = eager.learn_mode.forward(samples), recorded.learn_mode.forward(samples)
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-5, err_msg=key)
    assert recorded.learn_mode.get_attribute("compiled_updates").graphs.num_compiled == 1


# Raised by torch when its compiler is imported.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")
@pytest.mark.slow
def test_20_compiled_updates_give_the_numbers_of_eager_ones_and_the_same_bits_again(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    eager, *compiled = (policy_of("qmix", learn={"compile": compile}) for compile in (False, True, True))
    set_pkg_seed(1, use_cuda=False)
    samples = samples_of(eager, collect(eager, "qmix", columns=True))
    for _ in range(20):
        expected, (found, again) = (
            eager.learn_mode.forward(samples),
            [one.learn_mode.forward(samples) for one in compiled],
        )
        assert found == again
        assert found == {key: pytest.approx(value, rel=1e-4, abs=1e-5) for key, value in expected.items()}
    assert compiled[0].learn_mode.get_attribute("compiled_updates").graphs.num_runs >= 19


@pytest.mark.parametrize("case", CASES)
def test_what_only_fills_up_is_not_learned(case: str) -> None:
    # One sequence of 8 steps out of an episode of 5.
    policy, other = (policy_of(case, collect={"unroll_len": 8}) for _ in range(2))
    data = samples_of(policy, collect(policy, case, True))
    assert [row["null"].tolist() for row in data] == [[False] * 5 + [True] * 3] * ENVS
    changed = []
    for row in data:
        row = dict(row)
        reward = torch.as_tensor(row["reward"]).clone()
        reward[5:] = 7.0
        for key in ("obs", "next_obs"):
            seen = {name: torch.as_tensor(value).clone() for name, value in row[key].items()}
            # The observation after the last real step is that of the episode's end, and stays.
            seen["agent_state"][5:] = seen["global_state"][5:] = 3.0
            row[key] = seen
        changed.append({**row, "reward": reward})
    left = policy.learn_mode.forward(TransitionBatch.from_rows(data))
    right = other.learn_mode.forward(TransitionBatch.from_rows(changed))
    for key in left:
        if "loss" in key or "grad" in key:
            assert left[key] == pytest.approx(right[key], rel=1e-5), key


@pytest.mark.parametrize("case", ["qmix", "wqmix", "qtran", "collaq"])
@pytest.mark.parametrize("unroll_len", [STEPS, STEPS + 2])
def test_one_pass_over_all_observations_gives_the_numbers_of_two(case: str, unroll_len: int) -> None:
    options: dict[str, Any] = {"learn": {"double_q": True}, "collect": {"unroll_len": unroll_len}}
    policies = [policy_of(case, **options) for _ in range(2)]
    rows = samples_of(policies[0], collect(policies[0], case, True))
    # What no network reads, and what does not go on from one step to the next.
    tags = {"obs": torch.zeros(unroll_len, 1), "next_obs": torch.ones(unroll_len, 1)}
    tagged = [{**row, **{key: {**row[key], "tag": tag} for key, tag in tags.items()}} for row in map(dict, rows)]
    passes = [0, 0]
    results = []
    for index, (policy, data) in enumerate(zip(policies, (rows, tagged))):

        def count(*args: Any, index: int = index) -> None:
            passes[index] += 1

        policy.learn_mode.get_attribute("model").register_forward_hook(count)
        results.append(policy.learn_mode.forward(TransitionBatch.from_rows(data)))
    assert passes[1] == passes[0] + 1
    logged = [name for name in results[0] if unroll_len == STEPS or "loss" in name or "grad" in name]
    assert len(logged) >= 2
    close(*({name: result[name] for name in logged} for result in results))


def test_targets_continue_the_history() -> None:
    policy = policy_of("qmix")
    # Whole episodes, so that what follows a step is the next step of the sequence.
    rows = samples_of(policy, collect(policy, "qmix", False))[::2]
    network = policy.learn_mode.get_attribute("model")
    with torch.no_grad():
        values = []
        for row in rows:
            obs = {
                key: torch.cat(
                    [torch.as_tensor(row["obs"][key]), torch.as_tensor(row["next_obs"][key])[-1:]]
                ).unsqueeze(1)
                for key in ("agent_state", "global_state", "action_mask")
            }
            state = {key: value.unsqueeze(0) for key, value in row["prev_state"].items()}
            values.append(network({"obs": obs, "prev_state": state}, single_step=False)["total_q"][1:])
    expected = torch.cat(values).mean().item() / 2
    assert policy.learn_mode.forward(rows)["target_total_q"] == pytest.approx(expected, rel=1e-5)


def test_double_q_of_the_original_api_learns_from_columns_too() -> None:
    options: dict[str, Any] = {"learn": {"double_q": True}, "reference_numerics": True}
    by_columns, by_rows = policy_of("qmix", **options), policy_of("qmix", **options)
    left = samples_of(by_columns, collect(by_columns, "qmix", True))
    right = samples_of(by_rows, collect(by_rows, "qmix", False))
    close(by_columns.learn_mode.forward(TransitionBatch.from_rows(left)), by_rows.learn_mode.forward(right))


def test_states_start_anew_with_an_episode() -> None:
    policy = policy_of("qmix")
    obs = {i: tensors(env.reset()) for i, env in enumerate(games("qmix"))}
    mode = policy.collect_mode
    first = mode.forward(obs, eps=0.0)
    assert not any(first[i]["prev_state"]["h"].any() for i in range(ENVS))
    assert first[0]["prev_state"]["h"].shape == (2, 1, 1, 8)
    assert all(mode.forward(obs, eps=0.0)[i]["prev_state"]["h"].any() for i in range(ENVS))
    mode.reset([1])
    output = mode.forward(obs, eps=0.0)
    assert [bool(output[i]["prev_state"]["h"].any()) for i in range(ENVS)] == [True, False, True]


def test_a_state_of_the_original_api_has_no_target_network_of_wqmix() -> None:
    policy, other = policy_of("wqmix"), policy_of("wqmix")
    state = policy.learn_mode.state_dict()
    del state["target_model"]
    other.learn_mode.load_state_dict(state)
    data = samples_of(policy, collect(policy, "wqmix", False))
    assert policy.learn_mode.forward(data) == other.learn_mode.forward(data)


def test_sequences_of_one_step_are_refused() -> None:
    with pytest.raises(PolicyConfigError, match="unroll_len=1"):
        policy_of("qmix", collect={"unroll_len": 1})


def test_coma_learns_the_policy_that_acted_with_its_random_actions() -> None:
    policy, other = policy_of("coma"), policy_of("coma")
    rows = [dict(row) for row in samples_of(policy, collect(policy, "coma", True))]
    assert [torch.as_tensor(row["eps"]).flatten().tolist() for row in rows] == [[0.5] * 3] * len(rows)
    mixed = policy.learn_mode.forward(TransitionBatch.from_rows(rows))
    without = [{key: value for key, value in row.items() if key != "eps"} for row in rows]
    plain = other.learn_mode.forward(TransitionBatch.from_rows(without))
    # Random actions make the policy more even; what the critic learns is the same.
    assert mixed["entropy_loss"] > plain["entropy_loss"]
    assert mixed["value_loss"] == plain["value_loss"]


def test_a_mixed_policy_is_uniform_over_allowed_actions_with_chance_eps() -> None:
    mask = torch.tensor([1.0, 1.0, 0.0])
    plain = torch.tensor([[0.0, -20.0, 3.0]]).masked_fill(mask == 0, -9999999.0).repeat(3, 1).requires_grad_()
    found = mixed_logit(plain, torch.tensor([[0.0], [0.4], [1.0]]), mask)
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.8, 0.2, 0.0], [0.5, 0.5, 0.0]])
    torch.testing.assert_close(found.softmax(-1), expected, rtol=1e-5, atol=1e-6)
    (slope,) = torch.autograd.grad(found[:, 1].sum(), plain)
    # What only chance chooses teaches the network nothing, and all gradients are numbers.
    torch.testing.assert_close(slope[:, 1], torch.tensor([1.0, 0.0, 0.0]), rtol=1e-5, atol=1e-6)
    assert not slope[1:].abs().max() > 1e-6


def test_the_last_step_of_a_sequence_of_coma_is_the_first_of_the_next_one() -> None:
    policy = policy_of("coma")
    length = policy.collect_mode.get_attribute("unroll_len")
    (episode,) = collect(policy, "coma", columns=True)[:1]
    batch = TransitionBatch.of(episode)
    rows = [*batch.rows()] * (length // len(batch) + 2)
    steps = [{**row, "done": False, "t": t} for t, row in enumerate(rows[: 2 * length])]
    samples = policy.collect_mode.get_train_sample(steps)
    assert [np.asarray(sample["t"]).tolist() for sample in samples] == [
        list(range(length)), list(range(length - 1, 2 * length - 1)), list(range(length, 2 * length)),
    ]  # fmt: skip


@pytest.mark.parametrize("unroll_len", [3, 4])
def test_a_step_that_sequences_of_coma_share_counts_once(unroll_len: int) -> None:
    results = []
    for length in (unroll_len, STEPS):
        # One-step returns: those of longer ones depend on where a sequence ends.
        policy = policy_of("coma", learn={"td_lambda": 0.0}, collect={"unroll_len": length})
        episodes = collect(policy, "coma", columns=True)
        samples = samples_of(policy, [TransitionBatch.of(one).with_columns(done=ENDS) for one in episodes])
        assert len(samples) == (ENVS if length == STEPS else 2 * ENVS)
        results.append(policy.learn_mode.forward(samples))
    close(*results)


@pytest.mark.parametrize(("unroll_len", "rows", "step"), [(3, slice(1, None, 2), 2), (6, slice(None), 4)])
def test_coma_learns_the_reward_of_the_last_step(unroll_len: int, rows: slice, step: int) -> None:
    policy = policy_of("coma", collect={"unroll_len": unroll_len})
    batch = TransitionBatch.from_rows([dict(row) for row in samples_of(policy, collect(policy, "coma", True))])
    done = np.zeros((len(batch), unroll_len), dtype=bool)
    done[rows, step] = True
    losses = []
    for last in (0.0, 100.0):
        reward = torch.zeros(len(batch), unroll_len, 1)
        reward[rows, step] = last
        learner = policy_of("coma", collect={"unroll_len": unroll_len})
        losses.append(learner.learn_mode.forward(batch.with_columns(reward=reward, done=done))["value_loss"])
    assert losses[1] > 100 * losses[0]


def test_priorities_of_collaq_are_absolute_errors_of_real_steps() -> None:
    def priorities(change: float) -> list[float]:
        policy = policy_of("collaq", priority=True, collect={"unroll_len": STEPS + 2})
        batch = TransitionBatch.from_rows([dict(row) for row in samples_of(policy, collect(policy, "collaq", True))])
        filled = torch.as_tensor(np.asarray(batch.columns["null"])).reshape(len(batch), STEPS + 2)
        reward = torch.as_tensor(batch.columns["reward"]).float().reshape(len(batch), STEPS + 2)
        changed = torch.where(filled.bool(), reward + change, reward)
        return policy.learn_mode.forward(batch.with_columns(reward=changed.unsqueeze(-1)))["priority"]

    assert priorities(0.0) == priorities(50.0)
