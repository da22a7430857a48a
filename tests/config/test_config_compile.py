"""`compile_config`: precedence, types, the experiment folder, misspelt keys, the saved file."""

import logging
import sys
import types

import pytest
from easydict import EasyDict

import ding.config.compile as compile_module
import ding.config.experiment_dir as experiment_dir
import ding.config.resolve as resolve
from ding.config import (
    ConfigImportError,
    ConfigValueError,
    UnknownKeyError,
    UnknownTypeError,
    compile_config,
    read_config,
)
from ding.utils import Registry, deep_merge_dicts


def configured(name, base=object, **config):
    def default_config(cls):
        return EasyDict(deep_merge_dicts(EasyDict(cls.config), {"cfg_type": f"{cls.__name__}Dict"}))

    return type(name, (base,), {"config": config, "default_config": classmethod(default_config)})


FakeEnvManager = configured("FakeEnvManager", episode_num=float("inf"), max_retry=1)
FakeEnv = configured("FakeEnv", env_wrapper="default", size=3)
PlainEnv = type("PlainEnv", (), {})
FakePolicy = configured(
    "FakePolicy",
    cuda=False,
    priority=False,
    unroll_len=2,
    learn={"batch_size": 64, "learner": {"log_policy": False}},
    collect={"n_sample": 8},
    other={"eps": {"type": "exp", "start": 0.95}, "replay_buffer": {"replay_buffer_size": 77}},
)
TwoBuffers = configured(
    "TwoBuffers",
    learn={"batch_size": 1},
    other={
        "replay_buffer": {
            "multi_buffer": True,
            "a": {"type": "naive", "size_a": 1},
            # That of the create config, if it names one.
            "b": {"max": 2},
        }
    },
)
FakeLearner = configured("FakeLearner", log_policy=True, hook={"save_ckpt_after_iter": 10})
FakeCollector = configured("FakeCollector", deepcopy_obs=False, collect_print_freq=100)
FakeInteraction = configured("FakeInteraction", eval_freq=1000)
FakeMetric = configured("FakeMetric", eval_freq=50)
NaiveBuffer = configured("NaiveBuffer", type="naive", replay_buffer_size=10000)
AdvancedBuffer = configured("AdvancedBuffer", type="advanced", replay_buffer_size=4096, alpha=0.6, max_use=float("inf"))
FakeCommander = configured("FakeCommander")


@pytest.fixture(autouse=True)
def house(monkeypatch, tmp_path):
    """Fresh registries with one fake of each kind; the working directory is the test's own."""
    entries = {
        "env": {"fake": FakeEnv, "plain": PlainEnv},
        "env_manager": {"base": FakeEnvManager},
        "policy": {"fake": FakePolicy, "fake_command": FakePolicy, "two_command": TwoBuffers, "plain": FakePolicy},
        "learner": {"base": FakeLearner},
        "serial_collector": {"sample": FakeCollector, "episode": FakeCollector},
        "serial_evaluator": {"interaction": FakeInteraction, "metric": FakeMetric},
        "buffer": {"naive": NaiveBuffer, "advanced": AdvancedBuffer},
        "reward_model": {},
        "world_model": {},
    }
    registries = {}
    for name, classes in entries.items():
        registries[name] = Registry()
        for alias, cls in classes.items():
            registries[name].register(alias, cls)
    monkeypatch.setattr(resolve, "registries", registries)
    monkeypatch.setattr(compile_module, "SERIAL_EVALUATOR_REGISTRY", registries["serial_evaluator"])
    home = types.ModuleType("home_of_fakes")
    home.FakeCommander = FakeCommander
    monkeypatch.setitem(sys.modules, "home_of_fakes", home)
    monkeypatch.setattr(compile_module, "SERIAL_COMMANDER", ("home_of_fakes", "FakeCommander"))
    monkeypatch.setattr(resolve, "_HOMES", {})
    monkeypatch.chdir(tmp_path)


def create_config(**changes):
    base = EasyDict(env={"type": "fake"}, env_manager={"type": "base"}, policy={"type": "fake_command"})
    return EasyDict({**base, **changes})


def compiled(main=None, create=None, **kwargs):
    kwargs = {"auto": True, "save_cfg": False, **kwargs}
    return compile_config(EasyDict(main or {}), create_cfg=create or create_config(), **kwargs)


