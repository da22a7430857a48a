"""Shapes in `policy.model` that contradict the env."""

from copy import deepcopy
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from ding.config import ConfigValueError
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.entry import parallel_pipeline, serial_pipeline
from ding.entry.serial.shape_check import check_model_shapes
from ding.envs.env.actions import ActionMapping
from ding.model import DQN, PDQN, QACDIST, VAC, ContinuousQAC, DiscreteQAC
from ding.policy import DQNPolicy
from ding.policy.action_kind import check_action_kind


def observing(space):
    return SimpleNamespace(observation_space=space, action_space=spaces.Discrete(2))


def manager(obs=(4,), action=None):
    return SimpleNamespace(
        observation_space=spaces.Box(-1, 1, obs), action_space=spaces.Discrete(2) if action is None else action
    )


@pytest.mark.parametrize(
    ("model", "env", "sentence"),
    [
        ({"obs_shape": 5}, manager(), "policy.model.obs_shape is 5, but observations of the env are (4,)"),
        (
            {"obs_shape": [3, 8]},
            manager((8, 3)),
            "policy.model.obs_shape is [3, 8], but observations of the env are (8, 3)",
        ),
        ({"action_shape": 3}, manager(), "policy.model.action_shape is 3, but the env has 2 actions"),
        (
            {"action_shape": [2, 2]},
            manager(action=spaces.MultiDiscrete([2, 3])),
            "policy.model.action_shape is [2, 2], but the env has [2, 3] actions",
        ),
        (
            {"obs_shape": 16},
            observing(spaces.Discrete(16)),
            "policy.model.obs_shape is 16, but observations of the env are Discrete(16), and networks take arrays: "
            "begin env.env_wrapper with {'type': 'flatten_obs'}, which makes vectors, of 16 numbers",
        ),
        (
            {"obs_shape": 1},
            observing(spaces.Tuple([spaces.Discrete(2)])),
            "policy.model.obs_shape is 1, but observations of the env are Tuple(Discrete(2)), and networks take "
            "arrays: begin env.env_wrapper with {'type': 'flatten_obs'}, which makes vectors",
        ),
        (
            {"obs_shape": 2},
            observing(spaces.Text(2, charset="ab")),
            "policy.model.obs_shape is 2, but observations of the env are Text(1, 2, charset=ab), and networks take "
            "arrays: begin env.env_wrapper with {'type': 'flatten_obs'}, which makes vectors",
        ),
        (
            {"obs_shape": 2},
            observing(spaces.Sequence(spaces.Discrete(3))),
            "policy.model.obs_shape is 2, but observations of the env are Sequence(Discrete(3), stack=False), and "
            "networks take arrays: let a wrapper of your own make an array of fixed shape of them",
        ),
        (
            {"obs_shape": 4},
            observing(spaces.MultiDiscrete([3, 3])),
            "policy.model.obs_shape is 4, but observations of the env are (2,)",
        ),
        ({"obs_shape": "4"}, manager(), "policy.model.obs_shape is '4', but observations of the env are (4,)"),
        (
            {"obs_shape": {"a": 4}},
            manager(),
            "policy.model.obs_shape is {'a': 4}, but observations of the env are (4,)",
        ),
        (
            {"obs_shape": {"goal": 2}},
            observing(spaces.Dict(goal=spaces.Box(-1, 1, (3,)))),
            "policy.model.obs_shape.goal is 2, but observations of the env are (3,)",
        ),
        (
            {"obs_shape": {"gaol": 3}},
            observing(spaces.Dict(goal=spaces.Box(-1, 1, (3,)))),
            "policy.model.obs_shape.gaol is 3, but observations of the env have no 'gaol'. Did you mean 'goal'? Known "
            "names: goal.",
        ),
        (
            {"obs_shape": 2},
            observing(spaces.Dict(goal=spaces.Box(-1, 1, (3,)))),
            "policy.model.obs_shape is 2, but observations of the env are a dict of {'goal': (3,)}",
        ),
        ({"action_shape": 1}, manager(), "policy.model.action_shape is 1, but the env has 2 actions"),
        (
            {"action_shape": 5},
            manager(action=spaces.Box(-1, 1, (1,), np.float32)),
            "policy.model.action_shape is 5, but actions of the env are (1,)",
        ),
    ],
)  # fmt: skip
def test_a_contradiction_is_one_sentence(model, env, sentence):
    with pytest.raises(ConfigValueError) as caught:
        check_model_shapes(DQNPolicy, model, env)
    assert str(caught.value) == sentence


