"""One env, one contract, whatever the manager: generated envs in every manager, compared with plain loops."""

from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from ding.data import BaseEnvTimestep, TimestepBatch
from ding.envs import BaseEnv, BaseEnvManager, DingEnvWrapper
from ding.envs.env_manager import (
    AsyncSubprocessEnvManager,
    EnvDataError,
    EnvManagerError,
    GymVectorEnvManager,
    SyncSubprocessEnvManager,
)
from ding.envs.testing import BAD_FORMS, REWARD_FORMS, GeneratedEnvSpec, check_manager, env_specs, make_env

IN_PROCESS = {"base": BaseEnvManager, "gym_vector": GymVectorEnvManager}
IN_OTHERS = {"subprocess": SyncSubprocessEnvManager, "async_subprocess": AsyncSubprocessEnvManager}
MANAGERS = {**IN_PROCESS, **IN_OTHERS}
CFG = {"max_retry": 0, "retry_waiting_time": 0.0}
VECTOR = spaces.Box(-1.0, 1.0, (2,), np.float32)


def manager_of(kind, **cfg):
    return lambda env_fns: MANAGERS[kind](env_fns, {**CFG, **cfg})


@pytest.mark.parametrize("kind", IN_PROCESS)
@settings(max_examples=90, derandomize=True)
@given(spec=env_specs())
def test_managers_of_the_own_process(kind, spec):
    check_manager(manager_of(kind), spec)


@settings(max_examples=20, derandomize=True)
@given(kind=st.sampled_from(list(IN_OTHERS)), shared_memory=st.booleans(), spec=env_specs(slow=True))
def test_managers_with_processes(kind, shared_memory, spec):
    check_manager(manager_of(kind, shared_memory=shared_memory, envs_per_worker=2), spec)


@pytest.mark.slow
@settings(max_examples=5000)
@given(spec=env_specs(), shared_memory=st.booleans(), envs_per_worker=st.integers(1, 2))
def test_many_envs(spec, shared_memory, envs_per_worker):
    # All managers get the same envs: to draw one takes longer than to play it in the own process.
    for kind in IN_PROCESS:
        check_manager(manager_of(kind), spec)
    for kind in IN_OTHERS:
        check_manager(manager_of(kind, shared_memory=shared_memory, envs_per_worker=envs_per_worker), spec)


def test_specs_reach_processes_that_are_spawned():
    spec = GeneratedEnvSpec(OBSERVATIONS["dict"], reward_form="array (1,)", reuse_obs=True, reuse_info=True)
    check_manager(manager_of("subprocess", context="spawn", envs_per_worker=2), spec, num_steps=2)


# Refusals

OBSERVATIONS = {
    "array": VECTOR,
    "dict": spaces.Dict(a=VECTOR, b=spaces.Discrete(3)),
    "tuple": spaces.Tuple([VECTOR, spaces.Discrete(3)]),
}


def refusal(kind, spec, **cfg):
    """The first line of the error, without the id and the seed of the env: which one is first may differ."""
    with pytest.raises(EnvManagerError) as caught:
        check_manager(manager_of(kind, **cfg), spec, num_envs=1, num_steps=2)
    return type(caught.value), str(caught.value).splitlines()[0]


@pytest.mark.parametrize("form", BAD_FORMS)
@pytest.mark.parametrize("space", OBSERVATIONS)
def test_what_is_refused_is_refused_in_the_same_words(space, form):
    for step in (1, 0) if form.startswith("observation") else (1,):
        spec = GeneratedEnvSpec(OBSERVATIONS[space], bad_form=form, bad_step=step)
        kinds = MANAGERS if space == "dict" else IN_PROCESS
        errors = {refusal(kind, spec) for kind in kinds}
        assert len(errors) == 1, errors
        ((kind, text),) = errors
        assert "Env 0" in text
        assert kind is EnvDataError or "bad data" in text


@pytest.mark.parametrize("kind", MANAGERS)
def test_the_refusal_names_env_key_what_came_and_what_was_expected(kind):
    spec = GeneratedEnvSpec(spaces.Dict(a=spaces.Dict(b=VECTOR)), bad_form="observation with an axis more")
    _, text = refusal(kind, spec)
    assert text == "Env 0 returned bad data: observation at 'a.b' of shape (1, 2), expected (2,) [env 0, seed 0]"


# The env's form, and what the env owns


class Mixed(BaseEnv):
    """Numbers of numpy in a dict, a reward in some form."""

    observation_space = spaces.Dict(x=VECTOR, chance=spaces.Discrete(9))
    action_space = spaces.Discrete(2)
    reward_space = spaces.Box(-np.inf, np.inf, (1,))

    def __init__(self, form):
        self.form = form

    def seed(self, seed, dynamic_seed=True):
        pass

    def close(self):
        pass

    def __repr__(self):
        return "Mixed"

    def reset(self):
        return {"x": np.zeros(2, np.float32), "chance": np.int64(3)}

    def step(self, action):
        return BaseEnvTimestep(self.reset(), REWARD_FORMS[self.form](1.0), False, {})