def test_auto_fills_every_section():
    cfg = compiled({"policy": {"learn": {"batch_size": 32}}}, seed=7)
    inf = float("inf")
    assert cfg == {
        "env": {
            "manager": {"episode_num": inf, "max_retry": 1, "cfg_type": "FakeEnvManagerDict", "type": "base"},
            "stop_value": 10**10,
            "n_evaluator_episode": 4,
            "env_wrapper": "default",
            "size": 3,
            "cfg_type": "FakeEnvDict",
            "type": "fake",
        },
        "policy": {
            "model": {},
            "learn": {
                "learner": {
                    "log_policy": False,
                    "hook": {"save_ckpt_after_iter": 10},
                    "cfg_type": "FakeLearnerDict",
                },
                "batch_size": 32,
            },
            "collect": {
                "collector": {
                    "deepcopy_obs": False,
                    "collect_print_freq": 100,
                    "cfg_type": "FakeCollectorDict",
                    "type": "sample",
                },
                "n_sample": 8,
                "unroll_len": 2,
            },
            "eval": {
                "evaluator": {
                    "eval_freq": 1000,
                    "cfg_type": "FakeInteractionDict",
                    "type": "interaction",
                    "stop_value": 10**10,
                    "n_episode": 4,
                }
            },
            "other": {
                "replay_buffer": {
                    "type": "advanced",
                    "replay_buffer_size": 77,
                    "alpha": 0.6,
                    "max_use": inf,
                    "cfg_type": "AdvancedBufferDict",
                },
                "eps": {"type": "exp", "start": 0.95},
                "commander": {"cfg_type": "FakeCommanderDict"},
            },
            "cuda": False,
            "priority": False,
            "unroll_len": 2,
            "cfg_type": "FakePolicyDict",
            "type": "fake_command",
        },
        "seed": 7,
        "exp_name": "default_experiment",
    }


def test_inputs_and_class_configs_stay_as_they_are():
    main, create = EasyDict(env={"stop_value": 1}), create_config()
    cfg = compile_config(main, create_cfg=create, auto=True, save_cfg=False)
    cfg.policy.other.eps.start = 0.0
    cfg.env.manager.max_retry = 9
    assert main == {"env": {"stop_value": 1}}
    assert create == create_config()
    assert FakePolicy.config["other"]["eps"]["start"] == 0.95
    assert FakeEnvManager.config["max_retry"] == 1


def test_the_user_wins_over_create_over_defaults():
    create = create_config(collector={"type": "episode", "collect_print_freq": 5}, replay_buffer={"type": "naive"})
    main = {"policy": {"collect": {"collector": {"collect_print_freq": 6}}}, "env": {"stop_value": 195}}
    cfg = compiled(main, create)
    assert cfg.policy.collect.collector.type == "episode"
    assert cfg.policy.collect.collector.collect_print_freq == 6
    assert cfg.policy.other.replay_buffer == {"type": "naive", "replay_buffer_size": 77, "cfg_type": "NaiveBufferDict"}
    assert cfg.policy.eval.evaluator.stop_value == 195


def test_no_stop_value_is_that_of_the_template():
    assert compiled({"env": {"stop_value": None}}).env.stop_value == 10**10


def test_the_evaluator_is_resolved_by_type():
    cfg = compiled(create=create_config(evaluator={"type": "metric"}))
    assert cfg.policy.eval.evaluator == {"eval_freq": 50, "cfg_type": "FakeMetricDict", "type": "metric"}
    cfg = compiled({"policy": {"eval": {"evaluator": {"type": "metric"}}}})
    assert cfg.policy.eval.evaluator.eval_freq == 50


def test_several_buffers_get_their_own_user_keys_and_names():
    create = create_config(policy={"type": "two_command"})
    user = {"policy": {"other": {"replay_buffer": {"multi_buffer": True, "b": {"max": 5}}}}}
    buffers = compiled(user, create).policy.other.replay_buffer
    assert buffers.a == {
        "type": "naive", "replay_buffer_size": 10000, "size_a": 1, "name": "a", "cfg_type": "NaiveBufferDict",
    }  # fmt: skip
    assert (buffers.b.max, buffers.b.name, buffers.b.replay_buffer_size) == (5, "b", 4096)
    with pytest.raises(ConfigValueError, match="this policy uses one buffer"):
        compiled(user)


def test_by_hand_with_classes():
    classes = (FakeEnvManager, FakePolicy, FakeLearner, FakeCollector, FakeInteraction, NaiveBuffer)
    cfg = compile_config(EasyDict(exp_name="x", env={"n_evaluator_episode": 2}), *classes, save_cfg=False)
    assert cfg.policy.collect.collector.type == "sample"
    assert cfg.policy.eval.evaluator.n_episode == 2
    assert cfg.policy.other.replay_buffer.type == "naive"
    assert "commander" not in cfg.policy.other
    assert compile_config(EasyDict(), policy=FakePolicy, save_cfg=False).env.manager.max_retry == 1
    with pytest.raises(ConfigValueError, match="needs the policy class"):
        compile_config(EasyDict(), save_cfg=False)


