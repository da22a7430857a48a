"""The roles one by one: prepared configs, ports, tokens, and a run over several loopback addresses."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner
from easydict import EasyDict

from ding.config import ConfigError, ConfigValueError, compile_config_parallel, read_config_with_system
from ding.config.source import parallel_config_to_source
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.entry import dist_entry
from ding.entry.cli import cli
from ding.entry.commands.scale import scale_run
from ding.entry.distributed.config import load_config
from ding.entry.distributed.learner_group_commands import aggregator_addresses
from ding.entry.parallel.best_policy import read_best
from ding.entry.view import read_status
from ding.interaction import write_run_token
from ding.utils.checkpoint import train_iter_of


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


def test_overrides_are_prepared_for_all_roles(config):
    path = dist_entry.dist_prepare_config(config, 3, overrides=["batch_size=7", "system_config.coordinator.port=4711"])
    cfg = load_config(path, 0, save=False)
    assert (cfg.main.policy.learn.batch_size, cfg.system.coordinator.port) == (7, 4711)
    with pytest.raises(ConfigValueError, match=r"bach_size: the config has no such key\. Did you mean 'batch_size'"):
        dist_entry.dist_prepare_config(config, overrides=["bach_size=7"])
    result = CliRunner().invoke(cli, ["-m", "dist", "-M", "learner", "-c", config, "-o", "batch_size=7"])
    assert (result.exit_code, result.stderr.startswith("ding: -o: all roles have one config")) == (2, True)


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


def test_roles_of_a_backend_that_starts_them_itself_are_not_started_one_by_one(config, tmp_path):
    system = EasyDict(parallel_test_system_config, backend="ray")
    text = parallel_config_to_source(parallel_test_main_config, parallel_test_create_config, system)
    (tmp_path / "config.py").write_text(text)
    with pytest.raises(ConfigValueError, match=r"system_config\.backend is 'ray', of which ding -m parallel starts"):
        dist_entry.dist_launch_coordinator(config)
    assert os.listdir(tmp_path) == ["config.py"]


@pytest.fixture
def group_config(config, tmp_path):
    system = EasyDict(parallel_test_system_config, learner_gpu_num=2)
    text = parallel_config_to_source(parallel_test_main_config, parallel_test_create_config, system)
    (tmp_path / "config.py").write_text(text)
    return config


def test_a_learner_of_several_processes_is_not_started_as_one(group_config):
    with pytest.raises(ConfigValueError, match=r"learner0 has 2 processes .*-M learner_aggregator.*-M spawn_learner"):
        dist_entry.dist_launch_learner(group_config, coordinator_port=4100)


def test_a_learner_of_one_process_needs_no_aggregator(config):
    for launch in (dist_entry.dist_launch_learner_aggregator, dist_entry.dist_launch_spawn_learner):
        with pytest.raises(ConfigValueError, match=r"learner0 is one process: start it with -M learner"):
            launch(config, coordinator_port=4100)
        with pytest.raises(ConfigValueError, match="the config has no learner7"):
            launch(config, coordinator_port=4100, name="learner_aggregator7")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"WORLD_SIZE": "3"}, "WORLD_SIZE is 3, but system_config.learner_gpu_num is 2"),
        ({"START_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, "START_RANK 1 and LOCAL_WORLD_SIZE 2 do not fit"),
        ({"LOCAL_WORLD_SIZE": "1"}, "1 of 2 processes run here: set MASTER_ADDR"),
        ({"START_RANK": "one"}, "START_RANK must be a whole number, got 'one'"),
    ],
)
def test_the_environment_of_the_ranks_is_checked(group_config, monkeypatch, environment, message):
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    with pytest.raises(ConfigValueError, match=message):
        dist_entry.dist_launch_spawn_learner(group_config)


def test_where_an_aggregator_listens(group_config, monkeypatch):
    cfg = load_config(group_config, 0, save=False)
    here = aggregator_addresses(cfg, "learner0", None, None)
    assert here == {"slave": {"host": "127.0.0.1", "port": 22272}, "master": {"host": "127.0.0.1", "port": 22273}}
    monkeypatch.setenv("AGGREGATOR_PORT", "4200")
    there = aggregator_addresses(cfg, "learner0", "10.0.0.1", None)
    assert there == {"slave": {"host": "10.0.0.1", "port": 4200}, "master": {"host": "10.0.0.1", "port": 4201}}
    assert aggregator_addresses(None, "learner0", "10.0.0.1", 4300)["master"] == {"host": "10.0.0.1", "port": 4301}
    cfg = compile_config_parallel(
        *read_config_with_system(group_config), save_cfg=False, renew_dir=False, platform="slurm", learner_host="n0"
    )
    monkeypatch.delenv("AGGREGATOR_PORT")
    slurm = aggregator_addresses(cfg, "learner0", None, None)
    assert slurm == {"slave": {"host": "n0", "port": 22272}, "master": {"host": "n0", "port": 22273}}


class Roles:
    """Roles in processes of their own, each with its output in ``<module>.txt``."""

    def __init__(self, folder, config, port):
        self.folder, self.processes = folder, {}
        self.common = [sys.executable, "-m", "ding.entry", "-m", "dist", "-c", config, "-s", "0", "--quiet"]
        self.common += ["--token-file", "run.token"]
        self.there = ["-cdh", "127.0.0.1", "-cdp", str(port)]

    def start(self, module, *options):
        with open(self.folder / f"{module}.txt", "w") as output:
            process = self.processes[module] = subprocess.Popen(
                [*self.common, "-M", module, *options],
                stdout=output,
                stderr=output,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        if module == "coordinator":
            _wait_for((self.folder / "run.token").exists, process)
        return process

    def end(self):
        """Terminate all but the coordinator; returns the exit codes by module."""
        for module, process in self.processes.items():
            if module != "coordinator":
                process.terminate()
        return {module: process.wait(30) for module, process in self.processes.items()}

    def text(self, module):
        return (self.folder / f"{module}.txt").read_text()


@pytest.fixture
def roles(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    some = Roles(tmp_path, "config.py", port)
    yield some
    for process in some.processes.values():
        process.kill()
        process.wait()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="127.0.0.0/8")
def test_a_run_over_several_addresses(config, tmp_path, roles):
    coordinator = roles.start("coordinator", *roles.there)
    _wait_for((tmp_path / "parallel_test" / "access.json").exists, coordinator)
    assert scale_run("parallel_test", 1) == {"before": 2, "collectors": 1}
    assert read_status("parallel_test")["train_iter"] == 0
    roles.start("learner", *roles.there, "-lh", "127.0.0.2")
    roles.start("collector", *roles.there, "-clh", "127.0.0.3", "--module-name", "collector0")
    assert coordinator.wait(90) == 0, roles.text("coordinator")
    assert roles.end() == {"coordinator": 0, "learner": 143, "collector": 143}
    result = json.loads((tmp_path / "parallel_test" / "result.json").read_text())
    assert result["solved"]
    # The coordinator evaluates the last checkpoint, and keeps the best policy.
    assert result["last_evaluation"]["train_iter"] == train_iter_of(result["checkpoint"])
    assert read_best("parallel_test").mean == result["best_return"]
    # It evaluates in a folder of its own, unless the last evaluation of a collector was of these weights.
    left = {"ckpt", "log", "result.json", "status.json", "total_config.py"}
    assert set(os.listdir("parallel_test")) - {"eval"} == left


def test_a_second_coordinator_in_the_folder_is_refused_and_one_after_a_kill_is_not(config, tmp_path, roles):
    folder = tmp_path / "parallel_test"
    first = roles.start("coordinator", *roles.there)
    _wait_for((folder / "access.json").exists, first)
    access, written = (folder / "access.json").read_text(), (folder / "total_config.py").stat().st_ino
    command = [*roles.common, "-M", "coordinator", "-cdh", "127.0.0.1", "-cdp", str(free_port())]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 2
    (line,) = refused.stderr.strip().splitlines()
    assert line.startswith(f"ding: the experiment folder parallel_test is in use: the run of process {first.pid} on ")
    assert (folder / "access.json").read_text() == access
    assert (folder / "total_config.py").stat().st_ino == written
    assert read_status("parallel_test")["train_iter"] == 0
    first.kill()
    first.wait()
    (folder / "access.json").unlink()
    again = roles.start("coordinator", *roles.there)
    _wait_for((folder / "access.json").exists, again)
    again.terminate()
    assert again.wait(30) == 143
    assert not (folder / "alive.lock").exists()
    assert not (folder / "access.json").exists()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="127.0.0.0/8, /proc")
def test_a_killed_rank_of_a_run_over_several_addresses_takes_the_others_with_it(group_config, tmp_path, roles):
    with socket.socket() as free:
        free.bind(("127.0.0.2", 0))
        aggregator = ["-agh", "127.0.0.2", "-agp", str(free.getsockname()[1])]
    main = EasyDict(parallel_test_main_config)
    main.env = EasyDict(main.env, stop_value=10**9)
    system = EasyDict(parallel_test_system_config, learner_gpu_num=2)
    (tmp_path / "config.py").write_text(parallel_config_to_source(main, parallel_test_create_config, system))
    coordinator = roles.start("coordinator", *roles.there, "--train-iter", "1500")
    roles.start("learner_aggregator", *roles.there, *aggregator)
    ranks = roles.start("spawn_learner", *aggregator, "-lh", "127.0.0.3")
    roles.start("collector", *roles.there, "-clh", "127.0.0.4", "--module-name", "collector0")
    log = tmp_path / "parallel_test" / "log" / "learner0_rank1_process.txt"
    trained = tmp_path / "parallel_test" / "log" / "learner" / "learner_logger.txt"
    _wait_for(lambda: trained.exists() and "training iteration 100 " in trained.read_text(), coordinator)
    os.kill(int(re.findall(r"process ([0-9]+), incarnation 0", log.read_text())[0]), signal.SIGKILL)
    assert coordinator.wait(200) == 0, roles.text("coordinator")
    assert "learner0_rank0 works with learner0_rank1 only" in roles.text("spawn_learner")
    assert "incarnation 1" in log.read_text()
    assert ranks.poll() is None
    assert roles.end() == {"coordinator": 0, "learner_aggregator": 143, "spawn_learner": 143, "collector": 143}
    assert json.loads((tmp_path / "parallel_test" / "result.json").read_text())["train_iter"] >= 1500


class Operator(BaseHTTPRequestHandler):
    """An operator whose pods are processes that somebody else starts."""

    def do_GET(self):
        self._send(self.server.workers if self.server.asked else {})

    def do_POST(self):
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._send({})

    def _send(self, data):
        text = json.dumps({"success": True, "code": 0, "message": "", "data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


@pytest.fixture
def operator():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Operator)
    server.asked, server.workers = [], {}
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_a_run_with_workers_of_an_operator(config, tmp_path, roles, operator, monkeypatch):
    ports = {kind: free_port() for kind in ("coordinator", "learner", "collector")}
    request = {"collectors": {"replicas": 1}, "learners": {"replicas": 1}}
    system = EasyDict(
        parallel_test_system_config,
        coordinator=dict(
            operator_server=dict(
                system_addr=f"127.0.0.1:{operator.server_port}", api_version="v1alpha1", init_replicas_request=request,
                collector_target_num=1, learner_target_num=1,
            )
        ),
    )  # fmt: skip
    text = parallel_config_to_source(parallel_test_main_config, parallel_test_create_config, system)
    (tmp_path / "config.py").write_text(text)
    given = {f"{kind}_port": port for kind, port in ports.items()}
    prepared = dist_entry.dist_prepare_config("config.py", 0, platform="k8s", **given)
    roles.common[roles.common.index("config.py")] = prepared
    operator.workers = {f"{kind}s": [f"127.0.0.1:{ports[kind]}"] for kind in ("learner", "collector")}
    coordinator = roles.start("coordinator")
    roles.start("learner")
    roles.start("collector")
    assert coordinator.wait(150) == 0, roles.text("coordinator")
    assert roles.end() == {"coordinator": 0, "learner": 143, "collector": 143}
    assert operator.asked[0]["learners"] == {"replicas": 1}
    assert json.loads((tmp_path / "parallel_test" / "result.json").read_text())["solved"]


def _wait_for(condition, process):
    tick = threading.Event()
    while not condition():
        assert process.poll() is None, "the process ended"
        tick.wait(0.05)
