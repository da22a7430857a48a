"""The roles one by one: prepared configs, ports, tokens, and a run over several loopback addresses."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest
from easydict import EasyDict

from ding.config import ConfigError, ConfigValueError
from ding.config._source import parallel_config_to_source
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.entry import dist_entry
from ding.entry._dist_config import load_config
from ding.interaction import write_run_token


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DING_RUN_TOKEN", raising=False)
    text = parallel_config_to_source(
        parallel_test_main_config, parallel_test_create_config, parallel_test_system_config
    )
    (tmp_path / "config.py").write_text(text)
    return "config.py"


def test_a_prepared_config_is_json_and_names_the_addresses(config, tmp_path):
    path = dist_entry.dist_prepare_config(config, 3, coordinator_host="10.0.0.1", coordinator_port=4100)
    written = json.loads((tmp_path / path).read_text())
    assert (written["config"], written["seed"], written["coordinator_port"]) == ("config.py", 3, 4100)
    cfg = load_config(path, 0, save=False)
    assert cfg.seed == 3
    assert (cfg.system.coordinator.host, cfg.system.coordinator.port) == ("10.0.0.1", 4100)
    assert cfg.system.collector0.path_data == str(tmp_path / "parallel_test" / "data")


def test_arguments_go_before_the_environment_and_that_before_the_config(config, monkeypatch):
    monkeypatch.setenv("COORDINATOR_PORT", "4200")
    assert load_config(config, 0, save=False).system.coordinator.port == 4200
    assert load_config(config, 0, save=False, coordinator_port=4300).system.coordinator.port == 4300
    monkeypatch.setenv("COORDINATOR_PORT", "many")
    with pytest.raises(ConfigValueError, match="COORDINATOR_PORT must be a port number, got 'many'"):
        load_config(config, 0, save=False)


def test_a_worker_that_does_not_know_the_coordinator_says_so(config):
    with pytest.raises(ConfigValueError, match="where is the coordinator"):
        dist_entry.dist_launch_collector(config)


def test_a_worker_without_a_token_says_so(config):
    with pytest.raises(ConfigValueError, match="the run's token is missing"):
        dist_entry.dist_launch_collector(config, coordinator_port=4100)


def test_a_token_file_that_others_can_read_is_refused(config, tmp_path):
    write_run_token(tmp_path / "run.token", "t" * 64)
    os.chmod(tmp_path / "run.token", 0o644)
    with pytest.raises(ConfigValueError, match=r"token-file: .*chmod 600"):
        dist_entry.dist_launch_collector(config, coordinator_port=4100, token_file="run.token")


def test_a_prepared_file_that_is_none(config, tmp_path):
    (tmp_path / "x.dist.json").write_text("{}")
    with pytest.raises(ConfigValueError, match="not what dist_prepare_config writes"):
        dist_entry.dist_launch_coordinator("x.dist.json")


def test_a_mistake_is_told_before_anything_is_written(config, tmp_path):
    create = EasyDict(parallel_test_create_config, commander=dict(type="solow"))
    text = parallel_config_to_source(parallel_test_main_config, create, parallel_test_system_config)
    (tmp_path / "config.py").write_text(text)
    with pytest.raises(ConfigError, match=r"create_config\.commander\.type: .*'solo'"):
        dist_entry.dist_prepare_config(config)
    assert os.listdir(tmp_path) == ["config.py"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="127.0.0.0/8")
def test_a_run_over_several_addresses(config, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = [sys.executable, "-m", "ding.entry", "-m", "dist", "-c", config, "-s", "0", "-cdh", "127.0.0.1"]
    common += ["-cdp", str(port), "--token-file", "run.token", "--quiet"]
    roles = {
        "coordinator": [],
        "learner": ["-lh", "127.0.0.2"],
        "collector": ["-clh", "127.0.0.3", "--module-name", "collector0"],
    }
    processes = {}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        for module, options in roles.items():
            with open(f"{module}.txt", "w") as output:
                processes[module] = subprocess.Popen(
                    [*common, "-M", module, *options], stdout=output, stderr=output, env=environment
                )
            if module == "coordinator":
                _wait_for_file(tmp_path / "run.token", processes[module])
        assert processes["coordinator"].wait(90) == 0, (tmp_path / "coordinator.txt").read_text()
    finally:
        for module in ("learner", "collector"):
            if module in processes:
                processes[module].terminate()
        ends = {module: process.wait(15) for module, process in processes.items()}
    assert ends == {"coordinator": 0, "learner": 143, "collector": 143}
    result = json.loads((tmp_path / "parallel_test" / "result.json").read_text())
    assert result["solved"]
    assert sorted(os.listdir("parallel_test")) == ["ckpt", "log", "result.json", "total_config.py"]


def _wait_for_file(path, process):
    tick = threading.Event()
    while not path.exists():
        assert process.poll() is None, "the coordinator ended"
        tick.wait(0.05)
