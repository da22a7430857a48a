"""The roles of world models: schedules, imagined trajectories with and without gradients, and their state."""

import pytest
import torch
from easydict import EasyDict
from torch import nn

from ding.data import TransitionBatch
from ding.policy import create_policy, get_policy_cls
from ding.utils import WORLD_MODEL_REGISTRY, deep_merge_dicts
from ding.worker import create_buffer
from ding.world_model import HybridWorldModel, WorldModel, create_world_model, get_world_model_cls
from ding.world_model.utils import get_rollout_length_scheduler

CONSTANT = {"type": "constant", "rollout_length": 3}


@WORLD_MODEL_REGISTRY.register("halving", force_overwrite=True)
class HalvingModel(HybridWorldModel, nn.Module):
    """Halves the observation and adds the action; done where the first feature falls to 1 or below."""

    config = {"train_freq": 10, "other": {"rollout_batch_size": 6}, "note": 1}

    def __init__(self, cfg, env, tb_logger=None):
        super().__init__(cfg, env, tb_logger)
        self.factor = nn.Parameter(torch.tensor(0.5))

    def train(self, env_buffer, envstep=0, train_iter=0):
        self.last_train_step = envstep

    def eval(self, env_buffer, envstep, train_iter):
        self.last_eval_step = envstep

    def step(self, obs, action):
        next_obs = obs * self.factor + action.sum(-1, keepdim=True)
        return next_obs.sum(-1), next_obs, next_obs[..., 0] <= 1


def halving(**cfg):
    return create_world_model({"type": "halving", "rollout_length_scheduler": CONSTANT, **cfg}, None)


def test_defaults_of_the_most_derived_class_win():
    cfg = HalvingModel.default_config()
    assert (cfg.train_freq, cfg.eval_freq, cfg.note, cfg.cfg_type) == (10, 250, 1, "HalvingModelDict")
    assert (cfg.other.rollout_batch_size, cfg.other.rollout_retain, cfg.other.real_ratio) == (6, 4, 0.05)
    assert cfg.rollout_length_scheduler.rollout_end_step == 150000
    assert get_world_model_cls(EasyDict(type="halving")) is HalvingModel
    assert WorldModel.default_config().train_freq == 250
    with pytest.raises(KeyError, match="halving"):
        create_world_model({"type": "halvin"}, None)


def test_rollout_length_schedulers():
    cfg = {"rollout_start_step": 10, "rollout_end_step": 20, "rollout_length_min": 1, "rollout_length_max": 5}
    linear = get_rollout_length_scheduler({"type": "linear", **cfg})
    assert [linear(step) for step in (0, 10, 12, 15, 20, 30)] == [1, 1, 1, 3, 5, 5]
    assert get_rollout_length_scheduler(CONSTANT)(7) == 3
    with pytest.raises(KeyError, match=r"rollout_length_scheduler.type: 'linaer' .*'linear'"):
        get_rollout_length_scheduler({"type": "linaer"})


def test_it_trains_first_and_is_evaluated_after_a_training():
    model = halving(eval_freq=4)
    assert [model.should_train(step) for step in (9, 10)] == [False, True]
    assert not model.should_eval(100)
    model.train(None, 10)
    assert [model.should_train(step) for step in (19, 20)] == [False, True]
    assert model.should_eval(4)
    model.eval(None, 12, 0)
    assert [model.should_eval(step) for step in (15, 16)] == [False, True]


def test_a_rollout_has_gradients_to_the_actions_and_none_to_the_model():
    model = halving()
    weight = torch.tensor(1.0, requires_grad=True)
    obs = torch.full((2, 1), 8.0)
    observations, actions, rewards, bonuses, dones = model.rollout(obs, lambda o: (weight * o, o[:, 0]), 0)
    assert observations[:, :, 0].tolist() == [[8.0, 8.0], [12.0, 12.0], [18.0, 18.0], [27.0, 27.0]]
    assert actions.shape == (4, 2, 1)
    assert bonuses.tolist() == observations[:, :, 0].tolist()
    assert rewards.tolist() == [[20.0, 20.0], [30.0, 30.0], [45.0, 45.0]]
    assert dones.tolist() == [[False, False]] * 3
    observations[1].sum().backward()
    assert weight.grad == 16
    assert model.factor.grad is None
    assert model.factor.requires_grad


