"""Gradients of several processes meet in one place."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from joint_batch import gradients, joint_samples, make

from ding.policy import DQNPolicy
from ding.utils import deep_merge_dicts

_SCRIPT = """
    import json, sys
    import torch
    import torch.distributed as dist
    from ding.policy import DQNPolicy
    from ding.policy._learning.distributed import backward_in_step
    from ding.utils import deep_merge_dicts
    sys.path.insert(0, sys.argv[3])
    from joint_batch import joint_samples, make, gradients

    rank, folder = int(sys.argv[1]), sys.argv[2]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)

    torch.manual_seed(rank)
    cfg = deep_merge_dicts(
        DQNPolicy.default_config(), {"multi_gpu": True, "model": {"obs_shape": 4, "action_shape": 2}}
    )
    policy = DQNPolicy(cfg)

    params = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
    params[0].grad = torch.full((2,), float(rank + 1))
    if rank == 1:
        params[1].grad = torch.full((2,), 5.0)
    policy.sync_gradients(params)
    grads = [None if p.grad is None else p.grad.tolist() for p in params]

    # A bucket for each weight; the ranks use different ones, in another order.
    weights = torch.nn.ParameterList(torch.nn.Parameter(torch.ones(2)) for _ in range(4))
    used = (0, 2) if rank == 0 else (2, 1)
    backward_in_step(sum((weights[i] * (rank + 1)).sum() for i in used), weights, bucket_bytes=8)
    in_step = [None if p.grad is None else p.grad.tolist() for p in weights]

    # Half of the joint batch on each rank.
    with_halves = {}
    for name in ("dqn", "a2c", "ppo"):
        learner = make(name, multi_gpu=True)
        learner.learn_mode.forward(joint_samples(name)[rank * 4 : rank * 4 + 4])
        with_halves[name] = gradients(learner)

    model = policy.learn_mode.get_attribute("model")
    checksums = []
    for step in range(4):
        torch.manual_seed(100 * rank + step)
        samples = [
            {"obs": torch.randn(4), "next_obs": torch.randn(4), "action": torch.tensor([i % 2]),
             "reward": torch.randn(1), "done": False}
            for i in range(4)
        ]
        checksums.append(sum(float(p.detach().abs().sum()) for p in model.parameters()))
        policy.learn_mode.forward(samples)
    with open(f"{folder}/rank{rank}.json", "w") as f:
        json.dump({"grads": grads, "in_step": in_step, "checksums": checksums, "halves": with_halves}, f)
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without distributed")
def test_replicas_stay_equal(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(_SCRIPT))
    processes = []
    try:
        for number in range(2):
            with open(tmp_path / f"log{number}.txt", "w") as log:
                command = [sys.executable, str(script), str(number), str(tmp_path), str(Path(__file__).parent)]
                processes.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT))
        for number, process in enumerate(processes):
            assert process.wait(timeout=100) == 0, (tmp_path / f"log{number}.txt").read_text()
    finally:
        for process in processes:
            process.kill()
            process.wait()
    left, right = (json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2))
    # The mean over both, the value of the only rank that has one, and none where nobody has one.
    assert left["grads"] == right["grads"] == [[1.5, 1.5], [5.0, 5.0], None]
    assert left["in_step"] == right["in_step"] == [[1.0, 1.0], [2.0, 2.0], [1.5, 1.5], None]
    assert left["checksums"] == right["checksums"]
    assert len(set(left["checksums"])) == 4
    for name, halves in left["halves"].items():
        alone = make(name)
        alone.learn_mode.forward(joint_samples(name))
        assert halves == right["halves"][name]
        # Adam makes much of the rounding of gradients that are nearly zero.
        np.testing.assert_allclose(halves, gradients(alone), rtol=1e-4, atol=1e-5, err_msg=name)


def test_alone_nothing_changes():
    model = torch.nn.Linear(2, 2)
    model.weight.grad = torch.ones(2, 2)
    cfg = deep_merge_dicts(
        DQNPolicy.default_config(), {"multi_gpu": True, "model": {"obs_shape": 4, "action_shape": 2}}
    )
    DQNPolicy(cfg).sync_gradients(model)
    assert model.weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
