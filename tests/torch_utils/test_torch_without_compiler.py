"""Our optimizers leave torch's compiler alone, and are torch's in everything else."""

import subprocess
import sys

import pytest
import torch

from ding.torch_utils import Adam, RMSprop

WHOLE_LIFE = """
import sys
import torch
from ding.torch_utils import Adam, RMSprop

for cls in (Adam, RMSprop):
    param = torch.nn.Parameter(torch.zeros(3))
    optimizer = cls([param], lr=0.1)
    for _ in range(2):
        param.grad = torch.ones(3)
        optimizer.step()
    cls([param]).load_state_dict(optimizer.state_dict())
sys.exit("torch._dynamo" in sys.modules)
"""


def test_the_compiler_is_not_imported() -> None:
    assert subprocess.run([sys.executable, "-c", WHOLE_LIFE], timeout=120, check=False).returncode == 0


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(("ours", "theirs"), [(Adam, torch.optim.Adam), (RMSprop, torch.optim.RMSprop)])
def test_steps_and_states_are_those_of_torch(monkeypatch: pytest.MonkeyPatch, loaded, ours, theirs) -> None:
    monkeypatch.setattr("ding.torch_utils._without_compiler.compiler_is_loaded", lambda: loaded)
    params = [torch.nn.Parameter(torch.tensor([1.0, -2.0])) for _ in range(2)]
    optimizers = [ours([params[0]], lr=0.1), theirs([params[1]], lr=0.1)]
    for step in range(3):
        for param, optimizer in zip(params, optimizers):
            param.grad = torch.tensor([0.5, -1.0]) * (step + 1)
            optimizer.step()
    assert torch.allclose(params[0], params[1], atol=1e-6)
    states = [optimizer.state_dict()["state"][0] for optimizer in optimizers]
    assert states[0].keys() == states[1].keys()
    optimizers[0].load_state_dict(optimizers[1].state_dict())
    assert optimizers[0].state[params[0]]["step"] == 3
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("cls", [Adam, RMSprop])
def test_hooks_run_once_per_step(cls) -> None:
    # Making one of torch's own classes patches the step of that class.
    torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
    torch.optim.RMSprop([torch.nn.Parameter(torch.zeros(1))])
    param = torch.nn.Parameter(torch.zeros(1))
    optimizer = cls([param], lr=0.1)
    calls = []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    param.grad = torch.ones(1)
    optimizer.step()
    assert calls == [1]


def test_groups_added_later_are_stepped() -> None:
    first, second = (torch.nn.Parameter(torch.zeros(2)) for _ in range(2))
    optimizer = Adam([first], lr=0.1)
    optimizer.add_param_group({"params": [second], "lr": 0.5})
    first.grad, second.grad = torch.ones(2), torch.ones(2)
    optimizer.step()
    assert first[0].item() == pytest.approx(-0.1)
    assert second[0].item() == pytest.approx(-0.5)
