"""Hybrid actions: whether types and arguments are learned, against a reward and values that are known exactly."""

import pytest
import torch

from ding.data import TransitionBatch
from ding.policy import DDPGPolicy
from ding.policy._ddpg_loss import hybrid_actor_loss
from ding.policy.pdqn import pdqn_argument_loss
from ding.rl_utils.inverting_gradients import invert_gradients, keep_within
from ding.utils import deep_merge_dicts

# One state, one step. A type is worth so much, less the squared distance of its own argument to the best one.
WORTH, BEST = torch.tensor([0.0, 0.3, 0.1]), torch.tensor([0.6, -0.5])
MASK = [[1, 0], [0, 1], [0, 0]]
SHAPE = {"action_type_shape": 3, "action_args_shape": 2}


def worths(args):
    """Of each type with arguments ``[B, 2]``: ``[B, 3]``."""
    return WORTH - torch.nn.functional.pad((args - BEST).square(), (0, 1))


def random_actions(rows=64):
    kind, args = torch.randint(3, (rows, 1)), torch.rand(rows, 2) * 2 - 1
    obs = torch.ones(rows, 2)
    action = {"action_type": kind, "action_args": args}
    columns = {"obs": obs, "next_obs": obs, "action": action, "logit": torch.zeros(rows, 3)}
    return TransitionBatch({**columns, "reward": worths(args).gather(1, kind), "done": torch.ones(rows, 1).bool()})


class ExactValues(torch.nn.Module):
    """The true values, and an actor whose two arguments are the tanh of a parameter each."""

    def __init__(self, raw):
        super().__init__()
        self.raw = torch.nn.Parameter(torch.tensor(raw))
        self.logit = torch.nn.Parameter(torch.zeros(3))

    def forward(self, inputs, mode):
        if mode in ("compute_continuous", "compute_actor"):
            rows = len(inputs)
            return {"action_args": self.raw.tanh().expand(rows, 2), "logit": self.logit.expand(rows, 3)}
        if mode == "compute_discrete":
            return {"logit": worths(inputs["action_args"])}
        chances = inputs["logit"].softmax(-1)
        # Between the types, where nothing was ever taken, these values are nonsense.
        nonsense = 100 * (1 - chances.square().sum(-1)) * chances[:, 2]
        return {"q_value": (chances * worths(inputs["action"]["action_args"])).sum(-1) + nonsense}


def test_inverted_gradients():
    raw = torch.tensor([[0.0, 0.5, -0.5, 6.0, -6.0]], requires_grad=True)
    args, grad = raw.tanh(), torch.tensor([[2.0, -1.0, -1.0, 1.0, 1.0]])
    invert_gradients(args).backward(grad)
    # Down by all that is left above -1, up by all that is left below 1.
    left = torch.where(grad < 0, 1 - args, 1 + args).detach() / 2
    torch.testing.assert_close(raw.grad, grad * left, atol=1e-6, rtol=1e-3)
    with torch.no_grad():
        torch.testing.assert_close(invert_gradients(args), args)


@pytest.mark.parametrize("inverting", [True, False])
def test_arguments_of_pdqn_come_back_from_their_bounds(inverting):
    network = ExactValues([5.0, 5.0])
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    for _ in range(200):
        optimizer.zero_grad()
        pdqn_argument_loss(network, torch.ones(4, 2), inverting).loss.backward()
        optimizer.step()
    found = network.raw.tanh()
    if inverting:
        torch.testing.assert_close(found, BEST, atol=0.01, rtol=0)
    else:
        assert (found > 0.99).all()


def test_gradients_that_keep_values_within_a_bound():
    logit = torch.tensor([[0.0, 2.0, 3.0, 4.0, -3.0]], requires_grad=True)
    grad = torch.tensor([[1.0, -1.0, -1.0, -1.0, -1.0]])
    keep_within(logit, 3.0).backward(grad)
    # Up by what is left below 3, and back from beyond it.
    torch.testing.assert_close(logit.grad, torch.tensor([[1 / 2, -1 / 6, 0.0, 1 / 6, -1.0]]))


def test_types_climb_the_values_of_what_can_be_taken():
    network = ExactValues([0.0, 0.0])
    output = network(torch.ones(4, 2), "compute_actor")
    hybrid_actor_loss(network, torch.ones(4, 2), output["logit"], output["action_args"]).backward()
    # The gradient of -sum_k p_k Q_k at equal chances, and that of -mean_k Q_k, halved in the middle of their ranges.
    values = worths(torch.zeros(1, 2))[0]
    torch.testing.assert_close(network.logit.grad, -(values - values.mean()) / 3 / 2)
    torch.testing.assert_close(network.raw.grad, -2 * BEST / 3 / 2)


def test_no_chance_of_a_type_vanishes():
    network = ExactValues([0.6, -0.5])
    optimizer = torch.optim.Adam([network.logit], 0.1)
    for _ in range(500):
        optimizer.zero_grad()
        output = network(torch.ones(4, 2), "compute_actor")
        hybrid_actor_loss(network, torch.ones(4, 2), output["logit"], output["action_args"]).backward()
        optimizer.step()
    assert network.logit.argmax() == 1
    assert network.logit.abs().max() < 3.2


@pytest.mark.parametrize("reference_numerics", [False, True])
def test_hybrid_ddpg_learns_one_state(reference_numerics):
    torch.manual_seed(0)
    model = {"obs_shape": 2, "action_shape": SHAPE, "action_space": "hybrid", "action_mask": MASK}
    model |= {"actor_head_hidden_size": 32, "critic_head_hidden_size": 32}
    cfg = {"model": model, "action_space": "hybrid", "random_collect_size": 0, "reference_numerics": reference_numerics}
    cfg["learn"] = {"learning_rate_actor": 0.003, "learning_rate_critic": 0.01}
    policy = DDPGPolicy(deep_merge_dicts(DDPGPolicy.default_config(), cfg), enable_field=["learn", "eval"])
    for _ in range(400):
        policy.learn_mode.forward(random_actions())
    action = policy.eval_mode.forward({0: torch.ones(2)})[0]["action"]
    learned = action["action_type"].item() == 1 and (action["action_args"] - BEST).abs().max() < 0.2
    assert learned == (not reference_numerics)


def test_hybrid_ddpg_collects_the_best_type_where_it_does_not_explore():
    model = {"obs_shape": 2, "action_shape": SHAPE, "action_space": "hybrid"}
    cfg = {"model": model, "action_space": "hybrid", "random_collect_size": 0}
    policy = DDPGPolicy(deep_merge_dicts(DDPGPolicy.default_config(), cfg), enable_field=["collect"])
    for _ in range(5):
        output = policy.collect_mode.forward({i: torch.full((2,), 0.1 * i) for i in range(4)}, eps=0.0)
        for row in output.values():
            assert row["action"]["action_type"].item() == row["logit"].argmax().item()
