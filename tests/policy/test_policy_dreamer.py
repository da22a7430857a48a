"""Dreamer: latent states of environments, samples, updates and what is saved of them."""

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch, TransitionBatch
from ding.policy import create_policy, get_policy_cls
from ding.policy.collect_memory import collect_memory, set_collect_memory
from ding.policy.errors import PolicyStateError, PolicyUsageError
from ding.utils import deep_merge_dicts
from tests.policy.dreamer_world import DETER, DISCRETE, STOCH, World
from tests.world_model.golden import wave

SIZES = {"dyn_stoch": STOCH, "dyn_deter": DETER, "dyn_discrete": DISCRETE, "units": 8}


def make(kind="continuous", world=None, **cfg):
    model = {"action_shape": 2, **SIZES, "actor_dist": "normal" if kind == "continuous" else "onehot"}
    own = {"type": "dreamer", "imag_horizon": 4, "model": model, **cfg}
    default = get_policy_cls(EasyDict(type="dreamer")).default_config()
    torch.manual_seed(1)
    policy = create_policy(EasyDict(deep_merge_dicts(default, own)))
    policy.collect_mode.set_attribute("world_model", World(kind) if world is None else world)
    return policy


def observations(env_ids, phase=0.0):
    return EnvBatch(env_ids, torch.stack([wave((4,), env_id + phase) for env_id in env_ids]).numpy())


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
@pytest.mark.parametrize("mode", ["collect", "eval"])
def test_each_environment_has_its_latent_state_until_its_episode_ends(kind, mode):
    policy = make(kind, collect={"collect_dyn_sample": False})
    acting = getattr(policy, f"{mode}_mode")

    def act(env_ids, phase):
        torch.manual_seed(0)
        return acting.forward(observations(env_ids, phase))

    def latents(output, env_id):
        return output[env_id]["state"][0]["deter"]

    first = act([2, 0], 0.0)
    form = ((2, 2), torch.float32) if kind == "continuous" else ((2, 1), torch.int64)
    assert (tuple(first.columns["action"].shape), first.columns["action"].dtype) == form
    assert tuple(first.columns["logprob"].shape) == (2, 1)
    second = act([0, 1, 2], 0.3)
    # Environment 1 begins; the others go on, each from its own state.
    fresh = getattr(make(kind, collect={"collect_dyn_sample": False}), f"{mode}_mode")
    torch.manual_seed(0)
    assert torch.equal(latents(second, 1), latents(fresh.forward(observations([0, 1, 2], 0.3)), 1))
    given = [first[env_id]["state"] for env_id in (0, 2)]
    again = acting.forward(observations([0, 2], 0.3), state=given, reset=np.array([0, 1]))
    assert torch.equal(latents(again, 0), latents(second, 0))
    assert not torch.equal(latents(again, 2), latents(second, 2))
    # The episode of 2 ends, and one with the same observation begins.
    acting.reset([2])
    third = act([0, 2], 0.3)
    assert torch.equal(latents(third, 2), latents(again, 2))
    assert not torch.equal(latents(third, 0), latents(second, 0))
    acting.reset()
    assert torch.equal(latents(act([2, 0], 0.0), 0), latents(first, 0))


def test_what_is_remembered_goes_to_another_process():
    policies = [make(), make()]
    modes = [policy.collect_mode for policy in policies]
    modes[0].forward(observations([0, 3]))
    modes[0].process_transition(*steps([0, 3], [False, False]))
    set_collect_memory(modes[1], collect_memory(modes[0]))
    outputs = []
    for mode in modes:
        torch.manual_seed(0)
        outputs.append(mode.forward(observations([0, 3], 0.5)))
        assert not mode.process_transition(*steps([0, 3], [False, False]))["begins"].any()
    assert torch.equal(outputs[0].columns["action"], outputs[1].columns["action"])


def steps(env_ids, done, phase=0.0, truncated=None):
    """Observations, outputs and timesteps as columns."""
    count = len(env_ids)
    truncated = np.zeros(count, dtype=bool) if truncated is None else np.array(truncated)
    timesteps = TimestepBatch(
        np.array(env_ids), observations(env_ids, phase + 1).columns, np.full((count, 1), phase + 1, dtype=np.float32),
        np.array(done), truncated,
    )  # fmt: skip
    outputs = {"action": torch.full((count, 2), phase + 0.5), "env_id": np.array(env_ids)}
    return observations(env_ids, phase).columns, outputs, timesteps


