"""What the tests of runs with several processes share."""

from collections.abc import Iterator
from multiprocessing.connection import wait

import pytest

from ding.framework._runner import PRELOAD
from ding.parallel.launch.forked import fork_server


@pytest.fixture(scope="module")
def shared_fork_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A fork server for all runs of a module; each run would start one of its own, which takes a second or two."""
    with fork_server(str(tmp_path_factory.mktemp("server")), PRELOAD) as warmth:
        wait([warmth.news])
        yield
