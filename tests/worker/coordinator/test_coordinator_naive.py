"""One learner task from end to end, over the in-process control plane and the naive doubles."""

import sys
from copy import deepcopy
from pathlib import Path

import pytest
from easydict import EasyDict

sys.path.insert(0, str(Path(__file__).parent))
from parallel_fakes import wait_until

from ding.config import compile_config_parallel
from ding.config.utils import (
    parallel_test_create_config,
    parallel_test_main_config,
    parallel_test_system_config,
)
from ding.interaction import InprocTransport
from ding.worker.collector.comm.utils import NaiveCollector
from ding.worker.coordinator import Coordinator, NaiveCommander
from ding.worker.learner.comm.utils import NaiveLearner


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def config(network, **coordinator):
    return EasyDict(
        main={
            "exp_name": "exp",
            "env": {},
            "policy": {
                "collect": {"collector": {}},
                "learn": {"learner": {}},
                "other": {
                    "replay_buffer": {"type": "advanced", "replay_buffer_size": 64},
                    "commander": {"type": "naive", "collector_task_space": 2, "learner_task_space": 1},
                },
            },
        },
        system={
            "coordinator": {
                "host": "127.0.0.1",
                "port": 0,
                "collector": {},
                "learner": {},
                "transport": network,
                "long_poll_s": 0.1,
                "lease_s": 60.0,
                **coordinator,
            }
        },
    )


def addresses(slaves):
    return {str(key): [key, "127.0.0.1", slave.my_address.rpartition(":")[2]] for key, slave in slaves.items()}


@pytest.fixture
def network():
    return InprocTransport()


@pytest.mark.parametrize("enrol", [False, True])
def test_a_learner_task_runs_to_its_end(network, enrol):
    collectors = {f"c{i}": NaiveCollector("127.0.0.1", 0, transport=network, prefix=f"c{i}") for i in range(2)}
    learners = {"l0": NaiveLearner("127.0.0.1", 0, transport=network, prefix="l0")}
    for slave in [*collectors.values(), *learners.values()]:
        slave.start()
    known = {} if enrol else {"collector": addresses(collectors), "learner": addresses(learners)}
    cfg = config(network, **known)
    commander = NaiveCommander(cfg.main)
    coordinator = Coordinator(cfg, commander)
    try:
        coordinator.start()
        if enrol:
            master = coordinator._interaction._hub.my_address
            for name, slave in collectors.items():
                slave.enrol(master, name, "collector")
            learners["l0"].enrol(master, "l0", "learner")
        wait_until(lambda: "learner_task_id1" in commander.finished_tasks)
    finally:
        coordinator.close()
        for slave in [*collectors.values(), *learners.values()]:
            slave.close()
    assert coordinator.exception is None
    assert coordinator.buffers.buffers == {}
    assert len(commander.learner_info["learner_task_id1"]) == 5
    assert "learner_task_id1" not in coordinator.open_tasks
    assert coordinator.status()["tasks"]["failed"] == 0


def test_a_coordinator_connects_to_the_ports_of_a_compiled_config():
    configs = (parallel_test_main_config, parallel_test_create_config, parallel_test_system_config)
    cfg = compile_config_parallel(*(deepcopy(config) for config in configs), seed=0, save_cfg=False)
    system = cfg.system
    slaves = [
        kind(system[name].host, system[name].port, prefix=name)
        for role, kind in (("collector", NaiveCollector), ("learner", NaiveLearner))
        for name in system.coordinator[role]
    ]
    coordinator = Coordinator(cfg, NaiveCommander(cfg.main))
    try:
        for slave in slaves:
            slave.start()
        coordinator.start()
        wait_until(lambda: all(slave.is_connected for slave in slaves))
    finally:
        coordinator.close()
        for slave in slaves:
            slave.close()
    assert coordinator.exception is None
