"""What a launcher does with processes (`test_launcher.py`) it does with threads and with actors of Ray, too."""

import os
from pathlib import Path

import launcher_toys as toys
import pytest

from ding.parallel.launch import Launcher, Role, RoleFailed, RunDir
from ding.parallel.launch.ray.spawner import RaySpawner
from ding.parallel.launch.threads import ThreadSpawner
from ding.parallel.ray_cluster import new_namespace

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes and their pipes")

ACTORS = pytest.param("ray", marks=pytest.mark.slow)


@pytest.fixture
def spawner(request):
    if request.param == "ray":
        request.getfixturevalue("ray_connection")
        return RaySpawner(new_namespace(), lambda role: {})
    return ThreadSpawner()


@pytest.fixture
def run_dir(tmp_path):
    folder = RunDir.create(tmp_path / "runs")
    yield str(folder.path)
    folder.remove()


def launched(roles, run_dir, spawner):
    return Launcher(roles, run_dir, None, "t" * 32, spawner=spawner).run()


@pytest.mark.parametrize("spawner", ["threads", ACTORS], indirect=True)
def test_a_result_ends_the_run_and_the_others_stop_in_order(run_dir, spawner, tmp_path):
    roles = [
        Role("coordinator", toys.finishes, ["worker"], ends_run=True, stop_phase=0),
        Role("worker", toys.announces),
        Role("other", toys.until_stopped, str(tmp_path)),
    ]
    assert launched(roles, run_dir, spawner).result["worker"]
    assert (tmp_path / "other.stopped").read_text() == "asked by the launcher"


@pytest.mark.parametrize("spawner", ["threads", ACTORS], indirect=True)
def test_a_role_that_fails_each_time_ends_the_run_with_its_error(run_dir, spawner):
    with pytest.raises(RoleFailed, match=r"(?s)broken failed 3 times.*broken in incarnation 2") as caught:
        launched([Role("broken", toys.raises, restart=toys.QUICK)], run_dir, spawner)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("spawner", [ACTORS], indirect=True)
def test_a_role_that_is_killed_begins_in_another_process(run_dir, spawner):
    roles = [Role("killed", toys.finishes_in_the_third_process, restart=toys.QUICK, ends_run=True)]
    assert launched(roles, run_dir, spawner).result == {"incarnation": 2}


@pytest.mark.slow
def test_options_that_no_actor_of_ray_has_end_the_run_at_once(run_dir, ray_connection):
    spawner = RaySpawner(new_namespace(), lambda role: {"num_cpu": 1})
    with pytest.raises(RoleFailed, match=r"(?s)one failed once and is not started again.*num_cpu"):
        launched([Role("one", toys.raises)], run_dir, spawner)


@pytest.mark.slow
def test_what_an_actor_of_ray_writes_is_in_the_log_of_its_role(run_dir, ray_connection, tmp_path):
    log_dir = tmp_path / "log"
    spawner = RaySpawner(new_namespace(), lambda role: {})
    roles = [Role("broken", toys.raises, restart=toys.QUICK)]
    launcher = Launcher(roles, run_dir, str(log_dir), "t" * 32, spawner=spawner)
    with pytest.raises(RoleFailed):
        launcher.run()
    assert Path(log_dir, "broken_process.txt").read_text().count("ValueError: broken in incarnation") == 3
