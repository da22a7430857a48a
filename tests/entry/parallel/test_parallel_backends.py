"""One config on each backend of the parallel mode; what a backend refuses."""

import contextlib
import subprocess
import sys
from copy import deepcopy
from types import SimpleNamespace

import pytest

from ding.config import ConfigValueError, UnknownKeyError, UnknownTypeError, compile_config_parallel
from ding.config.utils import parallel_test_create_config, parallel_test_main_config, parallel_test_system_config
from ding.entry import parallel_pipeline
from ding.parallel import ray_cluster
from ding.parallel.ray_cluster import require_ray
from ding.utils import MissingExtraError

RAY = {"init": {"object_store_memory": 200 * 2**20, "_node_ip_address": "127.0.0.1"}}


@pytest.fixture
def configs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main, create, system = map(
        deepcopy, (parallel_test_main_config, parallel_test_create_config, parallel_test_system_config)
    )
    main.env.update(stop_value=10**9, collector_env_num=2, evaluator_env_num=1)
    main.policy.collect.collector.collector_num = 2
    system.ray = RAY
    return main, create, system


def compiled(configs, **system):
    configs[2].update(system)
    return compile_config_parallel(*configs, save_cfg=False, free_ports=False)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["flask_fs", "inproc", "ray"])
def test_one_config_runs_to_its_end(configs, tmp_path, backend):
    if backend == "ray":
        pytest.importorskip("ray", reason="Ray is the extra 'ray'")
    result = parallel_pipeline(configs, max_train_iter=30, backend=backend)
    assert result["train_iter"] >= 30
    assert result["tasks"]["failed"] == 0
    assert result["buffers"]["rows"] > 0
    (folder,) = tmp_path.iterdir()
    logs = {path.name for path in (folder / "log").glob("*_process.txt")}
    names = {f"{name}_process.txt" for name in ("coordinator", "learner0", "collector0", "collector1")}
    assert logs == (set() if backend == "inproc" else names)
    # What a run goes on from does not depend on where it was.
    assert len(list((folder / "ckpt").glob("snapshot_*/coordinator.sqlite"))) == 1
    assert list((folder / "ckpt" / "chunks").iterdir())


@pytest.mark.parametrize("backend", ["flask_fs", "inproc", "ray"])
def test_one_key_chooses_planes_and_workers(configs, backend):
    planes = {"flask_fs": "file", "inproc": "inproc", "ray": "ray"}[backend]
    cfg = compiled(configs, backend=backend)
    sections = [cfg.system[name] for name in ("learner0", "collector0", "collector1")]
    assert {section.planes for section in sections} == {cfg.system.coordinator.planes} == {planes}
    assert {section.type for section in sections} == {"inproc" if backend == "inproc" else "flask_fs"}


def test_without_the_key_the_types_of_the_config_stay(configs):
    configs[1].comm_collector.type = "inproc"
    assert compiled(configs).system.collector0.type == "inproc"


def test_workers_of_ones_own_keep_their_type(configs):
    configs[1].comm_collector.type = "mine"
    with pytest.raises(UnknownTypeError, match="'mine'"):
        compiled(configs, backend="ray")


def test_what_no_backend_does_is_refused(configs):
    with pytest.raises(ConfigValueError, match=r"system_config.backend: there is no 'rai'.*Did you mean 'ray'"):
        compiled(configs, backend="rai")
    with pytest.raises(ConfigValueError, match=r"learner_gpu_num must be 0 or 1 with the backend 'inproc'"):
        compiled(configs, backend="inproc", learner_gpu_num=2)
    with pytest.raises(UnknownKeyError, match=r"adress.*address"):
        compiled(configs, backend="ray", learner_gpu_num=0, ray={"adress": "auto"})


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (None, "'ray' could not be imported"),
        (SimpleNamespace(__version__="2.9.3"), "'ray' is 2.9.3, and 2.60 or newer"),
    ],
)
def test_a_missing_or_old_ray_is_answered_by_a_sentence(monkeypatch, module, said):
    monkeypatch.setitem(sys.modules, "ray", module)
    with pytest.raises(MissingExtraError, match=said) as caught:
        require_ray()
    assert "ray" in str(caught.value).partition("install it with: ")[2]
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_nothing_imports_ray_before_it_is_asked_for():
    code = "import sys, ding.entry.parallel_entry, ding.parallel.planes.ray.planes; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


HEAD = """
import pathlib
from multiprocessing.connection import Connection

def lead(descriptor):
    pipe, starts = Connection(descriptor), pathlib.Path({starts!r})
    pipe.recv()
    before = starts.read_text()
    starts.write_text(before + "x")
    pipe.send(Exception({error!r}) if len(before) < {fails} else "here:1")
"""


@pytest.mark.parametrize(
    ("fails", "error", "starts"),
    [
        (2, "The current node timed out during startup. This could happen", 3),
        (3, "The current node timed out during startup. This could happen", 3),
        (1, "the address is taken", 1),
    ],
)
def test_a_cluster_that_starts_too_slowly_for_ray_is_started_again(tmp_path, monkeypatch, caplog, fails, error, starts):
    file = tmp_path / "starts"
    file.touch()
    (tmp_path / "slow_head.py").write_text(HEAD.format(starts=str(file), error=error, fails=fails))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(ray_cluster, "_HEAD", "from slow_head import lead; lead")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    connected = []
    ray = SimpleNamespace(is_initialized=bool, init=lambda **options: connected.append(options), shutdown=bool)
    monkeypatch.setattr(ray_cluster, "require_ray", lambda: ray)
    ends = pytest.raises(Exception, match=error[:20]) if fails != starts - 1 else contextlib.nullcontext()
    with ends, ray_cluster.ray_cluster(None, {}):
        assert connected[0]["address"] == "here:1"
    assert len(file.read_text()) == starts
    assert caplog.text.count("it is started again") == starts - 1