def test_a_rollout_without_steps_has_one_action():
    model = halving(rollout_length_scheduler={"type": "constant", "rollout_length": 0})
    parts = model.rollout(torch.zeros(2, 1), lambda o: (o, o[:, 0]), 0)
    assert [tuple(part.shape) for part in parts] == [(1, 2, 1), (1, 2, 1), (0,), (1, 2), (0,)]


def buffers(model):
    one = create_buffer(EasyDict(type="naive", replay_buffer_size=50))
    other = EasyDict(type="elastic", replay_buffer_size=100, set_buffer_size=model.buffer_size_scheduler)
    return one, create_buffer(other)


def columns(count):
    first = torch.arange(count, dtype=torch.float32)
    obs = torch.stack([2.0 ** (first % 3), first], dim=1)
    return {
        "obs": obs, "next_obs": obs / 2, "action": torch.zeros(count, 1), "reward": torch.zeros(count, 1),
        "done": (first < 0).numpy(), "collect_iter": torch.zeros(count, dtype=torch.int64).numpy(),
    }  # fmt: skip


class Still:
    """A collect mode that always takes the action 0."""

    def __init__(self, policy):
        self.policy = policy

    def __getattr__(self, name):
        return getattr(self.policy, name)

    def forward(self, data):
        return {env_id: {"action": torch.zeros(1), "logit": torch.zeros(2)} for env_id in data}


def sac():
    cls = get_policy_cls(EasyDict(type="sac"))
    own = {"type": "sac", "model": {"obs_shape": 2, "action_shape": 1}}
    return create_policy(EasyDict(deep_merge_dicts(cls.default_config(), own)), enable_field=["collect"]).collect_mode


def test_imagined_transitions_end_with_done_and_are_drawn_beside_real_ones():
    model = halving(other={"rollout_batch_size": 6, "real_ratio": 0.5})
    env_buffer, img_buffer = buffers(model)
    assert model.sample(env_buffer, img_buffer, 4, 0) is None
    env_buffer.push(TransitionBatch(columns(3)), cur_collector_envstep=3)
    assert model.sample(env_buffer, img_buffer, 2, 0) is None
    model.fill_img_buffer(Still(sac()), env_buffer, img_buffer, envstep=3, train_iter=5)
    filled = img_buffer.sample(img_buffer.count(), 0).columns
    assert img_buffer.count() > 6
    assert set(filled["obs"][:, 0].tolist()) <= {1.0, 2.0, 4.0}
    assert filled["done"].tolist() == (filled["next_obs"][:, 0] <= 1).tolist()
    assert torch.equal(filled["next_obs"], filled["obs"] / 2)
    assert filled["reward"].shape == (img_buffer.count(), 1)
    assert set(filled["collect_iter"].tolist()) == {5}
    batch = model.sample(env_buffer, img_buffer, 4, 0).columns
    assert batch["collect_iter"].tolist() == [0, 0, 5, 5]


def test_a_policy_acts_on_all_rows_at_once():
    model, policy, calls = halving(), sac(), []
    forward = policy.forward

    def counted(data):
        calls.append(len(data))
        return forward(data)

    counted.__ding_batched__ = True
    env_buffer, img_buffer = buffers(model)
    env_buffer.push(TransitionBatch(columns(3)), cur_collector_envstep=3)
    model.fill_img_buffer(policy._replace(forward=counted), env_buffer, img_buffer, 3, 0)
    assert calls[0] == 6
    assert len(calls) <= 3


def test_its_state_is_taken_up():
    model, other = halving(), halving()
    with torch.no_grad():
        model.factor.fill_(0.25)
    model.train(None, 20)
    model.eval(None, 30, 0)
    other.load_run_state(model.run_state())
    assert (other.factor.item(), other.last_train_step, other.last_eval_step) == (0.25, 20, 30)
