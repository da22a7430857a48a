"""Procedure cloning: its learn steps against DI-engine's numbers, and acting by its own search."""

import numpy as np
import pytest
import torch

from ding.data import EnvBatch, TransitionBatch
from ding.envs.zoo.maze_env import Maze
from ding.policy import PolicyConfigError, PolicyDataError, PolicyUsageError, ProcedureCloningBFSPolicy
from ding.utils import deep_merge_dicts, get_vi_sequence
from tests.world_model.golden import fill, wave

# Loss and accuracy of three steps, and the sum of the absolute weights.
GOLDEN = {
    "SGD": (0.1, [1.62724, 1.61414, 1.59075], [0.22, 0.24, 0.34], 135.644),
    "Adam": (0.01, [1.62724, 1.58096, 1.51833], [0.22, 0.32, 0.34], 135.971),
}


def make(model=None, **overrides):
    base = {"model": {"obs_shape": [8, 5, 5], "action_shape": 4, "encoder_hidden_size_list": [6]}}
    cfg = deep_merge_dicts(ProcedureCloningBFSPolicy.default_config(), deep_merge_dicts(base, overrides))
    return ProcedureCloningBFSPolicy(cfg, model=model)


def samples():
    maps = np.arange(50).reshape(2, 5, 5)
    columns = {"obs": (wave((2, 5, 5, 3), 0.1) > 0).float(), "bfs_in": maps % 5, "bfs_out": (3 * maps % 5).astype("i4")}
    return TransitionBatch(columns)


@pytest.mark.parametrize(
    ("optimizer", "decay", "compile"),
    [("SGD", 1e-4, False), ("Adam", 1e-4, False), ("Adam", None, False), ("Adam", 1e-4, "record")],
)
def test_it_learns_as_in_di_engine(optimizer, decay, compile):
    rate, losses, shares, total = GOLDEN[optimizer]
    learn = {"optimizer": optimizer, "learning_rate": rate, "weight_decay": decay, "compile": compile}
    policy = make(maze_size=5, num_actions=4, learn=learn)
    model = policy.learn_mode.get_attribute("model")
    fill(model, 0.3)
    found = [policy.learn_mode.forward(samples()) for _ in losses]
    assert [one["total_loss"] for one in found] == pytest.approx(losses, rel=1e-5)
    assert [one["acc"] for one in found] == pytest.approx(shares)
    assert set(policy.learn_mode.monitor_vars()) <= set(found[0])
    assert sum(weight.abs().sum().item() for weight in model.parameters()) == pytest.approx(total, rel=1e-5)
    assert policy.learn_mode.get_attribute("compiled_updates").graphs.num_runs == (3 if compile else 0)


@pytest.mark.parametrize("reference", [False, True])
def test_the_learning_rate_falls_every_69_epochs(reference):
    policy = make(reference_numerics=reference, learn={"learning_rate": 1.0})
    rates = []
    for _ in range(140):
        rates.append(policy.learn_mode.get_attribute("optimizer").param_groups[0]["lr"])
        policy.learn_mode.get_attribute("lr_scheduler").step()
    falls = [epoch for epoch in range(1, 140) if rates[epoch] < rates[epoch - 1]]
    assert falls == ([1, 70, 139] if reference else [70, 139])
    assert rates[-1] == pytest.approx(0.1 ** len(falls))


class Expert(torch.nn.Module):
    """Makes the steps of the search itself, with the order of its actions."""

    def __init__(self, lost=False):
        super().__init__()
        self.weight, self.calls, self.lost = torch.nn.Parameter(torch.zeros(1)), [], lost

    def forward(self, x):
        self.calls.append(len(x))
        wall, goal, maps = x[..., 0] == 1, x[..., 1] == 1, x[..., 3:].argmax(-1)
        reached, after = goal | (maps != 4), maps.clone()
        for action, (down, right) in enumerate(((1, 0), (0, 1), (-1, 0), (0, -1))):
            leads = torch.roll(reached, (-down, -right), (1, 2))
            after[leads & ~reached & ~wall & (after == 4) & (not self.lost)] = action
        return {"logit": torch.nn.functional.one_hot(after, 5).float() + 0 * self.weight}


@pytest.mark.parametrize("wall_type", ["tunnel", "tree"])
def test_its_search_leads_to_the_goal(wall_type):
    envs, policy = {}, make(Expert())
    for env_id in (2, 5, 7):
        env = envs[env_id] = Maze({"size": 16, "wall_type": wall_type})
        env.seed(env_id, dynamic_seed=False)
    obs = {env_id: env.reset() for env_id, env in envs.items()}
    lengths = {env_id: len(get_vi_sequence(env, obs[env_id])[1]) for env_id, env in envs.items()}
    steps = 0
    while obs:
        output = policy.eval_mode.forward({env_id: torch.as_tensor(one) for env_id, one in obs.items()})
        steps += 1
        for env_id in list(obs):
            timestep = envs[env_id].step(output[env_id]["action"].numpy())
            obs[env_id] = timestep.obs
            if timestep.done:
                assert timestep.info["eval_episode_return"] == 1.0
                assert steps == lengths[env_id]
                del obs[env_id]


def test_a_search_that_finds_nothing_ends_and_acts_at_random():
    env = Maze({"size": 8})
    env.seed(0)
    obs = EnvBatch(np.arange(64), np.stack([env.reset()] * 64))
    policy = make(Expert(lost=True))
    actions = policy.eval_mode.forward(obs).columns["action"]
    assert actions.shape == (64, 1)
    assert set(actions.flatten().tolist()) == {0, 1, 2, 3}
    assert policy.eval_mode.get_attribute("model").calls == [64]  # the map stays as it is
    # The agent of seed 0 is six steps away: five of them do not reach it.
    short, whole = (make(Expert(), max_bfs_steps=count) for count in (5, 6))
    assert set(whole.eval_mode.forward(obs).columns["action"].flatten().tolist()) == {0}
    assert len(set(short.eval_mode.forward(obs).columns["action"].flatten().tolist())) == 4


def test_what_it_learned_is_taken_up():
    policy, other = make(learn={"learning_rate": 0.1}), make()
    policy.learn_mode.forward(samples())
    other.learn_mode.load_state_dict(policy.learn_mode.state_dict())
    assert other.learn_mode.forward(samples()) == policy.learn_mode.forward(samples())


def test_mistakes():
    with pytest.raises(PolicyConfigError, match=r"policy.num_actions is 3, but policy.model.action_shape is 4"):
        make(num_actions=3)
    with pytest.raises(PolicyConfigError, match=r"'Adm' is unknown.*Adam"):
        make(learn={"optimizer": "Adm"})
    policy = make()
    with pytest.raises(PolicyDataError, match="bfs_in has values from 0 to 5, expected 0 to 4"):
        policy.learn_mode.forward(samples().with_columns(bfs_in=np.arange(50).reshape(2, 5, 5) % 6))
    with pytest.raises(PolicyUsageError, match="does not collect"):
        policy.collect_mode.forward({0: torch.zeros(5, 5, 3)})
    with pytest.raises(PolicyDataError, match="last plane is 1 in one cell"):
        policy.eval_mode.forward({0: torch.zeros(5, 5, 3)})