def test_a_space_in_which_no_network_acts():
    env = manager(action=spaces.Text(3))
    env.action_mapping = ActionMapping(env.action_space)
    with pytest.raises(ConfigValueError, match=r"policy\.model: no network acts in the action space Text"):
        check_model_shapes(DQNPolicy, {"action_shape": 3}, env)


def test_what_the_players_of_a_game_see_together():
    check_model_shapes(DQNPolicy, {"obs_shape": [4, 8, 8]}, manager((2, 4, 8, 8)), num_players=2)
    check_model_shapes(DQNPolicy, {"obs_shape": 4}, manager((4,)), num_players=2)
    for shape, players in (((2, 4, 8, 8), 1), ((3, 4, 8, 8), 2)):
        with pytest.raises(ConfigValueError, match=r"obs_shape is \[4, 8, 8\], but observations of the env are"):
            check_model_shapes(DQNPolicy, {"obs_shape": [4, 8, 8]}, manager(shape), num_players=players)


def test_a_network_for_the_first_actions_is_warned_about(caplog):
    check_model_shapes(DQNPolicy, {"action_shape": 2}, manager(action=spaces.Discrete(9)))
    assert [one.getMessage() for one in caplog.records] == [
        "policy.model.action_shape is 2: of 9 actions the policy takes the first"
    ]
    with pytest.raises(ConfigValueError) as caught:
        check_model_shapes(DQNPolicy, {"action_shape": 2}, manager(action=spaces.Discrete(9)), strict=True)
    assert str(caught.value) == (
        "policy.model.action_shape is 2, but the env has 9 actions, of which the policy would take the first only (an "
        "error because of --strict)"
    )


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("wanted", [10, [10], 1, [3, 5]])
def test_more_outputs_than_actions_and_a_single_one_are_always_refused(wanted, strict):
    with pytest.raises(ConfigValueError, match=r"but the env has 9 actions$"):
        check_model_shapes(DQNPolicy, {"action_shape": wanted}, manager(action=spaces.Discrete(9)), strict=strict)


@pytest.mark.parametrize(
    ("model", "env"),
    [
        ({"obs_shape": 4, "action_shape": 2}, manager()),
        ({"obs_shape": (4,), "action_shape": [2]}, manager()),
        ({"obs_shape": [4, 84, 84]}, manager((4, 84, 84))),
        ({}, manager()),
        ({"obs_shape": 5, "type": "mine"}, manager()),
        ({"action_shape": "x"}, manager()),
        ({"obs_shape": {"a": 5}}, observing(spaces.Dict(a=spaces.Box(-1, 1, (5,)), b=spaces.Discrete(2)))),
        ({"obs_shape": 5}, observing(spaces.Dict(obs=spaces.Box(-1, 1, (5,)), action_mask=spaces.MultiBinary(2)))),
        ({"obs_shape": 3}, observing(spaces.MultiBinary(3))),
        ({"obs_shape": 16, "type": "mine"}, observing(spaces.Discrete(16))),
        ({"action_shape": 1}, manager(action=spaces.Box(-1, 1, (1,), np.float32))),
        ({"action_shape": 5}, manager(action=spaces.Box(-1, 1, (1, 5), np.float32))),
        ({"agent_obs_shape": 6, "action_shape": 5}, manager((3, 6), spaces.MultiDiscrete([5, 5, 5]))),
    ],
)  # fmt: skip
def test_what_fits_or_is_not_known_passes(model, env):
    check_model_shapes(DQNPolicy, model, env)


def test_a_policy_with_a_model_of_its_own_is_not_judged():
    class MyPolicy(DQNPolicy):
        def default_model(self):
            return "my_model", []

    check_model_shapes(MyPolicy, {"obs_shape": 5}, manager())


BOX, DISCRETE = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3)
MIXED = spaces.Dict({"action_type": DISCRETE, "action_args": BOX})
HYBRID = {"action_type_shape": 3, "action_args_shape": 2}