@pytest.mark.parametrize(
    ("create", "error", "sentence"),
    [
        ({"policy": {"type": "fke_command"}}, UnknownTypeError,
         "create_config.policy.type: no policy is registered as 'fke'. Did you mean 'fake'?"),
        ({"policy": {"type": "cql_discrete_command"}}, UnknownTypeError,
         "create_config.policy.type: no policy is registered as 'cql_discrete', it is 'discrete_cql' here"),
        ({"policy": {"type": "plain_command"}}, UnknownTypeError,
         "create_config.policy.type: 'plain' is registered, but not 'plain_command', which pipelines build: "
         "register a subclass of both it and EpsCommandModePolicy or DummyCommandModePolicy by that name "
         "(docs/howto/own_policy.md)"),
        ({"env_manager": {"type": "basic"}}, UnknownTypeError,
         "create_config.env_manager.type: no env_manager is registered as 'basic'. Did you mean 'base'?"),
        ({"collector": {"type": "smaple"}}, UnknownTypeError,
         "policy.collect.collector.type: no serial_collector is registered as 'smaple'. Did you mean 'sample'?"),
        ({"env": {"type": "fake", "import_names": ["no_such_pkg"]}}, ConfigImportError,
         "create_config.env.import_names: ['no_such_pkg'] cannot be imported: No module named 'no_such_pkg'"),
        ({"env": {"type": "fake", "import_names": "ding.envs"}}, ConfigValueError,
         "create_config.env.import_names: import_names must be a list of module names, got the text 'ding.envs'"),
        ({"policy": {"kind": "x"}}, ConfigValueError,
         "create_config.policy.type is missing: it must be the name of a registered policy"),
        ({"policy": None}, ConfigValueError, "create_config.policy is missing: it must be a dict with a `type`"),
    ],
)  # fmt: skip
def test_wrong_types_are_one_sentence(create, error, sentence):
    with pytest.raises(error) as caught:
        compiled(create=create_config(**create))
    assert str(caught.value).partition(" Known names")[0] == sentence


def test_a_misspelt_key_is_told_by_its_path(caplog):
    main = {
        "policy": {"learn": {"batchsize": 1, "lerner": {}}, "nonsense_of_mine": 1, "learn_rate_schedule": 3},
        "env": {"stop_valu": 3, "my_own_key": 1},
    }
    with caplog.at_level(logging.WARNING, "ding.config"):
        cfg = compiled(main)
    assert sorted(r.getMessage() for r in caplog.records) == [
        "config key env.stop_valu=3: did you mean env.stop_value?",
        "config key policy.learn.batchsize=1: did you mean policy.learn.batch_size?",
        "config key policy.learn.lerner={}: did you mean policy.learn.learner?",
    ]
    assert cfg.policy.learn.batchsize == 1
    with pytest.raises(UnknownKeyError, match=r"policy\.learn\.batchsize=1: did you mean policy\.learn\.batch_size\?"):
        compiled(main, strict=True)


@pytest.mark.parametrize(
    ("main", "create", "text"),
    [
        ({"policy": {"collect": {"collector": {"deepcopy_ob": True}}}}, {}, "collector.deepcopy_ob=True: did you mean"),
        ({"policy": {"other": {"replay_buffer": {"alpa": 0.3}}}}, {}, "replay_buffer.alpa=0.3: did you mean"),
        ({}, {"collecter": {"type": "episode"}}, "create_config.collecter={'type': 'episode'}: did you mean"),
        (
            {},
            {"env_manager": {"type": "base", "max_retri": 3}},
            r"create_config.env_manager.max_retri=3: did you mean create_config.env_manager.max_retry",
        ),
    ],
)
def test_misspelt_keys_of_the_parts_are_told_too(main, create, text):
    with pytest.raises(UnknownKeyError) as caught:
        compiled(main, create=create_config(**create), strict=True)
    assert text in str(caught.value)


def test_wrong_types_in_the_parts_are_refused():
    with pytest.raises(
        ConfigValueError, match=r"collector\.collect_print_freq: expected a whole number of at least 1, got 'a'"
    ):
        compiled({"policy": {"collect": {"collector": {"collect_print_freq": "a"}}}})


