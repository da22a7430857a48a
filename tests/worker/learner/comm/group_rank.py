"""A rank of a learner of several processes, in a process of its own, for the tests of the group."""

import hashlib
import os
import signal
import sys

import numpy as np
import torch
from easydict import EasyDict

from ding.data import TransitionBatch, batched
from ding.interaction import InprocTransport
from ding.parallel.messages import pack_batches
from ding.parallel.planes import InprocDataPlane
from ding.policy.dqn import DQNPolicy
from ding.utils import POLICY_REGISTRY, dist_init
from ding.worker.learner.comm import create_comm_learner

ROWS, SIZE = 64, 8


@POLICY_REGISTRY.register("group_dqn")
class GroupDQN(DQNPolicy):
    """A DQN that dies or fails at an update; ``seen`` are the rewards it learned from."""

    seen: list = []

    @batched
    def _forward_learn(self, data):
        GroupDQN.seen.append(data.columns["reward"].reshape(-1).tolist())
        if len(GroupDQN.seen) == self._cfg.get("die_at"):
            os.kill(os.getpid(), signal.SIGKILL)
        if len(GroupDQN.seen) == self._cfg.get("fail_at"):
            raise ZeroDivisionError("the policy fails here")
        return super()._forward_learn(data)


def samples():
    generator = torch.Generator().manual_seed(7)
    obs = torch.randn(ROWS, 4, generator=generator)
    return TransitionBatch(
        {
            "obs": obs,
            "next_obs": obs.roll(1, 0),
            "action": torch.randint(0, 2, (ROWS,), generator=generator),
            "reward": torch.arange(ROWS, dtype=torch.float32).reshape(ROWS, 1) / ROWS,
            "done": np.zeros(ROWS, dtype=np.bool_),
        }
    )


def batch(number, chunk, rows):
    size = len(rows)
    ids = {"unique_id": list(range(size)), "buffer_idx": list(range(size))}
    weights = {"IS": [1.0] * size, "staleness": [0] * size, "use": [1] * size, "priority": [1.0] * size}
    return pack_batches([{"batch": number, "chunks": [chunk], "rows": [[0, row] for row in rows], **ids, **weights}])[0]


def make_learner(several, **cfg):
    cfg = {"type": "inproc", "path_data": "x", "path_policy": "x", "transport": InprocTransport(), **cfg}
    learner = create_comm_learner(EasyDict({**cfg, "multi_gpu": several, "publish_interval_s": 0.0}))
    learner.start()
    return learner


def task(iterations, batch_size, **policy):
    model = {"obs_shape": 4, "action_shape": 2, "encoder_hidden_size_list": [16]}
    cfg = GroupDQN.default_config()
    cfg.update(type="group_dqn", model=model, nstep=1, cuda=False, **policy)
    cfg.learn.update(batch_size=batch_size)
    return {
        "task_id": "t1", "policy_id": "p1", "buffer_id": "b1", "policy": cfg,
        "learner_cfg": {"type": "base", "train_iterations": iterations, "exp_name": "exp",
                        "hook": {"save_ckpt_after_run": True}},
    }  # fmt: skip


def digest(learner):
    state = learner.learner.policy.state_dict()["model"]
    return hashlib.sha256(b"".join(value.numpy().tobytes() for value in state.values())).hexdigest()


def train(rank, world_size, iterations, steps=None, learned=0, **policy):
    """Feed a learner its part of the batches: all of them, or ``steps``, until it is done or has ``learned`` from so
    many; returns it and its last report.
    """
    torch.manual_seed(rank)
    learner = make_learner(world_size > 1, prefetch_batches=1, close_timeout_s=60.0)
    chunk = InprocDataPlane("x").put(samples(), {})["chunk"]
    part = SIZE // world_size
    learner.deal_with_learner_start(task(iterations, part, **policy))
    report, ack = learner.deal_with_get_data(5.0), 0
    for number in range(steps or iterations):
        while not report["demand"] and not report["done"]:
            report = learner.deal_with_get_data(5.0, ack)
        first = number * SIZE + rank * part
        rows = [(first + row) % ROWS for row in range(part)]
        report = learner.deal_with_learner_learn([batch(number + 1, chunk, rows)], 0.2, ack)
        ack = max([info["seq"] for info in report["infos"]], default=ack)
    while not report["done"] and (steps is None or len(GroupDQN.seen) < learned):
        report = learner.deal_with_get_data(5.0, ack)
    return learner, report


def main(how, rank):
    rank = int(rank)
    dist_init(rank=rank, world_size=2, store=torch.distributed.FileStore(os.path.abspath("meet"), 2))
    if how == "all":
        learner, _ = train(rank, 2, 12)
        print(digest(learner))
        learner.close()
        return
    if how == "close":
        # The same order to both, but one has one more batch than the other.
        learner, _ = train(rank, 2, 1000, steps=5 + rank, learned=5)
        learner.close()
        print(learner.group_error, [len(GroupDQN.seen)])
        return
    policy = {"die_at": 3} if (how, rank) == ("die", 1) else {"fail_at": 3} if (how, rank) == ("fail", 1) else {}
    try:
        train(rank, 2, 1000, **policy)
    except (RuntimeError, ZeroDivisionError) as error:
        print(type(error).__name__, error)
        sys.stdout.flush()
        # As a role that ends does; the learner's thread may be within a call that never returns.
        os._exit(3)


if __name__ == "__main__":
    main(*sys.argv[1:])