KEPT = sorted(set(REWARD_FORMS) - {"tensor"})


@pytest.mark.parametrize("form", KEPT)
@pytest.mark.parametrize("kind", ["base", "subprocess", "without shared memory"])
def test_the_classic_view_keeps_the_form_of_the_env(kind, form):
    cfg = {"shared_memory": False} if kind == "without shared memory" else {}
    manager = manager_of("base" if kind == "base" else "subprocess", **cfg)([partial(Mixed, form)] * 2)
    manager.launch()
    try:
        assert type(manager.ready_obs[1]["chance"]) is np.int64
        timesteps = manager.step({0: np.array(0), 1: np.array(1)})
        given = REWARD_FORMS[form](1.0)
        reward = timesteps[1].reward
        assert type(reward) is type(given)
        assert repr(reward) == repr(given)
        assert type(timesteps[1].obs["chance"]) is np.int64
        assert (timesteps.reward.dtype, timesteps.reward.tolist()) == (np.float32, [[1.0], [1.0]])
        assert timesteps.obs["chance"].tolist() == [3, 3]
        assert timesteps.take(np.array([1]))[1].reward == given
    finally:
        manager.close()


def test_transitions_have_rewards_of_one_form():
    manager = manager_of("base")([partial(Mixed, "float")])
    manager.launch()
    reward = manager.step({0: np.array(0)}).normalised()[0].reward
    assert (reward.dtype, reward.tolist()) == (np.float32, [1.0])
    manager.close()


def test_a_manager_of_ones_own_may_give_rewards_as_lists():
    given = {i: BaseEnvTimestep(np.zeros(2, np.float32), [float(i)], False, {}) for i in range(2)}
    batch = TimestepBatch.from_dict(given)
    assert (batch.reward.dtype, batch.reward.tolist()) == (np.float32, [[0.0], [1.0]])
    assert batch[1].reward == [1.0]
    assert batch.normalised()[1].reward.tolist() == [1.0]


class OneDict(gymnasium.Env):
    """Gives the same info at every step, ends by a time limit, then by a terminal state."""

    observation_space, action_space = VECTOR, spaces.Discrete(2)

    def __init__(self):
        self.info, self.episode = {"key": 1}, 0

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 1.0, self.episode == 2, self.episode == 1, self.info


@pytest.mark.parametrize("kind", MANAGERS)
def test_an_info_that_is_given_again_keeps_nothing_of_the_last_episode(kind):
    manager = manager_of(kind)([partial(wrapped, OneDict)])
    manager.launch()
    try:
        first, second = (manager.step({0: np.array([0])}) for _ in range(2) if manager.ready_obs)
        assert (first[0].info["TimeLimit.truncated"], first.truncated.tolist()) == (True, [True])
        assert not second[0].info.get("TimeLimit.truncated", False)
        assert (second.done.tolist(), second.truncated.tolist()) == ([True], [False])
    finally:
        manager.close()


def wrapped(env_cls):
    return DingEnvWrapper(env_cls())


def test_nothing_is_written_into_what_the_env_owns():
    env = OneDict()
    wrapper = DingEnvWrapper(env, {"env_wrapper": [{"type": "eval_episode_return"}]})
    wrapper.reset()
    assert wrapper.step(0).done
    assert env.info == {"key": 1}


WRAPPERS = [
    {"type": "frame_stack", "kwargs": {"n_frames": 3}},
    {"type": "max_and_skip", "kwargs": {"skip": 3}},
    {"type": "action_repeat", "kwargs": {"action_repeat": 2}},
    {"type": "delay_reward", "kwargs": {"delay_reward_step": 2}},
    {"type": "obs_norm"},
    {"type": "static_obs_norm", "kwargs": {"mean": [0.0, 0.0], "std": [1.0, 1.0]}},
    {"type": "reward_norm", "kwargs": {"reward_discount": 0.9}},
    {"type": "clip_reward"},
    {"type": "noop_reset", "kwargs": {"noop_max": 2}},
    {"type": "fire_reset"},
    {"type": "scaled_float_frame"},
    {"type": "flatten_obs"},
    {"type": "obs_plus_prev_action_reward"},
    {"type": "reward_in_obs"},
    {"type": "time_limit_is_end"},
    {"type": "eval_episode_return"},
]


@settings(max_examples=50, derandomize=True)
@given(
    wrapper=st.sampled_from(WRAPPERS),
    spec=env_specs(st.just(VECTOR), st.just(spaces.Discrete(2)), apis=("gymnasium", "gym"), abnormal=False),
)
def test_wrappers_keep_copies_of_what_the_env_fills_again(wrapper, spec):
    played = []
    for reuse in (False, True):
        env = make_env(replace(spec, reuse_obs=reuse, reuse_info=reuse, obs_form="space"), {"env_wrapper": [wrapper]})
        env.seed(0)
        steps = [env.reset()]
        for action in (0, 1, 1, 0, 1, 0, 0):
            steps.append(env.step(action))
            if steps[-1].done:
                steps.append(env.reset())
        played.append(repr(steps))
    assert played[0] == played[1]
