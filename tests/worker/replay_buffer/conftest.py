"""Buffers that write under ``tmp_path`` only and are closed after the test."""

import pytest

from ding.utils import set_pkg_seed


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    set_pkg_seed(0)


@pytest.fixture
def make():
    """``make(cls, size, **config)`` builds a buffer."""
    built = []

    def build(cls, size, **config):
        buffer = cls({"replay_buffer_size": size, **config}, instance_name=f"buf{len(built)}")
        built.append(buffer)
        return buffer

    yield build
    for buffer in built:
        buffer.close()
