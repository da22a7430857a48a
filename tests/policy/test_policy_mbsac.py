"""MBSAC and STEVE: learn steps against DI-engine's numbers, without noise, in a world that is known."""

import pytest
import torch
from easydict import EasyDict

from ding.data import TransitionBatch
from ding.policy import create_policy, get_policy_cls
from ding.policy.errors import PolicyUsageError
from ding.utils import deep_merge_dicts
from ding.world_model import DreamWorldModel, create_world_model
from tests.world_model.golden import Env, wave


class Known(DreamWorldModel):
    """Rewards and states are linear; with ``spread`` those of the members differ, and some episodes end."""

    def __init__(self, length=2, spread=False):
        super().__init__(
            {"cuda": False, "rollout_length_scheduler": {"type": "constant", "rollout_length": length}}, None
        )
        self.spread = spread

    def train(self, env_buffer, envstep, train_iter):
        raise NotImplementedError

    def eval(self, env_buffer, envstep, train_iter):
        raise NotImplementedError

    def step(self, obs, action, keep_ensemble=False):
        reward = 0.1 * obs.sum(-1) + 0.2 * action.sum(-1)
        done = torch.zeros_like(reward)
        if self.spread:
            done = (obs[..., 0] > 0.9).float()
            reward = reward + 0.3 * torch.arange(len(obs)).unsqueeze(-1) * obs[..., 0]
        return reward, 0.9 * obs + 0.05 * action.sum(-1, keepdim=True), done


def samples():
    return [
        {
            "obs": wave((4,), 0.3 * i), "next_obs": wave((4,), 0.3 * i + 0.2), "action": 0.9 * wave((2,), 0.4 * i),
            "reward": wave((1,), 0.5 + i), "done": i == 3,
        }
        for i in range(4)
    ]  # fmt: skip


def make(kind, **learn):
    cls = get_policy_cls(EasyDict(type=kind))
    own = {"type": kind, "model": {"obs_shape": 4, "action_shape": 2}, "learn": {"auto_alpha": False, **learn}}
    policy = create_policy(EasyDict(deep_merge_dicts(cls.default_config(), own)), enable_field=["learn"]).learn_mode
    model = policy.get_attribute("model")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(-0.1, 0.1, parameter.numel()).reshape(parameter.shape))
    state = {key: part for key, part in policy.state_dict().items() if key != "target_model"}
    policy.load_state_dict({**state, "target_model": model.state_dict()})
    return policy


@pytest.fixture
def no_noise(monkeypatch):
    monkeypatch.setattr(torch, "randn", lambda *shape, **kwargs: torch.zeros(*shape, **kwargs))


NAMES = ("critic_loss", "policy_loss", "target_q_value", "policy_norm", "critic_norm")
GOLDEN = {
    "mbsac": ("mbsac", {}, False, [
        [1.53074, -1.94834, 1.04141, 2.78975, 5.17164],
        [1.52803, -1.95963, 1.04623, 2.749, 5.21053],
        [1.52442, -1.97064, 1.05097, 2.70903, 5.24786],
    ], 706.507),
    "mbsac-real-step": ("mbsac", {"sample_state": False}, False, [
        [1.7479, -1.62292, 1.00048, 2.14508, 4.22025],
        [1.74848, -1.63172, 1.00408, 2.11328, 4.24639],
        [1.74828, -1.64031, 1.00764, 2.08206, 4.27113],
    ], 706.506),
    "stevesac": ("stevesac", {"ensemble_size": 2}, False, [
        [2.23167, -1.71103, 1.03849, 1.7866, 3.80496],
        [2.23258, -1.71848, 1.04327, 1.75951, 3.80326],
        [2.2329, -1.72576, 1.04796, 1.7329, 3.79965],
    ], 706.62),
    "stevesac-of-members-that-differ": ("stevesac", {"ensemble_size": 2}, True, [
        [1.06317, -1.23078, 1.03849, 0.910452, 1.54109],
        [1.06109, -1.2347, 1.04327, 0.896148, 1.51425],
        [1.05896, -1.23857, 1.04796, 0.882076, 1.48619],
    ], 706.39),
}  # fmt: skip


