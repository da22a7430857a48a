"""What tests of compiled updates share."""

import pytest


@pytest.fixture
def on_gpu(tmp_path, monkeypatch):
    """Updates take the way of a GPU, without the compiler; ``on_gpu(capture)`` says how they are captured."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("torch._inductor.compile", lambda module, _inputs, options: module)
    monkeypatch.setattr("ding.torch_utils.graph.compiled_graphs.captures_on", lambda device: True)
    return lambda capture: monkeypatch.setattr("ding.torch_utils.graph.capture.capture", capture)
