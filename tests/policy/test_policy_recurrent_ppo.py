"""PPO with a recurrent network: the states of learning are those of collecting."""

from typing import Any

import numpy as np
import pytest
import torch

from ding.data import EnvBatch, TimestepBatch, TransitionBatch
from ding.model import RecurrentVAC
from ding.policy import A2CPolicy, PolicyConfigError, PPOPolicy
from ding.rl_utils import gae, gae_data
from ding.rl_utils.policy_dist import policy_of
from ding.utils import deep_merge_dicts, set_pkg_seed

_ENVS = 2
# Steps at which the episodes of each environment end, within a collection of 12 steps.
_ENDS = {0: (4, 5), 1: (2, 8)}


def _policy(cls: Any = PPOPolicy, **changes: Any) -> Any:
    set_pkg_seed(0, use_cuda=False)
    cfg = {
        "recurrent": True,
        "learn_unroll_len": 5,
        "model": {"obs_shape": 3, "action_shape": 2},
        "learn": {"batch_size": 10, "epoch_per_collect": 1, "value_norm": False},
        "collect": {"env_num": _ENVS},
        "eval": {"env_num": _ENVS},
    }
    return cls(deep_merge_dicts(cls.default_config(), deep_merge_dicts(cfg, changes)))


def _collect(policy: Any) -> TransitionBatch:
    """12 steps of 2 environments as segments: whole episodes, and what is left of the last ones."""
    ids, steps = np.arange(_ENVS), []
    random = np.random.default_rng(0)
    obs = random.normal(size=(_ENVS, 3)).astype(np.float32)
    for t in range(12):
        output = policy.collect_mode.forward(EnvBatch(ids, torch.from_numpy(obs)))
        following = random.normal(size=(_ENVS, 3)).astype(np.float32)
        done = np.array([t in _ENDS[i] for i in range(_ENVS)])
        reward = random.normal(size=(_ENVS, 1)).astype(np.float32)
        # The first episode of environment 0 ends at a time limit.
        step = TimestepBatch(ids, following, reward, done, np.array([t == 4, False]), {})
        columns = policy.collect_mode.process_transition(torch.from_numpy(obs), output.columns, step)
        columns["next_obs"], columns["reward"] = torch.from_numpy(following), torch.from_numpy(reward)
        steps.append(TransitionBatch(columns))
        policy.collect_mode.reset(np.flatnonzero(done).tolist())
        obs = following
    bounds = {env: [0, *(end + 1 for end in ends), 12] for env, ends in _ENDS.items()}
    segments = [
        TransitionBatch.concat([step[[env]] for step in steps[begin:end]])
        for env in range(_ENVS)
        for begin, end in zip(bounds[env], bounds[env][1:])
    ]
    lengths = np.array([len(segment) for segment in segments])
    return TransitionBatch(TransitionBatch.concat(segments).columns, lengths=lengths)


NETWORKS = [
    {"lstm_type": "pytorch"},
    {"lstm_type": "normal"},
    {"lstm_type": "gru"},
    {"lstm_type": "gru", "share_encoder": False},
]


def _calls(policy: Any, samples: TransitionBatch) -> dict[str, list[tuple[dict, dict]]]:
    """What the network took and gave while the policy learned from samples, by mode."""
    calls: dict[str, list[tuple[dict, dict]]] = {"compute_actor_critic": [], "compute_critic": []}

    def note(module: Any, args: Any, kwargs: Any, output: Any) -> None:
        calls[kwargs["mode"]].append((args[0], output))

    hook = policy.learn_mode.get_attribute("model").register_forward_hook(note, with_kwargs=True)
    policy.learn_mode.forward(samples)
    hook.remove()
    return calls