@pytest.mark.parametrize(
    ("model", "space", "wanted", "found"),
    [
        (DQN(4, 3), BOX, "discrete", "continuous"),
        (DiscreteQAC(4, 3), BOX, "discrete", "continuous"),
        (ContinuousQAC(4, 2, "regression"), DISCRETE, "continuous", "discrete"),
        (ContinuousQAC(4, 2, "reparameterization"), spaces.MultiDiscrete([2, 2]), "continuous", "discrete"),
        (QACDIST(4, 2), MIXED, "continuous", "hybrid"),
        (ContinuousQAC(4, HYBRID, "hybrid"), BOX, "hybrid", "continuous"),
        (PDQN(4, HYBRID), DISCRETE, "hybrid", "discrete"),
        (VAC(4, 2, action_space="continuous"), DISCRETE, "continuous", "discrete"),
    ],
)
def test_a_policy_for_another_kind_of_actions(model, space, wanted, found):
    with pytest.raises(ConfigValueError, match=f"has {wanted} actions here .*, but the env has {found} ones"):
        check_action_kind("x", model, manager(action=space))


def test_a_hybrid_of_other_sizes():
    model = PDQN(4, {**HYBRID, "action_args_shape": 5})
    with pytest.raises(ConfigValueError, match="action_args_shape is 5, but action_args of the env"):
        check_action_kind("pdqn", model, manager(action=MIXED))


@pytest.mark.parametrize(
    ("model", "space"),
    [
        (DQN(4, 3), DISCRETE),
        (PDQN(4, HYBRID), spaces.Tuple([DISCRETE, BOX])),
        (PDQN(4, HYBRID), MIXED),
        (ContinuousQAC(4, 2, "regression"), [BOX, BOX]),
        (ContinuousQAC(4, 2, "regression"), spaces.Text(2)),
        (object(), BOX),
    ],
)
def test_a_kind_that_fits_or_is_not_known(model, space):
    check_action_kind("x", model, manager(action=space))


@pytest.mark.parametrize(
    ("model", "env_id", "sentence"),
    [
        ({"obs_shape": 16, "action_shape": 4}, "FrozenLake-v1", r"policy\.model\.obs_shape is 16, .* Discrete\(16\)"),
        ({"obs_shape": 4, "action_shape": 1}, "CartPole-v1", r"action_shape is 1, but the env has 2 actions"),
        ({"obs_shape": [2, 2], "action_shape": 2}, "CartPole-v1", r"obs_shape is \[2, 2\], but observations .* \(4,\)"),
        ({"obs_shape": 4}, "CartPole-v1", r"policy\.model\.action_shape must be given: DQN needs it"),
        ({}, "CartPole-v1", r"policy\.model\.obs_shape and policy\.model\.action_shape must be given: DQN needs them"),
    ],
)
def test_a_wrong_shape_leaves_no_folder(model, env_id, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = {"env_id": env_id, "collector_env_num": 1, "evaluator_env_num": 1, "n_evaluator_episode": 1}
    create = {"env": {"type": "gymnasium"}, "env_manager": {"type": "base"}, "policy": {"type": "dqn"}}
    with pytest.raises(ConfigValueError, match=sentence):
        serial_pipeline(({"exp_name": "exp", "env": env, "policy": {"model": model}}, create))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pipeline", ["serial", "parallel"])
def test_a_smaller_network_is_refused_by_strict_runs_only(pipeline, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    if pipeline == "serial":
        env = {"env_id": "Acrobot-v1", "collector_env_num": 1, "evaluator_env_num": 1, "n_evaluator_episode": 1}
        create = {"env": {"type": "gymnasium"}, "env_manager": {"type": "base"}, "policy": {"type": "dqn"}}
        main = {"exp_name": "exp", "env": env, "policy": {"model": {"obs_shape": 6, "action_shape": 2}}}
        run = partial(serial_pipeline, (main, create), max_train_iter=0)
    else:
        main, create, system = map(
            deepcopy, (parallel_test_main_config, parallel_test_create_config, parallel_test_system_config)
        )
        main.env.update(env_id="Acrobot-v1", evaluator_env_num=1, max_episode_steps=20)
        main.policy.model.update(obs_shape=6, action_shape=2)
        run = partial(parallel_pipeline, (main, create, system), max_train_iter=1, backend="inproc")
    with pytest.raises(ConfigValueError, match="an error because of --strict"):
        run(strict=True)
    assert list(tmp_path.iterdir()) == []
    run()
    assert "of 3 actions the policy takes the first" in caplog.text
