"""`compile_config_parallel`: what it fills in, where the processes listen, and every mistake by its full path."""

import logging
import socket
from copy import deepcopy

import pytest
from easydict import EasyDict

import ding.config.compile_parallel as compile_parallel
from ding.config import (
    ConfigValueError,
    UnknownKeyError,
    UnknownTypeError,
    compile_config_parallel,
    read_config_with_system,
)
from ding.config.per_collector import collector_section
from ding.config.utils import (
    parallel_test_create_config,
    parallel_test_main_config,
    parallel_test_system_config,
    parallel_transform,
    parallel_transform_k8s,
    parallel_transform_slurm,
    set_collector_interaction_for_coordinator,
    set_host_port_k8s,
    set_host_port_slurm,
    set_learner_interaction_for_coordinator,
    set_system_cfg,
)
from ding.utils import (
    COMM_COLLECTOR_REGISTRY,
    COMM_LEARNER_REGISTRY,
    COMMANDER_REGISTRY,
    PARALLEL_COLLECTOR_REGISTRY,
)


def configured(name, **config):
    return type(name, (), {"default_config": classmethod(lambda cls: EasyDict(config))})


FakeCoordinator = configured("FakeCoordinator", collector_task_timeout=30, learner_task_timeout=600, operator_server={})
PARTS = (
    (PARALLEL_COLLECTOR_REGISTRY, "collector", configured("FakeCollector", print_freq=5, update_policy_second=3)),
    (COMMANDER_REGISTRY, "commander", configured("FakeCommander", eval_interval=60, collector_task_space=1)),
    (COMM_LEARNER_REGISTRY, "comm_learner", configured("FakeCommLearner")),
    (COMM_COLLECTOR_REGISTRY, "comm_collector", configured("FakeCommCollector")),
)