@pytest.mark.parametrize("compile", [False, "record"])
@pytest.mark.parametrize("case", GOLDEN)
def test_three_learn_steps_are_those_of_di_engine(case, compile, no_noise):
    kind, learn, spread, expected, total = GOLDEN[case]
    policy = make(kind, compile=compile, **learn)
    for numbers in expected:
        found = policy.forward(samples(), world_model=Known(spread=spread), envstep=0)
        assert [found[name] for name in NAMES] == pytest.approx(numbers, rel=1e-4)
        assert set(policy.monitor_vars()) <= set(found)
    weights = policy.get_attribute("model").parameters()
    assert sum(weight.abs().sum().item() for weight in weights) == pytest.approx(total, rel=1e-5)
    assert policy.get_attribute("compiled_updates").graphs.num_runs == (3 if compile else 0)


@pytest.mark.parametrize("kind", ["mbsac", "stevesac"])
def test_the_temperature_is_learned(kind):
    policy = make(kind, auto_alpha=True, alpha=0.5)
    found = [policy.forward(samples(), world_model=Known(), envstep=0)["alpha"] for _ in range(2)]
    assert found[0] != found[1]
    assert {"alpha", "optimizer_alpha"} <= set(policy.state_dict())


@pytest.mark.parametrize("compile", [False, "record"])
def test_each_length_of_imagination_has_its_update(compile):
    policy = make("mbsac", compile=compile)
    policy.forward(samples(), world_model=(world := Known()), envstep=0)
    world.rollout_length_scheduler = lambda envstep: envstep
    found = policy.forward(TransitionBatch.from_rows(samples()), world_model=world, envstep=3)
    assert len(found["priority"]) == 4
    assert policy.get_attribute("compiled_updates").graphs.num_compiled == (2 if compile else 0)
    with pytest.raises(PolicyUsageError, match="at least one step"):
        make("mbsac").forward(samples(), world_model=world, envstep=0)
    real = make("mbsac", sample_state=False).forward(samples(), world_model=world, envstep=0)
    assert real["critic_loss"] > 0


def test_sizes_of_ensembles_must_agree():
    world = Known()
    world.ensemble_size = 5
    with pytest.raises(PolicyUsageError, match=r"policy.learn.ensemble_size=2 and .*=5 must be equal"):
        make("stevesac", ensemble_size=2).forward(samples(), world_model=world, envstep=0)


@pytest.mark.parametrize(("kind", "world_type"), [("mbsac", "mbpo"), ("mbsac", "ddppo"), ("stevesac", "ddppo")])
def test_recorded_updates_follow_a_world_model_that_goes_on_learning(kind, world_type):
    sizes = {"ensemble_size": 2, "elite_size": 1, "state_size": 4, "action_size": 2, "hidden_size": 8}
    schedule = {"type": "constant", "rollout_length": 2}
    cfg = {"type": world_type, "cuda": False, "model": sizes, "rollout_length_scheduler": schedule}
    world = create_world_model(cfg, Env())
    learn = {"ensemble_size": 2} if kind == "stevesac" else {}
    policies = [make(kind, compile=compile, **learn) for compile in (False, "record")]
    for elites in ([0], [1]):
        world.elite_model_idxes = elites
        if world_type == "ddppo":
            world.elite_model_idxes_gradient_model = elites
        with torch.no_grad():
            for weight in world.parameters():
                weight.mul_(1.5)
        found = []
        for policy in policies:
            torch.manual_seed(0)
            found.append(policy.forward(samples(), world_model=world, envstep=0))
        assert found[1] == {name: pytest.approx(value, rel=1e-4, abs=1e-5) for name, value in found[0].items()}
    assert policies[1].get_attribute("compiled_updates").graphs.num_runs == 2
    assert all(weight.grad is None for weight in world.parameters())