def test_samples_are_observations_with_what_led_to_them():
    mode = make().collect_mode
    rows = []
    for phase, done, truncated in ((0.0, False, False), (1.0, True, False), (2.0, True, True), (3.0, False, False)):
        rows.append(mode.process_transition(*steps([5], [done], phase, [truncated])))
    batch = TransitionBatch.concat([TransitionBatch(row) for row in rows])
    batch = TransitionBatch.unchecked(batch.columns, 4, np.array([2, 1, 1]))
    samples = mode.get_train_sample(batch)
    columns = samples.columns
    # Three episodes begin; the second ends by a time limit, behind which there is more to come.
    assert columns["is_first"].tolist() == [1, 0, 0, 1, 0, 1, 0]
    assert samples.lengths.tolist() == [3, 2, 2]
    assert columns["action"][:, 0].tolist() == [0, 0.5, 1.5, 0, 2.5, 0, 3.5]
    assert columns["reward"].reshape(-1).tolist() == [0, 1, 2, 0, 3, 0, 4]
    assert columns["discount"].tolist() == [1, 1, 0, 1, 1, 1, 1]
    assert columns["env_id"].tolist() == [5] * 7
    seen = [0.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0]
    assert np.array_equal(columns["obs"], np.concatenate([observations([5], phase).columns for phase in seen]))
    # The same, one transition at a time.
    mode = make().collect_mode
    single = []
    for phase, done, truncated in ((0.0, False, False), (1.0, True, False), (2.0, True, True), (3.0, False, False)):
        obs, outputs, timesteps = steps([5], [done], phase, [truncated])
        info = {"TimeLimit.truncated": True} if truncated else {}
        timestep = BaseEnvTimestep(timesteps.obs[0], timesteps.reward[0], done, info)
        single.append(mode.process_transition(obs[0], {"action": outputs["action"][0], "env_id": 5}, timestep))
    listed = mode.get_train_sample(single)
    assert isinstance(listed, list)
    assert [row["is_first"] for row in listed] == columns["is_first"].tolist()
    assert [float(row["reward"][0]) for row in listed] == columns["reward"].reshape(-1).tolist()


def test_samples_in_the_order_of_di_engine():
    mode = make(reference_numerics=True).collect_mode
    transition = mode.process_transition(*steps([0, 1], [False, True], truncated=[False, True]))
    assert set(transition) == {"obs", "action", "reward", "discount", "done", "env_id"}
    assert transition["discount"].tolist() == [1, 0]
    samples = mode.get_train_sample(TransitionBatch(transition))
    assert len(samples) == 2
    assert np.array_equal(samples.columns["obs"], observations([0, 1]).columns)


@pytest.mark.parametrize(
    ("kind", "learn"),
    [
        ("continuous", {}),
        ("discrete", {"reward_EMA": False, "slow_value_target": False, "actor_state_entropy": 0.1}),
    ],
)
def test_compiled_updates_are_the_updates(kind, learn):
    found, world = {}, World(kind)
    start = world.start()
    for compile in (False, "record"):
        policy = make(kind, world, imag_horizon=3, learn={"compile": compile, **learn})
        mode = policy.learn_mode
        torch.manual_seed(0)
        found[compile] = [mode.forward(start, world_model=world, envstep=step) for step in range(3)]
        assert set(mode.monitor_vars()) == set(found[compile][0])
        runs = mode.get_attribute("compiled_updates").graphs.num_runs
        assert runs == (3 if compile else 0)
    for eager, compiled in zip(*found.values()):
        assert compiled == {name: pytest.approx(value, rel=1e-3, abs=1e-4) for name, value in eager.items()}
    assert all(weight.grad is None and weight.requires_grad for weight in world.parameters())


def test_a_saved_policy_goes_on_as_it_was():
    world = World()
    start = world.start()
    policy, other = make(world=world), make(world=world)
    with torch.no_grad():
        world.encoder.weight.mul_(2)
    for _ in range(3):
        policy.learn_mode.forward(start)
    state = policy.learn_mode.state_dict()
    assert set(state) == {"model", "slow_value", "reward_ema", "optimizer_value", "optimizer_actor", "world_model"}
    other.learn_mode.load_state_dict(state)
    results = []
    for one in (policy, other):
        torch.manual_seed(0)
        results.append(one.learn_mode.forward(start))
    assert results[0] == results[1]
    # It acts in the world model that it learned in.
    acting = make()
    acting.eval_mode.load_state_dict(state)
    outputs = []
    for one in (policy, acting):
        torch.manual_seed(0)
        outputs.append(one.eval_mode.forward(observations([0, 1])).columns["action"])
    assert torch.equal(*outputs)
    with pytest.raises(PolicyStateError, match="has no 'world_model'"):
        acting.eval_mode.load_state_dict({"model": state["model"]})
    # A checkpoint of DI-engine has neither slow critic nor range of returns.
    other.learn_mode.load_state_dict({key: state[key] for key in ("model", "optimizer_value", "optimizer_actor")})
    slow = other.learn_mode.state_dict()["slow_value"]
    assert all(torch.equal(value, state["model"][f"critic.{key}"]) for key, value in slow.items())


def test_the_slow_critic_follows():
    world = World()
    policy = make(world=world, learn={"slow_target_fraction": 0.25, "slow_target_update": 2, "learning_rate": 0.1})
    mode = policy.learn_mode
    kept = []
    for _ in range(4):
        before = mode.state_dict()["model"]["critic.mlp.0.weight"].clone()
        mode.forward(world.start())
        kept.append((before, mode.state_dict()["slow_value"]["mlp.0.weight"].clone()))
    assert torch.allclose(kept[0][1], kept[0][0])
    assert torch.equal(kept[1][1], kept[0][1])
    assert torch.allclose(kept[2][1], 0.75 * kept[1][1] + 0.25 * kept[2][0])
    assert torch.equal(kept[3][1], kept[2][1])


def test_without_a_world_model_it_says_where_one_comes_from():
    policy = make()
    policy.collect_mode.set_attribute("world_model", None)
    for call in (policy.collect_mode.forward, policy.eval_mode.forward):
        with pytest.raises(PolicyUsageError, match="run it with serial_pipeline_dreamer"):
            call(observations([0]))
    with pytest.raises(PolicyUsageError, match="give forward a world_model"):
        policy.learn_mode.forward(World().start())