def test_whole_numbers_may_be_written_as_floats():
    cfg = compiled({"policy": {"unroll_len": 4.0, "learn": {"batch_size": 64.0}}, "env": {"collector_env_num": 2.0}})
    values = (cfg.policy.unroll_len, cfg.policy.learn.batch_size, cfg.env.collector_env_num)
    assert [type(value) for value in values] == [int, int, int]


def test_a_create_config_with_wrong_values_is_refused():
    with pytest.raises(ConfigValueError, match=r"policy\.learn\.batch_size: expected a whole number .*, got -1"):
        compiled(create=create_config(policy={"type": "fake", "learn": {"batch_size": -1}}))
    with pytest.raises(ConfigValueError, match=r"create_config\.env_manager\.max_retry: expected .*, got 1\.5"):
        compiled(create=create_config(env_manager={"type": "base", "max_retry": 1.5}))


def test_free_keys_and_optional_keys_pass_in_strict_mode():
    main = {
        "policy": {
            "random_collect_size": 5,
            "reference_numerics": True,
            "num_threads": 1,
            "model": {"obs_shape": 4, "action_shape": 2, "my_layers": 3},
            "learn": {"learner": {"hook": {"my_hook": {"name": "x", "priority": 1}, "save_ckpt_after_iter": 3}}},
        },
        "env": {"env_id": "CartPole-v1", "size": 3, "size_x": 1, "collector_env_num": 8},
    }
    assert compiled(main, strict=True).env.size_x == 1


def test_the_folder_is_renewed_and_never_shared(monkeypatch, tmp_path):
    monkeypatch.setattr(experiment_dir.time, "strftime", lambda fmt: "260101_000000")
    names = [compiled({"exp_name": "runs/e"}, save_cfg=True).exp_name for _ in range(4)]
    assert names == ["runs/e", "runs/e_260101_000000", "runs/e_260101_000000_1", "runs/e_260101_000000_2"]
    files = sorted(p.name for p in (tmp_path / "runs" / "e").iterdir())
    assert files == ["formatted_total_config.py", "total_config.py"]
    assert compiled({"exp_name": "runs/e"}, save_cfg=True, renew_dir=False).exp_name == "runs/e"


@pytest.mark.parametrize("name", ["total_config.py", "formatted_total_config.py"])
def test_what_is_saved_runs_the_same_experiment(name, tmp_path):
    main = {
        "exp_name": "first",
        "env": {"stop_value": float("inf"), "shape": (3, 4), "nothing": None},
        "policy": {"other": {"eps": {"start": 0.5, "decay": 10}, "replay_buffer": {"max_use": 4}}},
    }
    create = create_config(collector={"type": "episode"}, replay_buffer={"type": "advanced"})
    first = compiled(main, create, save_cfg=True, seed=3)
    main_again, create_again = read_config(tmp_path / "first" / name)
    assert main_again == first
    assert create_again.policy.type == "fake"
    create_again.policy.type += "_command"
    assert create_again == create
    again = compiled(main_again, create_again, seed=main_again.seed, strict=True)
    assert again == first
    assert type(again.env.shape) is tuple


def test_a_value_without_source_text_does_not_stop_the_run(caplog, tmp_path):
    cfg = compiled({"exp_name": "e", "env": {"env_wrapper": [lambda env: env]}}, save_cfg=True)
    assert callable(cfg.env.env_wrapper[0])
    assert "main_config.env.env_wrapper[0]: cannot be saved" in caplog.text
    assert "raise_not_saved" in (tmp_path / "e" / "total_config.py").read_text()


def test_git_information_only_on_request(tmp_path, monkeypatch):
    outputs = {"describe": "v1-dirty", "log": "a commit", "diff": "a diff"}
    monkeypatch.setattr(experiment_dir, "_output_of", lambda command: outputs[command[1]])
    compiled({"exp_name": "plain"}, save_cfg=True)
    compiled({"exp_name": "asked"}, save_cfg=True, save_git_info=True)
    assert not (tmp_path / "plain" / "git_diff.txt").exists()
    assert (tmp_path / "asked" / "git_log.txt").read_text() == "v1-dirty\na commit"
    assert (tmp_path / "asked" / "git_diff.txt").read_text() == "a diff"


def test_every_rank_uses_the_folder_of_rank_0(monkeypatch, tmp_path):
    def broadcast(names, src):
        names[0] = "from_rank_0"

    monkeypatch.setattr(compile_module, "get_rank", lambda: 1)
    monkeypatch.setattr(compile_module, "broadcast_object_list", broadcast)
    assert compiled({"exp_name": "e"}, save_cfg=True).exp_name == "from_rank_0"
    assert list(tmp_path.iterdir()) == []
