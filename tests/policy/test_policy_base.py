"""The base of all policies: modes, default configs, attributes, state keys, factories."""

import inspect
from collections.abc import Iterable

import pytest
import torch
from easydict import EasyDict

import ding.policy
from ding.policy import (
    CommandModePolicy,
    DummyCommandModePolicy,
    EpsCommandModePolicy,
    Policy,
    PolicyAttributeError,
    PolicyConfigError,
    PolicyStateError,
    PolicyUsageError,
    create_policy,
    get_policy_cls,
)
from ding.utils import POLICY_REGISTRY


class _Toy(Policy):
    """Records the order of initialisation."""

    config = {"type": "toy", "learn": {"batch_size": 4}, "collect": {"n_sample": 6}}

    def _init_learn(self) -> None:
        self._mark("learn")
        self._learn_model = self._model
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.1)

    def _init_collect(self) -> None:
        self._mark("collect")
        self._collect_model = self._model

    def _init_eval(self) -> None:
        self._mark("eval")
        self._eval_model = self._model

    def _mark(self, field: str) -> None:
        self.order = [*getattr(self, "order", []), field]

    def _forward_learn(self, data):
        return {"cur_lr": 0.1, "total_loss": float(len(data))}

    def _forward_collect(self, data, **kwargs):
        return data

    def _forward_eval(self, data):
        return data

    def _process_transition(self, obs, policy_output, timestep):
        return {"obs": obs}

    def _get_train_sample(self, transitions):
        return transitions

    def _get_magic(self) -> int:
        return 42


class _ToyChild(_Toy):
    config = {"learn": {"learning_rate": 0.5}}


class _ToyCommand(_ToyChild, DummyCommandModePolicy):
    def _init_command(self) -> None:
        self._mark("command")


def _policy(cls: type = _Toy, fields: Iterable[str] | None = None, **kwargs) -> Policy:
    cfg = cls.default_config()
    cfg.update(kwargs)
    return cls(cfg, model=torch.nn.Linear(2, 1), enable_field=fields)


def _weight(policy: Policy) -> torch.Tensor:
    return policy.collect_mode.get_attribute("model").weight


def test_a_policy_that_does_not_learn_needs_no_keys_of_learning():
    cfg = EasyDict(on_policy=False, cuda=False, eval={})
    policy = _Toy(cfg, model=torch.nn.Linear(2, 2), enable_field=["eval"])
    assert policy.order == ["eval"]


def test_default_config_merges_the_parents():
    cfg = _ToyChild.default_config()
    assert isinstance(cfg, EasyDict)
    assert cfg.learn == {
        "resume_training": False, "lr_scheduler": None, "amp": None, "compile": False, "on_nonfinite": "raise",
        "batch_size": 4, "learning_rate": 0.5
    }  # fmt: skip
    assert (cfg.type, cfg.cfg_type, cfg.on_policy, cfg.traj_len_inf) == ("toy", "_ToyChildDict", False, False)
    assert _ToyCommand.default_config().cfg_type == "_ToyCommandDict"
    assert _ToyCommand.default_config().learn == cfg.learn


def test_default_config_is_a_fresh_copy():
    _Toy.default_config().learn.batch_size = 999
    assert _Toy.default_config().learn.batch_size == 4
    assert Policy.config["learn"] == {
        "resume_training": False, "lr_scheduler": None, "amp": None, "compile": False, "on_nonfinite": "raise"
    }  # fmt: skip


def test_default_config_of_the_base_is_an_error():
    with pytest.raises(RuntimeError, match="no default config"):
        Policy.default_config()


@pytest.mark.parametrize(
    "fields", [None, ["command", "eval", "learn", "collect"], {"eval", "learn", "command", "collect"}]
)
def test_fields_are_initialised_in_a_fixed_order(fields):
    assert _policy(_ToyCommand, fields).order == ["learn", "collect", "eval", "command"]


def test_only_the_wanted_fields_are_initialised():
    assert _policy(_Toy, ["eval"]).order == ["eval"]


def test_a_command_only_policy_has_no_model():
    policy = _ToyCommand(_ToyCommand.default_config(), enable_field=["command"])
    with pytest.raises(PolicyAttributeError):
        policy.collect_mode.get_attribute("model")


def test_unknown_field_is_an_assertion_error_with_a_hint():
    with pytest.raises(PolicyUsageError, match="Did you mean 'collect'") as info:
        _policy(_Toy, ["colect"])
    assert isinstance(info.value, AssertionError)
    with pytest.raises(AssertionError):
        _policy(_Toy, ["command"])


_STATE = ["get_attribute", "set_attribute", "state_dict", "load_state_dict"]


@pytest.mark.parametrize(
    ("mode", "functions"),
    [
        ("learn", ["forward", "reset", "info", "monitor_vars", *_STATE]),
        ("collect", ["forward", "process_transition", "get_train_sample", "reset", *_STATE]),
        ("eval", ["forward", "reset", *_STATE]),
        ("command", ["get_setting_learn", "get_setting_collect", "get_setting_eval"]),
    ],
)
def test_a_mode_is_a_tuple_of_functions(mode, functions):
    policy = _policy(_ToyCommand)
    got = getattr(policy, f"{mode}_mode")
    assert type(got) is getattr(Policy, f"{mode}_function", None) or mode == "command"
    assert type(got).__name__ == f"{mode}_function"
    assert isinstance(got, tuple)
    assert list(inspect.signature(type(got)).parameters) == functions
    assert all(callable(function) for function in got)


