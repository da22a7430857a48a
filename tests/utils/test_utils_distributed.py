import multiprocessing
import os
import pickle
import queue
from unittest import mock

import pytest
import torch
from easydict import EasyDict

from ding.utils import (
    DDPContext,
    DistContext,
    allreduce,
    allreduce_async,
    allreduce_data,
    allreduce_with_indicator,
    broadcast,
    broadcast_object_list,
    dist_init,
    dist_mode,
    find_free_port,
    get_rank,
    get_world_size,
    reduce_data,
    synchronize,
    to_ddp_config,
)


def test_one_process_alone():
    assert (get_rank(), get_world_size()) == (0, 1)
    x = torch.tensor([2.0])
    allreduce(x)
    allreduce_async("x", x)
    synchronize()
    broadcast(x, 0)
    assert x.item() == 2.0
    assert allreduce_data(3, "avg") == 3
    assert reduce_data(4.5, 0) == 4.5
    objects = ["a"]
    broadcast_object_list(objects, 0)
    assert objects == ["a"]
    grad = torch.tensor([3.0])
    indicator = torch.tensor([0.0])
    allreduce_with_indicator(grad, indicator)
    assert (grad.item(), indicator.item()) == (3.0, 0.0)
    with pytest.raises(KeyError, match="'max'"):
        allreduce_data(1, "max")
    with pytest.raises(TypeError, match="list"):
        allreduce_data([1], "sum")


def test_rank_must_be_told(monkeypatch):
    for name in ("SLURM_LOCALID", "RANK", "SLURM_NTASKS", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "1")
    with pytest.raises(RuntimeError, match=r"needs rank.*SLURM_LOCALID, RANK"):
        dist_init()
    with pytest.raises(RuntimeError, match="needs world_size"):
        dist_init(rank=0)


def test_share_of_each_process():
    cfg = EasyDict(
        policy={"learn": {"batch_size": 65}, "collect": {"n_sample": 96, "n_episode": None}, "batch_size": 7}
    )
    with mock.patch("ding.utils.pytorch_ddp_dist_helper.get_world_size", return_value=2):
        shared = to_ddp_config(cfg)
    assert (shared.policy.learn.batch_size, shared.policy.collect.n_sample, shared.policy.batch_size) == (33, 48, 4)
    assert shared.policy.collect.n_episode is None
    assert cfg.policy.learn.batch_size == 65


class _Payload:
    def __reduce__(self):
        return os.abort, ()


def _attacked(rank: int) -> list[str]:
    """What rank 1 says to what rank 0 sends in the place of plain data."""
    said = []
    for raw in (pickle.dumps([_Payload()]), b"", b"PK\x03\x04 rubbish", pickle.dumps(["not of torch"]), None):
        try:
            if rank == 1:
                broadcast_object_list([None], 0)
                said.append("nothing")
            elif raw is None:
                broadcast_object_list([_Payload()], 0)
            else:
                torch.distributed.broadcast(torch.tensor([len(raw)]), src=0)
                torch.distributed.broadcast(torch.frombuffer(bytearray(raw or b"x"), dtype=torch.uint8)[: len(raw)], 0)
        except (RuntimeError, TypeError) as error:
            said.append(f"{type(error).__name__}: {error}")
    for size in (-5, 1 << 40):
        try:
            if rank == 1:
                broadcast_object_list([None], 0)
            else:
                torch.distributed.broadcast(torch.tensor([size]), src=0)
        except RuntimeError as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


def test_what_another_rank_sends_is_never_unpickled(two_processes):
    first, second = (found[-1] for found in two_processes)
    assert len(first) == 1
    assert "TypeError: data[0] is a _Payload, which cannot be saved safely" in first[0]
    assert len(second) == 7
    for text in second:
        assert text.startswith("RuntimeError: process 0 sent ")


def _one_rank(rank, port, results):
    with DDPContext(addr="127.0.0.1", port=port, rank=rank, world_size=2):
        x = torch.tensor([1.0 + rank])
        allreduce(x)
        y = torch.tensor([4.0 * rank])
        allreduce_async("y", y)
        synchronize()
        b = torch.tensor([rank])
        broadcast(b, 1)
        grad = torch.tensor([6.0 * rank])
        allreduce_with_indicator(grad, torch.tensor([float(rank)]))
        objects = [{"rank": rank}]
        broadcast_object_list(objects, 1)
        results.put(
            (
                rank,
                get_rank(),
                get_world_size(),
                x.item(),
                y.item(),
                b.item(),
                grad.item(),
                objects[0]["rank"],
                allreduce_data(rank + 2, "sum"),
                allreduce_data(rank + 2, "avg"),
                allreduce_data(torch.tensor([rank, 3]), "avg").tolist(),
                _attacked(rank),
            )
        )
    assert not torch.distributed.is_initialized()


def test_two_processes_on_the_cpu(two_processes):
    expected = (2, 1.5, 2.0, 1, 6.0, 1, 5, 2.5, [0, 3])
    assert [found[:-1] for found in two_processes] == [(0, 0, *expected), (1, 1, *expected)]


@pytest.fixture(scope="module")
def two_processes():
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    port = find_free_port("127.0.0.1")
    children = [context.Process(target=_one_rank, args=(rank, port, results), daemon=True) for rank in range(2)]
    for child in children:
        child.start()
    try:
        return sorted(results.get(timeout=60) for _ in children)
    except queue.Empty:
        pytest.fail(f"the ranks did not finish: exit codes {[child.exitcode for child in children]}")
    finally:
        for child in children:
            child.join(10)
            child.kill()


def test_names_of_the_context():
    assert DistContext is DDPContext
    with mock.patch("ding.utils.pytorch_ddp_dist_helper.dist_init") as init:
        assert dist_mode(lambda x: x + 1)(1) == 2
    init.assert_called_once_with()