@pytest.mark.parametrize("model", NETWORKS)
def test_before_the_first_update_log_probabilities_are_those_of_collection(model):
    policy = _policy(model=model)
    samples = policy.collect_mode.get_train_sample(_collect(policy))
    inputs, output = _calls(policy, samples)["compute_actor_critic"][0]
    # Two sequences of five steps, with the end of an episode inside of them.
    assert inputs["starts"].shape == (2, 5)
    assert inputs["starts"][:, 1:].any()
    rows = [int((samples.columns["obs"] == obs).all(1).nonzero()) for obs in inputs["obs"]]
    action = torch.as_tensor(samples.columns["action"])[rows].reshape(-1)
    log_prob = [policy_of(logit).log_prob(action) for logit in (output["logit"], samples.columns["logit"][rows])]
    torch.testing.assert_close(*log_prob)
    torch.testing.assert_close(output["value"], samples.columns["value"][rows].reshape(-1))


@pytest.mark.parametrize("model", NETWORKS)
def test_states_begin_anew_with_an_episode_and_go_on_inside_of_it(model):
    policy = _policy(model=model)
    batch = _collect(policy)
    empty = torch.as_tensor(batch.columns["prev_state"]["h"]).flatten(1).eq(0).all(1)
    begins = np.zeros(24, bool)
    begins[[0, 5, 6, 12, 15, 21]] = True
    np.testing.assert_array_equal(empty.numpy(), begins)


def test_values_of_next_observations_have_the_state_after_the_step():
    policy = _policy(model={"lstm_type": "pytorch"})
    samples = policy.collect_mode.get_train_sample(_collect(policy))
    model, columns = policy.learn_mode.get_attribute("model"), samples.columns
    expected = []
    with torch.no_grad():
        for row in range(len(samples)):
            state = {key: part[[row]] for key, part in columns["prev_state"].items()}
            after = model({"obs": columns["obs"][[row]], "prev_state": state}, mode="compute_critic")["next_state"]
            output = model({"obs": columns["next_obs"][[row]], "prev_state": after}, mode="compute_critic")
            expected.append(output["value"])
    _, (_, following) = _calls(policy, samples)["compute_critic"]
    torch.testing.assert_close(following["value"], torch.cat(expected))
    # Collecting bootstraps from the same values.
    value, reward = (torch.as_tensor(columns[key]).reshape(-1) for key in ("value", "reward"))
    flags = [torch.as_tensor(columns[key]).reshape(-1) for key in ("done", "traj_flag")]
    adv = gae(gae_data(value, torch.cat(expected), reward, *flags), 0.99, 0.95)
    torch.testing.assert_close(torch.as_tensor(columns["adv"]).reshape(-1), adv)


def test_gradients_reach_back_to_the_begin_of_the_episode_and_not_over_it():
    model = RecurrentVAC(3, 2, encoder_hidden_size_list=[8, 64], lstm_type="pytorch")
    obs = torch.randn(2 * 4, 3, requires_grad=True)
    zeros = torch.zeros(8, 1, 1, 64)
    starts = torch.tensor([[True, False, False, False], [False, False, True, False]])
    inputs = {"obs": obs, "prev_state": {"h": zeros, "c": zeros}, "starts": starts}
    output = model(inputs, mode="compute_actor_critic")
    (grad,) = torch.autograd.grad(output["value"][3] + output["value"][7], obs)
    assert grad.ne(0).any(1).tolist() == [True] * 4 + [False, False, True, True]


def test_what_cannot_be_recurrent_says_so():
    with pytest.raises(PolicyConfigError, match="A2CPolicy cannot learn with a recurrent network"):
        _policy(A2CPolicy)
    with pytest.raises(PolicyConfigError, match="multi_agent"):
        _policy(multi_agent=True)
    with pytest.raises(PolicyConfigError, match="found a VAC"):
        _policy(model={"type": "vac"})
    with pytest.raises(PolicyConfigError, match=r"collect\.env_num"):
        _policy(collect={"env_num": None})
    with pytest.raises(PolicyConfigError, match="learn_unroll_len"):
        _policy(learn_unroll_len=0)