@pytest.fixture
def configs(monkeypatch, tmp_path):
    """The three configs with parts that know nothing of each other."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(compile_parallel, "import_by_name", lambda module, name: FakeCoordinator)
    main, create, system = (
        deepcopy(config)
        for config in (parallel_test_main_config, parallel_test_create_config, parallel_test_system_config)
    )
    for registry, part, cls in PARTS:
        monkeypatch.setitem(registry, "p4_fake", cls)
        create[part] = EasyDict(type="p4_fake")
    return main, create, system


def put(config, path, value):
    *sections, key = path.split(".")
    for section in sections:
        config = config.setdefault(section, EasyDict())
    config[key] = value


def drop(config, path):
    *sections, key = path.split(".")
    for section in sections:
        config = config[section]
    del config[key]


def test_defaults_are_filled_in_below_what_the_user_wrote(configs):
    cfg = compile_config_parallel(*configs, seed=3, save_cfg=False)
    assert set(cfg) == {"main", "system", "seed"}
    assert cfg.seed == 3
    main = cfg.main
    assert main.policy.type == "dqn_command"
    assert main.policy.collect.collector.print_freq == 5
    assert main.policy.collect.collector.update_policy_second == 3
    assert main.policy.collect.collector.type == "p4_fake"
    assert main.policy.other.commander.eval_interval == 5
    assert main.policy.other.commander.collector_task_space == 2
    assert main.policy.other.commander.path_policy == "auto"
    assert main.policy.other.replay_buffer.type == "advanced"
    assert main.policy.other.replay_buffer.replay_buffer_size == 100000
    assert main.policy.other.replay_buffer.alpha == 0.6
    assert main.policy.learn.learner.train_iterations == int(1e9)
    assert main.policy.learn.learner.type == "base"
    assert main.env.manager.type == "base"


def test_a_task_space_that_nobody_wrote_is_the_number_of_workers(configs):
    del configs[0].policy.other.commander
    commander = compile_config_parallel(*configs, save_cfg=False).main.policy.other.commander
    assert (commander.collector_task_space, commander.learner_task_space) == (2, 1)


def test_one_section_per_worker_bound_to_loopback_with_any_free_port(configs):
    system = compile_config_parallel(*configs, save_cfg=False, free_ports=False).system
    assert sorted(system) == ["collector0", "collector1", "coordinator", "learner0"]
    assert (system.coordinator.host, system.coordinator.port) == ("127.0.0.1", 0)
    assert system.coordinator.learner == {"learner0": ["learner0", "127.0.0.1", 0]}
    assert list(system.coordinator.collector) == ["collector0", "collector1"]
    assert system.coordinator.collector_task_timeout == 30
    assert system.learner0.type == "p4_fake"
    assert system.learner0.multi_gpu is False
    assert system.learner0.aggregator is False
    assert system.collector1.path_data == "auto"


def test_scripts_get_ports_that_are_free(configs):
    system = compile_config_parallel(*configs, save_cfg=False).system
    ports = [system.coordinator.port]
    for kind in ("learner", "collector"):
        for name, (same_name, host, port) in system.coordinator[kind].items():
            assert (name, host, port) == (same_name, system[name].host, system[name].port)
            ports.append(port)
    assert len(set(ports)) == 4
    for port in ports:
        with socket.socket() as server:
            server.bind(("127.0.0.1", port))


def test_options_of_comm_workers_reach_them(configs):
    configs[1].comm_learner.group_timeout_s = 7.0
    system = compile_config_parallel(*configs, save_cfg=False).system
    assert system.learner0.group_timeout_s == 7.0
    assert "group_timeout_s" not in system.collector0


def test_the_inputs_are_not_changed(configs):
    before = [deepcopy(config) for config in configs]
    compile_config_parallel(*configs, save_cfg=False)
    assert list(configs) == before


def test_hosts_and_ports_that_are_given(configs):
    configs[2].coordinator = EasyDict(port=4100)
    configs[2].collector_port = [4200, 4201]
    cfg = compile_config_parallel(
        *configs,
        save_cfg=False,
        coordinator_host="10.0.0.1",
        collector_host=["10.0.0.2", "10.0.0.3"],
        learner_host="10.0.0.4",
    )
    coordinator = cfg.system.coordinator
    assert (coordinator.host, coordinator.port) == ("10.0.0.1", 4100)
    assert coordinator.collector.collector0 == ["collector0", "10.0.0.2", 4200]
    assert coordinator.collector.collector1 == ["collector1", "10.0.0.3", 4201]
    assert cfg.system.learner0.host == "10.0.0.4"


def test_slurm_gives_nodes_in_turn_and_an_aggregator_to_a_learner_of_several_gpus(configs, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_PARTITION", "gpu")
    configs[2].learner_gpu_num = 2
    system = compile_config_parallel(
        *configs, save_cfg=False, platform="slurm", learner_host="n0", collector_host=["n1", "n2"]
    ).system
    assert [system[f"collector{i}"].node for i in range(2)] == ["n1", "n2"]
    assert system.learner0.partition == "gpu"
    assert system.learner0.aggregator is True
    aggregator = system.learner_aggregator0
    assert system.coordinator.learner.learner0 == ["learner0", "n0", aggregator.slave.port]
    assert aggregator.learner == {"0": ["0", "n0", 0], "1": ["1", "n0", 0]}


def test_kubernetes_has_templates_and_fixed_ports(configs):
    system = compile_config_parallel(*configs, save_cfg=False, platform="k8s", learner_port=5000).system
    assert sorted(system) == ["collector", "coordinator", "learner"]
    assert (system.coordinator.port, system.learner.port, system.collector.port) == (22273, 5000, 22270)
    assert system.coordinator.learner == {}
    assert system.coordinator.collector == {}


def test_the_transforms_alone(configs):
    main, create, system = configs
    system.update(comm_learner=create.comm_learner, comm_collector=create.comm_collector)
    whole = EasyDict(main=main, system=system)
    assert parallel_transform(whole).system.coordinator.host == "127.0.0.1"
    assert parallel_transform_slurm(whole, learner_node=["a"]).system.learner0.node == "a"
    assert parallel_transform_k8s(whole).system.coordinator.host == "0.0.0.0"


def test_the_functions_that_the_transforms_consist_of(configs):
    main, create, system = configs
    system.update(comm_learner=create.comm_learner, comm_collector=create.comm_collector)
    whole = EasyDict(main=main, system=system)
    shaped = set_host_port_k8s(set_system_cfg(whole), learner_port=5000)
    assert [shaped[name].port for name in ("learner0", "learner", "collector1")] == [5000, 5000, 22270]
    shaped.learner0.host, shaped.collector0.host, shaped.collector1.host = "a", "b", "c"
    for give in (set_learner_interaction_for_coordinator, set_collector_interaction_for_coordinator):
        assert give(shaped) is shaped
    assert shaped.coordinator.learner == {"learner0": ["learner0", "a", 5000]}
    assert shaped.coordinator.collector.collector1 == ["collector1", "c", 22270]
    assert set_host_port_slurm(set_system_cfg(whole), None, ["n"], None).learner0.node == "n"


@pytest.mark.parametrize(
    ("which", "path", "value", "error", "sentence"),
    [
        (0, "env.collector_episode_num", 0, ConfigValueError, "main_config.env.collector_episode_num must be a whole"),
        (0, "env.stop_value", "9", ConfigValueError, "main_config.env.stop_value must be a number, got '9'"),
        (0, "policy.learn", 3, ConfigValueError, "main_config.policy.learn must be a dict, got int"),
        (
            0,
            "policy.other.commander.colector_task_space",
            2,
            UnknownKeyError,
            "did you mean main_config.policy.other.commander.collector_task_space?",
        ),
        (
            0,
            "policy.other.commander.eval_interval",
            0,
            ConfigValueError,
            "main_config.policy.other.commander.eval_interval must be positive, got 0",
        ),
        (1, "comm_colector", {"type": "x"}, UnknownKeyError, "did you mean create_config.comm_collector?"),
        (1, "commander.type", "p4_fakes", UnknownTypeError, "create_config.commander.type: no commander .* 'p4_fakes'"),
        (1, "commander.typ", "solo", UnknownKeyError, "create_config.commander.typ: .* create_config.commander.type?"),
        (2, "path_dta", ".", UnknownKeyError, "system_config.path_dta: .* did you mean system_config.path_data?"),
        (
            2,
            "coordinator.colector_task_timeout",
            1,
            UnknownKeyError,
            "did you mean system_config.coordinator.collector_task_timeout?",
        ),
        (0, "policy.learn.batch_size", "64", ConfigValueError, "policy.learn.batch_size: expected .* got '64'"),
        (0, "policy.discount_factor", 97, ConfigValueError, "policy.discount_factor: expected a number between 0"),
        (0, "policy.cuda", "no", ConfigValueError, "policy.cuda: expected True or False, got 'no'"),
        (
            2,
            "coordinator.collector_task_timeout",
            "9",
            ConfigValueError,
            r"coordinator\.collector_task_timeout: expected a num",
        ),
        (2, "communication_mode", "http", ConfigValueError, "communication_mode must be 'auto', got 'http'"),
        (2, "coordinator.port", 70000, ConfigValueError, "system_config.coordinator.port must be 'auto' or a port"),
    ],
)
def test_a_mistake_is_told_by_its_full_path(configs, tmp_path, which, path, value, error, sentence):
    put(configs[which], path, value)
    with pytest.raises(error, match=sentence):
        compile_config_parallel(*configs)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("which", "path", "sentence"),
    [
        (0, "policy.learn.learner.learner_num", "main_config.policy.learn.learner.learner_num is missing"),
        (0, "env.evaluator_episode_num", "main_config.env.evaluator_episode_num is missing"),
        (1, "comm_learner", "create_config.comm_learner is missing"),
        (1, "policy.type", "create_config.policy.type is missing"),
    ],
)
def test_a_key_that_is_missing_is_told_by_its_full_path(configs, which, path, sentence):
    drop(configs[which], path)
    with pytest.raises(ConfigValueError, match=sentence):
        compile_config_parallel(*configs)


def test_a_comm_part_takes_the_keys_of_its_class(configs):
    put(configs[1], "comm_learner.resume_ckpt_freq", 100)
    put(configs[1], "comm_learner.type", "flask_fs")
    system = compile_config_parallel(*configs, save_cfg=False).system
    assert system.learner0.resume_ckpt_freq == 100
    assert system.learner0.host == "127.0.0.1"
    put(configs[1], "comm_learner.resume_ckpt_freq", "often")
    with pytest.raises(
        ConfigValueError, match=r"create_config\.comm_learner\.resume_ckpt_freq: expected a whole number"
    ):
        compile_config_parallel(*configs, save_cfg=False)
    put(configs[1], "comm_learner", {"type": "flask_fs", "resume_ckpt_frek": 100})
    with pytest.raises(UnknownKeyError, match=r"did you mean create_config\.comm_learner\.resume_ckpt_freq"):
        compile_config_parallel(*configs, save_cfg=False)


def test_a_missing_key_that_was_misspelt_is_recognised(configs):
    drop(configs[0], "policy.collect.collector.collector_num")
    put(configs[0], "policy.collect.collector.colector_num", 2)
    with pytest.raises(ConfigValueError, match=r"collector_num is missing.*Did you mean 'colector_num'"):
        compile_config_parallel(*configs)


def test_other_misspelt_keys_warn_and_are_errors_when_strict(configs, caplog):
    put(configs[0], "policy.learn.bach_size", 3)
    with caplog.at_level(logging.WARNING, "ding.config"):
        compile_config_parallel(*configs, save_cfg=False)
    assert "policy.learn.bach_size=3: did you mean policy.learn.batch_size?" in caplog.text
    with pytest.raises(UnknownKeyError, match=r"policy\.learn\.bach_size"):
        compile_config_parallel(*configs, save_cfg=False, strict=True)


def test_an_unknown_platform(configs):
    with pytest.raises(ConfigValueError, match=r"platform: there is no 'slrum'\. Did you mean 'slurm'"):
        compile_config_parallel(*configs, platform="slrum")


def test_the_saved_file_gives_the_same_run_again(configs):
    cfg = compile_config_parallel(*configs, seed=5, free_ports=False)
    again = read_config_with_system(f"{cfg.main.exp_name}/total_config.py")
    assert again[0].seed == 5
    repeated = compile_config_parallel(*again, seed=5, save_cfg=False, free_ports=False)
    del repeated.main["seed"]
    assert repeated == cfg


def test_a_folder_inside_the_experiment_moves_with_it(configs, tmp_path):
    configs[2].path_data = "./parallel_test/data"
    first = compile_config_parallel(*configs)
    assert first.system.collector0.path_data == "parallel_test/data"
    second = compile_config_parallel(*configs)
    assert second.main.exp_name.startswith("parallel_test_")
    assert second.system.collector0.path_data == f"{second.main.exp_name}/data"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("policy.collect.n_sample", None, r"policy\.collect\.n_sample must be the number of samples .*, got None"),
        ("policy.learn.learner.learner_num", 2, r"learner_num must be 1 for an on-policy policy, got 2"),
        ("policy.recompute_adv", False, r"policy\.recompute_adv must be true with learn\.value_norm"),
    ],
)
def test_what_an_on_policy_run_needs(configs, path, value, message):
    configs[1].policy.type = "ppo"
    configs[0].policy.pop("nstep")
    configs[0].policy.model.action_space = "discrete"
    compile_config_parallel(*configs, save_cfg=False)
    put(configs[0], path, value)
    with pytest.raises(ConfigValueError, match=message):
        compile_config_parallel(*configs, save_cfg=False)


def test_a_policy_with_several_buffers_needs_the_serial_mode(configs):
    main, create, system = configs
    create.policy.type = "ppg_offpolicy"
    with pytest.raises(ConfigValueError, match="'ppg_offpolicy' learns from several replay buffers"):
        compile_config_parallel(main, create, system, 0)


def test_each_collector_has_its_entry_of_per_collector_round_and_round(configs):
    main, create, system = configs
    main.policy.collect.collector.collector_num = 3
    main.env.per_collector = [{"seed": 1}, {"seed": 2, "level": "hard"}]
    cfg = compile_config_parallel(main, create, system, save_cfg=False)
    found = [cfg.system[f"collector{index}"].env for index in range(3)]
    assert found == [{"seed": 1}, {"seed": 2, "level": "hard"}, {"seed": 1}]
    joins = collector_section(cfg, "collector0", 7)
    assert (joins.env, joins.port, joins.host) == (found[1], 0, cfg.system.collector0.host)
    main.env.per_collector = {"seed": 1}
    with pytest.raises(ConfigValueError, match=r"main_config\.env\.per_collector must be a list of dicts"):
        compile_config_parallel(main, create, system, save_cfg=False)