def test_modes_are_bound_functions():
    policy = _policy()
    assert policy.learn_mode.forward([1, 2, 3]) == {"cur_lr": 0.1, "total_loss": 3.0}
    assert policy.learn_mode.monitor_vars() == ["cur_lr", "total_loss"]
    assert "_Toy" in policy.learn_mode.info()
    assert policy.collect_mode.reset([0]) is None


def test_attributes():
    policy = _policy()
    get = policy.collect_mode.get_attribute
    assert (get("n_sample"), get("n_episode"), get("batch_size"), get("magic")) == (6, None, 4, 42)
    assert (get("device"), get("cuda"), get("on_policy"), get("cfg").type) == ("cpu", False, False, "toy")
    policy.collect_mode.set_attribute("unroll_len", 5)
    assert get("unroll_len") == 5
    with pytest.raises(PolicyAttributeError, match="Did you mean 'unroll_len'") as info:
        get("unrol_len")
    assert isinstance(info.value, NotImplementedError)


def test_cfg_is_the_config_that_subclasses_see():
    policy = _policy(n_sample=99)
    assert policy.cfg is policy.learn_mode.get_attribute("cfg")
    assert policy.cfg.n_sample == 99


def test_attributes_at_the_top_of_the_config_win():
    get = _policy(n_sample=99, n_episode=3, batch_size=7).collect_mode.get_attribute
    assert (get("n_sample"), get("n_episode"), get("batch_size")) == (99, 3, 7)


def test_model_must_be_a_module():
    with pytest.raises(RuntimeError, match=r"torch\.nn\.Module, found dict"):
        _Toy(_Toy.default_config(), model={})


def test_a_policy_without_default_model_says_so():
    with pytest.raises(PolicyConfigError, match="_Toy has no default model"):
        _Toy(_Toy.default_config())


def test_bad_num_threads():
    with pytest.raises(PolicyConfigError, match=r"policy\.num_threads"):
        _policy(num_threads=0)


def test_state_dict_round_trip_and_strict_keys():
    policy, other = _policy(), _policy()
    other.learn_mode.load_state_dict(policy.learn_mode.state_dict())
    assert torch.equal(_weight(other), _weight(policy))
    state = policy.learn_mode.state_dict()
    with pytest.raises(PolicyStateError, match=r"missing \['optimizer'\], unknown \['optimiser'\]"):
        policy.learn_mode.load_state_dict({"model": state["model"], "optimiser": {}})
    # The learner's counters travel in the same file.
    policy.learn_mode.load_state_dict({**state, "last_iter": 3, "last_step": 4})


def test_collect_and_eval_load_the_model_of_a_learner_checkpoint():
    policy, other = _policy(), _policy()
    state = policy.learn_mode.state_dict()
    other.collect_mode.load_state_dict(state)
    assert torch.equal(_weight(other), _weight(policy))
    assert set(other.eval_mode.state_dict()) == {"model"}
    with pytest.raises(PolicyStateError, match="lacks 'model'"):
        other.eval_mode.load_state_dict({"optimizer": {}})
    with pytest.raises(RuntimeError, match="bias"):
        other.eval_mode.load_state_dict({"model": {"weight": state["model"]["weight"]}})


def test_create_policy_by_type():
    POLICY_REGISTRY.register("toy_for_test", _Toy)
    try:
        cfg = _Toy.default_config()
        cfg.type = "toy_for_test"
        policy = create_policy(cfg, model=torch.nn.Linear(1, 1), enable_field=["eval"])
        assert type(policy) is _Toy
        assert get_policy_cls(EasyDict(type="toy_for_test")) is _Toy
    finally:
        POLICY_REGISTRY.pop("toy_for_test")


def test_unknown_policy_type():
    with pytest.raises(KeyError, match="Did you mean 'dqn'"):
        create_policy(EasyDict(type="dqnn"))
    with pytest.raises(PolicyConfigError, match=r"policy\.type is missing"):
        get_policy_cls(EasyDict(learn={}))


def test_eps_command_follows_the_env_steps():
    class Eps(_Toy, EpsCommandModePolicy):
        config = {"other": {"eps": {"type": "exp", "start": 0.95, "end": 0.1, "decay": 10000}}}

    command = Eps(Eps.default_config(), enable_field=["command"]).command_mode
    got = [command.get_setting_collect({"learner_step": 5, "envstep": step})["eps"] for step in (0, 1000, 10000)]
    assert got == pytest.approx([0.95, 0.869112, 0.412698], abs=1e-6)
    assert (command.get_setting_learn({}), command.get_setting_eval({})) == ({}, {})


def test_dummy_command_has_no_settings():
    command = _policy(_ToyCommand).command_mode
    assert command.get_setting_collect({"envstep": 3}) == {}
    assert issubclass(_ToyCommand, CommandModePolicy)


def test_every_exported_name_exists():
    for name in ding.policy.__all__:
        assert hasattr(ding.policy, name)


def test_an_algorithm_that_is_not_built_is_named():
    with pytest.raises(ImportError, match=r"no 'FooDQNPolicy'.*did you mean 'DQNPolicy'"):
        from ding.policy import FooDQNPolicy  # noqa: F401
    assert not hasattr(ding.policy, "no_such_function")
